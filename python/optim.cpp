// Optimisers, schedules, clipping.

#include "optim/optimizer.h"
#include "optim/schedule.h"

#include "bindings.h"

#include <fmt/format.h>
#include <nanobind/stl/unique_ptr.h>

namespace eg::python {
namespace {

using optim::Optimizer;
using optim::Schedule;

void bind_optimizer(nb::module_& m) {
  nb::class_<Optimizer>(m, "Optimizer", "One update rule over a list of parameters, which it writes in place.")
      // Not stopped half-way: a signal waits for the step to end.
      .def(
          "step",
          [](Optimizer& self, nb::handle gradients, double learning_rate) {
            const Tensors g = tensors_from(gradients, "step: gradients");
            const nb::gil_scoped_release unlocked;
            self.step(g, learning_rate);
          },
          "gradients"_a, "learning_rate"_a,
          "Updates every parameter from its gradient, in the same order; None skips one.",
          nb::sig("def step(self, gradients: collections.abc.Sequence[equigrad._core.Tensor | None], learning_rate: "
                  "float) -> None"))
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
            throw nb::type_error("an optimizer cannot be copied or pickled; save state(i) of every parameter");
          },
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Any"))
      .def("__repr__", [](const Optimizer& self) {
        return fmt::format("<{}: {} parameters, {} steps>", self.name(), self.parameters().size(), self.steps());
      });
}

void bind_rules(nb::module_& m) {
  m.def(
      "SGD",
      [](Tensors parameters, double momentum, bool nesterov, double weight_decay) {
        return optim::sgd(std::move(parameters),
                          {.momentum = momentum, .nesterov = nesterov, .weight_decay = weight_decay});
      },
      "parameters"_a, "momentum"_a = 0.0, "nesterov"_a = false, "weight_decay"_a = 0.0,
      "v = momentum v + g; w -= lr (nesterov ? g + momentum v : v).");
  const optim::AdamOptions defaults;
  m.def(
      "Adam",
      [](Tensors parameters, double beta1, double beta2, double eps, double weight_decay) {
        return optim::adam(std::move(parameters),
                           {.beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = weight_decay});
      },
      "parameters"_a, "beta1"_a = defaults.beta1, "beta2"_a = defaults.beta2, "eps"_a = defaults.eps,
      "weight_decay"_a = defaults.weight_decay, "Kingma and Ba, ICLR 2015; weight decay is added to the gradient.");
  m.def(
      "AdamW",
      [](Tensors parameters, double beta1, double beta2, double eps, double weight_decay) {
        return optim::adamw(std::move(parameters),
                            {.beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = weight_decay});
      },
      "parameters"_a, "beta1"_a = defaults.beta1, "beta2"_a = defaults.beta2, "eps"_a = defaults.eps,
      "weight_decay"_a = defaults.weight_decay, "The same after w *= 1 - lr weight_decay. ICLR 2019.");
  const optim::RmsPropOptions rms;
  m.def(
      "RMSprop",
      [](Tensors parameters, double alpha, double eps, double momentum, double weight_decay) {
        return optim::rmsprop(std::move(parameters),
                              {.alpha = alpha, .eps = eps, .momentum = momentum, .weight_decay = weight_decay});
      },
      "parameters"_a, "alpha"_a = rms.alpha, "eps"_a = rms.eps, "momentum"_a = rms.momentum,
      "weight_decay"_a = rms.weight_decay, "Tieleman and Hinton, 2012; weight decay is added to the gradient.");
  const optim::LionOptions signs;
  m.def(
      "Lion",
      [](Tensors parameters, double beta1, double beta2, double weight_decay) {
        return optim::lion(std::move(parameters), {.beta1 = beta1, .beta2 = beta2, .weight_decay = weight_decay});
      },
      "parameters"_a, "beta1"_a = signs.beta1, "beta2"_a = signs.beta2, "weight_decay"_a = signs.weight_decay,
      "w = (1 - lr weight_decay) w - lr sign(b1 m + (1-b1) g). Chen et al., 2023.");
  const optim::AdafactorOptions factored;
  m.def(
      "Adafactor",
      [](Tensors parameters, double clip, bool scale_parameter, double weight_decay) {
        return optim::adafactor(std::move(parameters),
                                {.clip = clip, .scale_parameter = scale_parameter, .weight_decay = weight_decay});
      },
      "parameters"_a, "clip"_a = factored.clip, "scale_parameter"_a = factored.scale_parameter,
      "weight_decay"_a = factored.weight_decay, "Moments of rows and columns alone. Shazeer and Stern, 2018.");
  const optim::MuonOptions orthogonal;
  m.def(
      "Muon",
      [](Tensors parameters, double momentum, bool nesterov, double weight_decay, double eps) {
        return optim::muon(std::move(parameters),
                           {.momentum = momentum, .nesterov = nesterov, .weight_decay = weight_decay, .eps = eps});
      },
      "parameters"_a, "momentum"_a = orthogonal.momentum, "nesterov"_a = orthogonal.nesterov,
      "weight_decay"_a = orthogonal.weight_decay, "eps"_a = orthogonal.eps,
      "Momentum of matrices made orthogonal, AdamW for the rest. Jordan et al., 2024.");
  m.def("make_optimizer", &optim::make_optimizer, "name"_a, "parameters"_a, "weight_decay"_a = 0.0, "eps"_a = 1e-8,
        "By name: sgd, momentum, nesterov, adam, adamw, rmsprop, lion, adafactor, muon.");
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

void bind_schedule(nb::module_& m) {
  nb::class_<Schedule>(
      m, "Schedule",
      "A learning rate as a function of the step: linear warm-up, then constant, linear, cosine or step "
      "(drops); or one-cycle, which rises by itself.")
      .def(
          "__init__",
          [](Schedule* self, const std::string& kind, double base, std::int64_t warmup, std::int64_t total_steps,
             double final_fraction, std::int64_t drop_every, double drop_factor) {
            new (self) Schedule{.kind = optim::schedule_named(kind),
                                .base = base,
                                .warmup = warmup,
                                .total_steps = total_steps,
                                .final_fraction = final_fraction,
                                .drop_every = drop_every,
                                .drop_factor = drop_factor};
          },
          "kind"_a = "constant", "base"_a = 1e-3, "warmup"_a = 0, "total_steps"_a = 1, "final_fraction"_a = 0.0,
          "drop_every"_a = 0, "drop_factor"_a = 0.1)
      .def_prop_ro("kind", [](const Schedule& self) { return optim::name_of(self.kind); })
      .def_ro("base", &Schedule::base)
      .def_ro("warmup", &Schedule::warmup)
      .def_ro("total_steps", &Schedule::total_steps)
      .def(
          "__reduce__",
          [](nb::handle self) {
            const auto& s = nb::cast<const Schedule&>(self);
            return nb::make_tuple(self.type(),
                                  nb::make_tuple(std::string(optim::name_of(s.kind)), s.base, s.warmup, s.total_steps,
                                                 s.final_fraction, s.drop_every, s.drop_factor));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def_ro("final_fraction", &Schedule::final_fraction)
      .def_ro("drop_every", &Schedule::drop_every)
      .def_ro("drop_factor", &Schedule::drop_factor)
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
