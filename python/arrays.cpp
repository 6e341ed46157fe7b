// Arrays of other libraries in and out: Python's buffer protocol (NumPy, memoryview, array), DLPack (PyTorch, JAX).

#include "bindings.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nanobind/ndarray.h>

namespace eg::python {
namespace {

nb::module_ numpy() { return nb::module_::import_("numpy"); }

std::string described(nb::handle array) {
  const nb::object dtype = nb::getattr(array, "dtype", nb::none());
  return nb::cast<std::string>(nb::str(dtype.is_none() ? nb::handle(array.type()) : nb::handle(dtype)));
}

// --- the buffer protocol ---

struct ReleaseBuffer {
  void operator()(Py_buffer* view) const {
    if (nb::is_alive()) {
      const nb::gil_scoped_acquire locked;
      PyBuffer_Release(view);
    }
    delete view;
  }
};
using Buffer = std::unique_ptr<Py_buffer, ReleaseBuffer>;

/// The object's memory, asked for as writable first; null where it has none that can be described so.
Buffer buffer_of(nb::handle object) {
  for (const int flags : {PyBUF_RECORDS, PyBUF_RECORDS_RO}) {
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(object.ptr(), view.get(), flags) == 0) return Buffer(view.release());
    PyErr_Clear();
  }
  return nullptr;
}

/// The element type that a struct format of one native element means; nullopt for those that the library lacks.
std::optional<DType> dtype_of_format(const Py_buffer& view) {
  std::string_view format = view.format == nullptr ? "B" : view.format;
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.remove_prefix(1);
  if (format == "f" && view.itemsize == 4) return DType::f32;
  if (format == "d" && view.itemsize == 8) return DType::f64;
  if ((format == "l" || format == "q" || format == "n") && view.itemsize == 8) return DType::i64;
  if (format == "B") return DType::u8;
  if (format == "?") return DType::boolean;
  return std::nullopt;
}

/// Why a tensor cannot stand on this memory; empty where it can.
std::string obstacle(const Py_buffer& view) {
  if (view.readonly != 0) return "the array is read-only";
  if (view.ndim > max_rank) return fmt::format("it has {} axes, a tensor at most {}", view.ndim, max_rank);
  if (reinterpret_cast<std::uintptr_t>(view.buf) % static_cast<std::uintptr_t>(view.itemsize) != 0)
    return "its elements are not aligned";
  for (int axis = 0; axis < view.ndim; ++axis) {
    if (view.shape[axis] > 1 && view.strides[axis] < 0) return "an axis runs backwards";
    if (view.shape[axis] > 1 && view.strides[axis] % view.itemsize != 0) return "its strides are no whole elements";
  }
  return {};
}

/// A strided tensor on `elements` elements from `memory` on.
Tensor on_memory(std::shared_ptr<std::byte> memory, std::int64_t elements, const Shape& shape, const Shape& strides,
                 DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  return Tensor::adopt(std::move(memory), bytes, {elements}, dtype).view_as(shape, strides, 0);
}

/// A tensor on the memory of a buffer that has no obstacle.
Tensor on_buffer(Buffer view, DType dtype) {
  Shape shape, strides;
  std::int64_t last = 0;
  for (int axis = 0; axis < view->ndim; ++axis) {
    const std::int64_t stride = view->shape[axis] > 1 ? view->strides[axis] / view->itemsize : 1;
    shape.push_back(view->shape[axis]);
    strides.push_back(stride);
    last += stride * (view->shape[axis] - 1);
  }
  const std::int64_t elements = shape.numel() == 0 ? 0 : last + 1;
  auto* first = static_cast<std::byte*>(view->buf);
  const std::shared_ptr<Py_buffer> owner = std::move(view);
  return on_memory(std::shared_ptr<std::byte>(owner, first), elements, shape, strides, dtype);
}

/// The array with elements of a type that the library has, as NumPy converts them without loss.
nb::object with_known_elements(const nb::object& array) {
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  const auto size = nb::cast<int>(array.attr("dtype").attr("itemsize"));
  const char* target = nullptr;
  if (kind == "b") target = "bool";
  if (kind == "f" && size <= 4) target = "float32";
  if (kind == "f" && size == 8) target = "float64";
  if (kind == "i" || (kind == "u" && size < 8)) target = "int64";
  if (target == nullptr)
    throw nb::type_error(fmt::format("tensor: elements of type {} have no counterpart; convert them to float32, "
                                     "float64, int64, uint8 or bool",
                                     described(array))
                             .c_str());
  return array.attr("astype")(target);
}

Tensor from_buffer(nb::handle object, Buffer view, std::optional<bool> copy) {
  const std::optional<DType> dtype = dtype_of_format(*view);
  const std::string why = dtype ? obstacle(*view) : fmt::format("its elements are {}", described(object));
  if (why.empty() && !copy.value_or(false)) return on_buffer(std::move(view), *dtype);
  if (copy.has_value() && !*copy) throw ValueError(fmt::format("tensor: a copy is needed, and copy is False: {}", why));
  if (view->ndim > max_rank) throw ShapeError(fmt::format("tensor: {}", why));
  // NumPy would take bytes for a text, a view of them for numbers.
  const nb::object array = numpy().attr("asarray")(nb::steal(PyMemoryView_FromObject(object.ptr())));
  const nb::object known = dtype ? array : with_known_elements(array);
  const nb::object own = numpy().attr("array")(known, "order"_a = "C", "copy"_a = true);
  Buffer fresh = buffer_of(own);
  return on_buffer(std::move(fresh), *dtype_of_format(*fresh));
}

// --- DLPack ---

std::optional<DType> dtype_of_dlpack(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return std::nullopt;
  const auto is = [&](Code code, int bits) {
    return type.code == static_cast<std::uint8_t>(code) && type.bits == bits;
  };
  if (is(Code::Float, 32)) return DType::f32;
  if (is(Code::Float, 64)) return DType::f64;
  if (is(Code::Bfloat, 16)) return DType::bf16;
  if (is(Code::Int, 64)) return DType::i64;
  if (is(Code::UInt, 8)) return DType::u8;
  if (is(Code::Bool, 8)) return DType::boolean;
  return std::nullopt;
}

nb::dlpack::dtype dlpack_of(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto type = [&](Code code) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
  };
  switch (dtype) {
  case DType::f32:
  case DType::f64:
    return type(Code::Float);
  case DType::i64:
    return type(Code::Int);
  case DType::u8:
    return type(Code::UInt);
  case DType::boolean:
    return type(Code::Bool);
  case DType::bf16:
    return type(Code::Bfloat);
  }
  return {};
}

/// A tensor on the memory of a DLPack array, which lives as long as the tensor.
template <class Array> Tensor on_dlpack(const Array& array, DType dtype) {
  Shape shape, strides;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    shape.push_back(static_cast<std::int64_t>(array.shape(axis)));
    strides.push_back(array.stride(axis));
  }
  std::int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) last += strides[axis] * (shape[axis] - 1);
  const std::int64_t elements = shape.numel() == 0 ? 0 : last + 1;
  std::shared_ptr<Array> owner(new Array(array), [](Array* held) {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire locked;
    delete held;
  });
  auto* first = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(array.data())));
  return on_memory(std::shared_ptr<std::byte>(owner, first), elements, shape, strides, dtype);
}

template <class Array> void check_dlpack(const Array& array) {
  if (array.device_type() != nb::device::cpu::value)
    throw ValueError(fmt::format("tensor: the array lies on another device (DLPack type {}); copy it to the CPU first",
                                 array.device_type()));
  if (!dtype_of_dlpack(array.dtype()))
    throw nb::type_error("tensor: elements of this type have no counterpart; convert them to float32, float64, "
                         "bfloat16, int64, uint8 or bool");
  if (array.ndim() > static_cast<std::size_t>(max_rank))
    throw ShapeError(fmt::format("tensor: it has {} axes, a tensor at most {}", array.ndim(), max_rank));
}

Tensor from_dlpack(nb::handle object, std::optional<bool> copy) {
  if (nb::ndarray<> array; nb::try_cast(object, array)) {
    check_dlpack(array);
    const Tensor shared = on_dlpack(array, *dtype_of_dlpack(array.dtype()));
    return copy.value_or(false) ? shared.clone() : shared;
  }
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(object, array)) throw nb::type_error("tensor: the object's __dlpack__ gives no array");
  check_dlpack(array);
  if (copy.has_value() && !*copy)
    throw ValueError("tensor: a copy is needed, and copy is False: the array is read-only");
  return on_dlpack(array, *dtype_of_dlpack(array.dtype())).clone();
}

/// Numbers and nested lists of them, whose floats become f32, the library's usual type; and what NumPy knows how to
/// make an array of (a column of a table), whose elements stay what they are.
Tensor from_numbers(nb::handle object) {
  const nb::object array = numpy().attr("asarray")(object);
  if (nb::hasattr(object, "__array__")) return from_buffer(array, buffer_of(array), std::nullopt);
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  if (kind != "f" && kind != "i" && kind != "b")
    throw nb::type_error(
        fmt::format("tensor: {} is no array of numbers", nb::type_name(object.type()).c_str()).c_str());
  const nb::object own = kind == "f" ? array.attr("astype")("float32") : array;
  return from_buffer(own, buffer_of(own), true);
}

Tensor imported(nb::handle object, std::optional<bool> copy) {
  if (const Tensor* own = as_tensor(object)) return copy.value_or(false) ? own->clone() : *own;
  if (PyObject_CheckBuffer(object.ptr()) != 0)
    if (Buffer view = buffer_of(object)) return from_buffer(object, std::move(view), copy);
  if (nb::hasattr(object, "__dlpack__")) return from_dlpack(object, copy);
  if (copy.has_value() && !*copy) throw ValueError("tensor: a copy is needed, and copy is False: it is no array");
  return from_numbers(object);
}

} // namespace

Tensor import_array(nb::handle object, std::optional<DType> dtype, std::optional<bool> copy) {
  Tensor tensor = imported(object, copy);
  if (!dtype || tensor.dtype() == *dtype) return tensor;
  if (copy.has_value() && !*copy)
    throw ValueError(fmt::format("tensor: a copy is needed, and copy is False: its elements are {}, not {}",
                                 name_of(tensor.dtype()), name_of(*dtype)));
  return tensor.to(*dtype);
}

namespace {

/// Hands a tensor's memory to nanobind as an array of some framework that keeps `self` alive.
template <class Array> nb::object array_on(nb::handle self, std::byte* first) {
  const auto& tensor = nb::cast<const Tensor&>(self);
  std::vector<std::size_t> shape;
  for (const std::int64_t extent : tensor.shape()) shape.push_back(static_cast<std::size_t>(extent));
  const std::vector<std::int64_t> strides(tensor.strides().begin(), tensor.strides().end());
  return nb::cast(Array(first, shape.size(), shape.data(), self, strides.data(), dlpack_of(tensor.dtype()),
                        nb::device::cpu::value));
}

} // namespace

nb::object export_numpy(nb::handle self, bool writable) {
  auto& tensor = nb::cast<Tensor&>(self);
  if (tensor.dtype() == DType::bf16) throw nb::type_error("numpy: NumPy has no bf16; convert with to('f32')");
  if (writable) return array_on<nb::ndarray<nb::numpy>>(self, tensor.mutable_bytes("numpy"));
  return array_on<nb::ndarray<nb::numpy, nb::ro>>(self, const_cast<std::byte*>(tensor.bytes()));
}

nb::object export_dlpack(nb::handle self) {
  const auto& tensor = nb::cast<const Tensor&>(self);
  return array_on<nb::ndarray<nb::array_api>>(self, const_cast<std::byte*>(tensor.bytes()));
}

} // namespace eg::python
