#include "data/tensor_place.h"

#include "core/base/words.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace eg::data {
namespace {

/// Smaller tensors are copied: a mapping takes whole pages and one of the process's 65,530.
constexpr std::size_t least_mapped = std::size_t{64} << 10;

/// Elements of the same type, as their own mapping of the file where that is possible.
Tensor map_elements(const InputFile& file, std::uint64_t offset, const Shape& shape, DType type) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(type);
  if (bytes < least_mapped || offset % size_of(type) != 0) return {};
  std::shared_ptr<std::byte> memory = file.map(offset, bytes);
  return memory ? Tensor::adopt(std::move(memory), bytes, shape, type) : Tensor();
}

/// A piece at a time is read and converted. False when a value has no counterpart.
bool convert_stream(ReadNext next, ElementType from, bool big_endian, Tensor& to) {
  constexpr std::size_t piece = std::size_t{1} << 18; // elements
  const std::size_t width = bits_of(from) / 8;
  const auto count = static_cast<std::size_t>(to.numel());
  std::vector<std::byte> buffer(std::min(piece, count) * width);
  std::byte* out = to.mutable_bytes("load");
  for (std::size_t done = 0; done < count; done += piece) {
    const std::size_t now = std::min(piece, count - done);
    next(buffer.data(), now * width);
    if (!convert_elements(from, big_endian, buffer.data(), now, to.dtype(), out + done * size_of(to.dtype())))
      return false;
  }
  return true;
}

} // namespace

void TensorPlace::fail(const std::string& reason) const {
  if (tensor.empty()) throw FileError(fmt::format("{}: {}", source, reason));
  throw FileError(fmt::format("{}: tensor '{}': {}", source, printable(tensor), reason));
}

std::uint64_t checked_product(std::uint64_t a, std::uint64_t b, const TensorPlace& place) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) place.fail("its size overflows 64 bits");
  return product;
}

Shape checked_shape(const std::vector<std::int64_t>& dims, const TensorPlace& place) {
  if (dims.size() > static_cast<std::size_t>(max_rank))
    place.fail(fmt::format("{} axes, more than the {} that a tensor can have", dims.size(), max_rank));
  std::uint64_t elements = 1;
  for (const std::int64_t extent : dims)
    if (extent != 0) elements = checked_product(elements, static_cast<std::uint64_t>(extent), place);
  if (elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 8)
    place.fail("its size overflows 64 bits");
  return Shape(dims);
}

DType checked_type(ElementType type, bool widen, const TensorPlace& place) {
  if (const auto found = tensor_type(type, widen)) return *found;
  if (const auto wider = tensor_type(type, true))
    place.fail(
        fmt::format("dtype {} is read as {} only, and only when asked to widen", name_of(type), name_of(*wider)));
  place.fail(fmt::format("dtype {} is not read; F64, F32, F16, BF16, BOOL and whole numbers are", name_of(type)));
}

void refuse_value(ElementType type, const TensorPlace& place) {
  place.fail(type == ElementType::boolean ? "a BOOL value is neither 0 nor 1" : "a U64 value is beyond 2^63 - 1");
}

Tensor read_elements(const InputFile& file, const FileElements& elements, const Shape& shape,
                     const LoadOptions& options, const TensorPlace& place) {
  const ElementType type = elements.type;
  const DType to = checked_type(type, options.widen, place);
  // Every BOOL is looked at, so mapping one would read it all the same.
  const bool mappable = tensor_type(type, false) == to && !elements.big_endian && type != ElementType::boolean;
  if (options.map && mappable)
    if (Tensor mapped = map_elements(file, elements.offset, shape, to); mapped.defined()) return mapped;
  std::uint64_t at = elements.offset;
  const auto next = [&](std::byte* out, std::size_t bytes) {
    file.read(at, out, bytes);
    at += bytes;
  };
  return read_elements(next, type, elements.big_endian, shape, options.widen, place);
}

Tensor read_elements(ReadNext next, ElementType type, bool big_endian, const Shape& shape, bool widen,
                     const TensorPlace& place) {
  Tensor tensor = Tensor::empty(shape, checked_type(type, widen, place));
  if (tensor.numel() == 0) return tensor;
  if (big_endian || tensor_type(type, false) != tensor.dtype()) {
    if (!convert_stream(next, type, big_endian, tensor)) refuse_value(type, place);
    return tensor;
  }
  std::byte* bytes = tensor.mutable_bytes("load");
  next(bytes, tensor.nbytes());
  if (!valid_elements(type, bytes, static_cast<std::size_t>(tensor.numel()))) refuse_value(type, place);
  return tensor;
}

} // namespace eg::data
