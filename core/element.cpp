#include "core/element.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace eg {

void refuse_element(std::string_view op, double value, DType dtype) {
  throw ValueError(fmt::format("{}: {} is not a value of {}", op, value, name_of(dtype)));
}

} // namespace eg
