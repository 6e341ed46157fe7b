// Update rules and schedules against PyTorch's: tests/golden/optimizers.json, written by tests/golden/optimizers.py.

#include "core/base/json.h"
#include "core/tensor.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

using namespace eg;

namespace {

using Json = nlohmann::json;

Json golden() { return read_json(EQUIGRAD_SOURCE_DIR "/tests/golden/optimizers.json"); }

Tensor tensor_of(const Json& values, const Json& shape) {
  return Tensor::from<double>(values.get<std::vector<double>>(), Shape(shape.get<std::vector<std::int64_t>>()));
}

std::unique_ptr<optim::Optimizer> made(const std::string& rule, std::vector<Tensor> parameters) {
  if (rule == "rmsprop") return optim::rmsprop(std::move(parameters), {.weight_decay = 0.1});
  if (rule == "rmsprop-momentum") return optim::rmsprop(std::move(parameters), {.alpha = 0.9, .momentum = 0.8});
  if (rule == "adafactor") return optim::adafactor(std::move(parameters), {.weight_decay = 0.1});
  if (rule == "muon") return optim::muon(std::move(parameters), {.weight_decay = 0.1});
  REQUIRE(rule == "muon-plain");
  return optim::muon(std::move(parameters), {.nesterov = false});
}

} // namespace

TEST_CASE("optim: five steps are PyTorch's") {
  const Json file = golden();
  REQUIRE(file["rules"].size() == 5);
  for (const Json& row : file["rules"]) {
    CAPTURE(row["rule"].get<std::string>());
    std::vector<Tensor> parameters;
    for (std::size_t i = 0; i < row["shapes"].size(); ++i)
      parameters.push_back(tensor_of(row["before"][i], row["shapes"][i]));
    const auto optimizer = made(row["rule"], parameters);
    for (const Json& step : row["gradients"]) {
      std::vector<Tensor> gradients;
      for (std::size_t i = 0; i < parameters.size(); ++i) gradients.push_back(tensor_of(step[i], row["shapes"][i]));
      optimizer->step(gradients, row["lr"]);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      CAPTURE(i);
      CHECK(relative_error(parameters[i], tensor_of(row["after"][i], row["shapes"][i])) < 1e-13);
    }
  }
}

TEST_CASE("optim: the rates of schedules are PyTorch's") {
  const Json file = golden();
  REQUIRE(file["schedules"].size() == 3);
  for (const Json& row : file["schedules"]) {
    CAPTURE(row["schedule"].get<std::string>());
    const optim::Schedule schedule{.kind = optim::schedule_named(row["schedule"]),
                                   .base = row["base"],
                                   .warmup = row.value("warmup", std::int64_t{0}),
                                   .total_steps = row["total_steps"],
                                   .final_fraction = row.value("final_fraction", 0.0),
                                   .drop_every = row.value("drop_every", std::int64_t{0}),
                                   .drop_factor = row.value("drop_factor", 0.1)};
    for (std::size_t step = 0; step < row["rates"].size(); ++step) {
      CAPTURE(step);
      CHECK(schedule.at(static_cast<std::int64_t>(step)) ==
            doctest::Approx(row["rates"][step].get<double>()).epsilon(1e-13));
    }
  }
}
