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
  bool (*is)(const Error*); ///< whether an error is of it, or of a class that derives from it
  const char* name;
  const char* doc;
  PyObject* made = nullptr; // for as long as the process lives
};

template <class E> constexpr ErrorClass error_class(const char* name, const char* doc) {
  return {&typeid(E), [](const Error* e) { return dynamic_cast<const E*>(e) != nullptr; }, name, doc};
}

std::array<ErrorClass, 12>& classes() {
  static std::array<ErrorClass, 12> list = {{
      error_class<Error>("Error", "Base of every error that equigrad raises."),
      error_class<ShapeError>("ShapeError", "Shapes that do not fit the operation."),
      error_class<DTypeError>("DTypeError", "An element type that the operation does not take."),
      error_class<IndexError>("IndexError", "An index, axis or label outside its range."),
      error_class<ValueError>("ValueError", "An option or attribute that does not exist or is out of range."),
      error_class<MemoryError>("MemoryError", "A request beyond the allocator's limit or the machine's memory."),
      error_class<FileError>("FileError", "A file that is missing, truncated, corrupt or of another kind."),
      error_class<AutogradError>("AutogradError", "A tape used in a way that cannot give a gradient."),
      error_class<NumericError>("NumericError", "A NaN or an infinity where numbers were wanted."),
      error_class<Interrupted>("Interrupted", "The work was stopped by the user."),
      error_class<DeviceError>("DeviceError", "A device that is not there, or a tensor that is on another one."),
      error_class<permute::SymmetryError>("SymmetryError", "A claimed symmetry that the model does not have."),
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
    PyObject* found = nullptr;
    for (const ErrorClass& known : classes()) // the base of all comes first
      if (known.is(&e)) found = known.made;
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
