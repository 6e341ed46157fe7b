// Every row of the registry through one entry: what an op takes and how it is described comes from its row.

#include "core/base/words.h"
#include "core/call.h"
#include "core/device/device.h"
#include "core/element.h"
#include "core/measure/op_reference.h"
#include "core/ops/row_tools.h"
#include "core/registry.h"
#include "core/strided.h"

#include "bindings.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace eg::python {
namespace {

const char* python_type(AttrKind kind) {
  switch (kind) {
  case AttrKind::boolean:
    return "bool";
  case AttrKind::integer:
    return "int";
  case AttrKind::real:
    return "float";
  case AttrKind::integers:
    return "Sequence[int]";
  case AttrKind::reals:
    return "Sequence[float]";
  case AttrKind::text:
    return "str";
  }
  return "";
}

nb::object default_of(const AttrSpec& spec) {
  switch (spec.kind) {
  case AttrKind::boolean:
    return nb::bool_(spec.number != 0.0);
  case AttrKind::integer:
    return nb::int_(static_cast<std::int64_t>(spec.number));
  case AttrKind::real:
    return nb::float_(spec.number);
  case AttrKind::integers:
  case AttrKind::reals:
    return nb::tuple();
  case AttrKind::text:
    return nb::str(spec.text.data(), spec.text.size());
  }
  return nb::none();
}

[[noreturn]] void refuse(const std::string& words) { throw nb::type_error(words.c_str()); }

std::string type_word(nb::handle value) { return nb::type_name(value.type()).c_str(); }

/// [0, 2] or [[0], [2]]: positions, as an index takes them.
bool is_list_of_integers(nb::handle value) {
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) return false;
  for (const nb::handle item : value)
    if ((PyLong_Check(item.ptr()) == 0 || PyBool_Check(item.ptr())) && !is_list_of_integers(item)) return false;
  return nb::len(value) > 0;
}

/// An input that shares its element type with others, as those of where and add do; others hold positions or masks.
bool is_operand(const InputSpec& input) { return input.name == "a" || input.name == "b"; }

/// True or False, as Python's or NumPy's.
bool is_truth(nb::handle value) { return attribute_from(value, AttrKind::boolean).has_value(); }

/// np.int64(3), np.float32(1), np.bool_(True): numbers, though they have a type and a buffer.
bool is_number_of_numpy(nb::handle value) {
  if (nb::isinstance<Tensor>(value)) return false;
  const nb::module_ numpy = nb::module_::import_("numpy");
  return nb::isinstance(value, nb::make_tuple(numpy.attr("integer"), numpy.attr("floating"), numpy.attr("bool_")));
}

/// Whether NumPy, PyTorch or JAX call an attribute `name` that a row calls `own`.
bool is_other_name(std::string_view own, std::string_view name) {
  constexpr std::array<std::array<std::string_view, 4>, 5> alike = {{{"axes", "axis", "dim", "dims"},
                                                                     {"keepdim", "keepdims", "", ""},
                                                                     {"correction", "ddof", "", ""},
                                                                     {"p", "ord", "", ""},
                                                                     {"eps", "epsilon", "", ""}}};
  return std::ranges::any_of(alike, [&](const auto& names) {
    return std::ranges::find(names, own) != names.end() && std::ranges::find(names, name) != names.end();
  });
}

/// The arguments of one Python call, as a row's inputs and attributes. Inputs come first, then attributes, in the row's
/// order; each can also be given by name.
class Arguments {
public:
  explicit Arguments(const OpDef& op) : op_(op), in_(op.variadic ? 0 : op.inputs.size()), given_(slots()) {}

  void add_positional(const nb::args& args) {
    if (args.size() > slots())
      refuse(fmt::format("{}: {} arguments were given, it takes at most {}", op_.name, args.size(), slots()));
    for (std::size_t i = 0; i < args.size(); ++i) set(i, args[i]);
  }
  void add_named(const nb::kwargs& kwargs) {
    for (const auto [key, value] : kwargs) {
      const auto name = nb::cast<std::string>(key);
      // np.sum(x) calls x.sum(axis=None, dtype=None, out=None).
      if (value.is_none() && (name == "out" || name == "dtype") && !has_slot(name)) continue;
      const std::size_t slot = slot_of(name);
      if (given_[slot]) refuse(fmt::format("{}: '{}' was given twice", op_.name, name));
      set(slot, value);
    }
  }
  std::vector<Tensor> call() {
    for (std::size_t i = 0; i < slots(); ++i)
      if (!given_[i] && needed(i)) refuse(fmt::format("{}: '{}' must be given", op_.name, name_of_slot(i)));
    fill_numbers();
    return released([&] { return eg::call(op_, in_, std::move(attrs_)); });
  }

private:
  std::size_t inputs() const { return op_.inputs.size(); }
  std::size_t slots() const { return inputs() + op_.attributes.size(); }
  std::string_view name_of_slot(std::size_t i) const {
    return i < inputs() ? op_.inputs[i].name : op_.attributes[i - inputs()].name;
  }
  bool needed(std::size_t i) const {
    return i < inputs() ? !op_.inputs[i].optional : op_.attributes[i - inputs()].required;
  }

  bool has_slot(const std::string& name) const {
    for (std::size_t i = 0; i < slots(); ++i)
      if (name_of_slot(i) == name) return true;
    return false;
  }

  std::size_t slot_of(const std::string& name) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < slots(); ++i) {
      if (name_of_slot(i) == name) return i;
      names.emplace_back(name_of_slot(i));
    }
    for (std::size_t i = inputs(); i < slots(); ++i)
      if (is_other_name(name_of_slot(i), name)) return i;
    std::string hint = did_you_mean(name, names);
    if (hint.empty()) hint = fmt::format("; it takes {}", fmt::join(names, ", "));
    const nb::object words = nb::module_::import_("equigrad._names").attr("ARGUMENT_WORDS").attr("get")(name);
    if (!words.is_none()) hint = fmt::format("; {}", nb::str(words).c_str());
    refuse(fmt::format("{}: there is no attribute '{}'{}", op_.name, name, hint));
  }

  void set(std::size_t slot, nb::handle value) {
    // axis=None is NumPy's word for all axes, which leaving them out means here; of a single axis it would not be that.
    if (slot >= inputs() && value.is_none() && !needed(slot) && name_of_slot(slot) != "axis") return;
    given_[slot] = true;
    if (slot >= inputs())
      set_attribute(op_.attributes[slot - inputs()], value);
    else if (op_.variadic)
      in_ = tensors_from(value, fmt::format("{}: '{}'", op_.name, name_of_slot(slot)).c_str());
    else
      set_input(slot, value);
  }

  void set_attribute(const AttrSpec& spec, nb::handle value) {
    std::optional<AttrValue> converted;
    try {
      const bool seed = spec.name == "seed" || spec.name == "stream"; // as **key gives them
      converted = seed                          ? seed_from(value)
                  : spec.kind == AttrKind::real ? real_attribute_from(value)
                                                : attribute_from(value, spec.kind);
    } catch (const ValueError& error) {
      throw ValueError(fmt::format("{}: attribute '{}': {}", op_.name, spec.name, error.what()));
    }
    if (!converted)
      refuse(fmt::format("{}: attribute '{}' must be {}, not {}{}", op_.name, spec.name, described(spec.kind),
                         type_word(value), nb::isinstance<Tensor>(value) ? tensors_first() : ""));
    attrs_.set(spec.name, std::move(*converted));
  }

  /// "; tensors come first: gather(x, index, axis)".
  std::string tensors_first() const {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < slots(); ++i) names.push_back(name_of_slot(i));
    return fmt::format("; tensors come first: {}({})", op_.name, fmt::join(names, ", "));
  }

  void set_input(std::size_t slot, nb::handle value) {
    if (const Tensor* tensor = as_tensor(value)) { // nearly every call: no words are made
      in_[slot] = *tensor;
      return;
    }
    const bool number = !PyBool_Check(value.ptr()) && (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()));
    if (number || (is_operand(op_.inputs[slot]) && (PyBool_Check(value.ptr()) || is_number_of_numpy(value))))
      numbers_.emplace_back(slot, nb::borrow(value));
    else if (is_list_of_integers(value))
      in_[slot] = import_array(value, DType::i64, std::nullopt);
    else if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value))
      refuse_type(input_words(slot), "a Tensor, an array or a list of integers", value);
    else
      in_[slot] = tensor_from(value, input_words(slot).c_str());
  }

  std::string input_words(std::size_t slot) const {
    return fmt::format("{}: input '{}'", op_.name, name_of_slot(slot));
  }

  void fill_numbers() {
    if (std::none_of(in_.begin(), in_.end(), [](const Tensor& x) { return x.defined(); })) keep_types_of_numpy();
    if (numbers_.empty()) return;
    const DType dtype = mixed_type(type_of_numbers());
    const auto first = std::find_if(in_.begin(), in_.end(), [](const Tensor& x) { return x.defined(); });
    const DeviceScope there(first != in_.end() ? first->device() : current_device());
    for (const auto& [slot, number] : numbers_) in_[slot] = element(slot, number, dtype);
  }

  /// Where there is no tensor, NumPy's numbers are tensors of the type that they have.
  void keep_types_of_numpy() {
    std::erase_if(numbers_, [&](const auto& given) {
      const auto& [slot, number] = given;
      if (PyFloat_Check(number.ptr()) || !is_number_of_numpy(number)) return false;
      in_[slot] = tensor_from(number, input_words(slot).c_str());
      return true;
    });
  }

  /// Beside whole numbers, where a row takes both, integers are i64 and a float makes all of them f32.
  DType mixed_type(DType dtype) const {
    if (!mixes_types(op_) || !is_whole(dtype)) return dtype;
    const auto is_float = [](const auto& given) { return PyIndex_Check(given.second.ptr()) == 0; };
    return std::any_of(numbers_.begin(), numbers_.end(), is_float) ? DType::f32 : DType::i64;
  }

  /// A number in the place of a tensor has the element type of the first tensor that is not a condition. Beside a
  /// condition alone, numbers have the type that tensor() gives them.
  DType type_of_numbers() const {
    bool condition = false;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (!in_[i].defined()) continue;
      if (op_.inputs[i].name != "cond") return in_[i].dtype();
      condition = true;
    }
    if (!condition) refuse(input_words(numbers_[0].first) + " must be a Tensor or an array: there are only numbers");
    const auto all = [&](auto is) {
      return std::all_of(numbers_.begin(), numbers_.end(), [&](const auto& given) { return is(given.second); });
    };
    if (all(is_truth)) return DType::boolean;
    return all([](nb::handle value) { return is_truth(value) || PyIndex_Check(value.ptr()) != 0; }) ? DType::i64
                                                                                                    : DType::f32;
  }

  Tensor element(std::size_t slot, nb::handle number, DType dtype) const {
    if (const auto truth = attribute_from(number, AttrKind::boolean)) {
      if (dtype != DType::boolean)
        refuse(input_words(slot) + " must be a number, not bool: the other value is no bool");
      return Tensor::full({}, std::get<bool>(*truth) ? 1.0 : 0.0, dtype);
    }
    try {
      if (auto whole = whole_element(number, dtype)) return *whole;
    } catch (const ValueError& error) {
      throw ValueError(fmt::format("{}: {}", op_.name, error.what()));
    }
    const auto value = attribute_from(number, AttrKind::real);
    if (!value) throw ValueError(fmt::format("{}: {} is too large", op_.name, nb::str(number).c_str()));
    visit_dtype(dtype, [&]<class T>() { element_of<T>(op_.name, std::get<double>(*value)); });
    return Tensor::full({}, std::get<double>(*value), dtype);
  }

  const OpDef& op_;
  std::vector<Tensor> in_;
  Attrs attrs_;
  std::vector<bool> given_;
  std::vector<std::pair<std::size_t, nb::object>> numbers_;
};

nb::object call_op(const OpDef& op, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments arguments(op);
  arguments.add_positional(args);
  arguments.add_named(kwargs);
  const std::vector<Tensor> out = arguments.call();
  if (!op.variadic_outputs && op.outputs.size() == 1) return to_python(out.front());
  return to_python(out);
}

nb::list inputs_of(const OpDef& op) {
  nb::list list;
  for (const InputSpec& spec : op.inputs) list.append(nb::make_tuple(spec.name, spec.optional));
  return list;
}

nb::list outputs_of(const OpDef& op) {
  nb::list list;
  for (const std::string_view name : op.outputs) list.append(name);
  return list;
}

nb::list attributes_of(const OpDef& op) {
  nb::list list;
  for (const AttrSpec& spec : op.attributes)
    list.append(nb::make_tuple(spec.name, python_type(spec.kind), spec.required, default_of(spec), spec.doc));
  return list;
}

} // namespace

void bind_ops(nb::module_& m) {
  nb::class_<OpDef>(m, "Op", "A row of the registry. Calling it calls the operation and gives all its outputs.")
      .def("__call__", &call_op, nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"))
      .def_ro("name", &OpDef::name)
      .def_ro("math", &OpDef::math, "One line of mathematics.")
      .def_prop_ro("inputs", &inputs_of, "(name, optional) of each input.",
                   nb::sig("def inputs(self) -> list[tuple[str, bool]]"))
      .def_prop_ro("outputs", &outputs_of, nb::sig("def outputs(self) -> list[str]"))
      .def_ro("auxiliary", &OpDef::auxiliary, "The last so many outputs serve the gradient; functions leave them out.")
      .def_prop_ro("attributes", &attributes_of, "(name, type, required, default, doc) of each attribute.",
                   nb::sig("def attributes(self) -> list[tuple[str, str, bool, typing.Any, str]]"))
      .def_ro("variadic", &OpDef::variadic, "The one input is a sequence of tensors.")
      .def_ro("variadic_outputs", &OpDef::variadic_outputs, "The number of outputs follows from the call.")
      .def_prop_ro("has_gradient", [](const OpDef& op) { return has_gradient(op); })
      .def_prop_ro(
          "reference", [](const OpDef& op) { return op_reference_markdown(op); },
          "Inputs, attributes, shapes, gradient, symmetries and cost, as docs/ops/reference has them.")
      .def("__repr__", [](const OpDef& op) { return fmt::format("<op {}: {}>", op.name, op.math); });
  m.def(
      "op_names",
      [] {
        std::vector<std::string_view> names;
        for (const OpDef* op : registry()) names.push_back(op->name);
        return names;
      },
      "Names of all rows.");
  m.def(
      "did_you_mean",
      [](const std::string& word, const std::vector<std::string>& known) { return did_you_mean(word, known); },
      "word"_a, "known"_a,
      "\"; did you mean 'softmax'?\" for the known name that is nearest; empty where none is near.");
  m.def(
      "find_op", [](const std::string& name) { return &find_op(name); }, "name"_a, nb::rv_policy::reference,
      "The row of that name.");
}

} // namespace eg::python
