#include "core/ops/whole_attribute.h"

namespace eg {

std::optional<std::int64_t> whole_attribute(const Attrs& attrs, std::string_view name) {
  for (const auto& [given, value] : attrs.items())
    if (given == name)
      if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  return std::nullopt;
}

} // namespace eg
