#pragma once
// Runs of training/ in tests: what they leave, and runs that are interrupted.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "training/trainer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>

namespace eg::test {

inline std::string bytes_of(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

/// The final weights of a text model's run folder, as bytes.
inline std::string weights_of(const std::string& run) { return bytes_of(run + "/model/model.safetensors"); }

/// Trains until `stop_at` steps are done, as if somebody had pressed Ctrl-C there.
inline void run_until(const std::unique_ptr<training::Trainer>& trainer, std::int64_t stop_at) {
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) { stop = r.step == stop_at; };
  CHECK_THROWS_AS(trainer->run(callbacks, &stop), Interrupted);
}

} // namespace eg::test
