// The settings of a thread go whole where its code runs later (a checkpoint's second run) or elsewhere (loops).

#include "core/base/context.h"

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "core/gemm/matmul_precision.h"
#include "core/meta.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"
#include "nn/init.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

using namespace eg;

namespace {

using Tensors = std::vector<Tensor>;

ContextSettings settings() { return execution_context().settings; }

using Run = std::function<void()>;
using Function = std::function<Tensor(const Tensor&)>;
using Wrap = std::function<Function(Function)>;

/// Settings that a forward pass may run under, and what it computes.
struct Case {
  std::string name;
  std::function<void(const Run&)> under;
  Function f;
};

template <class... Scopes> void run_under(const Run& run) {
  [[maybe_unused]] const std::tuple<Scopes...> scopes;
  run();
}

template <class Scope, auto argument> void run_under(const Run& run) {
  const Scope scope(argument);
  run();
}

Tensor product(const Tensor& h) { return matmul(tanh(matmul(h, h)), h); }

/// Reads a tensor that is zero where initialisers are skipped.
Tensor times_drawn(const Tensor& h) {
  Tensor drawn = Tensor::zeros(h.shape());
  nn::init::normal(drawn, 1.0, {5, 2});
  return mul(h, drawn);
}

Tensor times_constant(const Tensor& h) {
  const auto constant = [&] {
    const PauseRecording pause;
    return exp(h);
  };
  return mul(h, constant());
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"f32 products", run_under<MatmulPrecisionScope, MatmulPrecision::full>, product},
      {"bf16 products", run_under<MatmulPrecisionScope, MatmulPrecision::bf16>, product},
      {"fast sums", run_under<ReductionScope, Reduction::fast>, product},
      {"exact sums", run_under<ReductionScope, Reduction::exact>, product},
      {"meta calls", run_under<MetaCallScope>, product},
      {"meta tensors", run_under<MetaTensorScope, MetaCallScope>, [](const Tensor& h) { return slice(h, 0, 3, 9); }},
      {"shape only", run_under<ShapeOnlyScope>, [](const Tensor& h) { return affine(h, 3.0, 1.0); }},
      {"initialisers skipped", run_under<nn::init::SkipScope>, times_drawn},
      {"initialisers drawn", run_under<>, times_drawn},
      {"a pause inside", run_under<>, times_constant},
  };
  return all;
}

struct Pass {
  Tensors values; ///< the output, then its gradients on an inner and on an outer tape
  std::vector<ContextSettings> seen;
};

/// checkpoint(wrap(f), x), or f(x) without wrap.
Pass pass_of(const Case& c, const Wrap& wrap = {}) {
  Pass pass;
  const Tensor x = random_normal({24, 24}, {3, 1});
  const Function watched = [&](const Tensor& h) {
    pass.seen.push_back(settings());
    return c.f(h);
  };
  Tape outer, inner;
  Tensor y;
  c.under([&] { y = wrap ? checkpoint(wrap(watched), x) : watched(x); });
  const Tensor half = Tensor::full(y.shape(), 0.5);
  pass.values = {y};
  for (Tape* tape : {&inner, &outer}) pass.values.push_back(tape->gradient(y, {x}, half).front());
  return pass;
}

bool same(const Tensor& a, const Tensor& b) {
  if (!a.has_storage() || !b.has_storage()) return a.has_storage() == b.has_storage() && a.shape() == b.shape();
  return same_bits(a, b);
}

/// What the checkpoint of a wrapped function does otherwise than the function alone.
struct Difference {
  bool settings = false, bits = false;
};

Difference difference(const Case& c, const Wrap& wrap) {
  const Pass plain = pass_of(c), again = pass_of(c, wrap);
  REQUIRE(plain.seen.size() == 1);
  REQUIRE(again.seen.size() == 3); // forward, and for the gradient on each tape
  Difference found;
  for (std::size_t run = 0; run < again.seen.size(); ++run) {
    ContextSettings expected = plain.seen.front();
    expected.recomputations = run > 0 ? 1 : 0;
    found.settings = found.settings || again.seen[run] != expected;
  }
  for (std::size_t i = 0; i < plain.values.size(); ++i)
    found.bits = found.bits || !same(plain.values[i], again.values[i]);
  return found;
}

} // namespace

TEST_CASE("context: under every setting a checkpoint has the bits of the plain pass, and runs again under it") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Difference found = difference(c, [](Function f) { return f; });
    CHECK_FALSE(found.settings);
    CHECK_FALSE(found.bits);
    CHECK(settings() == ContextSettings{});
  }
}

TEST_CASE("context: a checkpoint that runs again without its settings is noticed") {
  const Wrap forgetful = [](Function f) {
    return [f](const Tensor& h) {
      if (!recomputing()) return f(h);
      const ContextScope none(ContextSettings{.recomputations = 1});
      return f(h);
    };
  };
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    bool own = false;
    c.under([&] { own = settings() != ContextSettings{}; });
    const Difference found = difference(c, forgetful);
    CHECK(found.settings == own);
    if (c.name == "exact sums" || c.name == "initialisers skipped") CHECK(found.bits);
  }
}

TEST_CASE("context: a tape that is opened in a pause of another one has a checkpoint to itself") {
  const Tensor x = random_normal({8}, {3, 1});
  const auto gradient = [&](bool checkpointed) {
    const Tape outer;
    const PauseRecording pause;
    Tape inner;
    const Tensor y = checkpointed ? checkpoint(Function(times_constant), x) : times_constant(x);
    CHECK_FALSE(outer.computed(y));
    return inner.gradient(sum(y), {x}).front();
  };
  CHECK(same_bits(gradient(true), gradient(false)));
}

TEST_CASE("context: a scope installs all settings and puts all of them back") {
  std::vector<ContextSettings> seen;
  for (const Case& c : cases()) c.under([&] { seen.push_back(settings()); });
  CHECK(std::ranges::count(seen, ContextSettings{}) == 4); // two defaults by name, and two cases without a scope
  const ContextSettings exact = seen[3];
  CHECK(exact.reduction == Reduction::exact);
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  {
    const ContextScope scope(exact);
    CHECK(settings() == exact);
    CHECK(matmul_precision() == MatmulPrecision::full);
    const MetaCallScope opened_inside;
    CHECK(settings() != exact);
  }
  CHECK(matmul_precision() == MatmulPrecision::bf16);
  CHECK(reduction() == Reduction::fast);
}

TEST_CASE("context: the workers of a loop see the settings of the thread that began it, and none of its recorders") {
  const int before = parallel::threads();
  parallel::set_threads(3);
  const MatmulPrecisionScope bf16(MatmulPrecision::bf16);
  const ReductionScope exact(Reduction::exact);
  const nn::init::SkipScope skip;
  const ContextSettings here = settings();
  const std::thread::id caller = std::this_thread::get_id();
  const Tape tape;
  std::array<ContextSettings, 256> seen;
  std::array<bool, 256> heard{};
  std::array<bool, 256> elsewhere{};
  const auto begin = std::chrono::steady_clock::now();
  do // until a worker has taken part
    parallel::for_each(256, 1, [&](std::int64_t chunk, std::int64_t) {
      const auto i = static_cast<std::size_t>(chunk);
      seen[i] = settings();
      elsewhere[i] = std::this_thread::get_id() != caller;
      heard[i] = elsewhere[i] && recording();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
  while (std::ranges::count(elsewhere, true) == 0 && parallel::backend() != "serial" &&
         std::chrono::steady_clock::now() - begin < std::chrono::minutes(1));
  CHECK((std::ranges::count(elsewhere, true) > 0 || parallel::backend() == "serial"));
  CHECK(std::ranges::count(seen, here) == 256);
  CHECK(std::ranges::count(heard, true) == 0);
  std::thread([&] { seen[0] = settings(); }).join(); // control: a thread without the settings
  CHECK(seen[0] == ContextSettings{});
  parallel::set_threads(before);
}
