// bench step: forward, backward and optimiser of whole models.

#include "cli/bench/bench.h"

#include "autograd/tape.h"
#include "core/allocator.h"
#include "core/reduction.h"
#include "core/work_meter.h"
#include "nn/vit.h"
#include "optim/optimizer.h"

#include <array>
#include <fmt/format.h>

namespace eg::cli::bench {
namespace {

struct StepCase {
  const char* name;
  std::int64_t image, patch, classes, dim, layers, heads, mlp;
  const char* optimizer;
  std::int64_t batch;
};

constexpr std::array cases = {
    StepCase{"vit-cifar", 32, 4, 10, 512, 6, 1, 512, "adam", 64},
    StepCase{"vit-cifar-wide", 32, 4, 10, 512, 6, 8, 2048, "adam", 64},
    StepCase{"vit-tiny", 32, 4, 10, 192, 12, 3, 768, "adam", 64},
    StepCase{"vit-base", 224, 16, 1000, 768, 12, 12, 3072, "sgd", 4},
};

nn::VitConfig config_of(const StepCase& c) {
  nn::VitConfig config;
  config.image = c.image;
  config.patch = c.patch;
  config.classes = c.classes;
  config.layers = c.layers;
  config.encoder.dim = c.dim;
  config.encoder.heads = c.heads;
  config.encoder.mlp = c.mlp;
  return config;
}

void run(const StepCase& c, const Options& options, Output& output) {
  const std::int64_t batch = options.batch > 0 ? options.batch : c.batch;
  const RandomKey key{options.seed, 0};
  nn::Vit model(config_of(c), key.fold(1));
  model.to(options.dtype);
  const Tensor images = random_normal({batch, 3, c.image, c.image}, key.fold(2), 0.0, 1.0, options.dtype);
  const Tensor labels = random_integers({batch}, key.fold(3), 0, c.classes);
  const std::vector<Tensor> parameters = model.parameters();
  const auto optimizer = optim::make_optimizer(c.optimizer, parameters);
  const auto step = [&] {
    std::vector<Tensor> gradients;
    {
      Tape tape;
      const Tensor loss = cross_entropy(model(images), labels);
      gradients = tape.gradient(loss, parameters);
    }
    optimizer->step(gradients, 1e-4);
  };
  double flops = 0;
  {
    const WorkMeter meter;
    step();
    flops = meter.total().flops;
  }
  const Timing timing = measure(step, options.seconds, 2, 5);
  output.write({.bench = "step",
                .engine = options.exact ? "equigrad exact" : "equigrad",
                .name = c.name,
                .batch = batch,
                .timing = timing,
                .items = static_cast<double>(batch),
                .work_flops = flops,
                .extra = fmt::format(R"(, "dtype": "{}")", name_of(options.dtype))});
}

} // namespace

void step(const Options& options, Output& output) {
  const ReductionScope reduction(options.exact ? Reduction::exact : Reduction::fast);
  bool found = false;
  for (const StepCase& c : cases)
    if (options.matches(c.name)) {
      found = true;
      run(c, options, output);
      allocator::release_cache();
    }
  if (!found) throw no_such_case("step", options.name, cases);
}

} // namespace eg::cli::bench
