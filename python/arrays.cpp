// Arrays of other libraries in and out: Python's buffer protocol (NumPy, memoryview, array), DLPack (PyTorch, JAX).

#include "core/call.h"
#include "core/device/adopted.h"
#include "core/device/device.h"
#include "core/element.h"
#include "core/visit_dtype.h"

#include "bindings.h"

#include <algorithm>
#include <cmath>
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

[[noreturn]] void refuse_elements(const std::string& type) {
  throw nb::type_error(fmt::format("tensor: elements of type {} have no counterpart; convert them to float32, "
                                   "float64, bfloat16, int64, uint8 or bool",
                                   type)
                           .c_str());
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

/// The object's memory, requested as writable first; null where it has none that can be described so.
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

/// Why a tensor cannot use this memory; empty where it can.
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
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  return Tensor::adopt(std::shared_ptr<std::byte>(owner, first), bytes, {elements}, dtype).view_as(shape, strides, 0);
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
  if (target == nullptr) refuse_elements(described(array));
  return array.attr("astype")(target);
}

/// A tensor of a buffer's elements, which are of type `dtype`, or of one that the library lacks and errors call
/// `other`.
Tensor from_buffer(Buffer view, std::optional<DType> dtype, const std::string& other, std::optional<bool> copy) {
  const std::string why = dtype ? obstacle(*view) : fmt::format("its elements are {}", other);
  if (why.empty() && !copy.value_or(false)) return on_buffer(std::move(view), *dtype);
  if (copy.has_value() && !*copy)
    throw ValueError(fmt::format("tensor: a copy is needed, and copy is False: {}; eg.tensor(array) copies it", why));
  if (view->ndim > max_rank) throw ShapeError(fmt::format("tensor: {}", why));
  // NumPy would take bytes for a text, a view of them for numbers.
  const nb::object array = numpy().attr("asarray")(nb::steal(PyMemoryView_FromObject(view->obj)));
  const nb::object known = dtype ? array : with_known_elements(array);
  const nb::object own = numpy().attr("array")(known, "order"_a = "C", "copy"_a = true);
  Buffer fresh = buffer_of(own);
  const DType elements = dtype ? *dtype : *dtype_of_format(*fresh);
  return on_buffer(std::move(fresh), elements);
}

Tensor from_buffer(nb::handle object, Buffer view, std::optional<bool> copy) {
  const std::optional<DType> dtype = dtype_of_format(*view);
  return from_buffer(std::move(view), dtype, dtype ? "" : described(object), copy);
}

// --- DLPack ---

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

bool is_bf16(nb::dlpack::dtype type) {
  return type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) && type.bits == 16;
}

/// The element type that the library has for it; nullopt for those that it lacks.
std::optional<DType> dtype_of(nb::dlpack::dtype type) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::u8, DType::boolean, DType::bf16})
    if (dlpack_of(dtype) == type) return dtype;
  return std::nullopt;
}

/// Whether an object says that its array is on a CUDA device, and on which; nullopt for any other device, and where it
/// says nothing. Throws DeviceError where that device is not there, before anything is taken from the object.
std::optional<Device> announced_cuda(nb::handle object) {
  const nb::object ask = nb::getattr(object, "__dlpack_device__", nb::none());
  if (ask.is_none()) return std::nullopt;
  const nb::object place = ask();
  const auto part = [&](int i) { return nb::cast<int>(nb::int_(place[i])); };
  if (part(0) != nb::device::cuda::value) return std::nullopt;
  const Device device = Device::cuda(part(1));
  device::require_device(device);
  if (const device::ModuleInfo module = device::open_module(); module.name != "cuda")
    throw DeviceError(
        fmt::format("tensor: the array is on a CUDA device, and {} here is {}'s; copy it to the CPU first",
                    device.str(), module.name));
  return device;
}

/// What an object's __dlpack__ gives, in the newest form that it supports: the older ones have no "read-only" flag. On
/// a CUDA device it is told stream 1, the default one: our own has no number, and from_cuda() waits for all of them.
nb::object exported(nb::handle object, bool cuda) {
  const nb::object give = object.attr("__dlpack__");
  nb::dict options;
  if (cuda) options["stream"] = 1;
  nb::dict newest = nb::borrow<nb::dict>(options.attr("copy")());
  newest["max_version"] = nb::make_tuple(1, 1);
  try {
    return give(**newest);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return give(**options);
}

/// DLPack's DLTensor, and the fields before it in the versioned form (dlpack.h, version 1).
struct DlTensor {
  void* data;
  std::int32_t device_type, device_number, axes;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  const std::int64_t *shape, *strides;
  std::uint64_t offset;
};
struct DlVersioned {
  std::uint32_t major, minor;
  void *context, *deleter;
  std::uint64_t flags;
  DlTensor array;
};

/// The same, checked to be a capsule that was not consumed, of an array that has extents.
nb::object capsule_of(nb::handle object, bool cuda) {
  nb::object capsule;
  try {
    capsule = exported(object, cuda);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_BufferError)) throw;
    throw nb::type_error(
        fmt::format("tensor: {} cannot be taken: {}", described(object), nb::str(error.value()).c_str()).c_str());
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") == 0 && PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") == 0)
    throw nb::type_error(fmt::format("tensor: __dlpack__ of {} gives {}", nb::type_name(object.type()).c_str(),
                                     PyCapsule_CheckExact(capsule.ptr()) != 0
                                         ? "a capsule that was used already, or of another kind"
                                         : "no capsule")
                             .c_str());
  void* const versioned = PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned");
  if (versioned == nullptr)
    PyErr_Clear(); // the older form
  else if (const std::uint32_t major = *static_cast<const std::uint32_t*>(versioned); major != 1)
    throw nb::type_error(
        fmt::format("tensor: __dlpack__ of {} gives version {} of DLPack; version 1 is read", described(object), major)
            .c_str());
  const DlTensor& array = versioned != nullptr
                              ? static_cast<const DlVersioned*>(versioned)->array
                              : *static_cast<const DlTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (array.axes < 0 || (array.axes > 0 && array.shape == nullptr))
    throw ValueError(fmt::format("tensor: __dlpack__ of {} gives {} axes and {} shape", described(object), array.axes,
                                 array.shape == nullptr ? "no" : "a"));
  return capsule;
}

/// As NumPy and PyTorch call it.
std::string name_of(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  for (const auto& [code, word] : {std::pair{Code::Int, "int"},
                                   {Code::UInt, "uint"},
                                   {Code::Float, "float"},
                                   {Code::Bfloat, "bfloat"},
                                   {Code::Complex, "complex"},
                                   {Code::Bool, "bool"}})
    if (type.code == static_cast<std::uint8_t>(code)) return fmt::format("{}{}", word, type.bits);
  return fmt::format("{} of DLPack", type.code);
}

void check_dlpack(const nb::ndarray<nb::ro>& array, const std::optional<Device>& cuda) {
  const bool there = cuda && array.device_type() == nb::device::cuda::value && array.device_id() == cuda->index;
  if (cuda && !there)
    throw ValueError(
        fmt::format("tensor: the array is said to be on {}, and its capsule says DLPack type {}, number {}",
                    cuda->str(), array.device_type(), array.device_id()));
  if (!cuda && array.device_type() != nb::device::cpu::value)
    throw ValueError(fmt::format("tensor: the array lies on another device (DLPack type {}); copy it to the CPU first",
                                 array.device_type()));
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(array.dtype().code);
  const bool numbers = code == Code::Float || code == Code::Int || code == Code::UInt || code == Code::Bool;
  if (array.dtype().lanes != 1 || array.dtype().bits > 64 || (!numbers && !is_bf16(array.dtype())))
    refuse_elements(name_of(array.dtype()));
  if (array.ndim() > static_cast<std::size_t>(max_rank))
    throw ShapeError(fmt::format("tensor: it has {} axes, a tensor at most {}", array.ndim(), max_rank));
}

/// A memoryview of a DLPack array, which lives as long; elements are those of `type`.
template <class View, class Array> nb::object memory_of(const Array& array, nb::dlpack::dtype type) {
  const nb::capsule owner(new Array(array), [](void* held) noexcept { delete static_cast<Array*>(held); });
  std::vector<std::size_t> shape;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) shape.push_back(array.shape(axis));
  return nb::cast(View(array.data(), array.ndim(), shape.data(), owner, array.stride_ptr(), type));
}

/// Why a tensor cannot use this device memory; empty where it can.
std::string obstacle(const nb::ndarray<nb::ro>& array, std::size_t element) {
  if (reinterpret_cast<std::uintptr_t>(array.data()) % element != 0) return "its elements are not aligned";
  for (std::size_t axis = 0; axis < array.ndim(); ++axis)
    if (array.shape(axis) > 1 && array.stride(axis) < 0) return "an axis runs backwards";
  return {};
}

/// A tensor on device memory, or a copy there. The host cannot convert what it cannot read, so an array of other
/// elements, or with an obstacle, is refused.
Tensor from_cuda(const nb::ndarray<nb::ro>& array, Device device, bool writable, std::optional<bool> copy) {
  const std::optional<DType> dtype = dtype_of(array.dtype());
  if (!dtype) refuse_elements(name_of(array.dtype()));
  if (const std::string why = obstacle(array, size_of(*dtype)); !why.empty())
    throw ValueError(fmt::format("tensor: {}, and it is on {}; copy the array first", why, device.str()));
  if (!writable && copy.has_value() && !*copy)
    throw ValueError("tensor: a copy is needed, and copy is False: the array is read-only; eg.tensor(array) copies it");
  Shape shape, strides;
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    const auto extent = static_cast<std::int64_t>(array.shape(axis));
    const std::int64_t stride = extent > 1 ? array.stride(axis) : 1;
    shape.push_back(extent);
    strides.push_back(stride);
    last += stride * (extent - 1);
  }
  const std::int64_t elements = shape.numel() == 0 ? 0 : last + 1;
  // The array goes with the last tensor; whoever that is, nanobind takes the interpreter's lock.
  const auto held = std::make_shared<const nb::ndarray<nb::ro>>(array);
  auto* const first = static_cast<std::byte*>(const_cast<void*>(array.data()));
  const Tensor shared =
      device::adopted(std::shared_ptr<std::byte>(held, first), static_cast<std::size_t>(elements) * size_of(*dtype),
                      {elements}, *dtype, device)
          .view_as(shape, strides, 0);
  released([&] { device::synchronize(device); }); // until the other framework's work on the array is done
  const PauseRecording pause;
  return copy.value_or(!writable) ? shared.clone() : shared;
}

/// As a buffer, so that both ways share and copy alike.
Tensor from_dlpack(nb::handle object, std::optional<bool> copy) {
  const std::optional<Device> cuda = announced_cuda(object);
  const nb::object capsule = capsule_of(object, cuda.has_value());
  nb::ndarray<> writable;
  nb::ndarray<nb::ro> array;
  if (nb::try_cast(capsule, writable))
    array = nb::ndarray<nb::ro>(writable);
  else if (!nb::try_cast(capsule, array))
    throw nb::type_error("tensor: the object's __dlpack__ gives no array");
  check_dlpack(array, cuda);
  if (cuda) return from_cuda(array, *cuda, writable.is_valid(), copy);
  const bool bf16 = is_bf16(array.dtype()); // which the buffer protocol lacks
  const nb::dlpack::dtype type =
      bf16 ? nb::dlpack::dtype{static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt), 16, 1} : array.dtype();
  const nb::object memory = writable.is_valid() ? memory_of<nb::ndarray<nb::memview>>(writable, type)
                                                : memory_of<nb::ndarray<nb::memview, nb::ro>>(array, type);
  Buffer view = buffer_of(memory);
  const std::optional<DType> dtype = bf16 ? DType::bf16 : dtype_of_format(*view);
  return from_buffer(std::move(view), dtype, dtype ? "" : name_of(type), copy);
}

/// What NumPy goes through item by item, where the items can be tensors: a list, a deque, a UserList.
bool is_nested(nb::handle object) {
  return PySequence_Check(object.ptr()) != 0 && !nb::isinstance<Tensor>(object) && !nb::isinstance<nb::str>(object) &&
         PyObject_CheckBuffer(object.ptr()) == 0 && PyRange_Check(object.ptr()) == 0 &&
         !nb::hasattr(object, "__array__") && !nb::hasattr(object, "__dlpack__");
}

/// A sequence with a tensor somewhere in it, which NumPy would read as numbers. Levels deeper than a tensor has axes
/// are not examined: there a list may hold itself.
bool holds_tensors(nb::handle object, int depth = 0) {
  if (nb::isinstance<Tensor>(object)) return true;
  if (depth > max_rank || !is_nested(object)) return false;
  for (Py_ssize_t i = 0, size = PySequence_Size(object.ptr()); i < size; ++i) {
    const nb::object item = nb::steal(PySequence_GetItem(object.ptr(), i));
    if (!item.is_valid()) break; // what only looks like a sequence is refused by NumPy
    if (holds_tensors(item, depth + 1)) return true;
  }
  PyErr_Clear();
  return false;
}

/// True for an integer, and for lists of nothing else.
bool are_integers(nb::handle object) {
  if (!nb::isinstance<nb::list>(object) && !nb::isinstance<nb::tuple>(object)) return PyLong_Check(object.ptr()) != 0;
  for (const nb::handle item : object)
    if (!are_integers(item)) return false;
  return true;
}

/// Throws ValueError for an integer that 64 bits do not hold.
void check_integers(nb::handle object) {
  if (PyLong_Check(object.ptr()) != 0)
    attribute_from(object, AttrKind::integer);
  else
    for (const nb::handle item : object) check_integers(item);
}

/// NumPy makes unsigned numbers, objects or floats of integers that 64 bits do not hold. Beside floats they are
/// rounded.
void refuse_large_integers(nb::handle object) {
  if (!are_integers(object)) return;
  try {
    check_integers(object);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("tensor: {}; give floats to have them rounded", error.what()));
  }
}

/// Throws TypeError for NumPy's dates and spans of time.
void refuse_times(nb::handle array) {
  const nb::object kind = nb::getattr(nb::getattr(array, "dtype", nb::none()), "kind", nb::none());
  if (!nb::isinstance<nb::str>(kind)) return;
  const auto letter = nb::cast<std::string>(kind);
  if (letter != "M" && letter != "m") return;
  throw nb::type_error(fmt::format("tensor: elements of type {} are times, no numbers; a.astype('int64') counts their "
                                   "units, (a - a[0]) / np.timedelta64(1, 's') gives seconds",
                                   described(array))
                           .c_str());
}

/// Numbers and nested lists of them, whose floats become f32, the library's usual type, unless f64 is wanted; and what
/// NumPy knows how to make an array of (a column of a table), whose elements stay what they are.
Tensor from_numbers(nb::handle object, std::optional<DType> wanted) {
  if (graph_recording() && holds_tensors(object))
    throw AutogradError("tensor: a tape is recording, and tensors in a list would become constants; join them with "
                        "ops.stack or ops.concat, or make the list under pause()");
  const nb::object array = numpy().attr("asarray")(object);
  refuse_times(array);
  if (nb::hasattr(object, "__array__")) return from_buffer(array, buffer_of(array), std::nullopt);
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  if (kind != "i" && kind != "b") refuse_large_integers(object);
  if (kind != "f" && kind != "i" && kind != "b")
    throw nb::type_error(
        fmt::format("tensor: {} is no array of numbers", nb::type_name(object.type()).c_str()).c_str());
  const nb::object own = kind == "f" && wanted != DType::f64 ? array.attr("astype")("float32") : array;
  return from_buffer(own, buffer_of(own), true);
}

/// Throws ValueError where an element is beyond a whole-number type: to() would take the nearest that it holds. A
/// fraction is left out, as in NumPy.
void refuse_unheld(const Tensor& x, DType dtype) {
  if (dtype != DType::u8 && dtype != DType::i64) return;
  if (is_whole(x.dtype()) && (dtype == DType::i64 || x.dtype() != DType::i64)) return;
  const PauseRecording pause;
  const Tensor there = x.to(Device::cpu()).to(x.dtype() == DType::bf16 ? DType::f32 : x.dtype()).contiguous();
  if (there.numel() == 0) return;
  visit_dtype(there.dtype(), [&]<class T>() {
    const T* v = there.data<T>();
    for (std::int64_t i = 0; i < there.numel(); ++i) {
      const auto value = static_cast<double>(v[i]), whole = std::trunc(value);
      if (dtype == DType::u8 ? !holds<std::uint8_t>(whole) : !holds<std::int64_t>(whole))
        throw ValueError(fmt::format("tensor: {} is not a value of {}; x.to('{}') takes the nearest", value,
                                     name_of(dtype), name_of(dtype)));
    }
  });
}

/// The object as a tensor, not yet of the type that is `wanted`.
Tensor imported(nb::handle object, std::optional<DType> wanted, std::optional<bool> copy) {
  if (const Tensor* own = as_tensor(object)) return copy.value_or(false) ? own->clone() : *own;
  refuse_times(object);
  if (PyObject_CheckBuffer(object.ptr()) != 0)
    if (Buffer view = buffer_of(object)) return from_buffer(object, std::move(view), copy);
  if (nb::hasattr(object, "__dlpack__")) return from_dlpack(object, copy);
  if (copy.has_value() && !*copy) throw ValueError("tensor: a copy is needed, and copy is False: it is no array");
  return from_numbers(object, wanted);
}

} // namespace

Tensor import_array(nb::handle object, std::optional<DType> dtype, std::optional<bool> copy) {
  Tensor tensor = imported(object, dtype, copy);
  if (!dtype || tensor.dtype() == *dtype) return tensor;
  if (copy.has_value() && !*copy)
    throw ValueError(fmt::format("tensor: a copy is needed, and copy is False: its elements are {}, not {}",
                                 name_of(tensor.dtype()), name_of(*dtype)));
  refuse_unheld(tensor, *dtype);
  return tensor.to(*dtype);
}

void take_memory(const Tensor& tensor) {
  if (!tensor.has_storage()) return;
  Storage& storage = *tensor.storage();
  if (std::get_deleter<ReleaseBuffer>(storage.bytes) == nullptr) return;
  const Storage own(storage.size_bytes);
  std::copy_n(storage.bytes.get(), storage.size_bytes, own.bytes.get());
  // The array stays as long: NumPy may have been given its memory by numpy().
  storage.bytes = std::shared_ptr<std::byte>(own.bytes.get(), [own, array = storage.bytes](std::byte*) {});
}

namespace {

/// Hands a tensor's memory to nanobind as an array of some framework that keeps `self` alive.
template <class Array> nb::object array_on(nb::handle self, std::byte* first) {
  const Tensor& tensor = *as_tensor(self);
  const Device device = tensor.device();
  std::vector<std::size_t> shape;
  for (const std::int64_t extent : tensor.shape()) shape.push_back(static_cast<std::size_t>(extent));
  const std::vector<std::int64_t> strides(tensor.strides().begin(), tensor.strides().end());
  return nb::cast(Array(first, shape.size(), shape.data(), self, strides.data(), dlpack_of(tensor.dtype()),
                        device.is_cpu() ? nb::device::cpu::value : nb::device::cuda::value, device.index));
}

} // namespace

nb::object export_numpy(nb::handle self, bool writable) {
  auto& tensor = instance_of<Tensor>(self, "numpy: self", "a Tensor whose __init__ was called");
  if (!tensor.device().is_cpu())
    throw DeviceError(fmt::format("numpy: this tensor is on {}; copy it with cpu()", tensor.device().str()));
  if (tensor.dtype() == DType::bf16) throw nb::type_error("numpy: NumPy has no bf16; convert with to('f32')");
  if (writable) return array_on<nb::ndarray<nb::numpy>>(self, tensor.mutable_bytes("numpy"));
  return array_on<nb::ndarray<nb::numpy, nb::ro>>(self, const_cast<std::byte*>(tensor.bytes()));
}

nb::tuple dlpack_device(const Tensor& x) {
  const Device device = x.device();
  if (device.is_cpu()) return nb::make_tuple(nb::device::cpu::value, 0);
  if (const device::ModuleInfo module = device::open_module(); module.name != "cuda")
    throw DeviceError(fmt::format("dlpack: {} is {}'s; no other framework knows its memory: copy with cpu()",
                                  device.str(), module.name));
  return nb::make_tuple(nb::device::cuda::value, static_cast<int>(device.index));
}

namespace {

/// Whether a consumer whose work is on this stream wants the work here to be done first. Throws ValueError and
/// TypeError for what the protocol does not allow.
bool wants_wait(Device device, nb::handle stream) {
  if (stream.is_none()) return !device.is_cpu();
  if (device.is_cpu()) throw ValueError("__dlpack__: stream must be None for a tensor on the CPU");
  if (!PyLong_CheckExact(stream.ptr())) refuse_type("__dlpack__: stream", "None or an int", stream);
  int beyond = 0; // an address with the highest bit set is one
  const long long number = PyLong_AsLongLongAndOverflow(stream.ptr(), &beyond);
  if (beyond == 0 && number == 0)
    throw ValueError("__dlpack__: stream 0 is ambiguous: 1 is the default stream, 2 the default stream of the thread");
  if (beyond < 0 || (beyond == 0 && number < -1))
    throw ValueError("__dlpack__: stream must be -1, 1, 2 or the address of a stream");
  return beyond > 0 || number != -1;
}

} // namespace

nb::object export_dlpack(nb::handle self, const nb::kwargs& options) {
  const Tensor& tensor = *as_tensor(self);
  const Device device = tensor.device();
  dlpack_device(tensor);
  const bool wait = wants_wait(device, options.contains("stream") ? nb::object(options["stream"]) : nb::none());
  if (wait) released([&] { device::synchronize(device); }); // then any stream may read
  return array_on<nb::ndarray<nb::array_api>>(self, const_cast<std::byte*>(tensor.device_bytes()))
      .attr("__dlpack__")(**options);
}

} // namespace eg::python
