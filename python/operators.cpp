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

/// Whether a whole number beside whole numbers stays one, beyond what a double holds.
enum class Whole { rounded, kept };

/// Defines one operator; it returns NotImplemented for what it does not take, as Python expects.
void define(nb::class_<Tensor>& cls, const char* name, WithTensor tensors, WithNumber number,
            Whole whole = Whole::rounded) {
  const std::string signature = std::string("def ") + name + "(self, other: typing.Any, /) -> Tensor";
  cls.def(
      name,
      [=](const Tensor& x, nb::handle other) -> nb::object {
        if (whole == Whole::kept && x.dtype() == DType::i64)
          if (const auto exact = whole_number_from(other))
            return nb::cast(released([&] {
              const DeviceScope there(x.device());
              return tensors(x, Tensor::from<std::int64_t>({*exact}, {}));
            }));
        const std::optional<Operand> y = operand_from(other);
        if (!y) return nb::borrow(Py_NotImplemented);
        return nb::cast(released([&] { return y->number ? number(x, *y->number) : tensors(x, y->tensor); }));
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
  define(cls, "__eq__", eq, eq, Whole::kept);
  define(cls, "__ne__", ne, ne, Whole::kept);
  define(cls, "__lt__", lt, lt, Whole::kept);
  define(cls, "__le__", le, le, Whole::kept);
  define(cls, "__gt__", gt, gt, Whole::kept);
  define(cls, "__ge__", ge, ge, Whole::kept);
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

/// The whole quotient below x / y: what x - remainder(x, y) has of y. floor(x / y) would be 10 for 1 and 0.1. It is
/// taken where y is 0 and where the difference overflows. For a finite x and an infinite y: 0, or -1 for other signs.
Tensor floor_quotient(const Tensor& x, const Tensor& y) {
  const Tensor quotient = div(x, y), whole = round(div(sub(x, remainder(x, y)), y));
  const Tensor small = floor(mul(sign(x), mul(sign(y), number_like(0.5, x)))); // -1 for other signs, else 0
  const Tensor by_infinity = logical_and(isinf(y), isfinite(x));
  const Tensor rounded_away = logical_and(logical_not(isfinite(whole)), logical_or(isfinite(x), eq(y, 0.0)));
  return where(by_infinity, small, where(rounded_away, floor(quotient), whole));
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
  define(cls, "__matmul__", product, unusable_number);
  define(
      cls, "__rmatmul__", [](const Tensor& x, const Tensor& y) { return product(y, x); }, unusable_number);
  define(cls, "__floordiv__", floor_quotient,
         [](const Tensor& x, double s) { return floor_quotient(x, number_like(s, x)); });
  define(
      cls, "__rfloordiv__", [](const Tensor& x, const Tensor& y) { return floor_quotient(y, x); },
      [](const Tensor& x, double s) { return floor_quotient(number_like(s, x), x); });
  define(cls, "__and__", logical_and, of_truth);
  define(cls, "__or__", logical_or, of_truth);
  define(cls, "__xor__", logical_xor, of_truth);
  cls.def("__neg__", [](const Tensor& x) { return released([&] { return neg(x); }); })
      .def("__pos__", [](const Tensor& x) { return x; })
      .def("__abs__", [](const Tensor& x) { return released([&] { return abs(x); }); })
      .def("__invert__", [](const Tensor& x) { return released([&] { return logical_not(x); }); });
  // NumPy leaves `array + tensor` to the operators above.
  cls.attr("__array_ufunc__") = nb::none();
}

} // namespace eg::python
