#include "optim/optimizer.h"

#include "core/call.h"
#include "core/device/device.h"
#include "core/threads/parallel.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace eg::optim {
namespace {

/// Elements of one task: 4 arrays of it fit a core's cache, and a small parameter is one task.
constexpr std::int64_t piece_elements = 32768;

void check_parameters(const std::vector<Tensor>& parameters) {
  std::set<const std::byte*> seen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    if (!p.defined() || !p.has_storage()) throw ValueError(fmt::format("optimizer: parameter {} is empty", i));
    if (!is_floating(p.dtype()))
      throw DTypeError(fmt::format("optimizer: parameter {} is {}; parameters are f32 or f64", i, name_of(p.dtype())));
    if (!p.is_contiguous()) throw ValueError(fmt::format("optimizer: parameter {} is not densely packed", i));
    if (p.numel() > 0 && !seen.insert(p.device_bytes()).second)
      throw ValueError(fmt::format("optimizer: parameter {} is listed twice", i));
  }
}

} // namespace

Optimizer::Optimizer(std::vector<Tensor> parameters, StatePlan plan)
    : parameters_(std::move(parameters)), settings_(parameters_.size()), plan_(std::move(plan)) {
  check_parameters(parameters_);
  make_state();
}

Optimizer::StatePlan Optimizer::alike(std::vector<std::string> names) {
  return [names = std::move(names)](const Tensor& parameter, const ParameterSettings&) {
    std::vector<StateShape> shapes;
    for (const std::string& name : names) shapes.push_back({name, parameter.shape()});
    return shapes;
  };
}

void Optimizer::make_state() {
  state_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    ParameterState& own = state_.emplace_back();
    const DeviceScope there(parameters_[i].device());
    for (const auto& [state_name, shape] : plan_(parameters_[i], settings_[i]))
      own.emplace_back(state_name, Tensor::zeros(shape, parameters_[i].dtype()));
  }
}

void Optimizer::set_settings(std::vector<ParameterSettings> settings) {
  if (settings.size() != parameters_.size())
    throw ValueError(fmt::format("{}: {} settings for {} parameters", name(), settings.size(), parameters_.size()));
  if (steps_ > 0) throw ValueError(fmt::format("{}: settings cannot change after step {}", name(), steps_));
  for (std::size_t i = 0; i < settings.size(); ++i)
    for (const auto& [what, value] :
         {std::pair{"learning_rate", settings[i].learning_rate}, {"weight_decay", settings[i].weight_decay}})
      if (!(value >= 0.0 && std::isfinite(value)))
        throw ValueError(fmt::format("{}: {} of parameter {} is times {}; a factor is finite and not negative", name(),
                                     what, i, value));
  settings_ = std::move(settings);
  make_state();
}

ParameterState Optimizer::state(std::size_t i) const {
  if (i >= parameters_.size())
    throw IndexError(fmt::format("optimizer: state {} of {} parameters", i, parameters_.size()));
  return state_[i];
}

void Optimizer::check(std::size_t i, const Tensor& g) const {
  const Tensor& p = parameters_[i];
  if (!g.defined()) return;
  if (!(g.shape() == p.shape()))
    throw ShapeError(fmt::format("{}: gradient {} does not have its parameter's shape: gradient is {}, parameter is {}",
                                 name(), i, g.shape().str(), p.shape().str()));
  if (g.dtype() != p.dtype())
    throw DTypeError(
        fmt::format("{}: gradient {} is {}, its parameter is {}", name(), i, name_of(g.dtype()), name_of(p.dtype())));
  if (g.device() != p.device())
    throw DeviceError(
        fmt::format("{}: gradient {} is on {}, its parameter on {}; make the optimiser of a model after it is moved",
                    name(), i, g.device().str(), p.device().str()));
}

void Optimizer::step(const std::vector<Tensor>& gradients, double learning_rate) {
  if (gradients.size() != parameters_.size())
    throw ShapeError(fmt::format("{}: {} gradients for {} parameters", name(), gradients.size(), parameters_.size()));
  std::vector<std::pair<std::size_t, Tensor>> all;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    check(i, gradients[i]);
    all.emplace_back(i, gradients[i]);
  }
  begin(learning_rate);
  try {
    update_all(all);
  } catch (...) {
    --steps_; // nothing was changed
    throw;
  }
}

Optimizer::Step Optimizer::begin(double learning_rate) {
  if (!(learning_rate >= 0.0 && std::isfinite(learning_rate)))
    throw ValueError(
        fmt::format("{}: the learning rate is {}; it must be finite and not negative", name(), learning_rate));
  ++steps_;
  learning_rate_ = learning_rate;
  begin_step(learning_rate);
  return Step(*this);
}

void Optimizer::Step::update(std::size_t i, const Tensor& gradient) {
  if (i >= done_.size())
    throw IndexError(fmt::format("{}: gradient {} for {} parameters", optimizer_.name(), i, done_.size()));
  if (optimizer_.steps() != number_)
    throw ValueError(
        fmt::format("{}: step {} is over, step {} has begun", optimizer_.name(), number_, optimizer_.steps()));
  if (done_[i]) throw ValueError(fmt::format("{}: parameter {} was updated in this step before", optimizer_.name(), i));
  optimizer_.check(i, gradient);
  done_[i] = true;
  optimizer_.update_all({{i, gradient}});
}

/// All of parameter i.
Optimizer::Piece Optimizer::piece_of(std::size_t i, const Tensor& packed_gradient) {
  Piece whole{.dtype = parameters_[i].dtype(),
              .count = parameters_[i].numel(),
              .learning_rate = learning_rate_ * settings_[i].learning_rate,
              .decay_factor = settings_[i].weight_decay};
  whole.gradient = packed_gradient.device_bytes();
  whole.parameter = parameters_[i].mutable_device_bytes(writer());
  for (std::size_t k = 0; k < state_[i].size(); ++k)
    whole.state[k] = state_[i][k].second.mutable_device_bytes(writer());
  return whole;
}

/// Cuts a parameter into tasks.
void Optimizer::add_pieces(const Piece& whole, std::vector<Piece>& pieces) {
  const auto size = static_cast<std::int64_t>(size_of(whole.dtype));
  for (std::int64_t begin = 0; begin < whole.count; begin += piece_elements) {
    Piece piece = whole;
    piece.count = std::min(piece_elements, whole.count - begin);
    piece.gradient += begin * size;
    piece.parameter += begin * size;
    for (std::byte*& part : piece.state)
      if (part != nullptr) part += begin * size;
    pieces.push_back(piece);
  }
}

void Optimizer::update_on_device(Device device, const Piece&, const device::UpdateParts&) const {
  throw DeviceError(fmt::format("{}: the rule has no kernel for {}", name(), device.str()));
}

/// As many parameters as a launch takes whose numbers are alike, at a time.
void Optimizer::launch_updates(const std::vector<std::pair<Device, Piece>>& there) const {
  for (std::size_t first = 0; first < there.size();) {
    const auto& [device, alike] = there[first];
    device::UpdateParts parts{.type = alike.dtype, .parts = 0, .part = {}};
    std::size_t next = first;
    for (; next < there.size() && parts.parts < device::UpdateParts::most; ++next) {
      const auto& [other, p] = there[next];
      if (other != device || p.dtype != alike.dtype || p.learning_rate != alike.learning_rate ||
          p.decay_factor != alike.decay_factor)
        break;
      parts.part[parts.parts++] = {p.parameter, p.gradient, {p.state[0], p.state[1]}, p.count};
    }
    update_on_device(device, alike, parts);
    first = next;
  }
}

Optimizer::Whole Optimizer::whole_of(std::size_t i, const Tensor& gradient) const {
  Whole whole{.parameter = parameters_[i],
              .gradient = gradient,
              .state = {},
              .learning_rate = learning_rate_ * settings_[i].learning_rate,
              .decay_factor = settings_[i].weight_decay};
  for (const auto& [state_name, tensor] : state_[i]) whole.state.push_back(tensor);
  return whole;
}

void Optimizer::update_all(const std::vector<std::pair<std::size_t, Tensor>>& gradients) {
  const Clock::time_point began = Clock::now();
  double bytes = 0;
  std::vector<std::pair<std::size_t, Tensor>> packed; // keeps the copies of strided gradients alive
  std::vector<std::pair<Device, Piece>> there;
  std::vector<Piece> pieces;
  std::vector<std::pair<std::size_t, Updated>> wholes;
  for (const auto& [i, gradient] : gradients) {
    if (!gradient.defined() || gradient.numel() == 0 || settings_[i].learning_rate == 0.0) continue;
    const PauseRecording pause;
    // The gradient is read; the parameter and each state are read and written.
    bytes += (3.0 + 2.0 * static_cast<double>(state_[i].size())) *
             static_cast<double>(gradient.numel() * static_cast<std::int64_t>(size_of(gradient.dtype())));
    if (takes_whole(i)) {
      wholes.emplace_back(i, updated(whole_of(i, gradient)));
      continue;
    }
    packed.emplace_back(i, gradient.contiguous());
  }
  // From here on no memory is taken.
  for (const auto& [i, now] : wholes) {
    const PauseRecording pause;
    parameters_[i].copy_from(now.parameter);
    for (std::size_t k = 0; k < state_[i].size(); ++k) state_[i][k].second.copy_from(now.state[k]);
  }
  for (const auto& [i, gradient] : packed) {
    const Piece whole = piece_of(i, gradient);
    if (gradient.device().is_cpu())
      add_pieces(whole, pieces);
    else
      there.emplace_back(gradient.device(), whole);
  }
  launch_updates(there);
  parallel::for_each(static_cast<std::int64_t>(pieces.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) update(pieces[static_cast<std::size_t>(i)]);
  });
  if (recording()) notify_recorders(Activity{name(), {.flops = 0, .bytes = bytes}, began});
}

} // namespace eg::optim
