#pragma once
// What errors say.

#include "core/base/error.h"

#include <string>

namespace eg::test {

/// The message of the error of type E that `action` throws; "" when it throws none.
template <class E = Error, class F> std::string message_of(F&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

} // namespace eg::test
