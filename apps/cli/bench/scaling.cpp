// bench scaling: how the cost of a training step grows with tokens, width, depth, batch and threads.

#include "apps/cli/bench/bench.h"
#include "apps/cli/bench/step_cases.h"

#include "core/measure/work_meter.h"
#include "core/memory/allocator.h"
#include "core/threads/parallel.h"
#include "nn/vit.h"

#include <cmath>

namespace eg::cli::bench {
namespace {

/// A small ViT; every axis changes one figure of it.
struct Model {
  std::int64_t side = 8; ///< patches along one edge of the image: side^2 + 1 tokens
  std::int64_t width = 256, depth = 4, batch = 16;

  std::int64_t tokens() const { return side * side + 1; }
};

struct Point {
  Model model = {};
  int threads = 0; ///< 0: as many as are in use
  std::int64_t value = 0;
};

struct Axis {
  std::string_view name;
  std::vector<Point> points;
};

/// `field` of the model set to each value.
Axis axis_of(std::string_view name, std::int64_t Model::*field, std::initializer_list<std::int64_t> values) {
  Axis axis{name, {}};
  for (const std::int64_t value : values) {
    Point point{.value = value};
    point.model.*field = value;
    if (field == &Model::side) point.value = point.model.tokens();
    axis.points.push_back(point);
  }
  return axis;
}

std::vector<Axis> axes() {
  std::vector<Axis> all = {
      axis_of("tokens", &Model::side, {4, 8, 16, 24}), axis_of("width", &Model::width, {64, 128, 256, 512}),
      axis_of("depth", &Model::depth, {1, 2, 4, 8}), axis_of("batch", &Model::batch, {1, 4, 16, 64})};
  Axis threads{"threads", {}};
  for (int count = 1; count < 2 * parallel::threads(); count *= 2) {
    const int used = std::min(count, parallel::threads());
    threads.points.push_back({.threads = used, .value = used});
  }
  all.push_back(threads);
  return all;
}

nn::VitConfig config_of(const Model& m) {
  nn::VitConfig config;
  config.patch = 4;
  config.image = 4 * m.side;
  config.classes = 10;
  config.layers = m.depth;
  config.encoder.dim = m.width;
  config.encoder.heads = m.width / 64;
  config.encoder.mlp = 4 * m.width;
  return config;
}

struct Measured {
  Timing timing;
  double flops;
};

Measured measure_step(const Model& m, const Options& options) {
  const RandomKey key{options.seed, 6};
  nn::Vit model(config_of(m), key.fold(1));
  model.to(options.dtype);
  const std::int64_t image = 4 * m.side;
  const Tensor images = random_normal({m.batch, 3, image, image}, key.fold(2), 0.0, 1.0, options.dtype);
  const Tensor labels = random_integers({m.batch}, key.fold(3), 0, 10);
  const TrainingStep step("adam", model.parameters());
  const auto work = [&] { step([&] { return cross_entropy(model(images), labels); }); };
  double flops = 0;
  {
    const WorkMeter meter;
    work();
    flops = meter.total().flops;
  }
  return {measure(work, options.seconds), flops};
}

/// A number of threads for as long as it lives.
class Threads {
public:
  explicit Threads(int count) : before_(parallel::threads()) {
    if (count > 0) parallel::set_threads(count);
  }
  ~Threads() { parallel::set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

private:
  int before_;
};

void run(const Axis& axis, const Options& options, Output& output) {
  double time_before = 0, value_before = 0, first = 0;
  for (const Point& point : axis.points) {
    const Threads threads(point.threads);
    const Measured got = measure_step(point.model, options);
    const auto value = static_cast<double>(point.value);
    const double ms = got.timing.median_ms;
    if (first == 0) first = ms;
    // Between neighbours: 1 is linear, 2 quadratic, -1 perfect speed-up by threads.
    const std::string exponent =
        time_before > 0 ? fmt::format("{:.4f}", std::log(ms / time_before) / std::log(value / value_before)) : "null";
    output.write({.bench = "scaling",
                  .name = fmt::format("{}-{}", axis.name, point.value),
                  .batch = point.model.batch,
                  .timing = got.timing,
                  .items = static_cast<double>(point.model.batch),
                  .work_flops = got.flops,
                  .extra = fmt::format(R"(, "dtype": "{}", "axis": "{}", "value": {}, "tokens": {}, "width": {}, )"
                                       R"("depth": {}, "of_first": {:.4f}, "exponent": {})",
                                       name_of(options.dtype), axis.name, point.value, point.model.tokens(),
                                       point.model.width, point.model.depth, ms / first, exponent)});
    time_before = ms;
    value_before = value;
    allocator::release_cache();
  }
}

} // namespace

void scaling(const Options& options, Output& output) {
  const std::vector<Axis> all = axes();
  bool found = false;
  for (const Axis& axis : all)
    if (options.matches(axis.name)) {
      found = true;
      run(axis, options, output);
    }
  if (!found) throw no_such_case("scaling", options.name, all);
}

} // namespace eg::cli::bench
