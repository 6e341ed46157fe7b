#include "core/base/device.h"

#include "core/base/error.h"

#include <charconv>
#include <fmt/format.h>

namespace eg {

Device Device::cuda(int index) {
  if (index < 0 || index > max_index)
    throw ValueError(fmt::format("device: the number of a CUDA device is 0 to {}, it is {}", max_index, index));
  return {Kind::cuda, static_cast<std::uint8_t>(index)};
}

Device Device::parse(std::string_view name) {
  if (name == "cpu") return cpu();
  if (name == "cuda") return cuda();
  constexpr std::string_view prefix = "cuda:";
  if (name.starts_with(prefix)) {
    const std::string_view digits = name.substr(prefix.size());
    int index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && !digits.starts_with('-')) return cuda(index);
  }
  throw ValueError(fmt::format("device: '{}' is neither cpu nor cuda nor cuda:N", name));
}

std::string Device::str() const { return is_cpu() ? "cpu" : fmt::format("cuda:{}", index); }

} // namespace eg
