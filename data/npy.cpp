#include "data/npy.h"

#include "core/base/error.h"
#include "core/device/transfer.h"
#include "data/npy_checks.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>

namespace eg::data {
namespace {

/// The values fill what follows the header.
void check_size(const NpyHeader& header, std::uint64_t file_bytes, const std::string& source) {
  const std::uint64_t there = file_bytes - header.data_begin;
  if (there < header.data_bytes)
    throw FileError(fmt::format("{}: truncated: the values take {} bytes, the file has {} after its header", source,
                                header.data_bytes, there));
  if (there > header.data_bytes)
    throw FileError(fmt::format("{}: {} bytes after the values", source, there - header.data_bytes));
}

NpyHeader read_header(const InputFile& file) {
  std::array<std::uint8_t, 12> front{};
  const auto front_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(front.size(), file.size()));
  file.read(0, front.data(), front_bytes);
  const std::uint64_t header_bytes = npy_header_bytes(ByteView(front).first(front_bytes), file.path());
  if (header_bytes > file.size()) throw FileError(file.path() + ": truncated in the npy header");
  Bytes bytes(static_cast<std::size_t>(header_bytes));
  file.read(0, bytes.data(), bytes.size());
  NpyHeader header = parse_npy_header(bytes, file.path());
  check_size(header, file.size(), file.path());
  return header;
}

class NpySource final : public TensorReader::Source {
public:
  NpySource(std::unique_ptr<const InputFile> file, NpyHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  Tensor read(std::size_t, const TensorInfo& info, const LoadOptions& options) const override {
    const TensorPlace place{file_->path(), info.name};
    const NpyLayout layout = npy_layout(header_, place);
    const FileElements elements{header_.data_begin, header_.type, header_.big_endian};
    return in_row_major(read_elements(*file_, elements, layout.file_shape, options, place), header_, layout.shape);
  }

private:
  std::unique_ptr<const InputFile> file_;
  NpyHeader header_;
};

std::string_view npy_type(const Tensor& tensor, const std::string& name) {
  switch (tensor.dtype()) {
  case DType::f32:
    return "<f4";
  case DType::f64:
    return "<f8";
  case DType::i64:
    return "<i8";
  case DType::u8:
    return "|u1";
  case DType::boolean:
    return "|b1";
  case DType::bf16:
    break;
  }
  throw DTypeError(
      fmt::format("tensor '{}': {} is no type of NumPy: convert it to f32 first", name, eg::name_of(tensor.dtype())));
}

} // namespace

NpyLayout npy_layout(const NpyHeader& header, const TensorPlace& place) {
  NpyLayout layout{checked_shape(header.dims, place), {}};
  layout.file_shape = layout.shape;
  if (header.fortran_order)
    for (int axis = 0; axis < layout.shape.rank(); ++axis)
      layout.file_shape[axis] = layout.shape[layout.shape.rank() - 1 - axis];
  return layout;
}

Tensor in_row_major(const Tensor& values, const NpyHeader& header, const Shape& shape) {
  if (!header.fortran_order || shape.rank() < 2) return values;
  const Shape packed = contiguous_strides(values.shape());
  Shape strides = packed;
  for (int axis = 0; axis < shape.rank(); ++axis) strides[axis] = packed[shape.rank() - 1 - axis];
  return values.view_as(shape, strides, 0).clone();
}

std::string npy_header_text(const Tensor& tensor, const std::string& name) {
  std::string shape;
  for (const std::int64_t extent : tensor.shape().dims()) shape += fmt::format("{}, ", extent);
  if (tensor.rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.rank() == 1) shape.resize(shape.size() - 1); // (3,)
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", npy_type(tensor, name), shape);
  constexpr std::size_t front = 10;
  constexpr std::size_t alignment = 64;
  const std::size_t whole = (front + text.size() + 1 + alignment - 1) / alignment * alignment;
  text.resize(whole - front - 1, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  header += {'\x01', '\0', static_cast<char>(text.size() & 0xFFU), static_cast<char>(text.size() >> 8U)};
  return header + text;
}

TensorReader open_npy(std::unique_ptr<const InputFile> file) {
  NpyHeader header = read_header(*file);
  TensorReader::Contents contents;
  contents.path = file->path();
  contents.format = "npy";
  contents.files = {file->path()};
  contents.tensors.push_back(
      {std::filesystem::path(file->path()).stem().string(), header.type, header.dims, header.data_bytes, 0});
  return {std::move(contents), std::make_unique<NpySource>(std::move(file), std::move(header))};
}

Tensor load_npy(const std::string& path, const LoadOptions& options) {
  return open_npy(std::make_unique<InputFile>(path)).read(0, {options.widen, false});
}

Tensor parse_npy(ByteView bytes, const std::string& source, const LoadOptions& options) {
  const NpyHeader header = parse_npy_header(bytes, source);
  check_size(header, bytes.size(), source);
  const std::string whole;
  const TensorPlace place{source, whole};
  const NpyLayout layout = npy_layout(header, place);
  const auto* at = reinterpret_cast<const std::byte*>(bytes.data() + header.data_begin);
  const auto next = [&](std::byte* to, std::size_t count) {
    std::copy(at, at + count, to);
    at += count;
  };
  return in_row_major(read_elements(next, header.type, header.big_endian, layout.file_shape, options.widen, place),
                      header, layout.shape);
}

void save_npy(const std::string& path, const Tensor& tensor) {
  if (!tensor.has_storage()) throw ValueError("save_npy: the tensor has no values");
  const std::string header = npy_header_text(tensor, path);
  const Tensor here = device::on_cpu(tensor);
  const Tensor packed = here.is_contiguous() ? here : here.clone();
  AtomicFile file(path);
  file.write(header);
  if (packed.numel() > 0) file.write(packed.bytes(), packed.nbytes());
  file.commit();
}

} // namespace eg::data
