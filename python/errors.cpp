// The library's errors as Python exceptions with the same words. Each is also the built-in exception that Python
// programs expect, so `except ValueError` works.

#include "core/base/error.h"
#include "permute/symmetries.h"

#include "bindings.h"

#include <array>
#include <typeinfo>

namespace eg::python {
namespace {

/// One class of errors: how C++ and Python call it, and what it is besides eg.Error.
struct ErrorClass {
  const std::type_info* type;
  const char* name;
  const char* doc;
  PyObject* made = nullptr; // for as long as the process lives
};

std::array<ErrorClass, 12>& classes() {
  static std::array<ErrorClass, 12> list = {{
      {&typeid(Error), "Error", "Base of every error that equigrad raises."},
      {&typeid(ShapeError), "ShapeError", "Shapes that do not fit the operation."},
      {&typeid(DTypeError), "DTypeError", "An element type that the operation does not take."},
      {&typeid(IndexError), "IndexError", "An index, axis or label outside its range."},
      {&typeid(ValueError), "ValueError", "An option or attribute that does not exist or is out of range."},
      {&typeid(MemoryError), "MemoryError", "A request beyond the allocator's limit or the machine's memory."},
      {&typeid(FileError), "FileError", "A file that is missing, truncated, corrupt or of another kind."},
      {&typeid(AutogradError), "AutogradError", "A tape used in a way that cannot give a gradient."},
      {&typeid(NumericError), "NumericError", "A NaN or an infinity where numbers were wanted."},
      {&typeid(Interrupted), "Interrupted", "The work was stopped by the user."},
      {&typeid(DeviceError), "DeviceError", "A device that is not there, or a tensor that is on another one."},
      {&typeid(permute::SymmetryError), "SymmetryError", "A claimed symmetry that the model does not have."},
  }};
  return list;
}

/// The built-in exceptions in the order of classes().
std::array<PyObject*, 12> builtin_bases() {
  return {PyExc_Exception,       PyExc_ValueError,        PyExc_TypeError,    PyExc_IndexError,
          PyExc_ValueError,      PyExc_MemoryError,       PyExc_OSError,      PyExc_RuntimeError,
          PyExc_ArithmeticError, PyExc_KeyboardInterrupt, PyExc_RuntimeError, PyExc_RuntimeError};
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    PyObject* found = classes()[0].made;
    for (const ErrorClass& known : classes())
      if (*known.type == typeid(e)) found = known.made;
    // Messages may contain a file name that is not UTF-8.
    const nb::object words =
        nb::steal(PyUnicode_DecodeUTF8(e.what(), std::ssize(std::string_view(e.what())), "backslashreplace"));
    PyErr_SetObject(found, words.ptr());
  }
}

} // namespace

void bind_errors(nb::module_& m) {
  const auto bases = builtin_bases();
  for (std::size_t i = 0; i < classes().size(); ++i) {
    ErrorClass& known = classes()[i];
    const std::string name = std::string("equigrad.") + known.name;
    const nb::object base =
        i == 0 ? nb::borrow(bases[i]) : nb::make_tuple(nb::handle(classes()[0].made), nb::handle(bases[i]));
    known.made = PyErr_NewExceptionWithDoc(name.c_str(), known.doc, base.ptr(), nullptr);
    if (known.made == nullptr) throw nb::python_error();
    m.attr(known.name) = nb::handle(known.made);
  }
  nb::register_exception_translator(translate);
}

} // namespace eg::python
