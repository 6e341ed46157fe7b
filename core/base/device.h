#pragma once
// Names the place where a tensor's elements are: the CPU or one CUDA device.

#include <cstdint>
#include <string>
#include <string_view>

namespace eg {

/// A place for elements. The default is the CPU.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  static constexpr int max_index = 63;

  Kind kind = Kind::cpu;
  std::uint8_t index = 0; ///< number of the CUDA device; 0 for the CPU

  static constexpr Device cpu() { return {}; }
  /// Throws ValueError unless 0 <= index <= max_index. Whether the device exists is asked when it is first used.
  static Device cuda(int index = 0);
  /// "cpu", "cuda" (which is cuda:0) or "cuda:N". Throws ValueError for any other word.
  static Device parse(std::string_view name);

  constexpr bool is_cpu() const { return kind == Kind::cpu; }
  /// "cpu" or "cuda:0".
  std::string str() const;

  friend constexpr bool operator==(Device, Device) = default;
};

} // namespace eg
