// Steps of several ranks: weights after some steps have the bits of one rank, in exact mode too, whoever updates them.

#include "support/in_process_ranks.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "nn/layers.h"
#include "training/parameter_groups.h"
#include "training/sharded_step.h"

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

using namespace eg;
using namespace eg::test;
using namespace eg::training;

namespace {

struct Net : nn::Module {
  nn::Linear first{7, 300, RandomKey{1, 1}}, second{300, 130, RandomKey{1, 2}};
  Net() {
    register_module("first", first);
    register_module("second", second);
  }
  Tensor operator()(const Tensor& x) const { return second(tanh(first(x))); }
};

/// The bytes of all weights after three steps, on each rank.
std::vector<std::string> weights_after(int ranks, const RunOptions& options, Reduction mode) {
  std::vector<std::string> found(static_cast<std::size_t>(ranks));
  const std::string errors = joined(run_ranks(ranks, [&](distributed::Communicator& c) {
    const ReductionScope scope(mode);
    const Net net;
    std::vector<std::string> names;
    for (const auto& parameter : net.named_parameters()) names.push_back(parameter.name);
    ShardedStep steps(c, options, net, names);
    const auto whole = steps.divided() != nullptr ? nullptr : optimizer_for(options, net, names);
    StepGuard guard(options);
    bool torn = false, stops = false;
    for (int s = 0; s < 3; ++s) {
      const Tensor x = random_normal({options.batch, 7}, RandomKey{5, static_cast<std::uint64_t>(s)});
      guard.begin(s);
      StepSums sums;
      const bool stepped = steps.take(
          whole.get(), options, {.step = s, .lr = 0.01, .guard = &guard, .stops = &stops},
          [&](std::int64_t first, std::int64_t last) {
            const Tensor y = net(x.slice(0, first, last));
            return PartLoss{mean(y * y)};
          },
          sums, torn);
      if (!stepped || torn) throw std::logic_error("no step");
    }
    std::string& bytes = found[static_cast<std::size_t>(c.rank())];
    for (const Tensor& value : nn::parameters_named(net, names)) {
      const Tensor packed = value.contiguous();
      bytes.append(reinterpret_cast<const char*>(packed.bytes()), static_cast<std::size_t>(packed.numel()) * 4);
    }
  }));
  if (!errors.empty()) throw std::logic_error(errors);
  return found;
}

} // namespace

TEST_CASE("weights have the bits of one rank") {
  for (const Reduction mode : {Reduction::fast, Reduction::exact})
    for (const char* optimizer : {"sgd", "adamw", "adafactor", "muon"}) {
      RunOptions options;
      options.batch = 21;
      options.shards = 8;
      options.optimizer = optimizer;
      options.accumulate = 2;
      options.clip = 0.05;
      options.weight_decay = 0.01;
      const std::string one = weights_after(1, options, mode).front();
      for (const int ranks : {2, 3, 5})
        for (const bool divided : {false, true}) {
          CAPTURE(optimizer);
          CAPTURE(ranks);
          CAPTURE(divided);
          options.shard_optimizer = divided;
          for (const std::string& weights : weights_after(ranks, options, mode)) CHECK((weights == one));
        }
      // Negative control: another number of shards.
      options.shard_optimizer = false;
      options.shards = 4;
      CHECK((weights_after(2, options, mode).front() != one));
    }
}
