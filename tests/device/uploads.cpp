// Copies of batches on the copy stream: values, order, memory that is used again. EQUIGRAD_EMULATOR_DEAF leaves out one
// of the waits, and a test must notice.

#include "core/device/uploads.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/random.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

using namespace eg;

namespace {

const Device cuda = Device::cuda();

using Tensors = std::vector<Tensor>;

std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}
/// Who does not wait here; "" in a run that must be right.
const std::string deaf = setting("EQUIGRAD_EMULATOR_DEAF");
const std::string temper = setting("EQUIGRAD_EMULATOR_STREAM");

/// Of many types and layouts.
Tensors batch(std::uint64_t number) {
  const Tensor x = random_normal({6, 5, 4}, {number, 1});
  return {x,
          x.transpose(0, 2),
          x.slice(1, 1, 4),
          random_integers({9}, {number, 2}, -50, 50),
          gt(x, 0.0),
          x.to(DType::bf16),
          x.to(DType::f64),
          random_integers({3, 1}, {number, 3}, 0, 255).to(DType::u8),
          Tensor::full({}, static_cast<double>(number)),
          Tensor::zeros({0, 3}),
          Tensor()};
}

/// How many tensors of several batches arrive with other values, where some wait while others are begun.
int wrong_arrivals() {
  device::Uploads uploads(cuda);
  int wrong = 0;
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::vector<device::Uploads::Batch> begun;
    for (std::uint64_t i = 0; i < 4; ++i) begun.push_back(uploads.begin(batch(10 * round + i)));
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Tensors wanted = batch(10 * round + i), found = begun[i].take();
      REQUIRE(found.size() == wanted.size());
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        REQUIRE(found[k].defined() == wanted[k].defined());
        if (!wanted[k].defined()) continue;
        REQUIRE(found[k].device() == cuda);
        REQUIRE(found[k].shape() == wanted[k].shape());
        REQUIRE(found[k].dtype() == wanted[k].dtype());
        wrong += same_bits(found[k], wanted[k]) ? 0 : 1;
      }
    }
  }
  device::synchronize(cuda);
  return wrong;
}

/// Whether a copy overwrites memory that queued work still reads.
bool overwrites_what_is_read() {
  device::Uploads uploads(cuda);
  const Tensor start = random_normal({3000}, {1, 4}), other = random_normal({3000}, {2, 4});
  Tensor x = start.to(cuda);
  device::synchronize(cuda);
  const std::byte* const place = x.device_bytes();
  const Tensor y = x + 1.0;
  x = {}; // the cache has its memory again
  device::Uploads::Batch begun = uploads.begin({other});
  const bool wrong = !same_bits(y, start + 1.0);
  const Tensor taken = begun.take()[0];
  CHECK(taken.device_bytes() == place); // or nothing was tested
  return wrong;
}

/// Whether a batch that nobody took is copied into memory that was handed out again.
bool copies_when_dropped() {
  device::Uploads uploads(cuda);
  { const device::Uploads::Batch dropped = uploads.begin({random_normal({5000}, {3, 4})}); }
  const Tensor after = Tensor::full({5000}, 7.0).to(cuda);
  const Tensor sum = after + after;
  const bool wrong = !same_bits(sum, Tensor::full({5000}, 14.0)); // runs what the compute stream has
  device::synchronize(cuda);                                      // and what the other one has
  return wrong || !same_bits(after, Tensor::full({5000}, 7.0));
}

} // namespace

TEST_CASE("batches arrive as they were") {
  const int wrong = wrong_arrivals();
  if (temper == "late" && (deaf == "compute" || deaf == "host"))
    CHECK(wrong > 0);
  else
    CHECK(wrong == 0);
}

TEST_CASE("a copy waits for the work that reads its memory") {
  CHECK(overwrites_what_is_read() == (temper == "late_compute" && deaf == "copy"));
}

TEST_CASE("memory of a batch that was dropped is used again when its copy is done") {
  CHECK(copies_when_dropped() == (temper == "late" && deaf == "compute"));
}

TEST_CASE("all memory of uploads comes back") {
  if (!deaf.empty()) return;
  const std::size_t before = device::memory_stats(cuda).live_bytes;
  {
    device::Uploads uploads(cuda);
    device::Uploads::Batch a = uploads.begin({Tensor::ones({100})}), b = uploads.begin({Tensor::ones({1000})});
    CHECK(device::memory_stats(cuda).live_bytes > before);
    b = std::move(a); // drops the batch of before
    CHECK(same_bits(b.take()[0], Tensor::ones({100})));
    CHECK(b.take().empty()); // once
  }
  CHECK(device::memory_stats(cuda).live_bytes == before);
}

TEST_CASE("what is on the device is handed through, and on the CPU everything") {
  if (!deaf.empty()) return;
  const Tensor there = Tensor::ones({3}).to(cuda), here = Tensor::ones({3});
  device::Uploads uploads(cuda), none(Device::cpu());
  CHECK(uploads.begin({there}).take()[0].device_bytes() == there.device_bytes());
  CHECK(none.begin({here}).take()[0].device_bytes() == here.device_bytes());
  CHECK_THROWS_AS(device::Uploads(Device::cuda(7)), DeviceError);
}

TEST_CASE("a batch can be changed when its copy was begun") {
  if (!deaf.empty()) return;
  device::Uploads uploads(cuda);
  Tensor x = Tensor::ones({2000});
  device::Uploads::Batch begun = uploads.begin({x});
  x.fill(5.0);
  CHECK(same_bits(begun.take()[0], Tensor::ones({2000})));
}
