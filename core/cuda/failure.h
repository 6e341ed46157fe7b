#pragma once
// Turns exceptions into the words that a module's functions answer.

#include "core/device/table.h"

#include <exception>
#include <string>
#include <utility>

namespace eg::cuda {

/// Runs f. Gives nullptr, or what() of its exception, which stays valid until this thread's next call.
template <class F> device::Failure in_words(F&& f) {
  static thread_local std::string words;
  try {
    std::forward<F>(f)();
    return nullptr;
  } catch (const std::exception& e) {
    words = e.what();
    return words.c_str();
  }
}

} // namespace eg::cuda
