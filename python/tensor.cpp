// The class Tensor: what it is, what it becomes, views.

#include "core/call.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/ops/rearrange/constructors.h"

#include "bindings.h"
#include "constants.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::python {

/// What arguments of modules and functions that are tensors may be too.
struct ArrayLike {};

} // namespace eg::python

/// Checks the type alone: requesting the memory here would request it twice, and DLPack gives it once.
template <> struct nanobind::detail::type_caster<eg::python::ArrayLike> {
  NB_TYPE_CASTER(eg::python::ArrayLike, const_name("numpy.ndarray"))
  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    return PyObject_CheckBuffer(source.ptr()) != 0 || hasattr(source, "__dlpack__");
  }
};

namespace eg::python {

void bind_tensor_operators(nb::class_<Tensor>& cls);

namespace {

const char* const tensor_doc =
    "A strided array of one element type (f32, f64, i64, u8, bool or bf16). Views share memory. Made by tensor(), "
    "zeros(), ...; operations are in equigrad.ops.";

/// Integers given one by one or as one sequence: x.reshape(2, 3) and x.reshape([2, 3]).
Shape dims_from(const nb::args& args) { return shape_from(args.size() == 1 ? nb::handle(args[0]) : nb::handle(args)); }

DType needed_dtype(nb::handle name) {
  const std::optional<DType> dtype = dtype_from(name);
  if (!dtype)
    throw nb::type_error(
        "to: give a dtype: 'f32', 'f64', 'i64', 'u8', 'bool' or 'bf16', or a device: 'cpu', 'cuda', ...");
  return *dtype;
}

/// x.to("f64"), x.to("cuda"), x.to(dtype="f64", device="cuda:1").
Tensor moved_or_converted(const Tensor& x, nb::handle dtype, nb::handle device) {
  const std::optional<Device> first = device_from(dtype);
  std::optional<Device> named;
  if (!device.is_none()) named = device_or_current(device, "to");
  if (first && named) throw nb::type_error("to: two devices were given");
  const std::optional<Device> to = first ? first : named;
  std::optional<DType> type;
  if (!first && !(dtype.is_none() && to)) try {
      type = needed_dtype(dtype);
    } catch (const ValueError& error) {
      throw ValueError(fmt::format("{}, and it is no device: cpu, cuda, cuda:N", error.what()));
    }
  return released([&] {
    const Tensor there = to ? x.to(*to) : x;
    return type ? there.to(*type) : there;
  });
}

/// eg.tensor(). Not inlined: GCC 12 then takes `copy` for uninitialised.
[[gnu::noinline]] Tensor tensor_of(nb::handle data, nb::handle dtype, std::optional<bool> copy, nb::handle device) {
  const Tensor here = import_array(data, dtype_from(dtype), copy);
  if (device.is_none()) return here;
  const Tensor there = moved_or_converted(here, nb::none(), device);
  if (!copy.value_or(true) && there.device() != here.device())
    throw ValueError(
        fmt::format("tensor: a copy is needed, and copy is False: the array is on {}", here.device().str()));
  return there;
}

void bind_facts(nb::class_<Tensor>& cls) {
  cls.def_prop_ro(
         "shape", [](const Tensor& x) { return tuple_of(x.shape()); }, "The extents, one an axis.",
         nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const Tensor& x) { return tuple_of(x.strides()); },
          "Distances between neighbours along each axis, in elements (NumPy's are in bytes).",
          nb::sig("def strides(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const Tensor& x) { return name_for_python(x.dtype()); },
          "'f32', 'f64', 'i64', 'u8', 'bool' or 'bf16'; equal to NumPy's and PyTorch's type of these elements as well.",
          nb::sig("def dtype(self) -> str"))
      .def_prop_ro("ndim", &Tensor::rank, "Number of axes.")
      .def_prop_ro("size", &Tensor::numel, "Number of elements.")
      .def_prop_ro("nbytes", &Tensor::nbytes, "Bytes of all elements.")
      .def_prop_ro(
          "data_ptr", [](const Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.device_bytes()); },
          "Address of the first element, in the memory of its device.")
      .def_prop_ro(
          "device", [](const Tensor& x) { return name_for_python(x.device()); },
          "'cpu', or 'cuda:0', which is equal to 'cuda': where the elements are.", nb::sig("def device(self) -> str"))
      .def_prop_ro("version", &Tensor::version, "How often the memory was written to; a tape compares it.")
      .def("is_contiguous", &Tensor::is_contiguous, "True when elements are packed in row-major order.")
      .def("__len__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw nb::type_error("len: a tensor without axes has no length");
             return x.size(0);
           })
      .def("__repr__", [](const Tensor& x) { return x.str(); })
      .def(
          "__format__",
          [](const Tensor& x, const std::string& spec) -> nb::object {
            if (spec.empty()) return nb::cast(x.str());
            return element_of_one(x).attr("__format__")(spec);
          },
          "spec"_a, "One element by the format given: f'{loss:.3f}'.");
}

void bind_values(nb::class_<Tensor>& cls) {
  cls.def("item", &element_of_one, "The only element, as bool, int or float. Raises ShapeError for more or fewer.",
          nb::sig("def item(self) -> bool | int | float"))
      .def("__float__", &Tensor::item)
      .def("__int__", [](const Tensor& x) { return nb::int_(nb::handle(element_of_one(x))); })
      .def("__bool__",
           [](const Tensor& x) {
             if (x.numel() != 1)
               throw ShapeError(fmt::format("bool: a tensor of {} is neither true nor false; use ops.any or ops.all",
                                            x.shape().str()));
             return x.item() != 0.0;
           })
      .def(
          "tolist",
          [](const Tensor& x) {
            const Tensor here = x.to(Device::cpu());
            const nb::object known = nb::cast(x.dtype() == DType::bf16 ? here.to(DType::f32) : here);
            return nb::object(export_numpy(known, false).attr("tolist")());
          },
          "Nested lists of Python numbers.", nb::sig("def tolist(self) -> typing.Any"))
      .def(
          "numpy", [](nb::handle self, bool writable) { return export_numpy(self, writable); }, "writable"_a = false,
          "A NumPy array on the same memory. It cannot be written to unless `writable`, which counts as one write: a "
          "tape that saved this value refuses it then; what is written later no tape sees.",
          nb::sig("def numpy(self, writable: bool = False) -> numpy.ndarray"))
      .def(
          "__array__",
          [](nb::handle self, nb::handle dtype, nb::handle copy) -> nb::object {
            nb::object array = export_numpy(self, false);
            if (!dtype.is_none()) array = array.attr("astype")(dtype, "copy"_a = false);
            return copy.ptr() == Py_True ? nb::object(array.attr("copy")()) : array;
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def(
          "__dlpack__", [](nb::handle self, const nb::kwargs& options) { return export_dlpack(self, options); },
          "The same memory for other frameworks. What they write no tape sees.",
          nb::sig("def __dlpack__(self, **options: typing.Any) -> typing.Any"))
      .def(
          "__dlpack_device__", [](const Tensor& x) { return dlpack_device(x); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
}

void fill(Tensor& x, nb::handle value) {
  if (const auto whole = whole_element(value, x.dtype())) {
    const PauseRecording pause; // one number is a constant
    return x.copy_from(whole->expand(x.shape()));
  }
  x.fill(constant_from(value, "fill", "value", "expand()"));
}

void bind_copies(nb::class_<Tensor>& cls) {
  cls.def("to", &moved_or_converted, "dtype"_a = nb::none(), "device"_a = nb::none(),
          "The elements converted to another type, or copied to another device ('cpu', 'cuda', 'cuda:1'); itself where "
          "it is that already. Recorded.",
          nb::sig("def to(self, dtype: str | None = None, device: str | None = None) -> Tensor"))
      .def(
          "cuda", [](const Tensor& x, int index) { return released([&] { return x.to(Device::cuda(index)); }); },
          "index"_a = 0, "A copy on that CUDA device. Recorded.")
      .def(
          "cpu", [](const Tensor& x) { return released([&] { return x.to(Device::cpu()); }); },
          "A copy in the memory of the CPU, where NumPy reads it; itself where it is there. Recorded.")
      .def(
          "clone", [](const Tensor& x) { return released([&] { return x.clone(); }); },
          "A packed copy on memory of its own. Recorded: its gradient is the cotangent.")
      .def("detach", &Tensor::detach, "The same memory under a new identity: gradients stop here.")
      .def(
          "contiguous", [](const Tensor& x) { return released([&] { return x.contiguous(); }); },
          "Itself if packed, else a packed copy. Recorded.")
      .def(
          "copy_from", [](Tensor& x, const Tensor& source) { x.copy_from(source); }, "source"_a,
          "Writes the elements of `source` (same shape and dtype) into this memory. Raises AutogradError while a tape "
          "records, which would not see it.")
      .def("fill", &fill, "value"_a, "Writes one number everywhere.", nb::sig("def fill(self, value: float) -> None"))
      .def("__copy__", [](const Tensor& x) { return x; })
      .def(
          "__deepcopy__", [](const Tensor& x, nb::handle) { return x.clone(); }, "memo"_a, "clone().");
}

void bind_views(nb::class_<Tensor>& cls) {
  cls.def(
         "reshape", [](const Tensor& x, const nb::args& shape) { return x.reshape(dims_from(shape)); },
         "Same elements, other extents, one of which may be -1. A view where strides allow.",
         nb::sig("def reshape(self, *shape: int | collections.abc.Sequence[int]) -> Tensor"))
      .def(
          "transpose", [](const Tensor& x, int a, int b) { return x.transpose(a, b); }, "axis_a"_a = -2,
          "axis_b"_a = -1, "Two axes exchanged.")
      .def_prop_ro(
          "T", [](const Tensor& x) { return x.rank() < 2 ? x : x.transpose(); },
          "The last two axes exchanged; itself where it has fewer.")
      .def(
          "permute",
          [](const Tensor& x, const nb::args& axes) {
            const Shape order = dims_from(axes);
            return permute_axes(x, {order.begin(), order.end()});
          },
          "Axis i of the result is axis axes[i].",
          nb::sig("def permute(self, *axes: int | collections.abc.Sequence[int]) -> Tensor"))
      .def(
          "expand", [](const Tensor& x, const nb::args& shape) { return x.expand(dims_from(shape)); },
          "Broadcast to a shape; a view.",
          nb::sig("def expand(self, *shape: int | collections.abc.Sequence[int]) -> Tensor"))
      .def("__getitem__", &get_item, "index"_a.none(), nb::sig("def __getitem__(self, index: typing.Any) -> Tensor"))
      .def("__setitem__", &set_item, "index"_a.none(), "value"_a,
           nb::sig("def __setitem__(self, index: typing.Any, value: typing.Any) -> None"))
      .def(
          "__iter__",
          [](const Tensor& x) {
            if (x.rank() == 0) throw nb::type_error("iter: a tensor without axes has no rows");
            nb::list rows;
            for (std::int64_t i = 0; i < x.size(0); ++i) rows.append(x.select(0, i));
            return rows.attr("__iter__")();
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Tensor]"));
}

DType dtype_or(nb::handle dtype, DType other) { return dtype_from(dtype).value_or(other); }

/// A number of arange's as an integer, exactly.
std::optional<std::int64_t> whole_of_range(nb::handle value) {
  try {
    const auto whole = attribute_from(value, AttrKind::integer);
    return whole ? std::optional(std::get<std::int64_t>(*whole)) : std::nullopt;
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("arange: {}", error.what()));
  }
}

double real_of_range(nb::handle value) {
  const auto number = attribute_from(value, AttrKind::real);
  if (!number) refuse_type("arange: start, stop and step", "numbers", value);
  return std::get<double>(*number);
}

/// arange() of integers does not pass through double unless floats are wanted.
Tensor range(nb::handle start, nb::handle stop, nb::handle step, std::optional<DType> dtype) {
  if (!dtype || !(is_floating(*dtype) || *dtype == DType::bf16)) {
    const auto first = whole_of_range(start), last = whole_of_range(stop), stride = whole_of_range(step);
    if (first && last && stride) return arange_whole(*first, *last, *stride, dtype.value_or(DType::i64));
  }
  return arange(real_of_range(start), real_of_range(stop), real_of_range(step), dtype.value_or(DType::f32));
}

/// The type that NumPy and PyTorch give full() for a number: bool, i64 or floats, which are f32 here.
DType type_of_number(nb::handle value) {
  if (attribute_from(value, AttrKind::boolean)) return DType::boolean;
  if (const std::optional<Tensor> one = element_given(value)) return one->dtype();
  return !nb::isinstance<Tensor>(value) && PyIndex_Check(value.ptr()) != 0 ? DType::i64 : DType::f32;
}

/// full() and the like, with their arguments as Python names them.
void bind_makers(nb::module_& m) {
  m.def(
      "zeros",
      [](nb::handle shape, nb::handle dtype, nb::handle device) {
        if (PyLong_Check(dtype.ptr())) throw nb::next_overload(); // zeros(2, 3)
        const DeviceScope there(device_or_current(device, "zeros"));
        return Tensor::zeros(shape_from(shape), dtype_or(dtype, DType::f32));
      },
      "shape"_a, "dtype"_a = "f32", "device"_a = nb::none(), "A tensor of zeros.",
      nb::sig("def zeros(shape: int | collections.abc.Sequence[int], dtype: str = 'f32', device: str | None = None) -> "
              "Tensor"));
  m.def(
      "zeros",
      [](const nb::args& extents, nb::handle dtype, nb::handle device) {
        const DeviceScope there(device_or_current(device, "zeros"));
        return Tensor::zeros(dims_from(extents), dtype_or(dtype, DType::f32));
      },
      "extents"_a, "dtype"_a = "f32", "device"_a = nb::none(), "The same with the extents one by one.",
      nb::sig("def zeros(*extents: int, dtype: str = 'f32', device: str | None = None) -> Tensor"));
  m.def(
      "ones",
      [](nb::handle shape, nb::handle dtype, nb::handle device) {
        if (PyLong_Check(dtype.ptr())) throw nb::next_overload(); // ones(2, 3)
        const DeviceScope there(device_or_current(device, "ones"));
        return Tensor::ones(shape_from(shape), dtype_or(dtype, DType::f32));
      },
      "shape"_a, "dtype"_a = "f32", "device"_a = nb::none(), "A tensor of ones.",
      nb::sig("def ones(shape: int | collections.abc.Sequence[int], dtype: str = 'f32', device: str | None = None) -> "
              "Tensor"));
  m.def(
      "ones",
      [](const nb::args& extents, nb::handle dtype, nb::handle device) {
        const DeviceScope there(device_or_current(device, "ones"));
        return Tensor::ones(dims_from(extents), dtype_or(dtype, DType::f32));
      },
      "extents"_a, "dtype"_a = "f32", "device"_a = nb::none(), "The same with the extents one by one.",
      nb::sig("def ones(*extents: int, dtype: str = 'f32', device: str | None = None) -> Tensor"));
  m.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype, nb::handle device) {
        const DeviceScope there(device_or_current(device, "full"));
        const Shape extents = shape_from(shape);
        const DType type = dtype.is_none() ? type_of_number(value) : dtype_or(dtype, DType::f32);
        if (const auto whole = whole_element(value, type)) {
          const PauseRecording pause; // numbers are constants
          return whole->to(current_device()).expand(extents).clone();
        }
        if (const auto truth = attribute_from(value, AttrKind::boolean))
          return Tensor::full(extents, std::get<bool>(*truth) ? 1.0 : 0.0, type);
        return Tensor::full(extents, constant_from(value, "full", "value", "expand()"), type);
      },
      "shape"_a, "value"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
      "One number everywhere. Without a dtype an integer gives i64, a truth value bool, a float f32, a tensor or array "
      "of "
      "one element its own type.",
      nb::sig("def full(shape: int | collections.abc.Sequence[int], value: float, dtype: str | None = None, device: "
              "str | None = None) -> Tensor"));
  m.def(
      "arange",
      [](nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype, nb::handle device) {
        const DeviceScope there(device_or_current(device, "arange"));
        return stop.is_none() ? range(nb::int_(0), start, step, dtype_from(dtype))
                              : range(start, stop, step, dtype_from(dtype));
      },
      "start"_a, "stop"_a = nb::none(), "step"_a = 1, "dtype"_a = nb::none(), "device"_a = nb::none(),
      "start, start + step, ... before stop; with one number 0, 1, ... before it. Integers give i64, floats f32.",
      nb::sig(
          "def arange(start: float, stop: float | None = None, step: float = 1, dtype: str | None = None, device: str "
          "| None = None) -> Tensor"));
  m.def(
      "linspace",
      [](nb::handle start, nb::handle stop, std::int64_t steps, nb::handle dtype, nb::handle device) {
        const DeviceScope there(device_or_current(device, "linspace"));
        const auto end = [](nb::handle value, const char* argument) {
          return constant_from(value, "linspace", argument, "start + (stop - start) * linspace(0, 1, steps)");
        };
        return linspace(end(start, "start"), end(stop, "stop"), steps, dtype_or(dtype, DType::f32));
      },
      "start"_a, "stop"_a, "steps"_a, "dtype"_a = "f32", "device"_a = nb::none(),
      "`steps` numbers from start to stop, both included.",
      nb::sig("def linspace(start: float, stop: float, steps: int, dtype: str = 'f32', device: str | None = None) -> "
              "Tensor"));
  m.def(
      "eye",
      [](std::int64_t rows, std::int64_t columns, nb::handle dtype, nb::handle device) {
        const DeviceScope there(device_or_current(device, "eye"));
        return eye(rows, columns, dtype_or(dtype, DType::f32));
      },
      "rows"_a, "columns"_a = -1, "dtype"_a = "f32", "device"_a = nb::none(),
      "Ones on the diagonal; square unless columns are given.",
      nb::sig("def eye(rows: int, columns: int = -1, dtype: str = 'f32', device: str | None = None) -> Tensor"));
}

void bind_comparisons(nb::module_& m) {
  m.def("same_bits", &same_bits, "a"_a, "b"_a, "True when dtype, shape and every bit are equal.");
  m.def("relative_error", &relative_error, "a"_a, "reference"_a, "max |a - reference| / max |reference|.");
}

} // namespace

void bind_tensor(nb::module_& m) {
  nb::class_<Tensor> cls(m, "Tensor", tensor_doc);
  bind_facts(cls);
  bind_values(cls);
  bind_copies(cls);
  bind_views(cls);
  bind_tensor_operators(cls);
  cls.def(
      "__init__",
      [](Tensor* self, nb::handle data) { new (self) Tensor(import_array(data, std::nullopt, std::nullopt)); },
      "data"_a, "What tensor(data) gives.", nb::sig("def __init__(self, data: typing.Any) -> None"));
  nb::implicitly_convertible<ArrayLike, Tensor>();
  m.def("tensor", &tensor_of, "data"_a, "dtype"_a = nb::none(), "copy"_a = nb::none(), "device"_a = nb::none(),
        "A tensor of an array (NumPy, PyTorch, anything with a buffer or DLPack), a number or nested lists of "
        "numbers.\n\n"
        "An array keeps its memory, which both then share: it is copied where it is read-only, runs backwards, is not "
        "aligned or has elements that the library lacks (smaller integers become i64, float16 becomes f32). "
        "copy=True always copies; copy=False raises ValueError where a copy is needed. Python's floats become f32. "
        "device='cuda' copies to a device.",
        nb::sig("def tensor(data: typing.Any, dtype: str | None = None, copy: bool | None = None, device: str | None = "
                "None) -> Tensor"));
  m.def(
      "from_numpy", [](nb::handle array) { return import_array(array, std::nullopt, false); }, "array"_a,
      "A tensor on the array's own memory. Raises ValueError where that cannot be.",
      nb::sig("def from_numpy(array: numpy.ndarray) -> Tensor"));
  m.def(
      "from_dlpack", [](nb::handle array) { return import_array(array, std::nullopt, std::nullopt); }, "array"_a,
      "A tensor on the memory of an object with __dlpack__, on the CPU or a CUDA device; copied where that is "
      "read-only.",
      nb::sig("def from_dlpack(array: typing.Any) -> Tensor"));
  bind_makers(m);
  bind_comparisons(m);
}

} // namespace eg::python
