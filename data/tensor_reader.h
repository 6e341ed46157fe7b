#pragma once
// Reads tensors from files of any supported format: names and shapes at once, values on demand.

#include "core/tensor.h"
#include "data/element_type.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace eg::data {

/// Tensors by name, in order. The same type as nn::StateDict.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// The free text entries of a header ("__metadata__").
using Metadata = std::map<std::string, std::string>;

/// How the values of a file become tensors.
struct LoadOptions {
  /// Types that operations do not compute in become larger ones that hold every value: F16 and BF16 f32; I8, I16, I32,
  /// U16, U32 and U64 i64. Without it BF16 stays bf16 and the others are refused.
  bool widen = false;
  /// Tensors of 64 KiB and more whose bytes are used as stored are mapped, not read: they take memory where they are
  /// touched, and writing to them changes the process's copy of that page, never the file. Whoever cuts a file short
  /// while it is mapped ends this process (SIGBUS); with `map` false everything is copied at once.
  bool map = true;
};

/// What is known of a tensor before its values are read.
struct TensorInfo {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> dims;
  std::uint64_t bytes = 0; ///< of the values, unpacked
  std::size_t file = 0;    ///< place of its file in TensorReader::files()

  /// Product of the extents; 1 for a scalar.
  std::uint64_t numel() const;
};

/// The tensors of a safetensors file, of a sharded index and its shards, of an npy or npz file. Made by open_tensors;
/// copies are handles on the same open files. Reading is safe from several threads, and the files stay readable when
/// others take their names.
class TensorReader {
public:
  /// Reads the values of the tensor that `info`, entry i of Contents::tensors, describes.
  class Source {
  public:
    virtual ~Source() = default;
    virtual Tensor read(std::size_t i, const TensorInfo& info, const LoadOptions& options) const = 0;
  };
  /// All that is known before values are read.
  struct Contents {
    std::string path;                ///< the file that was opened; of a folder or index, the index or file in it
    std::string format;              ///< "safetensors", "npy" or "npz"
    std::vector<std::string> files;  ///< paths of the files with values
    std::vector<TensorInfo> tensors; ///< in the order of files and of data within them; names are unique
    Metadata metadata;               ///< of a sharded set: of its first file that has any
  };
  TensorReader(Contents contents, std::unique_ptr<const Source> source);

  const std::string& path() const { return contents_->path; }
  const std::string& format() const { return contents_->format; }
  const std::vector<std::string>& files() const { return contents_->files; }
  const std::vector<TensorInfo>& tensors() const { return contents_->tensors; }
  const Metadata& metadata() const { return contents_->metadata; }
  /// Sum of the tensors' bytes.
  std::uint64_t bytes() const;

  /// What is known of the tensor of that name, or nullptr.
  const TensorInfo* find(const std::string& name) const;
  /// The tensor of that name, with memory of its own at every call. Throws ValueError when there is none, FileError
  /// that names file and tensor for a type that is not read, more than eight axes, a BOOL byte other than 0 and 1, a
  /// U64 beyond 2^63 - 1, and packed values that are corrupt.
  Tensor read(const std::string& name, const LoadOptions& options = {}) const;
  /// The same by place in tensors(). Throws IndexError.
  Tensor read(std::size_t i, const LoadOptions& options = {}) const;

private:
  std::shared_ptr<const Contents> contents_;
  std::shared_ptr<const Source> source_;
  std::shared_ptr<const std::vector<std::size_t>> by_name_; ///< places in tensors, ordered by name
};

/// Opens a safetensors, npy or npz file (by its content; by its name where that is ambiguous), an index of shards
/// (NAME.safetensors.index.json), or a folder that holds model.safetensors or, failing that,
/// model.safetensors.index.json. Headers are read and checked in full; values are not read. Throws FileError that
/// begins with the path for whatever the header's reader refuses (safetensors.h, npy.h), and for an index whose shards
/// do not hold exactly the tensors that it gives to each.
TensorReader open_tensors(const std::string& path);

} // namespace eg::data
