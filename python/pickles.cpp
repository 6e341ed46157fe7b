// How tensors are pickled.

#include "core/call.h"

#include "bindings.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nanobind/ndarray.h>

namespace eg::python {
namespace {

/// The elements as NumPy bytes on the tensor's memory, or on that of a packed copy. Pickle sends what cannot be written
/// to so that it cannot be written to where it arrives, so these can, and nobody does.
nb::object bytes_of(const Tensor& x) {
  const PauseRecording pause;
  auto packed = std::make_unique<Tensor>(x.contiguous());
  auto* first = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(packed->bytes()));
  const std::size_t size = packed->nbytes();
  const nb::capsule owner(packed.release(), [](void* tensor) noexcept { delete static_cast<Tensor*>(tensor); });
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(first, {size}, owner));
}

nb::object reduced(const Tensor& x, int protocol) {
  const nb::object rebuild = nb::module_::import_("equigrad._pickles").attr("tensor");
  nb::object bytes = bytes_of(x);
  // From protocol 5 on memory can be sent beside the stream; where nobody asks for that it becomes bytes in it.
  bytes = protocol >= 5 ? nb::object(nb::module_::import_("pickle").attr("PickleBuffer")(bytes))
                        : nb::object(bytes.attr("tobytes")());
  return nb::make_tuple(rebuild, nb::make_tuple(bytes, tuple_of(x.shape()), name_of(x.dtype())));
}

/// A tensor of packed elements: on the buffer's memory where that can be written to, else on a copy.
Tensor from_bytes(nb::handle buffer, nb::handle dims, const std::string& dtype) {
  const auto release = [](Py_buffer* view) {
    if (!nb::is_alive()) return; // the interpreter is gone, and its objects with it
    const nb::gil_scoped_acquire locked;
    PyBuffer_Release(view);
    delete view; // NOLINT(cppcoreguidelines-owning-memory)
  };
  std::unique_ptr<Py_buffer> asked = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(buffer.ptr(), asked.get(), PyBUF_SIMPLE) != 0) throw nb::python_error();
  const std::shared_ptr<Py_buffer> view(asked.release(), release);
  const Shape shape = shape_from(dims);
  const DType type = dtype_named(dtype);
  const auto size = static_cast<std::size_t>(view->len);
  if (size != Tensor::meta(shape, type).nbytes())
    throw ValueError(fmt::format("tensor: {} bytes do not fill {} {}", size, dtype, shape.str()));
  auto* first = static_cast<std::byte*>(view->buf);
  const bool aligned = reinterpret_cast<std::uintptr_t>(first) % size_of(type) == 0;
  if (view->readonly == 0 && aligned && size > 0)
    return Tensor::adopt(std::shared_ptr<std::byte>(view, first), size, shape, type);
  Tensor copy = Tensor::empty(shape, type);
  std::copy_n(first, size, copy.mutable_bytes());
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
