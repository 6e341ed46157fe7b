// Update rules, clipping, averages and accumulated gradients on a device: the bits of the CPU.

#include "autograd/accumulation.h"
#include "core/device/device.h"
#include "core/device/update_launch.h"
#include "core/ops.h"
#include "core/random.h"
#include "optim/average.h"
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace eg;

namespace {

const Device gpu = Device::cuda();

using Tensors = std::vector<Tensor>;

Tensors moved(const Tensors& all, Device device) {
  Tensors there;
  for (const Tensor& t : all) there.push_back(t.defined() ? t.to(device) : t);
  return there;
}

/// More parameters than one launch takes, of both types and several sizes, one of them empty.
Tensors parameters() {
  Tensors all;
  for (std::uint64_t i = 0; i < 70; ++i)
    all.push_back(random_normal({1 + static_cast<std::int64_t>(i % 5), 7}, {i, 1}, 0.0, 1.0,
                                i % 9 == 4 ? DType::f64 : DType::f32));
  all.push_back(random_normal({40000}, {70, 1}));
  all.push_back(Tensor::zeros({0, 3}));
  return all;
}

/// Of one step. Some are strided, one is missing, a few elements are zero, huge or not finite.
Tensors gradients(const Tensors& of, std::uint64_t step) {
  Tensors all;
  for (std::size_t i = 0; i < of.size(); ++i) {
    const RandomKey key{1000 + i, step};
    if (i == 3) {
      all.push_back({});
    } else if (i % 7 == 2) {
      all.push_back(random_normal({of[i].size(1), of[i].size(0)}, key, 0.0, 1.0, of[i].dtype()).transpose());
    } else {
      all.push_back(random_normal(of[i].shape(), key, 0.0, 1.0, of[i].dtype()));
    }
  }
  for (const double value : {0.0, 1e30, -1e-42})
    all[1].slice(1, static_cast<std::int64_t>(step) % 4, static_cast<std::int64_t>(step) % 4 + 1).fill(value);
  if (step == 15) all[0].slice(1, 0, 1).fill(std::numeric_limits<double>::quiet_NaN());
  return all;
}

std::vector<optim::ParameterSettings> settings(std::size_t count) {
  std::vector<optim::ParameterSettings> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = {.learning_rate = i % 11 == 5 ? 0.0 : i % 4 == 0 ? 0.5 : 1.0, .weight_decay = i % 3 == 0 ? 0.0 : 1.0};
  return all;
}

using Maker = std::function<std::unique_ptr<optim::Optimizer>(Tensors)>;

/// What differs in bits between 20 steps here and there; "" for nothing.
std::string difference(const Maker& make) {
  const Tensors start = parameters();
  Tensors here, there;
  for (const Tensor& p : start) {
    here.push_back(p.clone());
    there.push_back(p.to(gpu));
  }
  const auto a = make(here), b = make(there);
  a->set_settings(settings(start.size()));
  b->set_settings(settings(start.size()));
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Tensors g = gradients(start, step);
    const double lr = 0.01 / static_cast<double>(step + 1);
    a->step(g, lr);
    if (step % 2 == 0) {
      b->step(moved(g, gpu), lr);
    } else { // one by one
      optim::Optimizer::Step one = b->begin(lr);
      for (std::size_t i = g.size(); i-- > 0;) one.update(i, moved({g[i]}, gpu)[0]);
    }
  }
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (!same_bits(here[i], there[i])) return a->name() + ": parameter " + std::to_string(i);
    for (std::size_t k = 0; k < a->state(i).size(); ++k)
      if (b->state(i)[k].second.device() != gpu || !same_bits(a->state(i)[k].second, b->state(i)[k].second))
        return a->name() + ": state " + std::to_string(k) + " of parameter " + std::to_string(i);
  }
  return same_bits(here[6], start[6]) ? "nothing moved" : "";
}

} // namespace

TEST_CASE("20 steps of each rule that works element by element have the bits of the CPU") {
  using namespace optim;
  const std::vector<std::pair<const char*, Maker>> rules = {
      {"sgd", [](Tensors p) { return sgd(std::move(p), {.weight_decay = 0.01}); }},
      {"momentum", [](Tensors p) { return sgd(std::move(p), {.momentum = 0.9}); }},
      {"nesterov",
       [](Tensors p) { return sgd(std::move(p), {.momentum = 0.9, .nesterov = true, .weight_decay = 0.1}); }},
      {"adam", [](Tensors p) { return adam(std::move(p), {.weight_decay = 0.02}); }},
      {"adamw", [](Tensors p) { return adamw(std::move(p), {.beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.05}); }},
      {"rmsprop", [](Tensors p) { return rmsprop(std::move(p), {.weight_decay = 0.01}); }},
      {"rmsprop with momentum", [](Tensors p) { return rmsprop(std::move(p), {.momentum = 0.8}); }},
      {"lion", [](Tensors p) { return lion(std::move(p), {.weight_decay = 0.1}); }}};
  for (const auto& [name, make] : rules) {
    const std::string found = difference(make);
    CHECK_MESSAGE(found.empty(), std::string(name), ": ", found);
  }
}

TEST_CASE("another learning rate gives other bits") { // so that the test above can fail
  int made = 0;
  CHECK(difference([&](Tensors p) { return optim::sgd(std::move(p), {.momentum = 0.9 + 1e-6 * made++}); }) != "");
}

TEST_CASE("Muon's AdamW works on the device; its matrices wait for the rows that they are made of") {
  const auto make = [](Tensors p) {
    auto rule = optim::muon(std::move(p));
    rule->set_settings({{.hidden = false}});
    return rule;
  };
  Tensor here = random_normal({3, 4}, {1, 2}), there = here.to(gpu);
  const auto a = make({here}), b = make({there});
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Tensor g = random_normal({3, 4}, {step, 3});
    a->step({g}, 0.1);
    b->step({g.to(gpu)}, 0.1);
  }
  CHECK(same_bits(here, there));
}

TEST_CASE("rules of whole parameters on the device agree with the CPU, or name the row that is missing") {
  for (const char* name : {"adafactor", "muon"}) {
    Tensor here = random_normal({6, 4}, {3, 4}), there = here.to(gpu);
    const auto a = optim::make_optimizer(name, {here}, 0.01), b = optim::make_optimizer(name, {there}, 0.01);
    try {
      for (std::uint64_t step = 0; step < 5; ++step) {
        const Tensor g = random_normal({6, 4}, {step, 5});
        a->step({g}, 0.01);
        b->step({g.to(gpu)}, 0.01);
      }
      CHECK(relative_error(there, here) < 1e-4);
    } catch (const DeviceError& error) {
      MESSAGE("skipped ", std::string(name), ": ", std::string(error.what()));
      CHECK(b->steps() == 0);
      CHECK(same_bits(there, random_normal({6, 4}, {3, 4})));
    }
  }
}

TEST_CASE("the joint norm and clipping have the bits of the CPU") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensors g;
    std::uint64_t seed = 0;
    for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{32768}, Shape{32769}, Shape{0}, Shape{100001}, Shape{8}})
      g.push_back(random_normal(shape, {seed++, 20}, 0.0, 1.0, dtype));
    g.push_back({});
    g.push_back(random_normal({9, 4}, {21, 21}, 0.0, 1.0, dtype).transpose());
    Tensors there = moved(g, gpu);
    there.back() = g.back().transpose().to(gpu).transpose();
    const double norm = optim::gradient_norm(g);
    CHECK(optim::gradient_norm(there) == norm);
    Tensors mixed = there;
    mixed[0] = g[0];
    CHECK(optim::gradient_norm(mixed) == norm);
    CHECK(optim::clip_gradients(there, 1.5) == optim::clip_gradients(g, 1.5));
    for (std::size_t i = 0; i < g.size(); ++i)
      if (g[i].defined()) CHECK_MESSAGE(same_bits(there[i], g[i]), i);
  }
  CHECK(std::isnan(optim::gradient_norm({Tensor::full({3}, std::nan("")).to(gpu)})));
  CHECK(std::isinf(optim::gradient_norm({Tensor::full({3}, 1e200, DType::f64).to(gpu)})));
}

TEST_CASE("averages of weights and accumulated gradients have the bits of the CPU") {
  Tensors here = parameters(); // of both types, and more than one launch takes
  Tensors there = moved(here, gpu);
  optim::WeightAverage a(here, 0.99), b(there, 0.99);
  for (std::int64_t step = 1; step <= 20; ++step) {
    for (std::size_t i = 0; i < here.size(); ++i) {
      here[i].copy_from(
          random_normal(here[i].shape(), {static_cast<std::uint64_t>(step), i}, 0.0, 1.0, here[i].dtype()));
      there[i].copy_from(here[i]);
    }
    a.update(step);
    b.update(step);
  }
  for (std::size_t i = 0; i < here.size(); ++i) {
    CHECK(b.values()[i].device() == gpu);
    CHECK(same_bits(a.values()[i], b.values()[i]));
  }
  GradientAccumulator sums(3.0), sums_there(3.0);
  for (std::uint64_t part = 0; part < 2; ++part) {
    const Tensors g = {random_normal({300}, {part, 31}), random_normal({4, 5}, {part, 32})};
    sums.add(g, part == 0 ? 2.0 : 1.0);
    sums_there.add(moved(g, gpu), part == 0 ? 2.0 : 1.0);
  }
  const Tensors mean = std::move(sums).mean(), mean_there = std::move(sums_there).mean();
  for (std::size_t i = 0; i < mean.size(); ++i) CHECK(same_bits(mean[i], mean_there[i]));
}

TEST_CASE("norms, clipping, accumulation and averages take 64 tensors a launch") {
  Tensors g;
  for (std::uint64_t i = 0; i < 150; ++i) g.push_back(random_normal({3, 5}, {i, 50}).to(gpu));
  const auto kernels_of = [](auto&& work) {
    const std::uint64_t before = device::started_kernels(gpu);
    work();
    return device::started_kernels(gpu) - before;
  };
  CHECK(kernels_of([&] { optim::gradient_norm(g); }) == 3);
  Tensors clipped = g;
  CHECK(kernels_of([&] { optim::clip_gradients(clipped, 1e-3); }) == 6);
  CHECK(!same_bits(clipped[0], g[0]));
  GradientAccumulator sums(3.0);
  CHECK(kernels_of([&] { sums.add(g, 1.0); }) == 3);
  CHECK(kernels_of([&] { sums.add(g, 2.0); }) == 3);
  optim::WeightAverage average(g, 0.9);
  CHECK(kernels_of([&] { average.update(1); }) == 3);
  const auto rule = optim::sgd(g);
  CHECK(kernels_of([&] { rule->step(g, 0.1); }) == 3);
  CHECK(kernels_of([&] {
          for (const Tensor& one : g) optim::gradient_norm({one}); // so that the counts above can fail
        }) == 150);
  Tensors mixed = {g[0], g[1].to(DType::f64), g[2]}; // a launch has one type
  CHECK(kernels_of([&] { optim::gradient_norm(mixed); }) == 3);
}

TEST_CASE("accumulated gradients on a device: strided, shared, missing, empty, not finite, of three parts") {
  const auto parts_on = [](Device device) {
    std::vector<Tensors> parts;
    for (std::uint64_t part = 0; part < 3; ++part) {
      Tensors g;
      for (std::uint64_t i = 0; i < 70; ++i)
        g.push_back(random_normal({4, 7}, {i, 60 + part}, 0.0, 1.0, i % 9 == 4 ? DType::f64 : DType::f32).to(device));
      g.push_back(g[0].transpose());
      g.push_back(part == 1 ? Tensor() : g[3]);
      g.push_back(part == 0 ? Tensor() : g[5]);
      g.push_back(g[7]); // one storage twice
      g.push_back(Tensor::zeros({0, 3}).to(device));
      const Tensor special = Tensor::from<double>({-0.0, 0.0, 1e-320, INFINITY, NAN, -1e308, 3e-45}, {7});
      g.push_back(special.to(device));
      g.push_back(special.to(DType::f32).to(device));
      parts.push_back(std::move(g));
    }
    return parts;
  };
  for (const double last : {1.0, 0.5}) {
    GradientAccumulator here(2.0 + last), there(2.0 + last);
    const std::vector<Tensors> a = parts_on(Device::cpu()), b = parts_on(gpu);
    for (std::size_t part = 0; part < 3; ++part) {
      here.add(a[part], part == 2 ? last : 1.0);
      there.add(b[part], part == 2 ? last : 1.0);
    }
    const Tensors mean = std::move(here).mean(), mean_there = std::move(there).mean();
    REQUIRE(mean.size() == mean_there.size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      CHECK(mean_there[i].device() == gpu);
      CHECK_MESSAGE(same_bits(mean[i], mean_there[i]), i);
    }
    for (std::size_t i = 0; i < b[0].size(); ++i) // the parts stay as they were
      if (b[0][i].defined()) CHECK(same_bits(b[0][i], a[0][i]));
  }
}

TEST_CASE("jobs that are wrong give other bits, so that the tests above can fail") {
  const Tensor x = random_normal({1000}, {1, 70}), y = random_normal({1000}, {2, 70});
  const auto sum_of = [&](const device::ScaledSumJob& job, std::int64_t count) {
    Tensor to = x.to(gpu);
    device::UpdateLaunches<device::ScaledSumJob> launches("test", &device::Table::scaled_sum, job);
    launches.add(y.slice(0, 0, count).to(gpu), to.mutable_device_bytes("test"));
    launches.finish();
    return to;
  };
  const Tensor wanted = x + affine(y, 0.3, 0.0);
  CHECK(same_bits(sum_of({0.3, true, true, {}}, 1000), wanted));
  CHECK(!same_bits(sum_of({0.3, false, true, {}}, 1000), wanted));             // a kernel that leaves out the factor
  CHECK(!same_bits(sum_of({0.3, true, false, {}}, 1000), wanted));             // one that forgets what is there
  CHECK(!same_bits(sum_of({0.3 * (1 + 1e-7), true, true, {}}, 1000), wanted)); // one that rounds the factor otherwise
  CHECK(!same_bits(sum_of({0.3, true, true, {}}, 999), wanted));               // one that stops too early
  const Tensor fused = x.to(DType::f64) + affine(y.to(DType::f64), static_cast<double>(0.3F), 0.0);
  CHECK(!same_bits(fused.to(DType::f32), wanted)); // one that rounds once
  const double norm = optim::gradient_norm({x.to(gpu), y.to(gpu)});
  CHECK(optim::gradient_norm({x.slice(0, 0, 999).to(gpu), y.to(gpu)}) != norm);
  CHECK(optim::gradient_norm({x.to(gpu), x.to(gpu)}) != norm);
}

TEST_CASE("a gradient elsewhere than its parameter is refused, and nothing changes") {
  const Tensor here = random_normal({3}, {1, 40});
  Tensor w = here.to(gpu);
  const auto rule = optim::adamw({w});
  try {
    rule->step({Tensor::ones({3})}, 0.1);
    FAIL("it was taken");
  } catch (const DeviceError& error) {
    CHECK(std::string(error.what()) == "adamw: gradient 0 is on cpu, its parameter on cuda:0; make the optimiser of a "
                                       "model after it is moved");
  }
  CHECK(rule->steps() == 0);
  CHECK(same_bits(w, here));
  CHECK_THROWS_AS(optim::sgd({w, w}), ValueError); // listed twice
}
