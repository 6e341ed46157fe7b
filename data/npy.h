#pragma once
// Reads and writes NumPy's files: npy (one array, NEP 1) and npz (a zip of npy files).

#include "core/base/bytes.h"
#include "core/tensor.h"
#include "data/tensor_reader.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data {

/// What precedes the values of an npy file.
struct NpyHeader {
  ElementType type = ElementType::f32;
  bool big_endian = false;
  bool fortran_order = false; ///< the first axis is contiguous
  std::vector<std::int64_t> dims;
  std::uint64_t data_begin = 0; ///< bytes from the start of the file
  std::uint64_t data_bytes = 0;
};

/// Bytes of the header of a file that begins with `front`, which is the whole file or at least 12 bytes of it. Throws
/// FileError for another kind of file, versions other than 1.0, 2.0 and 3.0, and headers of more than 64 KiB.
std::uint64_t npy_header_bytes(ByteView front, const std::string& source);
/// Parses that many bytes. The dictionary is read by a special parser, which accepts the three keys of the format and
/// nothing else of Python. Throws FileError for anything malformed, element types other than '?', whole numbers and
/// floats of 16, 32 and 64 bits, and shapes that cannot be counted.
NpyHeader parse_npy_header(ByteView header, const std::string& source);

/// Reads an array; without `widen` only the types that tensors have. The tensor is packed whatever the file's order and
/// byte order were. Throws FileError for what parse_npy_header refuses and when the values do not fill the file
/// exactly, before memory is taken.
Tensor load_npy(const std::string& path, const LoadOptions& options = {.widen = true});
/// The same from memory; `source` is what errors call it.
Tensor parse_npy(ByteView bytes, const std::string& source, const LoadOptions& options = {.widen = true});
/// Writes version 1.0, little-endian, row-major, so that the file appears complete or not at all. Throws DTypeError for
/// bf16, which NumPy does not have, FileError when it cannot be written.
void save_npy(const std::string& path, const Tensor& tensor);

/// Reads the arrays of an npz file, stored or deflated, in its order, under their names without ".npy". Throws
/// FileError that names the member for what load_npy refuses, wrong checksums, members that are encrypted, packed
/// otherwise, overlapping, given twice or no npy files.
NamedTensors load_npz(const std::string& path, const LoadOptions& options = {.widen = true});
/// Writes an npz file, its members stored, so that it appears complete or not at all. Throws ValueError for an empty,
/// repeated or non-UTF-8 name, an undefined tensor and more than 4 GiB (use safetensors), DTypeError for bf16,
/// FileError when it cannot be written.
void save_npz(const std::string& path, const NamedTensors& tensors);

} // namespace eg::data
