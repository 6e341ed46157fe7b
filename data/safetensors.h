#pragma once
// Reads and writes the safetensors file format (huggingface/safetensors). A file is an 8-byte little-endian header
// length, a JSON header with each tensor's dtype, shape and byte range, then the packed little-endian data.

#include "core/base/bytes.h"
#include "core/base/function_ref.h"
#include "core/tensor.h"
#include "data/tensor_reader.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::data {

/// What a file holds: tensors in the order of their data, and the texts of its "__metadata__".
struct TensorFile {
  NamedTensors tensors;
  Metadata metadata;

  /// The tensor of that name, or nullptr.
  const Tensor* find(const std::string& name) const;
};

/// Where one tensor is stored.
struct TensorEntry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> dims;
  std::uint64_t begin = 0; ///< bytes from the start of the data
  std::uint64_t end = 0;   ///< behind the last byte
};

/// A checked header, entries ordered by `begin`.
struct TensorFileHeader {
  std::vector<TensorEntry> entries;
  Metadata metadata;
  std::uint64_t data_begin = 0; ///< bytes from the start of the file
};

/// Reads and checks the header alone, for every dtype of the format. Throws FileError when the file is truncated,
/// longer than the header states, the header larger than 100 MB, not UTF-8 JSON, has duplicate keys, an unknown dtype,
/// a shape that does not fit its byte range or overflows, or ranges that overlap or leave holes.
TensorFileHeader read_safetensors_header(const std::string& path);

/// Reads every tensor into memory. Nothing is allocated before the whole header has been checked against the file's
/// size. Throws what read_safetensors_header and TensorReader::read do. Ignores `options.map`.
TensorFile load_safetensors(const std::string& path, const LoadOptions& options = {});
/// The same from memory; `source` is what errors call it.
TensorFile parse_safetensors(ByteView bytes, const std::string& source, const LoadOptions& options = {});

/// Writes tensors (of any layout) and metadata so that the file appears complete or not at all. Tensors that are mapped
/// from a file that is replaced keep their values. The data begins at a multiple of 8 bytes; tensors follow without
/// gaps, those of the largest elements first, in the given order within a size. Throws ValueError for an empty,
/// repeated, reserved ("__metadata__") or non-UTF-8 name or an undefined tensor, FileError when it cannot be written.
void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

/// The same where not all values are there at once: `shapes` may be meta tensors, and values(i) gives those of
/// shapes[i] when they are written, in the file's order. Throws ValueError for one of another type or shape.
void save_safetensors(const std::string& path, const NamedTensors& shapes, FunctionRef<Tensor(std::size_t i)> values,
                      const Metadata& metadata = {});

/// Options of save_sharded.
struct ShardOptions {
  std::uint64_t max_bytes = 5'000'000'000; ///< of the tensors of one file; a larger tensor gets a file of its own
  Metadata metadata = {};                  ///< written to every file
};
/// Writes a model folder's weights as Hugging Face does: model.safetensors when one file is enough, else
/// model-00001-of-0000N.safetensors and so on, and last the index, model.safetensors.index.json, without which the
/// others are not read. Returns the names of the files. One file can be replaced atomically, a set of files cannot. So
/// it throws FileError when the folder already has an index, or has model.safetensors and several files are needed.
/// Throws otherwise what save_safetensors does, and ValueError for max_bytes 0.
std::vector<std::string> save_sharded(const std::string& folder, const NamedTensors& tensors,
                                      const ShardOptions& options = {});

} // namespace eg::data
