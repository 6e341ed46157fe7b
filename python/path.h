#pragma once
// Converts paths passed as arguments.

#include "bindings.h"

namespace eg::python {

/// An argument that names a file or folder: str, bytes or os.PathLike.
struct Path {
  nb::object given;
  /// Needs the lock. Throws what os.fsencode does: TypeError for anything else, ValueError for a zero byte.
  std::string str() const {
    PyObject* bytes = nullptr;
    if (PyUnicode_FSConverter(given.ptr(), &bytes) == 0) throw nb::python_error();
    return nb::steal<nb::bytes>(bytes).c_str();
  }
};

} // namespace eg::python

/// Takes anything, so that str() says what is wrong in words.
template <> struct nanobind::detail::type_caster<eg::python::Path> {
  NB_TYPE_CASTER(eg::python::Path, const_name("str | os.PathLike"))
  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    value.given = borrow(source);
    return true;
  }
};
