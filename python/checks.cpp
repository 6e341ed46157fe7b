// The public checkers, and the rows' own samples, for tests of ops and of functions of one's own.

#include "autograd/check.h"
#include "core/call.h"
#include "core/registry.h"

#include "bindings.h"
#include "functions.h"

#include <fmt/format.h>
#include <nanobind/stl/tuple.h>

namespace eg::python {
namespace {

/// ("in", 0, -1): axis -1 of input 0.
Leg leg_from(nb::handle leg) {
  std::tuple<std::string, int, int> parts;
  if (!nb::try_cast(leg, parts)) refuse_type("symmetry: a leg", "('in' or 'out', which one, axis)", leg);
  const auto& [side, index, axis] = parts;
  if (side != "in" && side != "out")
    throw ValueError(fmt::format("symmetry: a leg is of 'in' or 'out', not '{}'", side));
  return side == "in" ? in_leg(index, axis) : out_leg(index, axis);
}

nb::list legs_of(const Symmetry& symmetry) {
  nb::list legs;
  for (const Leg& leg : symmetry.legs)
    legs.append(nb::make_tuple(leg.side == Leg::Side::in ? "in" : "out", leg.index, leg.axis));
  return legs;
}

void bind_results(nb::module_& m) {
  nb::class_<CheckResult>(m, "CheckResult", "What a check found; true when it passed.")
      .def_ro("passed", &CheckResult::pass)
      .def_ro("error", &CheckResult::error, "Relative.")
      .def_ro("tolerance", &CheckResult::tolerance)
      .def_ro("detail", &CheckResult::detail, "Both numbers and the worst place.")
      .def("__bool__", [](const CheckResult& result) { return result.pass; })
      .def("__repr__", [](const CheckResult& result) {
        return fmt::format("<{}: {}>", result.pass ? "passed" : "FAILED", result.detail);
      });
  nb::class_<Symmetry>(
      m, "Symmetry",
      "The same permutation on every leg's axis maps inputs to inputs and outputs to outputs. A leg is "
      "('in' or 'out', which one, axis); `values`: inputs that hold indices along the axis.")
      .def(
          "__init__",
          [](Symmetry* self, const std::string& name, const nb::list& legs, const std::vector<int>& values) {
            std::vector<Leg> all;
            for (const nb::handle leg : legs) all.push_back(leg_from(leg));
            new (self) Symmetry{name, all, values};
          },
          "name"_a, "legs"_a, "values"_a = std::vector<int>{},
          nb::sig("def __init__(self, name: str, legs: list[tuple[str, int, int]], values: "
                  "collections.abc.Sequence[int] = ()) -> None"))
      .def_ro("name", &Symmetry::name)
      .def_prop_ro("legs", &legs_of, nb::sig("def legs(self) -> list[tuple[str, int, int]]"))
      .def_ro("values", &Symmetry::values)
      .def("__repr__", [](const Symmetry& s) { return fmt::format("<symmetry {}: {} legs>", s.name, s.legs.size()); });
}

void bind_checkers(nb::module_& m) {
  m.def("_gradcheck", [](nb::handle f, const nb::list& inputs, double step, double tolerance, int directions,
                         bool second, std::optional<RandomKey> key) {
    GradcheckOptions options{.step = step, .tolerance = tolerance, .directions = directions, .second = second};
    if (key) options.key = *key;
    const TensorFunction function = function_of(f);
    return released_call(inputs, [&](const Tensors& x) { return gradcheck(function, x, options); });
  });
  m.def("_symmetry_check", [](nb::handle f, const nb::list& inputs, const Symmetry& symmetry, double tolerance,
                              int draws, bool backward, bool bits, std::optional<RandomKey> key) {
    SymmetryCheckOptions options{.tolerance = tolerance, .draws = draws, .backward = backward, .bits = bits};
    if (key) options.key = *key;
    const TensorFunction function = function_of(f);
    return released_call(inputs, [&](const Tensors& x) { return symmetry_check(function, x, symmetry, options); });
  });
}

nb::dict dict_of(const Attrs& attrs) {
  nb::dict dict;
  for (const auto& [name, value] : attrs.items()) dict[name.c_str()] = to_python(value);
  return dict;
}

Attrs attributes_from(const OpDef& op, const nb::dict& dict) {
  Attrs attrs;
  for (const AttrSpec& spec : op.attributes)
    if (const nb::str name(spec.name.data(), spec.name.size()); dict.contains(name))
      if (auto value = attribute_from(dict[name], spec.kind)) attrs.set(spec.name, std::move(*value));
  return attrs;
}

/// Samples and refusals: (inputs, attributes, words).
template <class Calls> nb::list calls_of(const Calls& calls) {
  nb::list list;
  for (const auto& call : calls) {
    if constexpr (requires { call.note; })
      list.append(nb::make_tuple(to_python(call.in), dict_of(call.attrs), call.note));
    else
      list.append(nb::make_tuple(to_python(call.in), dict_of(call.attrs), call.words));
  }
  return list;
}

void bind_rows(nb::module_& m) {
  nb::module_ t = m.def_submodule("testing", "What the rows of the registry know of themselves.");
  t.def("samples", [](const std::string& op, nb::handle dtype) {
    const PauseRecording pause; // they are constants
    return calls_of(find_op(op).samples(dtype_from(dtype).value_or(DType::f64)));
  });
  t.def("refusals", [](const std::string& op) {
    const PauseRecording pause;
    return calls_of(find_op(op).refuses());
  });
  t.def("symmetries", [](const std::string& op, const nb::list& inputs, const nb::dict& attributes) {
    const OpDef& row = find_op(op);
    if (row.symmetries == nullptr) return std::vector<Symmetry>{};
    const Sample sample{tensors_from(inputs, "inputs"), completed_attributes(row, attributes_from(row, attributes)),
                        ""};
    return row.symmetries(sample);
  });
  t.def("reference", [](const std::string& op, const nb::list& inputs, const nb::dict& attributes) {
    const OpDef& row = find_op(op);
    const Tensors in = tensors_from(inputs, "inputs");
    const Attrs attrs = completed_attributes(row, attributes_from(row, attributes));
    return to_python(row.reference({row, in, attrs}));
  });
}

} // namespace

void bind_checks(nb::module_& m) {
  bind_results(m);
  bind_checkers(m);
  bind_rows(m);
}

} // namespace eg::python
