#pragma once
// Turns exceptions into the words that a module's functions answer.

#include "core/device/table.h"

#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace eg::cuda {

/// The words for as long as the module is open.
inline device::Failure kept(const char* words) {
  static std::mutex mutex;
  static std::set<std::string> all;
  const std::scoped_lock lock(mutex);
  return all.insert(words).first->c_str();
}

/// Runs f. Gives nullptr, or what() of its exception.
template <class F> device::Failure in_words(F&& f) {
  try {
    std::forward<F>(f)();
    return nullptr;
  } catch (const std::exception& e) {
    return kept(e.what());
  }
}

} // namespace eg::cuda
