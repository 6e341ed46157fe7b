#pragma once
// The safetensors file format (huggingface/safetensors): an 8-byte little-endian header length, a JSON header that
// gives each tensor's dtype, shape and byte range, then the packed little-endian data.

#include "core/tensor.h"
#include "data/bytes.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace eg::data {

/// Tensors by name, in order. The same type as nn::StateDict.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// The free text entries of a header ("__metadata__").
using Metadata = std::map<std::string, std::string>;

/// What a file holds: tensors in the order of their data, and the free text.
struct TensorFile {
  NamedTensors tensors;
  Metadata metadata;

  /// The tensor of that name, or nullptr.
  const Tensor* find(const std::string& name) const;
};

/// Where one tensor lies.
struct TensorEntry {
  std::string name;
  std::string dtype; ///< as in the file: "F32", "BF16", ...
  std::vector<std::int64_t> dims;
  std::uint64_t begin = 0; ///< bytes from the start of the data
  std::uint64_t end = 0;
};

/// A checked header, entries ordered by `begin`.
struct TensorFileHeader {
  std::vector<TensorEntry> entries;
  Metadata metadata;
  std::uint64_t data_begin = 0; ///< bytes from the start of the file
};

/// Reads and checks the header alone, for every dtype of the format. Throws FileError when the file is truncated,
/// longer than the header says, not UTF-8 JSON, has duplicate keys, an unknown dtype, a shape that does not fit its
/// byte range or overflows, or ranges that overlap or leave holes.
TensorFileHeader read_safetensors_header(const std::string& path);

/// Reads every tensor. Nothing is allocated before the whole header has been checked against the file's size. Beyond
/// what read_safetensors_header refuses, throws FileError that names the tensor for an element type other than F32,
/// F64, BF16, I64, U8 and BOOL, for more than eight axes, and for a BOOL byte other than 0 and 1.
TensorFile load_safetensors(const std::string& path);
/// The same from memory; `source` is what errors call it.
TensorFile parse_safetensors(ByteView bytes, const std::string& source);

/// Writes tensors (of any layout) and text so that the file appears complete or not at all. Data is ordered by element
/// size, largest first, and 8-byte aligned; within a size the given order is kept. Throws ValueError for an empty,
/// repeated, reserved ("__metadata__") or non-UTF-8 name or an undefined tensor, FileError when it cannot be written.
void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

} // namespace eg::data
