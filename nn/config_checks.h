#pragma once
// Checks the configs of modules. Limits are far beyond what fits in a machine, and small enough that no product of
// sizes overflows 64 bits. Not for users: they call check(config).

#include "core/base/error.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace eg::nn::limits {

inline constexpr std::int64_t width = std::int64_t{1} << 20; ///< features of anything
inline constexpr std::int64_t heads = std::int64_t{1} << 12;
inline constexpr std::int64_t layers = std::int64_t{1} << 16;
inline constexpr std::int64_t side = std::int64_t{1} << 16; ///< of images and patches, pixels; also channels
inline constexpr std::int64_t classes = std::int64_t{1} << 24;
inline constexpr std::int64_t ids = std::int64_t{1} << 28; ///< of a vocabulary; also positions

} // namespace eg::nn::limits

namespace eg::nn {

/// Checks the fields of a config; errors begin with `what` and name the field. Every member throws ValueError.
class ConfigChecks {
public:
  constexpr explicit ConfigChecks(std::string_view what) : what_(what) {}

  /// 1 to `most`.
  void extent(std::string_view field, std::int64_t value, std::int64_t most = limits::width) const {
    if (value <= 0) throw ValueError(fmt::format("{}: {} must be positive, not {}", what_, field, value));
    at_most(field, value, most);
  }
  /// 0 to `most`.
  void count(std::string_view field, std::int64_t value, std::int64_t most) const {
    if (value < 0) throw ValueError(fmt::format("{}: {} must not be negative, not {}", what_, field, value));
    at_most(field, value, most);
  }
  /// A probability of dropping: [0, 1).
  void share(std::string_view field, double value) const {
    if (!(value >= 0.0 && value < 1.0))
      throw ValueError(fmt::format("{}: {} must be in [0, 1), not {}", what_, field, value));
  }
  /// A norm's epsilon: (0, 1].
  void epsilon(std::string_view field, double value) const {
    if (!(value > 0.0 && value <= 1.0))
      throw ValueError(fmt::format("{}: {} must be positive and at most 1, not {}", what_, field, value));
  }
  /// head_dim, where 0 stands for dim / heads.
  void head_dim(std::int64_t value, std::int64_t dim, std::int64_t heads) const {
    count("head_dim", value, limits::width);
    if (value == 0 && dim % heads != 0)
      throw ValueError(fmt::format("{}: dim {} is not a multiple of heads {}; give head_dim", what_, dim, heads));
  }

private:
  void at_most(std::string_view field, std::int64_t value, std::int64_t most) const {
    if (value > most) throw ValueError(fmt::format("{}: {} must be at most {}, not {}", what_, field, most, value));
  }

  std::string_view what_;
};

/// A config that was checked, for initialiser lists.
template <class Config> const Config& checked(const Config& config) {
  check(config);
  return config;
}

} // namespace eg::nn
