// How tensors are pickled.

#include "core/call.h"

#include "bindings.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nanobind/ndarray.h>

namespace eg::python {
namespace {

/// The elements as NumPy bytes on the tensor's memory, or on that of a packed copy, on the CPU. They cannot be written
/// to: no tape would notice, and what is read from them in this process must not share them.
nb::object bytes_of(const Tensor& x) {
  const PauseRecording pause;
  auto packed = std::make_unique<Tensor>(x.contiguous().to(Device::cpu()));
  const auto* first = reinterpret_cast<const std::uint8_t*>(packed->bytes());
  const std::size_t size = packed->nbytes();
  const nb::capsule owner(packed.release(), [](void* tensor) noexcept { delete static_cast<Tensor*>(tensor); });
  return nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(first, {size}, owner));
}

nb::object reduced(const Tensor& x, int protocol) {
  const nb::object rebuild = nb::module_::import_("equigrad._pickles").attr("tensor");
  nb::object bytes = bytes_of(x);
  // From protocol 5 on memory can be sent beside the stream; otherwise it becomes bytes in it.
  bytes = protocol >= 5 ? nb::object(nb::module_::import_("pickle").attr("PickleBuffer")(bytes))
                        : nb::object(bytes.attr("tobytes")());
  return nb::make_tuple(rebuild, nb::make_tuple(bytes, tuple_of(x.shape()), name_of(x.dtype())));
}

/// A tensor of packed elements, which are copied.
Tensor from_bytes(nb::handle buffer, nb::handle dims, const std::string& dtype) {
  Py_buffer view;
  if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> held(&view, &PyBuffer_Release);
  const Shape shape = shape_from(dims);
  const DType type = dtype_named(dtype);
  const auto size = static_cast<std::size_t>(view.len);
  if (size != Tensor::meta(shape, type).nbytes())
    throw ValueError(fmt::format("tensor: {} bytes do not fill {} {}", size, dtype, shape.str()));
  Tensor copy = Tensor::empty(shape, type);
  std::copy_n(static_cast<const std::byte*>(view.buf), size, copy.mutable_bytes());
  return copy;
}

} // namespace

void bind_pickles(nb::module_& m) {
  nb::class_<Tensor> cls = nb::borrow<nb::class_<Tensor>>(m.attr("Tensor"));
  cls.def("__reduce_ex__", &reduced, "protocol"_a,
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> tuple[typing.Any, ...]"));
  m.def("_from_bytes", &from_bytes);
}

} // namespace eg::python
