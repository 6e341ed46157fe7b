// Optimisers, schedules, clipping.

#include "optim/optimizer.h"
#include "optim/schedule.h"

#include "core/call.h"
#include "nn/module.h"

#include "bindings.h"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nanobind/stl/unique_ptr.h>

namespace eg::python {
namespace {

using optim::Optimizer;
using optim::Schedule;

/// Throws TypeError unless it is a number or a function of the step.
void check_rate(nb::handle rate) {
  if (PyCallable_Check(rate.ptr()) == 0 && !attribute_from(rate, AttrKind::real))
    refuse_type("lr", "a number or a function of the step", rate);
}

double rate_of_step(nb::handle self, nb::handle given) {
  const nb::object own = given.is_none() ? nb::getattr(self, "_lr", nb::none()) : nb::borrow(given);
  if (own.is_none())
    throw nb::type_error("step: give a learning rate: step(gradients, 1e-3), or lr=1e-3 when the optimizer is made");
  const nb::object rate = PyCallable_Check(own.ptr()) != 0 ? own(nb::cast<Optimizer&>(self).steps()) : own;
  const auto number = attribute_from(rate, AttrKind::real);
  if (!number) refuse_type("step: the learning rate", "a number", rate);
  return std::get<double>(*number);
}

std::string state_name(std::size_t i, const std::string& name) { return fmt::format("{}.{}", i, name); }

/// The rule's name as bytes, u8 [length]: Adam and AdamW keep the same tensors and are not the same.
Tensor rule_name(const Optimizer& self) {
  const std::string name = self.name();
  const std::vector<std::uint8_t> bytes(name.begin(), name.end());
  return Tensor::from<std::uint8_t>(bytes, {std::ssize(bytes)});
}

/// Throws ValueError for the state of another rule.
void check_rule(const Optimizer& self, const Tensor& rule) {
  const std::string own = self.name();
  std::string given;
  if (rule.dtype() == DType::u8 && rule.rank() == 1)
    for (const std::uint8_t byte : rule.to_vector<std::uint8_t>()) given += static_cast<char>(byte);
  if (given != own)
    throw ValueError(
        fmt::format("load_state_dict: the state is of '{}', not of '{}'; make an optimizer of that rule", given, own));
}

nb::dict state_dict(const Optimizer& self) {
  const PauseRecording pause;
  nb::dict dict;
  dict["steps"] = to_python(Tensor::from<std::int64_t>({self.steps()}, {}));
  dict["rule"] = to_python(rule_name(self));
  for (std::size_t i = 0; i < self.parameters().size(); ++i)
    for (const auto& [name, tensor] : self.state(i)) dict[state_name(i, name).c_str()] = to_python(tensor.clone());
  return dict;
}

void load_state_dict(Optimizer& self, const nb::dict& state) {
  std::map<std::string, Tensor> given;
  for (auto& [name, tensor] : named_tensors_from(state, "load_state_dict")) given.emplace(name, tensor);
  const auto take = [&](const std::string& name) {
    const auto found = given.find(name);
    if (found == given.end()) throw ValueError(fmt::format("load_state_dict: '{}' is missing", name));
    const Tensor tensor = found->second;
    given.erase(found);
    return tensor;
  };
  check_rule(self, take("rule"));
  const Tensor steps = take("steps");
  if (steps.dtype() != DType::i64 || steps.numel() != 1 || steps.item() < 0 || steps.item() > 1e15)
    throw ValueError("load_state_dict: 'steps' must be one i64 from 0 to 10^15");
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (std::size_t i = 0; i < self.parameters().size(); ++i)
    for (const auto& [name, own] : self.state(i)) {
      const Tensor tensor = take(state_name(i, name));
      if (tensor.shape() != own.shape())
        throw ShapeError(fmt::format("load_state_dict: '{}' is {}, not {}", state_name(i, name), tensor.shape().str(),
                                     own.shape().str()));
      if (tensor.dtype() != own.dtype())
        throw DTypeError(fmt::format("load_state_dict: '{}' is {}, not {}", state_name(i, name),
                                     name_of(tensor.dtype()), name_of(own.dtype())));
      copies.emplace_back(own, tensor);
    }
  if (!given.empty()) throw ValueError(fmt::format("load_state_dict: there is no '{}'", given.begin()->first));
  for (auto& [own, tensor] : copies) own.copy_from(tensor.to(own.device()));
  self.set_steps(steps.to(Device::cpu()).data<std::int64_t>()[0]);
}

void bind_optimizer(nb::module_& m) {
  nb::class_<Optimizer>(
      m, "Optimizer", nb::dynamic_attr(),
      "One update rule over a list of parameters, which it writes in place. Tensors on the memory of an array of "
      "NumPy's move to memory of their own when the optimizer is made.")
      // Not stopped half-way: a signal waits for the step to end.
      .def(
          "step",
          [](nb::handle self, nb::handle gradients, nb::handle learning_rate) {
            const bool clipped = PyTuple_Check(gradients.ptr()) != 0 && nb::len(gradients) == 2 &&
                                 PyList_Check(nb::object(gradients[0]).ptr()) != 0;
            if (clipped)
              throw nb::type_error("step: gradients are a pair, as clip_gradients() gives them; take it apart: "
                                   "gradients, norm = eg.optim.clip_gradients(gradients, 1.0)");
            const double rate = rate_of_step(self, learning_rate);
            const Tensors g = tensors_from(gradients, "step: gradients");
            auto& optimizer = nb::cast<Optimizer&>(self);
            const nb::gil_scoped_release unlocked;
            optimizer.step(g, rate);
          },
          "gradients"_a, "learning_rate"_a = nb::none(),
          "Updates every parameter from its gradient, in the same order; None skips one. The learning rate is `lr` "
          "where none is given.",
          nb::sig("def step(self, gradients: collections.abc.Sequence[equigrad._core.Tensor | None], learning_rate: "
                  "float | None = None) -> None"))
      .def_prop_rw(
          "lr", [](nb::handle self) { return nb::getattr(self, "_lr", nb::none()); },
          [](nb::handle self, nb::handle rate) {
            check_rate(rate);
            nb::setattr(self, "_lr", rate);
          },
          "The learning rate of steps that are given none: a number, or a function of the step, such as a Schedule.",
          nb::for_getter(nb::sig("def lr(self) -> float | collections.abc.Callable[[int], float] | None")),
          nb::for_setter(nb::sig("def lr(self, value: float | collections.abc.Callable[[int], float]) -> None")))
      .def("state_dict", &state_dict,
           "Copies of the number of steps, the rule's name and every parameter's state, by name.",
           nb::sig("def state_dict(self) -> dict[str, equigrad._core.Tensor]"))
      .def("load_state_dict", &load_state_dict, "state"_a,
           "Copies what state_dict() gave into this one: a run goes on with the same bits. Raises ValueError, "
           "ShapeError "
           "or DTypeError for what does not fit; nothing is changed then.",
           nb::sig("def load_state_dict(self, state: collections.abc.Mapping[str, typing.Any]) -> None"))
      .def_prop_rw("steps", &Optimizer::steps, &Optimizer::set_steps, "Steps taken so far.")
      .def_prop_ro("name", &Optimizer::name)
      .def_prop_ro("parameters", &Optimizer::parameters)
      .def(
          "state",
          [](const Optimizer& self, std::size_t i) {
            if (i >= self.parameters().size())
              throw IndexError(fmt::format("optimizer: parameter {} of {}", i, self.parameters().size()));
            nb::dict dict;
            for (const auto& [name, tensor] : self.state(i)) dict[name.c_str()] = to_python(tensor);
            return dict;
          },
          "i"_a, "State tensors of parameter i by name: handles, so they can be saved and restored.",
          nb::sig("def state(self, i: int) -> dict[str, equigrad._core.Tensor]"))
      .def(
          "__reduce_ex__",
          [](nb::handle, int) -> nb::object {
            throw nb::type_error("an optimizer cannot be copied or pickled; save state_dict()");
          },
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Any"))
      .def("__repr__", [](const Optimizer& self) {
        return fmt::format("<{}: {} parameters, {} steps>", self.name(), self.parameters().size(), self.steps());
      });
}

/// What every rule takes beside its own numbers: parameters, or groups of them as PyTorch has them,
/// [{"params": [...], "lr": 1e-4, "weight_decay": 0.0}, ...], and the learning rate of steps that are given none.
struct Group {
  Tensors parameters;
  std::optional<double> rate, decay;
  bool hidden = true;
};

/// The parameters as a sequence: what can be gone through once, such as a generator or filter(), as a list. Throws
/// TypeError for what has no order of its own.
nb::object sequence_of(nb::handle parameters, const char* what) {
  if (nb::isinstance<nn::Module>(parameters))
    throw nb::type_error(fmt::format("{}: a module was given; give model.parameters()", what).c_str());
  if (PyAnySet_Check(parameters.ptr()) != 0)
    throw nb::type_error(
        fmt::format("{}: a set has no order, and gradients are given in the parameters' order; give a list", what)
            .c_str());
  if (PyDict_Check(parameters.ptr()) != 0)
    throw nb::type_error(fmt::format("{}: a dict was given; give list(its.values()), or [dict] where it is a group "
                                     "with 'params'",
                                     what)
                             .c_str());
  const bool one = as_tensor(parameters) != nullptr || PySequence_Check(parameters.ptr()) != 0;
  if (one || Py_TYPE(parameters.ptr())->tp_iter == nullptr) return nb::borrow(parameters);
  return nb::steal(PySequence_List(parameters.ptr()));
}

std::vector<Group> groups_from(nb::handle given) {
  const nb::object parameters = sequence_of(given, "parameters");
  if (!parameters.is_valid()) throw nb::python_error();
  const bool listed = (nb::isinstance<nb::list>(parameters) || nb::isinstance<nb::tuple>(parameters)) &&
                      nb::len(parameters) > 0 && nb::isinstance<nb::dict>(nb::object(parameters[0]));
  if (!listed) return {{tensors_from(parameters, "parameters"), {}, {}}};
  std::vector<Group> groups;
  for (const nb::handle item : parameters) {
    if (!nb::isinstance<nb::dict>(item)) refuse_type("parameters: a group", "a dict", item);
    Group group;
    bool named = false;
    for (const auto [key, value] : nb::borrow<nb::dict>(item)) {
      const std::string name = text_from(key, "parameters: a name in a group");
      if (name == "params") {
        const nb::object members = sequence_of(value, "parameters: 'params'");
        if (!members.is_valid()) throw nb::python_error();
        group.parameters = tensors_from(members, "parameters: 'params'");
        named = true;
      } else if (name == "hidden") {
        group.hidden = nb::cast<bool>(value);
      } else if (name == "lr" || name == "weight_decay") {
        const auto number = attribute_from(value, AttrKind::real);
        if (!number) refuse_type(fmt::format("parameters: '{}'", name), "a number", value);
        (name == "lr" ? group.rate : group.decay) = std::get<double>(*number);
      } else {
        throw ValueError(fmt::format("parameters: a group has params, lr, weight_decay and hidden, not '{}'", name));
      }
    }
    if (!named) throw ValueError("parameters: a group without 'params'");
    groups.push_back(std::move(group));
  }
  return groups;
}

/// value / base as a factor of the rule's own number.
double factor_of(std::optional<double> value, double base, const char* what) {
  if (!value || *value == base) return 1.0;
  if (base == 0.0)
    throw ValueError(fmt::format("parameters: a group has {}, which needs one of the optimizer's that is not 0", what));
  return *value / base;
}

/// What a group's learning rate is compared with: the optimizer's number, or its schedule's base.
std::optional<double> rate_at_full_height(nb::handle rate) {
  if (nb::isinstance<Schedule>(rate)) return nb::cast<const Schedule&>(rate).base;
  const auto number = attribute_from(rate, AttrKind::real);
  return number ? std::optional(std::get<double>(*number)) : std::nullopt;
}

/// Makes the optimiser by `make(parameters)`, with the groups' numbers as factors of `rate` and `decay`.
template <class Make> nb::object made(nb::handle parameters, nb::handle rate, double decay, Make make) {
  const std::vector<Group> groups = groups_from(parameters);
  Tensors all;
  std::vector<optim::ParameterSettings> settings;
  if (!rate.is_none()) check_rate(rate);
  const auto base = rate_at_full_height(rate);
  for (const Group& group : groups) {
    if (group.rate && !base)
      throw ValueError("parameters: a group has lr, a factor of the optimizer's: give that a number, lr=1e-3, or an "
                       "eg.optim.Schedule, whose base it is a factor of");
    const optim::ParameterSettings own{.learning_rate = group.rate ? factor_of(group.rate, *base, "lr") : 1.0,
                                       .weight_decay = factor_of(group.decay, decay, "weight_decay"),
                                       .hidden = group.hidden};
    all.insert(all.end(), group.parameters.begin(), group.parameters.end());
    settings.insert(settings.end(), group.parameters.size(), own);
  }
  if (all.empty()) throw ValueError("parameters: there are none; give model.parameters() of a module that has some");
  for (const Tensor& parameter : all) take_memory(parameter);
  std::unique_ptr<Optimizer> optimizer = make(std::move(all));
  optimizer->set_settings(std::move(settings));
  nb::object object = nb::cast(std::move(optimizer));
  if (!rate.is_none()) object.attr("lr") = nb::borrow(rate);
  return object;
}

using Betas = std::optional<std::pair<double, double>>;

constexpr const char* parameters_words = "parameters: collections.abc.Iterable[typing.Any], "
                                         "lr: float | collections.abc.Callable[[int], float] | None = None, ";

/// Adam's and AdamW's, which take the same numbers.
template <class Rule> void bind_adam(nb::module_& m, const char* name, const char* doc, double decay, Rule rule) {
  const optim::AdamOptions defaults{.weight_decay = decay};
  m.def(
      name,
      [rule](nb::handle parameters, nb::handle lr, const Betas& betas, double eps, double weight_decay, double beta1,
             double beta2) {
        const optim::AdamOptions options{.beta1 = betas ? betas->first : beta1,
                                         .beta2 = betas ? betas->second : beta2,
                                         .eps = eps,
                                         .weight_decay = weight_decay};
        return made(parameters, lr, weight_decay, [&](Tensors all) { return rule(std::move(all), options); });
      },
      "parameters"_a, "lr"_a = nb::none(), "betas"_a = nb::none(), "eps"_a = defaults.eps,
      "weight_decay"_a = defaults.weight_decay, "beta1"_a = defaults.beta1, "beta2"_a = defaults.beta2, doc,
      nb::sig(
          fmt::format("def {}({}betas: tuple[float, float] | None = None, eps: float = {}, weight_decay: float = {}, "
                      "beta1: float = {}, beta2: float = {}) -> Optimizer",
                      name, parameters_words, defaults.eps, defaults.weight_decay, defaults.beta1, defaults.beta2)
              .c_str()));
}

void bind_rules(nb::module_& m) {
  m.def(
      "SGD",
      [](nb::handle parameters, nb::handle lr, double momentum, bool nesterov, double weight_decay) {
        return made(parameters, lr, weight_decay, [&](Tensors all) {
          return optim::sgd(std::move(all), {.momentum = momentum, .nesterov = nesterov, .weight_decay = weight_decay});
        });
      },
      "parameters"_a, "lr"_a = nb::none(), "momentum"_a = 0.0, "nesterov"_a = false, "weight_decay"_a = 0.0,
      "v = momentum v + g; w -= lr (nesterov ? g + momentum v : v).",
      nb::sig(fmt::format("def SGD({}momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0) -> "
                          "Optimizer",
                          parameters_words)
                  .c_str()));
  bind_adam(m, "Adam", "Kingma and Ba, ICLR 2015; weight decay is added to the gradient.", 0.0,
            [](Tensors all, const optim::AdamOptions& options) { return optim::adam(std::move(all), options); });
  // PyTorch's default: whoever writes AdamW expects some. The program's --weight-decay and C++'s options begin at 0.
  bind_adam(m, "AdamW",
            "The same after w *= 1 - lr weight_decay, which is 0.01 unless it is given, as in PyTorch. ICLR 2019.",
            0.01, [](Tensors all, const optim::AdamOptions& options) { return optim::adamw(std::move(all), options); });
  const optim::RmsPropOptions rms;
  m.def(
      "RMSprop",
      [](nb::handle parameters, nb::handle lr, double alpha, double eps, double momentum, double weight_decay) {
        return made(parameters, lr, weight_decay, [&](Tensors all) {
          return optim::rmsprop(std::move(all),
                                {.alpha = alpha, .eps = eps, .momentum = momentum, .weight_decay = weight_decay});
        });
      },
      "parameters"_a, "lr"_a = nb::none(), "alpha"_a = rms.alpha, "eps"_a = rms.eps, "momentum"_a = rms.momentum,
      "weight_decay"_a = rms.weight_decay, "Tieleman and Hinton, 2012; weight decay is added to the gradient.",
      nb::sig(
          fmt::format("def RMSprop({}alpha: float = {}, eps: float = {}, momentum: float = {}, weight_decay: float = "
                      "{}) -> Optimizer",
                      parameters_words, rms.alpha, rms.eps, rms.momentum, rms.weight_decay)
              .c_str()));
  const optim::LionOptions signs;
  m.def(
      "Lion",
      [](nb::handle parameters, nb::handle lr, const Betas& betas, double weight_decay, double beta1, double beta2) {
        return made(parameters, lr, weight_decay, [&](Tensors all) {
          return optim::lion(std::move(all), {.beta1 = betas ? betas->first : beta1,
                                              .beta2 = betas ? betas->second : beta2,
                                              .weight_decay = weight_decay});
        });
      },
      "parameters"_a, "lr"_a = nb::none(), "betas"_a = nb::none(), "weight_decay"_a = signs.weight_decay,
      "beta1"_a = signs.beta1, "beta2"_a = signs.beta2,
      "w = (1 - lr weight_decay) w - lr sign(b1 m + (1-b1) g). Chen et al., 2023.",
      nb::sig(
          fmt::format("def Lion({}betas: tuple[float, float] | None = None, weight_decay: float = {}, beta1: float = "
                      "{}, beta2: float = {}) -> Optimizer",
                      parameters_words, signs.weight_decay, signs.beta1, signs.beta2)
              .c_str()));
  const optim::AdafactorOptions factored;
  m.def(
      "Adafactor",
      [](nb::handle parameters, nb::handle lr, double clip, bool scale_parameter, double weight_decay) {
        return made(parameters, lr, weight_decay, [&](Tensors all) {
          return optim::adafactor(std::move(all),
                                  {.clip = clip, .scale_parameter = scale_parameter, .weight_decay = weight_decay});
        });
      },
      "parameters"_a, "lr"_a = nb::none(), "clip"_a = factored.clip, "scale_parameter"_a = factored.scale_parameter,
      "weight_decay"_a = factored.weight_decay, "Moments of rows and columns alone. Shazeer and Stern, 2018.",
      nb::sig(fmt::format("def Adafactor({}clip: float = {}, scale_parameter: bool = {}, weight_decay: float = {}) -> "
                          "Optimizer",
                          parameters_words, factored.clip, factored.scale_parameter ? "True" : "False",
                          factored.weight_decay)
                  .c_str()));
  const optim::MuonOptions orthogonal;
  m.def(
      "Muon",
      [](nb::handle parameters, nb::handle lr, double momentum, bool nesterov, double weight_decay, double eps) {
        return made(parameters, lr, weight_decay, [&](Tensors all) {
          return optim::muon(std::move(all),
                             {.momentum = momentum, .nesterov = nesterov, .weight_decay = weight_decay, .eps = eps});
        });
      },
      "parameters"_a, "lr"_a = nb::none(), "momentum"_a = orthogonal.momentum, "nesterov"_a = orthogonal.nesterov,
      "weight_decay"_a = orthogonal.weight_decay, "eps"_a = orthogonal.eps,
      "Momentum of matrices made orthogonal, AdamW for the rest. Jordan et al., 2024.",
      nb::sig(
          fmt::format("def Muon({}momentum: float = {}, nesterov: bool = {}, weight_decay: float = {}, eps: float = "
                      "{}) -> Optimizer",
                      parameters_words, orthogonal.momentum, orthogonal.nesterov ? "True" : "False",
                      orthogonal.weight_decay, orthogonal.eps)
              .c_str()));
  m.def(
      "make_optimizer",
      [](const std::string& name, nb::handle parameters, double weight_decay, double eps, nb::handle lr) {
        return made(parameters, lr, weight_decay,
                    [&](Tensors all) { return optim::make_optimizer(name, std::move(all), weight_decay, eps); });
      },
      "name"_a, "parameters"_a, "weight_decay"_a = 0.0, "eps"_a = 1e-8, "lr"_a = nb::none(),
      "By name: sgd, momentum, nesterov, adam, adamw, rmsprop, lion, adafactor, muon.",
      nb::sig(
          "def make_optimizer(name: str, parameters: collections.abc.Iterable[typing.Any], weight_decay: float = "
          "0.0, eps: float = 1e-08, lr: float | collections.abc.Callable[[int], float] | None = None) -> Optimizer"));
}

void bind_gradients(nb::module_& m) {
  m.def(
      "clip_gradients",
      [](nb::handle gradients, double max_norm) {
        Tensors g = tensors_from(gradients, "clip_gradients: gradients");
        double norm = 0.0;
        {
          const nb::gil_scoped_release unlocked;
          norm = optim::clip_gradients(g, max_norm);
        }
        return nb::make_tuple(to_python(g), norm);
      },
      "gradients"_a, "max_norm"_a, "(copies scaled so that their joint 2-norm is at most max_norm, the norm before).",
      nb::sig("def clip_gradients(gradients: collections.abc.Sequence[equigrad._core.Tensor | None], max_norm: float) "
              "-> tuple[list[equigrad._core.Tensor], float]"));
  m.def(
      "gradient_norm",
      [](nb::handle gradients) { return optim::gradient_norm(tensors_from(gradients, "gradient_norm: gradients")); },
      "gradients"_a, "sqrt(sum of squares of all elements).",
      nb::sig("def gradient_norm(gradients: collections.abc.Sequence[equigrad._core.Tensor | None]) -> float"));
}

/// Throws ValueError for numbers that give no sensible rates, with the argument's name.
void check_schedule(const Schedule& s, bool knows_total) {
  const auto need = [](bool holds, const char* name, const auto& value, const char* wanted) {
    if (!holds) throw ValueError(fmt::format("Schedule: {} is {}; {}", name, value, wanted));
  };
  using Kind = Schedule::Kind;
  const auto kind = optim::name_of(s.kind);
  need(s.base >= 0.0 && std::isfinite(s.base), "base", s.base, "give a learning rate from 0 on");
  need(s.warmup >= 0, "warmup", s.warmup, "give a number of steps from 0 on");
  need(s.final_fraction >= 0.0 && s.final_fraction <= 1.0, "final_fraction", s.final_fraction,
       "give a share from 0 to 1");
  need(s.drop_every >= 0, "drop_every", s.drop_every, "give the steps between drops");
  need(s.drop_factor >= 0.0 && s.drop_factor <= 1.0, "drop_factor", s.drop_factor, "give a factor from 0 to 1");
  need(s.total_steps > 0, "total_steps", s.total_steps, "give the number of steps of the run");
  if (!knows_total && s.kind == Kind::step && s.drop_every == 0)
    throw ValueError("Schedule: a step schedule needs drop_every, the steps between drops, or total_steps: it drops "
                     "after each third of them then");
  if (!knows_total && optim::has_final_fraction(s.kind))
    throw ValueError(
        fmt::format("Schedule: a {} schedule needs total_steps, the number of steps of the whole run", kind));
  if (knows_total && s.warmup > s.total_steps)
    throw ValueError(fmt::format("Schedule: warmup is {}, and total_steps {}: the rate would never reach base",
                                 s.warmup, s.total_steps));
}

/// As it is written in a program, without what is not given.
std::string words_of(const Schedule& s) {
  std::string words = fmt::format("Schedule('{}', base={}", optim::name_of(s.kind), s.base);
  const Schedule defaults;
  const auto add = [&](const char* name, const auto& value, const auto& other) {
    if (value != other) words += fmt::format(", {}={}", name, value);
  };
  add("warmup", s.warmup, defaults.warmup);
  add("total_steps", s.total_steps, defaults.total_steps);
  add("final_fraction", s.final_fraction, defaults.final_fraction);
  add("drop_every", s.drop_every, defaults.drop_every);
  add("drop_factor", s.drop_factor, defaults.drop_factor);
  return words + ")";
}

void bind_schedule(nb::module_& m) {
  nb::class_<Schedule>(
      m, "Schedule",
      "A learning rate as a function of the step: linear warm-up, then constant, linear, cosine or step "
      "(drops); or one-cycle, which rises by itself.")
      .def(
          "__init__",
          [](Schedule* self, const std::string& kind, double base, std::int64_t warmup,
             std::optional<std::int64_t> total_steps, double final_fraction, std::int64_t drop_every,
             double drop_factor) {
            const Schedule schedule{.kind = optim::schedule_named(kind),
                                    .base = base,
                                    .warmup = warmup,
                                    .total_steps = total_steps.value_or(1),
                                    .final_fraction = final_fraction,
                                    .drop_every = drop_every,
                                    .drop_factor = drop_factor};
            check_schedule(schedule, total_steps.has_value());
            new (self) Schedule(schedule);
          },
          "kind"_a = "constant", "base"_a = 1e-3, "warmup"_a = 0, "total_steps"_a = nb::none(),
          "final_fraction"_a = 0.0, "drop_every"_a = 0, "drop_factor"_a = 0.1)
      .def_prop_ro("kind", [](const Schedule& self) { return optim::name_of(self.kind); })
      .def_ro("base", &Schedule::base)
      .def_ro("warmup", &Schedule::warmup)
      .def_ro("total_steps", &Schedule::total_steps)
      .def(
          "__reduce__",
          [](nb::handle self) {
            const auto& s = nb::cast<const Schedule&>(self);
            return nb::make_tuple(self.type(),
                                  nb::make_tuple(std::string(optim::name_of(s.kind)), s.base, s.warmup,
                                                 s.warmup > s.total_steps ? nb::none() : nb::cast(s.total_steps),
                                                 s.final_fraction, s.drop_every, s.drop_factor));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def_ro("final_fraction", &Schedule::final_fraction)
      .def_ro("drop_every", &Schedule::drop_every)
      .def_ro("drop_factor", &Schedule::drop_factor)
      .def("__repr__", &words_of)
      .def("at", &Schedule::at, "step"_a, "Learning rate at step 0, 1, ...")
      .def("__call__", &Schedule::at, "step"_a, "Learning rate at step 0, 1, ...");
}

} // namespace

void bind_optim(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("optim", "Optimisers, schedules, clipping.");
  bind_optimizer(m);
  bind_rules(m);
  bind_gradients(m);
  bind_schedule(m);
}

} // namespace eg::python
