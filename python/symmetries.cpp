// The symmetries of models and functions; equigrad/permute.py gives them their public form.

#include "permute/symmetries.h"
#include "core/meta.h"
#include "permute/automorphisms.h"
#include "permute/hub_symmetries.h"
#include "permute/key.h"
#include "permute/model_key.h"

#include "modules.h"

#include <fmt/format.h>

namespace eg::python {
namespace {

using permute::AxisUse;
using permute::Certificate;
using permute::GroupKind;
using permute::ModelSymmetries;
using permute::NamedFunction;
using permute::PermutationGroup;
using permute::SymmetryElement;
using permute::SymmetryGroup;

/// f(list of the inputs) -> list of (name, tensor), with the module's parameters replaced; the interpreter's lock is
/// taken for the call.
NamedFunction function_of(nb::handle f, const nn::Module* module, std::size_t parameters) {
  return [function = Held(f), module, parameters](const nn::StateDict& leaves) {
    Tensors values;
    values.reserve(leaves.size());
    for (const auto& [name, x] : leaves) values.push_back(x);
    std::optional<nn::ParameterScope> scope;
    if (module != nullptr) scope.emplace(*module, std::span(values).first(parameters));
    const std::size_t own = module != nullptr ? parameters : 0;
    const nb::gil_scoped_acquire locked;
    const nb::object result = nb::object(nb::borrow(function.get()))(
        to_python({values.begin() + static_cast<std::ptrdiff_t>(own), values.end()}));
    nn::StateDict outputs;
    for (const nb::handle pair : result)
      outputs.emplace_back(nb::cast<std::string>(pair[0]), tensor_from(pair[1], "symmetries: an output"));
    return outputs;
  };
}

/// A module in f64 while it lives.
class InDoubles {
public:
  explicit InDoubles(nn::Module* module) : module_(module) {
    if (module_ == nullptr) return;
    before_ = module_->contents();
    module_->to(DType::f64);
  }
  ~InDoubles() {
    if (module_ != nullptr) module_->adopt(before_);
  }
  InDoubles(const InDoubles&) = delete;
  InDoubles& operator=(const InDoubles&) = delete;

private:
  nn::Module* module_;
  nn::Module::Contents before_;
};

nn::StateDict on_shapes(nn::StateDict list) {
  for (auto& [name, x] : list) x = Tensor::meta(x.shape(), x.dtype());
  return list;
}

/// Parameters of the module, or those that were given.
nn::StateDict parameters_of(const nn::Module* module, const nb::dict& given) {
  if (module == nullptr) return named_tensors_from(given, "symmetries: parameters");
  nn::StateDict list;
  for (const nn::Parameter& p : module->named_parameters()) list.emplace_back(p.name, p.value);
  return list;
}

ModelSymmetries symmetries_of(nb::handle f, const nn::Module* module, const nb::dict& parameters,
                              const nb::dict& inputs, bool values,
                              const std::vector<std::pair<std::string, int>>& data_axes) {
  permute::SymmetryQuery query;
  query.parameters = parameters_of(module, parameters);
  query.inputs = named_tensors_from(inputs, "symmetries: inputs");
  query.data_axes = data_axes;
  const NamedFunction function = function_of(f, module, query.parameters.size());
  return released([&] {
    const MetaCallScope shapes_alone;
    if (!values) {
      query.parameters = on_shapes(query.parameters);
      query.inputs = on_shapes(query.inputs);
    }
    nn::StateDict leaves = query.parameters;
    leaves.insert(leaves.end(), query.inputs.begin(), query.inputs.end());
    query.run = [&] { return function(leaves); };
    return ModelSymmetries(query);
  });
}

Certificate certificate_of(const ModelSymmetries& symmetries, nb::handle f, nn::Module* module,
                           const nb::dict& parameters, const nb::dict& inputs, bool draw, double tolerance,
                           RandomKey key) {
  const nn::StateDict own = parameters_of(module, parameters);
  nn::StateDict leaves = own;
  for (auto& input : named_tensors_from(inputs, "certify: inputs")) leaves.push_back(std::move(input));
  const NamedFunction function = function_of(f, module, own.size());
  bool gives_indices = false;
  const NamedFunction watched = [&](const nn::StateDict& values) {
    nn::StateDict outputs = function(values);
    for (const auto& [name, y] : outputs) gives_indices = gives_indices || !is_floating(y.dtype());
    return outputs;
  };
  const auto certified = [&](RandomKey own_key) {
    nn::StateDict values = leaves;
    std::uint64_t number = 0;
    for (auto& [name, x] : values) {
      ++number;
      if (!is_floating(x.dtype())) continue;
      x = draw ? random_normal(x.shape(), own_key.fold(number), 0.0, 0.5, DType::f64) : x.to(DType::f64);
    }
    return symmetries.certify(watched, values, {.tolerance = tolerance, .key = own_key});
  };
  return released([&] {
    constexpr std::uint64_t draws = 16; // indices of equal elements may be right by chance
    const InDoubles doubles(module);
    Certificate certificate = certified(key);
    for (std::uint64_t i = 1; draw && gives_indices && i < draws; ++i) {
      const Certificate other = certified(key.fold(~i));
      certificate.forward_error = std::max(certificate.forward_error, other.forward_error);
      certificate.gradient_error = std::max(certificate.gradient_error, other.gradient_error);
    }
    return certificate;
  });
}

void bind_groups(nb::module_& m) {
  nb::class_<AxisUse>(m, "AxisUse", "Where a group acts.")
      .def_ro("tensor", &AxisUse::tensor)
      .def_ro("axis", &AxisUse::axis, "-1: the values of an index tensor are renumbered.")
      .def_ro("places", &AxisUse::places, "Indices along the axis that it moves.")
      .def_ro("whole", &AxisUse::whole, "Those are all.")
      .def("__repr__", [](const AxisUse& use) {
        return use.axis < 0 ? fmt::format("<values of {}>", use.tensor)
                            : fmt::format("<axis {} of {}>", use.axis, use.tensor);
      });
  nb::class_<SymmetryGroup>(m, "SymmetryGroup", "One independent part of a model's group of symmetries.")
      .def_ro("name", &SymmetryGroup::name)
      .def_prop_ro(
          "kind", [](const SymmetryGroup& g) { return std::string(permute::name_of(g.kind)); },
          "'symmetric', 'wreath', 'automorphisms', or 'trivial' where nothing moves.")
      .def_ro("size", &SymmetryGroup::size, "Points that change places.")
      .def_ro("copies", &SymmetryGroup::copies, "Independent permutations of that many points.")
      .def_ro("over", &SymmetryGroup::over, "Groups whose elements move the blocks.")
      .def_ro("log2_count", &SymmetryGroup::log2_count, "log2 of the number of elements.")
      .def_ro("axes", &SymmetryGroup::axes)
      .def_ro("moves_parameters", &SymmetryGroup::moves_parameters)
      .def_ro("moves_outside", &SymmetryGroup::moves_outside, "It moves inputs or outputs.")
      .def_ro("moves_data", &SymmetryGroup::moves_data, "It moves an axis of any extent: batch, tokens.")
      .def_ro("because", &SymmetryGroup::because, "Of a trivial one: the operation that stopped it.")
      .def_prop_ro("is_secret", &SymmetryGroup::is_secret, "It is part of a key.")
      .def("__repr__", [](const SymmetryGroup& g) {
        return g.kind == GroupKind::trivial
                   ? fmt::format("<{}: fixed, {}>", g.name, g.because)
                   : fmt::format("<{}: {}, 2^{:.1f} elements>", g.name, permute::name_of(g.kind), g.log2_count);
      });
  nb::class_<Certificate>(m, "Certificate", "What certify() tried.")
      .def_ro("groups", &Certificate::groups)
      .def_ro("generators", &Certificate::generators)
      .def_ro("forward_error", &Certificate::forward_error, "Largest relative |f(p x) - p f(x)|.")
      .def_ro("gradient_error", &Certificate::gradient_error, "The same of the gradients by every leaf.")
      .def_ro("no_gradient", &Certificate::no_gradient, "Why gradients were not compared; '': they were.")
      .def("__repr__", [](const Certificate& c) {
        return fmt::format("<certificate: {} generators of {} groups, errors {:.1e} forward, {}>", c.generators,
                           c.groups, c.forward_error,
                           c.no_gradient.empty() ? fmt::format("{:.1e} in gradients", c.gradient_error)
                                                 : "gradients not compared: " + c.no_gradient);
      });
}

/// Names and globs separated by commas, or a sequence of names.
std::set<std::string> groups_from(const ModelSymmetries& symmetries, nb::handle groups) {
  if (nb::isinstance<nb::str>(groups)) return permute::choose_groups(symmetries, nb::cast<std::string>(groups));
  std::set<std::string> names;
  for (const nb::handle name : groups) names.insert(text_from(name, "groups: a name"));
  return names;
}

SymmetryElement element_from(const ModelSymmetries& symmetries, nb::handle key, nb::handle groups,
                             const std::string& architecture) {
  if (nb::isinstance<permute::SecretKey>(key)) {
    const auto& secret = nb::cast<const permute::SecretKey&>(key);
    if (!secret.label().empty() && groups.is_none()) return permute::element_of(secret, symmetries, architecture);
    return symmetries.element(groups_from(symmetries, groups.is_none() ? nb::str("all") : groups),
                              secret.source(permute::structure_digest(symmetries)));
  }
  RandomKey number;
  if (!nb::try_cast(key, number)) refuse_type("element: key", "a SecretKey, a Key or an int", key);
  return symmetries.element(groups_from(symmetries, groups.is_none() ? nb::str("all") : groups),
                            permute::public_source(number));
}

void bind_symmetries_class(nb::module_& m) {
  nb::class_<SymmetryElement>(m, "_Element")
      .def("inverse", &SymmetryElement::inverse)
      .def("then", &SymmetryElement::then, "next"_a);
  nb::class_<ModelSymmetries>(m, "_Symmetries")
      .def_prop_ro("groups", &ModelSymmetries::groups)
      .def("log2_count", &ModelSymmetries::log2_count)
      .def("element", &element_from, "key"_a, "groups"_a.none(), "architecture"_a)
      .def(
          "moved",
          [](const ModelSymmetries& s, const SymmetryElement& element, const std::string& name, nb::handle x) {
            return s.moved(element, name, tensor_from(x, "moved: x"));
          },
          "element"_a, "tensor"_a, "x"_a)
      .def(
          "make_key",
          [](const ModelSymmetries& s, nb::handle groups, const std::string& architecture) {
            return permute::make_model_key(s, groups_from(s, groups), architecture);
          },
          "groups"_a, "architecture"_a);
  m.def("_symmetries", &symmetries_of, "f"_a, "module"_a.none(), "parameters"_a, "inputs"_a, "values"_a, "data_axes"_a);
  m.def("_certify", &certificate_of, "symmetries"_a, "f"_a, "module"_a.none(), "parameters"_a, "inputs"_a, "draw"_a,
        "tolerance"_a, "key"_a);
  m.def(
      "_hub_symmetries",
      [](hub::Model& model) {
        return released([&] { return permute::symmetries_of(model, permute::TensorNames::parameters); });
      },
      "model"_a);
  m.def(
      "_hub_certify",
      [](const ModelSymmetries& symmetries, hub::Model& model, double tolerance) {
        return released(
            [&] { return permute::certify(model, symmetries, permute::TensorNames::parameters, tolerance); });
      },
      "symmetries"_a, "model"_a, "tolerance"_a);
}

void bind_automorphisms(nb::module_& m) {
  nb::class_<PermutationGroup>(m, "PermutationGroup", "A group of permutations of 0..degree-1.")
      .def_ro("degree", &PermutationGroup::degree)
      .def_ro("generators", &PermutationGroup::generators, "None: the identity alone.")
      .def_prop_ro("log2_count", &PermutationGroup::log2_count, "log2 of the group's order.")
      .def_prop_ro(
          "order",
          [](const PermutationGroup& group) {
            nb::object order = nb::int_(1);
            for (const std::int64_t factor : group.factors) order = order * nb::int_(factor);
            return order;
          },
          "Number of its elements.", nb::sig("def order(self) -> int"))
      .def("orbits", &PermutationGroup::orbits, "Points that the group carries into each other.")
      .def("random_element", &permute::random_element, "key"_a, "Nearly uniform; not secret.")
      .def("__repr__", [](const PermutationGroup& g) {
        return fmt::format("<group of 2^{:.1f} permutations of {}>", g.log2_count(), g.degree);
      });
  m.def(
      "automorphisms",
      [](nb::handle mask) {
        const Tensor m_ = tensor_from(mask, "automorphisms: mask");
        return released([&] { return permute::automorphisms(m_); });
      },
      "mask"_a,
      "The permutations p with mask[..., p[i], p[j]] = mask[..., i, j] for all i, j. Those that attention under an "
      "additive mask commutes with are automorphisms(softmax_form(mask)).",
      nb::sig("def automorphisms(mask: equigrad._core.Tensor | collections.abc.Buffer) -> PermutationGroup"));
  m.def(
      "softmax_form",
      [](nb::handle mask) {
        const Tensor m_ = tensor_from(mask, "softmax_form: mask");
        return released([&] { return permute::softmax_form(m_); });
      },
      "mask"_a, "What softmax(scores + mask) sees of a mask: each row less its largest entry, without rounding.",
      nb::sig("def softmax_form(mask: equigrad._core.Tensor | collections.abc.Buffer) -> equigrad._core.Tensor"));
}

} // namespace

void bind_symmetries(nb::module_& m) {
  bind_groups(m);
  bind_symmetries_class(m);
  bind_automorphisms(m);
}

} // namespace eg::python
