// Steps of several ranks: weights after some steps have the bits of one rank, in exact mode too, whoever updates them.

#include "support/in_process_ranks.h"
#include "support/temporary_folder.h"

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
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& parameter : named_parameters()) all.push_back(parameter.name);
    return all;
  }
};

/// The bytes of all weights after three steps, on each rank.
std::vector<std::string> weights_after(int ranks, const RunOptions& options, Reduction mode) {
  std::vector<std::string> found(static_cast<std::size_t>(ranks));
  const std::string errors = joined(run_ranks(ranks, [&](distributed::Communicator& c) {
    const ReductionScope scope(mode);
    const Net net;
    const std::vector<std::string> names = net.names();
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

TEST_CASE("a list of another process's optimiser state is checked before its state is taken") {
  const TemporaryFolder folder;
  RunOptions options;
  options.batch = 8;
  options.shards = 4;
  options.optimizer = "adamw";
  options.shard_optimizer = true;
  // Each change keeps the length, so that the list alone can be wrong: one process has the first layer.
  const auto saved_with = [&](const std::string& from, const std::string& to) {
    REQUIRE(from.size() == to.size());
    return joined(run_ranks(2,
                            [&](distributed::Communicator& c) {
                              const Net net;
                              const ShardedStep steps(c, options, net, net.names());
                              steps.divided()->save(c.first() ? folder.path("state.safetensors") : "");
                            },
                            {.fate = [&](RankMessage& message) {
                              std::string text(reinterpret_cast<const char*>(message.bytes.data()),
                                               message.bytes.size());
                              const std::size_t at = text.find(from);
                              if (text.find("[[") != 0 || at == std::string::npos) return true;
                              std::memcpy(message.bytes.data() + at, to.data(), to.size());
                              return true;
                            }}));
  };
  const std::string shape = "[300]";
  CHECK(saved_with(shape, shape) == "");
  CHECK(saved_with(shape, "[301]").find("a process has state [301] for first.bias [300]") != std::string::npos);
  CHECK(saved_with(shape, "[3,0]").find("a process has state [3, 0] for first.bias") != std::string::npos);
  CHECK(saved_with(shape, "[-30]").find("a process has state [-30] for first.bias [300]") != std::string::npos);
  CHECK(saved_with(shape, "[30}]").find("sent no list") != std::string::npos);
  CHECK(saved_with(shape, "\"300\"").find("sent no list") != std::string::npos);
  CHECK(saved_with("[[1,", "[[9,").find("state of a parameter that there is not") != std::string::npos);
  CHECK(saved_with("[[1,", "[1,[").find("sent no list") != std::string::npos);
  options.optimizer = "adafactor"; // its state has shapes of its own
  CHECK(saved_with(shape, shape) == "");
  CHECK(saved_with(shape, "[301]").find("a process has state [301] for first.bias [300]") != std::string::npos);
  CHECK(saved_with(shape, "[-30]").find("sent no shape") != std::string::npos);
}
