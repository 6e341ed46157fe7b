#include "training/divided_optimizer.h"

#include "core/ops.h"
#include "core/reduction.h"
#include "data/safetensors.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

namespace eg::training {

using distributed::GradientSum;
using distributed::Link;
using distributed::ParameterPart;

static_assert(GradientSum::unit % optim::norm_chunk == 0, "owners sum the squares of whole chunks");

std::vector<bool> DividedOptimizer::whole_parameters(const RunOptions& options, const std::vector<Tensor>& parameters,
                                                     const std::vector<optim::ParameterSettings>& settings) {
  using Whole = optim::RuleTraits::Whole;
  const Whole whole = optim::rule_traits(options.optimizer).whole;
  std::vector<bool> all;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    all.push_back(whole == Whole::parameters ||
                  (whole == Whole::matrices && settings[i].hidden && parameters[i].shape().rank() == 2));
  return all;
}

DividedOptimizer::DividedOptimizer(distributed::Communicator& processes, GradientSum& sum, const RunOptions& options,
                                   std::vector<Tensor> parameters,
                                   const std::vector<optim::ParameterSettings>& settings,
                                   std::vector<std::string> names)
    : processes_(processes), sum_(sum), parameters_(std::move(parameters)),
      whole_(whole_parameters(options, parameters_, settings)), names_(std::move(names)) {
  std::vector<Tensor> parts;
  std::vector<optim::ParameterSettings> of_parts;
  for (const ParameterPart& part : sum.part()) {
    parts.push_back(own(parameters_[part.parameter], part));
    of_parts.push_back(settings[part.parameter]);
    if (!whole_[part.parameter]) of_parts.back().hidden = false; // what is cut is no matrix any more
  }
  optimizer_ = optim::make_optimizer(options.optimizer, std::move(parts), options.weight_decay, options.eps);
  optimizer_->set_settings(std::move(of_parts));
}

Tensor DividedOptimizer::own(const Tensor& whole, const ParameterPart& part) const {
  return whole_[part.parameter] ? whole : whole.reshape({whole.numel()}).slice(0, part.begin, part.end);
}

double DividedOptimizer::norm(const std::vector<Tensor>& gradients) const {
  if (reduction() == Reduction::exact) return optim::gradient_norm(gradients); // whole: sum_ spreads them
  const PauseRecording pause;
  std::string mine;
  for (const ParameterPart& part : sum_.part()) {
    if (!gradients[part.parameter].defined()) continue;
    const std::vector<double> chunks = optim::chunk_squares(own(gradients[part.parameter], part));
    mine.append(reinterpret_cast<const char*>(chunks.data()), chunks.size() * sizeof(double));
  }
  const std::vector<std::string> all = processes_.gather(std::move(mine));
  std::map<std::pair<std::size_t, std::int64_t>, double> chunks; // of (parameter, first element)
  for (std::size_t p = 0; p < all.size(); ++p) {
    std::size_t at = 0;
    for (const ParameterPart& part : sum_.part_of(static_cast<int>(p))) {
      if (!gradients[part.parameter].defined()) continue;
      for (std::int64_t begin = part.begin; begin < part.end; begin += optim::norm_chunk, at += sizeof(double)) {
        if (at + sizeof(double) > all[p].size())
          throw distributed::DistributedError(fmt::format("train: process {} sent too few norms", p));
        std::memcpy(&chunks[{part.parameter, begin}], all[p].data() + at, sizeof(double));
      }
    }
    if (at != all[p].size())
      throw distributed::DistributedError(fmt::format("train: process {} sent too many norms", p));
  }
  double total = 0.0;
  for (auto chunk = chunks.begin(); chunk != chunks.end();) {
    double sum = 0.0;
    const std::size_t parameter = chunk->first.first;
    for (; chunk != chunks.end() && chunk->first.first == parameter; ++chunk) sum += chunk->second;
    total += sum;
  }
  return std::sqrt(total);
}

void DividedOptimizer::step(const std::vector<Tensor>& gradients, double scale, double learning_rate) {
  const PauseRecording pause;
  optim::Optimizer::Step step = optimizer_->begin(learning_rate); // part by part: one scaled gradient at a time
  for (std::size_t i = 0; i < sum_.part().size(); ++i) {
    const ParameterPart& part = sum_.part()[i];
    if (!gradients[part.parameter].defined()) continue;
    const Tensor g = own(gradients[part.parameter], part);
    step.update(i, scale == 1.0 ? g : affine(g, scale, 0.0));
  }
  sum_.gather_parameters(parameters_);
}

Tensor DividedOptimizer::state_of(std::size_t part, const std::string& name) const {
  for (const auto& [other, value] : optimizer_->state(part))
    if (other == name) return value;
  throw std::logic_error("DividedOptimizer: no state is called " + name);
}

/// Each process tells the state of the parameters whose first element it owns.
std::vector<DividedOptimizer::State> DividedOptimizer::agree_on_states() const {
  nlohmann::json mine = nlohmann::json::array();
  for (std::size_t i = 0; i < sum_.part().size(); ++i) {
    const ParameterPart& part = sum_.part()[i];
    if (part.begin > 0) continue;
    nlohmann::json states = nlohmann::json::array();
    for (const auto& [name, value] : optimizer_->state(i)) {
      const Shape shape = whole_[part.parameter] ? value.shape() : parameters_[part.parameter].shape();
      states.push_back({name, std::vector<std::int64_t>(shape.begin(), shape.end())});
    }
    mine.push_back({part.parameter, states});
  }
  std::vector<std::vector<State>> of_parameters(parameters_.size());
  for (const std::string& text : processes_.gather(mine.dump())) {
    try {
      for (const nlohmann::json& parameter : nlohmann::json::parse(text)) {
        const auto i = parameter.at(0).get<std::size_t>();
        for (const nlohmann::json& state : parameter.at(1)) {
          const Shape shape(state.at(1).get<std::vector<std::int64_t>>());
          const Shape& whole = parameters_.at(i).shape();
          if (whole_[i] ? shape.numel() > whole.numel() : !(shape == whole))
            throw distributed::DistributedError(
                fmt::format("train: a process has state {} for {} {}", shape.str(), names_[i], whole.str()));
          of_parameters[i].push_back({i, state.at(0).get<std::string>(), shape});
        }
      }
    } catch (const std::logic_error&) { // .at() of vectors
      throw distributed::DistributedError("train: a process sent state of a parameter that there is not");
    } catch (const nlohmann::json::exception&) {
      throw distributed::DistributedError("train: a process sent no list of its state");
    } catch (const ShapeError&) {
      throw distributed::DistributedError("train: a process sent no shape of its state");
    }
  }
  std::vector<State> all;
  for (const std::vector<State>& states : of_parameters) all.insert(all.end(), states.begin(), states.end());
  return all;
}

/// On process 0 the whole tensor; on others nothing, while they send their parts.
Tensor DividedOptimizer::gathered(const State& state) const {
  const DType dtype = parameters_[state.parameter].dtype();
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  Tensor whole = processes_.first() ? Tensor::empty(state.shape, dtype) : Tensor();
  std::byte* const to = processes_.first() ? whole.mutable_bytes("gather_state") : nullptr;
  const bool uncut = whole_[state.parameter];
  const auto bytes_of = [&](const ParameterPart& part) {
    return static_cast<std::size_t>((uncut ? state.shape.numel() : part.end - part.begin) * size);
  };
  std::vector<Tensor> packed; // keeps what is sent
  std::vector<Link::Out> out;
  for (std::size_t i = 0; i < sum_.part().size(); ++i) {
    const ParameterPart& part = sum_.part()[i];
    if (part.parameter != state.parameter) continue;
    packed.push_back(state_of(i, state.name).contiguous());
    if (uncut && !(packed.back().shape() == state.shape))
      throw distributed::DistributedError("train: processes have state of different shapes");
    const std::span<const std::byte> bytes{packed.back().bytes(), bytes_of(part)};
    if (processes_.first())
      std::memcpy(to + (uncut ? 0 : part.begin * size), bytes.data(), bytes.size());
    else
      out.push_back({0, bytes});
  }
  std::vector<Link::In> in;
  for (int p = 1; processes_.first() && p < processes_.size(); ++p)
    for (const ParameterPart& part : sum_.part_of(p))
      if (part.parameter == state.parameter) in.push_back({p, {to + (uncut ? 0 : part.begin * size), bytes_of(part)}});
  processes_.wait(processes_.post([&](Link& link) {
    link.begin(distributed::Kind::state);
    link.exchange(out, in);
  }));
  return whole;
}

void DividedOptimizer::save(const std::string& path) const {
  const PauseRecording pause;
  const std::vector<State> states = agree_on_states();
  if (!processes_.first()) {
    for (const State& state : states) gathered(state);
    return;
  }
  data::NamedTensors shapes;
  for (const State& state : states)
    shapes.emplace_back(names_[state.parameter] + "." + state.name,
                        Tensor::meta(state.shape, parameters_[state.parameter].dtype()));
  data::save_safetensors(path, shapes, [&](std::size_t i) { return gathered(states[i]); });
}

void DividedOptimizer::load(const std::string& path) {
  const PauseRecording pause;
  const data::TensorFile file = data::load_safetensors(path, {.map = true});
  for (std::size_t i = 0; i < sum_.part().size(); ++i) {
    const ParameterPart& part = sum_.part()[i];
    const Tensor& parameter = parameters_[part.parameter];
    for (auto& [name, value] : optimizer_->state(i)) {
      const std::string called = names_[part.parameter] + "." + name;
      const Tensor* const found = file.find(called);
      if (found == nullptr) throw FileError(fmt::format("{}: no optimiser state '{}'", path, called));
      const Shape& wanted = whole_[part.parameter] ? value.shape() : parameter.shape();
      if (found->dtype() != value.dtype() || !(found->shape() == wanted))
        throw FileError(fmt::format("{}: optimiser state '{}' is {} {}, the optimiser has {} {}", path, called,
                                    name_of(found->dtype()), found->shape().str(), name_of(value.dtype()),
                                    wanted.str()));
      Tensor to = value;
      to.copy_from(own(*found, part));
    }
  }
}

} // namespace eg::training
