// Arithmetic and comparisons as Python's operators, with tensors, arrays and numbers on either side.

#include "core/device/device.h"
#include "core/ops.h"

#include "bindings.h"

namespace eg::python {

void bind_tensor_operators(nb::class_<Tensor>& cls);

namespace {

/// The other operand of an operator.
struct Operand {
  Tensor tensor;
  std::optional<double> number;
};

/// Numbers first: NumPy's scalars are numbers here, whatever their type.
std::optional<Operand> operand_from(nb::handle object) {
  if (const Tensor* tensor = as_tensor(object)) return Operand{*tensor, {}};
  if (PyBool_Check(object.ptr())) return std::nullopt;
  if (const auto number = attribute_from(object, AttrKind::real); number && !nb::hasattr(object, "__len__"))
    return Operand{{}, std::get<double>(*number)};
  if (nb::isinstance<nb::str>(object) || nb::isinstance<nb::bytes>(object)) return std::nullopt;
  if (PyObject_CheckBuffer(object.ptr()) == 0 && !nb::hasattr(object, "__dlpack__")) return std::nullopt;
  return Operand{tensor_from(object, "operand"), {}};
}

Tensor number_like(double number, const Tensor& x) {
  const DeviceScope there(x.device());
  return Tensor::full({}, number, x.dtype());
}

using WithTensor = Tensor (*)(const Tensor&, const Tensor&);
using WithNumber = Tensor (*)(const Tensor&, double);

/// What whole numbers (i64, u8, bool) become beside a Python float: floats of the usual type, or nothing else, as in a
/// comparison, which decides without rounding. `refused`: the operator takes no numbers.
enum class BesideFloat { floats, whole, refused };

/// A Python integer beside whole numbers is one, exactly. Throws ValueError beyond 64 bits.
std::optional<std::int64_t> whole_operand(const Tensor& x, nb::handle other) {
  if (!is_whole(x.dtype()) || PyBool_Check(other.ptr()) || PyIndex_Check(other.ptr()) == 0) return std::nullopt;
  const std::optional<AttrValue> whole = attribute_from(other, AttrKind::integer);
  return whole ? std::optional(std::get<std::int64_t>(*whole)) : std::nullopt;
}

/// Defines one operator; it returns NotImplemented for what it does not take, as Python expects.
void define(nb::class_<Tensor>& cls, const char* name, WithTensor tensors, WithNumber number,
            BesideFloat beside = BesideFloat::floats) {
  const std::string signature = std::string("def ") + name + "(self, other: typing.Any, /) -> Tensor";
  cls.def(
      name,
      [=](const Tensor& x, nb::handle other) -> nb::object {
        const bool compares = beside == BesideFloat::whole;
        std::optional<std::int64_t> exact;
        if (compares && is_whole(x.dtype())) exact = whole_number_from(other);
        if (beside == BesideFloat::floats) exact = whole_operand(x, other);
        if (exact)
          return nb::cast(released([&] {
            const DeviceScope there(x.device());
            return tensors(x, Tensor::from<std::int64_t>({*exact}, {}));
          }));
        // Python would take `x == [1, 2]` for False, where NumPy compares the elements.
        if (compares && (nb::isinstance<nb::list>(other) || nb::isinstance<nb::tuple>(other)))
          throw nb::type_error("a tensor is compared with tensors, arrays and numbers; make one of the list: x == "
                               "eg.tensor([...])");
        const std::optional<Operand> y = operand_from(other);
        if (!y) return nb::borrow(Py_NotImplemented);
        return nb::cast(released([&] {
          if (!y->number) return tensors(x, y->tensor);
          return number(is_whole(x.dtype()) && beside == BesideFloat::floats ? x.to(DType::f32) : x, *y->number);
        }));
      },
      nb::is_operator(), nb::sig(signature.c_str()));
}

void bind_arithmetic(nb::class_<Tensor>& cls) {
  define(cls, "__add__", add, [](const Tensor& x, double s) { return x + s; });
  define(
      cls, "__radd__", [](const Tensor& x, const Tensor& y) { return add(y, x); },
      [](const Tensor& x, double s) { return x + s; });
  define(cls, "__sub__", sub, [](const Tensor& x, double s) { return x - s; });
  define(
      cls, "__rsub__", [](const Tensor& x, const Tensor& y) { return sub(y, x); },
      [](const Tensor& x, double s) { return affine(x, -1.0, s); });
  define(cls, "__mul__", mul, [](const Tensor& x, double s) { return x * s; });
  define(
      cls, "__rmul__", [](const Tensor& x, const Tensor& y) { return mul(y, x); },
      [](const Tensor& x, double s) { return x * s; });
  define(cls, "__truediv__", div, [](const Tensor& x, double s) { return div(x, number_like(s, x)); }); // not x (1 / s)
  define(
      cls, "__rtruediv__", [](const Tensor& x, const Tensor& y) { return div(y, x); },
      [](const Tensor& x, double s) { return div(number_like(s, x), x); });
  define(
      cls, "__pow__", [](const Tensor& x, const Tensor& y) { return pow(x, y); },
      [](const Tensor& x, double s) { return pow_scalar(x, s); });
  define(
      cls, "__rpow__", [](const Tensor& x, const Tensor& y) { return pow(y, x); },
      [](const Tensor& x, double s) { return pow(number_like(s, x), x); });
  define(cls, "__mod__", remainder, [](const Tensor& x, double s) { return remainder(x, number_like(s, x)); });
  define(
      cls, "__rmod__", [](const Tensor& x, const Tensor& y) { return remainder(y, x); },
      [](const Tensor& x, double s) { return remainder(number_like(s, x), x); });
}

void bind_comparisons(nb::class_<Tensor>& cls) {
  define(cls, "__eq__", eq, eq, BesideFloat::whole);
  define(cls, "__ne__", ne, ne, BesideFloat::whole);
  define(cls, "__lt__", lt, lt, BesideFloat::whole);
  define(cls, "__le__", le, le, BesideFloat::whole);
  define(cls, "__gt__", gt, gt, BesideFloat::whole);
  define(cls, "__ge__", ge, ge, BesideFloat::whole);
  cls.def(
      "__hash__", [](const Tensor& x) { return static_cast<std::int64_t>(x.id()); }, "By identity of the value.");
}

/// x y where either may be a vector: A v, v A and v w, as NumPy has them.
Tensor product(const Tensor& x, const Tensor& y) {
  const bool row = x.rank() == 1, column = y.rank() == 1;
  if (!row && !column) return matmul(x, y);
  Tensor out = matmul(row ? x.unsqueeze(0) : x, column ? y.unsqueeze(-1) : y);
  if (column) out = out.squeeze(-1);
  return row ? out.squeeze(column ? -1 : -2) : out;
}

Tensor unusable_number(const Tensor& x, double) {
  throw ShapeError("matmul: a number is no matrix; x is " + x.shape().str());
}

Tensor of_truth(const Tensor& x, double) {
  throw DTypeError("logical operators take bool tensors; x is " + std::string(name_of(x.dtype())));
}

} // namespace

void bind_tensor_operators(nb::class_<Tensor>& cls) {
  bind_arithmetic(cls);
  bind_comparisons(cls);
  define(cls, "__matmul__", product, unusable_number, BesideFloat::refused);
  define(
      cls, "__rmatmul__", [](const Tensor& x, const Tensor& y) { return product(y, x); }, unusable_number,
      BesideFloat::refused);
  define(cls, "__floordiv__", floor_divide,
         [](const Tensor& x, double s) { return floor_divide(x, number_like(s, x)); });
  define(
      cls, "__rfloordiv__", [](const Tensor& x, const Tensor& y) { return floor_divide(y, x); },
      [](const Tensor& x, double s) { return floor_divide(number_like(s, x), x); });
  define(cls, "__and__", logical_and, of_truth, BesideFloat::refused);
  define(cls, "__or__", logical_or, of_truth, BesideFloat::refused);
  define(cls, "__xor__", logical_xor, of_truth, BesideFloat::refused);
  cls.def("__neg__", [](const Tensor& x) { return released([&] { return neg(x); }); })
      .def("__pos__", [](const Tensor& x) { return x; })
      .def("__abs__", [](const Tensor& x) { return released([&] { return abs(x); }); })
      .def("__invert__", [](const Tensor& x) { return released([&] { return logical_not(x); }); });
  // NumPy leaves `array + tensor` to the operators above. The package has a function here, which says what to type.
  cls.attr("__array_ufunc__") = nb::none();
}

} // namespace eg::python
