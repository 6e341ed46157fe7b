// Tensors on a device: moves, the guard of host access, calls, gradients, memory.

#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/random.h"

#include <doctest/doctest.h>

using namespace eg;

namespace {

const Device gpu = Device::cuda();

Tensor drawn(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32) {
  return random_normal(shape, {seed, 1}, 0.0, 1.0, dtype);
}

/// The words of the error that f throws.
template <class F> std::string words_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

} // namespace

TEST_CASE("a tensor goes to the device and back with its bits, however it lies") {
  const Tensor x = drawn({5, 7, 3}, 1);
  for (const Tensor& t : {x, x.transpose(0, 2), x.slice(1, 1, 6, 2), x.select(0, 3), Tensor::zeros({0, 4}),
                          x.to(DType::bf16), Tensor::arange(9), Tensor::full({}, 2.5, DType::f64)}) {
    const Tensor there = t.to(gpu);
    CHECK(there.device() == gpu);
    CHECK(there.is_contiguous());
    CHECK(same_bits(there.to(Device::cpu()), t));
    CHECK(same_bits(there, t)); // across devices
  }
  CHECK(x.to(Device::cpu()).id() == x.id());
}

TEST_CASE("views on the device are views") {
  const Tensor x = drawn({4, 6}, 2);
  const Tensor there = x.to(gpu);
  const Tensor view = there.transpose().slice(0, 1, 5);
  CHECK(view.storage() == there.storage());
  CHECK(same_bits(view, x.transpose().slice(0, 1, 5)));
  CHECK(same_bits(view.contiguous(), x.transpose().slice(0, 1, 5)));
}

TEST_CASE("host access to device memory is refused") {
  Tensor there = drawn({3}, 3).to(gpu);
  for (const std::string& words :
       {words_of([&] { there.data<float>(); }), words_of([&] { there.mutable_data<float>(); }),
        words_of([&] { there.bytes(); }), words_of([&] { there.mutable_bytes(); })})
    CHECK_MESSAGE(says(words, "this tensor is on cuda:0; copy it with to(Device::cpu())"), words);
  CHECK(there.version() == Tensor(there).version());
}

TEST_CASE("numbers that are asked for by name are copied") {
  const Tensor x = drawn({3, 4}, 4);
  const Tensor there = x.to(gpu);
  CHECK(there.at({2, 1}) == x.at({2, 1}));
  CHECK(there.transpose().at({1, 2}) == x.at({2, 1}));
  CHECK(there.select(0, 1).select(0, 2).item() == x.at({1, 2}));
  CHECK(there.to_vector<float>() == x.to_vector<float>());
  CHECK(there.transpose().to_vector<float>() == x.transpose().to_vector<float>());
  CHECK(there.str() == x.str() + " on cuda:0");
  CHECK(relative_error(there, x) == 0.0);
}

TEST_CASE("tensors are made on the device of the scope") {
  const DeviceScope scope(gpu);
  CHECK(current_device() == gpu);
  for (const Tensor& t : {Tensor::zeros({3, 2}), Tensor::ones({3, 2}), Tensor::full({3, 2}, 1.5),
                          Tensor::from<float>({1, 2, 3}, {3}), Tensor::arange(4), Tensor::full({2}, 7, DType::u8)})
    CHECK(t.device() == gpu);
  CHECK(Tensor::zeros({3}).to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(Tensor::full({2}, 1.5, DType::f64).to_vector<double>() == std::vector<double>{1.5, 1.5});
  CHECK(Tensor::arange(3).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2});
  CHECK(same_bits(Tensor::full({2}, 1.5, DType::bf16), Tensor::full({2}, 1.5).to(DType::bf16)));
  const Tensor here = Tensor::empty({2}, DType::f32, Device::cpu());
  CHECK(here.device() == Device::cpu());
}

TEST_CASE("fill and copy_from write strided elements on the device") {
  Tensor there = drawn({4, 6}, 5).to(gpu);
  Tensor here = there.to(Device::cpu());
  for (Tensor* t : {&there, &here}) {
    t->slice(1, 1, 6, 2).fill(3.0);
    t->transpose().slice(0, 0, 2).copy_from(drawn({2, 4}, 6));
    t->slice(0, 0, 2).copy_from(t->slice(0, 1, 3)); // they overlap
  }
  CHECK(same_bits(there, here));
  Tensor back = Tensor::zeros({4, 6});
  back.copy_from(there);
  CHECK(same_bits(back, here));
}

TEST_CASE("a call runs where its inputs are, and refuses a mixture") {
  const Tensor a = drawn({3, 4}, 7), b = drawn({4}, 8);
  const Tensor sum = a.to(gpu) + b.to(gpu);
  CHECK(sum.device() == gpu);
  CHECK(same_bits(sum, a + b));
  CHECK(same_bits(a.to(gpu) * 2.0 + 1.0, a * 2.0 + 1.0));
  const std::string words = words_of([&] { a + b.to(gpu); });
  CHECK_MESSAGE(says(words, "add: input 0 is on cpu, input 1 on cuda:0; move one with to()"), words);
  CHECK_THROWS_AS(a + b.to(gpu), DeviceError);
}

TEST_CASE("a gradient goes through the device and back") {
  const Tensor x = drawn({3, 4}, 9), w = drawn({4}, 10);
  const auto gradients = [&](bool moved) {
    Tape tape;
    const Tensor y = moved ? (x.to(gpu) * w.to(gpu)).to(Device::cpu()) : x * w;
    return tape.gradient(y, {x, w}, Tensor::ones(y.shape()));
  };
  const auto plain = gradients(false);
  // The sum over rows needs a reduction, so the gradient of w is compared where it is not broadcast.
  Tape tape;
  const Tensor wide = w.expand({3, 4}).clone();
  const Tensor y = (x.to(gpu) * wide.to(gpu)).to(Device::cpu());
  const auto moved = tape.gradient(y, {x, wide}, Tensor::ones(y.shape()));
  CHECK(moved[0].device() == Device::cpu());
  CHECK(same_bits(moved[0], plain[0]));
  CHECK(same_bits(moved[1], x));
}

TEST_CASE("leaves on the device have gradients there, added in place") {
  const Tensor x = drawn({3, 4}, 11);
  const auto gradient = [](const Tensor& leaf) {
    Tape tape;
    const Tensor y = leaf * leaf + leaf + exp(leaf);
    const DeviceScope scope(leaf.device());
    return tape.gradient(y, {leaf}, Tensor::ones(y.shape()))[0];
  };
  const Tensor there = gradient(x.to(gpu));
  CHECK(there.device() == gpu);
  CHECK(same_bits(there, gradient(x)));
}

TEST_CASE("a cotangent on another device is refused") {
  const Tensor x = drawn({2}, 12).to(gpu);
  Tape tape;
  const Tensor y = x * x;
  CHECK_THROWS_AS(tape.gradient(y, {x}, Tensor::ones({2})), DeviceError);
}

TEST_CASE("device memory is counted, limited and reused") {
  device::release_cached_memory(gpu);
  const AllocatorStats before = device::memory_stats(gpu);
  {
    const Tensor x = Tensor::empty({1000}, DType::f32, gpu);
    CHECK(device::memory_stats(gpu).live_bytes >= before.live_bytes + 4000);
  }
  CHECK(device::memory_stats(gpu).live_bytes == before.live_bytes);
  const std::size_t limit = device::memory_limit(gpu);
  device::set_memory_limit(gpu, before.live_bytes + 4096);
  const std::string words = words_of([] { Tensor::empty({10000}, DType::f32, gpu); });
  device::set_memory_limit(gpu, limit);
  CHECK_MESSAGE(says(words, "cuda:0: "), words);
  CHECK_MESSAGE(says(words, "more bytes do not fit"), words);
}

TEST_CASE("a device that does not exist is refused") {
  const std::string words = words_of([] { drawn({2}, 13).to(Device::cuda(7)); });
  CHECK_MESSAGE(says(words, "cuda:7: there is no such device"), words);
}
