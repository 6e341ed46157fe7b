// Values across the border: shapes, dtypes, tensors, lists of them, attributes.

#include "core/call.h"
#include "core/device/device.h"

#include "bindings.h"
#include "constants.h"
#include "modules.h"

#include <fmt/format.h>

namespace eg::python {

namespace {

nb::object dtypes_module(const char* member) { return nb::module_::import_("equigrad._dtypes").attr(member); }

} // namespace

std::optional<DType> dtype_from(nb::handle name) {
  if (name.is_none()) return std::nullopt;
  const nb::object known = dtypes_module("name_of")(name);
  if (known.is_none()) throw nb::type_error("dtype: give a name: 'f32', 'f64', 'i64', 'u8', 'bool' or 'bf16'");
  return dtype_named(nb::cast<std::string>(known));
}

std::optional<Device> device_from(nb::handle name) {
  if (name.is_none()) return std::nullopt;
  const bool torch = nb::hasattr(name, "type") && nb::hasattr(name, "index"); // torch.device
  if (!torch && !nb::isinstance<nb::str>(name)) return std::nullopt;
  const std::string words = nb::str(name).c_str();
  if (words != "cpu" && !words.starts_with("cuda")) return std::nullopt;
  return Device::parse(words);
}

Device device_or_current(nb::handle device, const char* who) {
  if (device.is_none()) return current_device();
  if (const std::optional<Device> named = device_from(device)) return *named;
  throw nb::type_error(
      fmt::format("{}: device is 'cpu', 'cuda' or 'cuda:N', not {}", who, nb::repr(device).c_str()).c_str());
}

nb::object name_for_python(Device device) {
  return nb::module_::import_("equigrad._devices").attr("Device")(device.str());
}

nb::object name_for_python(DType dtype) {
  const std::string_view name = name_of(dtype);
  return dtypes_module("NAMES")[nb::str(name.data(), name.size())];
}

Shape shape_from(nb::handle dims) {
  const std::optional<AttrValue> list = attribute_from(dims, AttrKind::integers);
  if (!list) throw nb::type_error("shape: give an integer or a sequence of integers");
  return Shape(std::get<std::vector<std::int64_t>>(*list));
}

nb::tuple tuple_of(const Shape& shape) {
  nb::list list;
  for (const std::int64_t extent : shape) list.append(extent);
  return nb::tuple(list);
}

nb::object to_python(const Tensor& tensor) { return tensor.defined() ? nb::cast(tensor) : nb::none(); }

nb::list to_python(const Tensors& tensors) {
  nb::list list;
  for (const Tensor& tensor : tensors) list.append(to_python(tensor));
  return list;
}

nb::dict dict_of(const NamedTensors& tensors) {
  nb::dict dict;
  for (const auto& [name, tensor] : tensors) dict[nb::str(name.data(), name.size())] = to_python(tensor);
  return dict;
}

NamedTensors named_tensors_from(const nb::dict& dict, const char* what) {
  NamedTensors tensors;
  for (const auto [key, value] : dict) {
    const std::string name = text_from(key, fmt::format("{}: a name", what).c_str());
    tensors.emplace_back(name, tensor_from(value, fmt::format("{}: '{}'", what, name).c_str()));
  }
  return tensors;
}

const Tensor* as_tensor(nb::handle object) {
  if (nb::isinstance<PyParameter>(object))
    return &instance_of<PyParameter>(object, "a Parameter", "one whose __init__ was called").value;
  if (!nb::isinstance<Tensor>(object)) return nullptr;
  return &instance_of<Tensor>(object, "a tensor", "one whose __init__ was called");
}

Tensor tensor_from(nb::handle object, const char* what) {
  if (object.is_none()) return {};
  if (const Tensor* tensor = as_tensor(object)) return *tensor;
  const bool array = PyObject_CheckBuffer(object.ptr()) != 0 || nb::hasattr(object, "__dlpack__");
  if (!array) refuse_type(what, "a Tensor or an array", object);
  return import_array(object, std::nullopt, std::nullopt);
}

std::string text_from(nb::handle object, const char* what) {
  if (!nb::isinstance<nb::str>(object)) refuse_type(what, "str", object);
  std::string text;
  if (!nb::try_cast(object, text)) throw ValueError(fmt::format("{} is no Unicode text: half a surrogate pair", what));
  return text;
}

void refuse_type(std::string_view what, std::string_view wanted, nb::handle object) {
  throw nb::type_error(
      fmt::format("{} must be {}, not {}", what, wanted, nb::type_name(object.type()).c_str()).c_str());
}

Tensors tensors_from(nb::handle objects, const char* what) {
  if (const Tensor* one = as_tensor(objects)) return {*one};
  if (PySequence_Check(objects.ptr()) == 0) refuse_type(what, "a sequence of tensors", objects);
  Tensors tensors;
  for (const nb::handle object : objects) tensors.push_back(tensor_from(object, what));
  return tensors;
}

Tensors results_from(nb::handle results, const char* what) {
  if (results.is_none() || nb::isinstance<nb::list>(results) || nb::isinstance<nb::tuple>(results))
    return tensors_from(results, what);
  if (PyObject_CheckBuffer(results.ptr()) != 0 || nb::hasattr(results, "__dlpack__"))
    return {tensor_from(results, what)};
  return tensors_from(results, what);
}

nb::object element_of_one(const Tensor& tensor) {
  const double value = tensor.item(); // which checks that there is one
  if (tensor.dtype() == DType::boolean) return nb::bool_(value != 0.0);
  if (tensor.dtype() == DType::i64) return nb::int_(*tensor.data<std::int64_t>());
  if (tensor.dtype() == DType::u8) return nb::int_(*tensor.data<std::uint8_t>());
  return nb::float_(value);
}

namespace {

/// A Python int, or an equivalent (NumPy's integers), as a Python int; not a bool. Invalid for everything else.
nb::object whole_from(nb::handle value) {
  if (PyBool_Check(value.ptr()) || PyIndex_Check(value.ptr()) == 0 || nb::isinstance<Tensor>(value)) return {};
  nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) PyErr_Clear();
  return whole;
}

/// A Python int as one of 64 bits, where it is one.
std::optional<std::int64_t> held_by_64_bits(const nb::object& whole) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  return overflow == 0 ? std::optional<std::int64_t>(number) : std::nullopt;
}

/// Throws ValueError for a whole number that 64 bits do not hold.
std::optional<std::int64_t> integer_from(nb::handle value) {
  const nb::object whole = whole_from(value);
  if (!whole.is_valid()) return std::nullopt;
  if (const auto number = held_by_64_bits(whole)) return number;
  const auto bits = nb::cast<std::int64_t>(whole.attr("bit_length")());
  throw ValueError(bits > 256 ? fmt::format("an integer of {} bits is beyond those of 64 bits", bits)
                              : fmt::format("{} is beyond integers of 64 bits", nb::str(whole).c_str()));
}

std::optional<double> real_from(nb::handle value) {
  if (PyBool_Check(value.ptr()) || nb::isinstance<Tensor>(value)) return std::nullopt;
  if (PyFloat_Check(value.ptr())) return PyFloat_AsDouble(value.ptr());
  PyTypeObject* const type = Py_TYPE(value.ptr());
  if (PyType_GetSlot(type, Py_nb_float) == nullptr && PyType_GetSlot(type, Py_nb_index) == nullptr) return std::nullopt;
  const double number = PyFloat_AsDouble(value.ptr()); // integers of any size, np.float32
  if (PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  return std::nullopt;
}

/// A sequence of numbers; one number is a list of one.
template <class T, class From> std::optional<AttrValue> list_from(nb::handle value, From number_from) {
  if (const auto one = number_from(value)) return std::vector<T>{*one};
  if (nb::isinstance<nb::str>(value) || nb::isinstance<Tensor>(value) || PySequence_Check(value.ptr()) == 0)
    return std::nullopt;
  std::vector<T> list;
  for (const nb::handle item : value) {
    const auto number = number_from(item);
    if (!number) return std::nullopt;
    list.push_back(*number);
  }
  return list;
}

} // namespace

std::optional<AttrValue> attribute_from(nb::handle value, AttrKind kind) {
  switch (kind) {
  case AttrKind::boolean:
    if (PyBool_Check(value.ptr())) return AttrValue(value.ptr() == Py_True);
    if (nb::isinstance(value, nb::module_::import_("numpy").attr("bool_")))
      return AttrValue(nb::cast<bool>(nb::bool_(nb::borrow(value))));
    return std::nullopt;
  case AttrKind::integer:
    if (const auto number = integer_from(value)) return AttrValue(*number);
    return std::nullopt;
  case AttrKind::real:
    if (const auto number = real_from(value)) return AttrValue(*number);
    return std::nullopt;
  case AttrKind::integers:
    return list_from<std::int64_t>(value, integer_from);
  case AttrKind::reals:
    return list_from<double>(value, real_from);
  case AttrKind::text:
    if (nb::isinstance<nb::str>(value)) return AttrValue(nb::cast<std::string>(value));
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::int64_t> whole_number_from(nb::handle value) {
  const nb::object whole = whole_from(value);
  return whole.is_valid() ? held_by_64_bits(whole) : std::nullopt;
}

std::optional<AttrValue> real_attribute_from(nb::handle value) {
  if (const auto whole = whole_number_from(value)) return AttrValue(*whole);
  return attribute_from(value, AttrKind::real);
}

std::optional<AttrValue> seed_from(nb::handle value) {
  const nb::object whole = whole_from(value);
  if (std::uint64_t bits = 0; whole.is_valid() && nb::try_cast(whole, bits))
    return AttrValue(static_cast<std::int64_t>(bits));
  return attribute_from(value, AttrKind::integer);
}

std::optional<Tensor> element_given(nb::handle value) {
  if (const Tensor* const tensor = as_tensor(value))
    return tensor->numel() == 1 ? std::optional(*tensor) : std::nullopt;
  if (std::string_view(Py_TYPE(value.ptr())->tp_name) != "numpy.ndarray") return std::nullopt;
  if (nb::len(nb::object(value.attr("shape"))) != 0) return std::nullopt;
  return import_array(value, std::nullopt, std::nullopt);
}

std::optional<Tensor> whole_element(nb::handle value, DType dtype) {
  if (dtype != DType::i64) return std::nullopt;
  if (const std::optional<Tensor> one = element_given(value); one && is_whole(one->dtype()) && !graph_recording())
    return one->to(DType::i64).to(current_device()).reshape(Shape()).clone();
  const std::optional<std::int64_t> whole = integer_from(value);
  return whole ? std::optional(Tensor::from<std::int64_t>({*whole}, {})) : std::nullopt;
}

nb::object to_python(const AttrValue& value) {
  return std::visit([](const auto& held) -> nb::object { return nb::cast(held); }, value);
}

double constant_from(nb::handle value, const char* what, const char* argument, const char* way_out) {
  if (graph_recording() && nb::isinstance<Tensor>(value))
    throw AutogradError(fmt::format("{}: a tape is recording, and the tensor given as {} would become a constant; use "
                                    "{}, or item() for a constant",
                                    what, argument, way_out));
  double number = 0.0;
  if (!nb::try_cast(value, number)) refuse_type(fmt::format("{}: {}", what, argument), "a number", value);
  return number;
}

Held::Held(nb::handle object)
    : object_(nb::handle(object).inc_ref().ptr(), [](PyObject* held) {
        if (!nb::is_alive()) return; // the interpreter is gone, and its objects with it
        const nb::gil_scoped_acquire locked;
        Py_DECREF(held);
      }) {}

} // namespace eg::python
