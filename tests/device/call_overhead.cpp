// Measures what a call costs the host on a device: with a late stream kernels are queued and run later, so the time of
// the calls is that of call(), the job and the queue. It prints nanoseconds and judges none of them.

#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

using namespace eg;

namespace {

const Device cuda = Device::cuda();

/// Nanoseconds of one call: the median of some rounds, whose kernels run between them.
double nanoseconds(const std::function<Tensor()>& call, bool recorded) {
  constexpr int rounds = 15, calls = 200;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    std::optional<Tape> tape;
    if (recorded) tape.emplace();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / calls);
    device::synchronize(cuda);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

} // namespace

TEST_CASE("what a call costs the host") {
  const char* const stream = std::getenv("EQUIGRAD_EMULATOR_STREAM");
  if (stream == nullptr || std::string(stream) != "late") {
    MESSAGE("skipped: needs EQUIGRAD_EMULATOR_STREAM=late, so that kernels do not run inside the calls");
    return;
  }
  const auto normal = [](const Shape& shape, std::uint64_t tag) { return random_normal(shape, {tag, 80}).to(cuda); };
  const Tensor x = normal({2, 3, 8}, 1), w = normal({8, 8}, 2), b = normal({8}, 3), qkv = normal({2, 3, 24}, 4);
  const struct {
    const char* name;
    std::function<Tensor()> call;
  } cases[] = {{"relu", [&] { return relu(x); }},
               {"add", [&] { return add(x, b); }},
               {"sum", [&] { return sum(x, {-1}); }},
               {"linear", [&] { return linear(x, w, b); }},
               {"layer_norm", [&] { return layer_norm(x, b, b); }},
               {"softmax", [&] { return softmax(x); }},
               {"attention_qkv", [&] { return attention_qkv(qkv, 2); }}};
  for (const auto& c : cases) {
    const double plain = nanoseconds(c.call, false), recorded = nanoseconds(c.call, true);
    MESSAGE(std::string(c.name), ": ", plain, " ns a call, ", recorded, " ns recorded");
    CHECK(plain > 0.0);
  }
}
