#include "data/safetensors.h"

#include "core/base/interrupt.h"
#include "data/safetensors_header.h"
#include "data/tensor_place.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace eg::data {
namespace {

/// Everything about all tensors is checked before the first takes memory.
void check_all(const TensorFileHeader& header, const LoadOptions& options, const std::string& source) {
  for (const TensorEntry& entry : header.entries) {
    const TensorPlace place{source, entry.name};
    checked_type(entry.type, options.widen, place);
    checked_shape(entry.dims, place);
  }
}

} // namespace

const Tensor* TensorFile::find(const std::string& name) const {
  const auto it = std::find_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
  return it == tensors.end() ? nullptr : &it->second;
}

TensorFile load_safetensors(const std::string& path, const LoadOptions& options) {
  const InputFile file(path);
  TensorFileHeader header = read_safetensors_header(file);
  check_all(header, options, path);
  TensorFile result{{}, std::move(header.metadata)};
  for (const TensorEntry& entry : header.entries) {
    poll_interrupt();
    const TensorPlace place{path, entry.name};
    result.tensors.emplace_back(entry.name,
                                read_elements(file, {header.data_begin + entry.begin, entry.type},
                                              checked_shape(entry.dims, place), {options.widen, false}, place));
  }
  return result;
}

TensorFile parse_safetensors(ByteView bytes, const std::string& source, const LoadOptions& options) {
  const std::uint64_t length = safetensors_header_length(bytes, bytes.size(), source);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + safetensors_length_bytes,
                              static_cast<std::size_t>(length));
  TensorFileHeader header = parse_safetensors_header(text, bytes.size(), source);
  check_all(header, options, source);
  TensorFile result{{}, std::move(header.metadata)};
  for (const TensorEntry& entry : header.entries) {
    const TensorPlace place{source, entry.name};
    Tensor tensor = Tensor::empty(checked_shape(entry.dims, place), checked_type(entry.type, options.widen, place));
    const auto* at = reinterpret_cast<const std::byte*>(bytes.data() + header.data_begin + entry.begin);
    if (tensor.numel() > 0 && !convert_elements(entry.type, false, at, static_cast<std::size_t>(tensor.numel()),
                                                tensor.dtype(), tensor.mutable_bytes("parse_safetensors")))
      refuse_value(entry.type, place);
    result.tensors.emplace_back(entry.name, std::move(tensor));
  }
  return result;
}

} // namespace eg::data
