// Lends the library Python's lzma and tarfile, in builds without libarchive.

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "data/lent_archives.h"

#include "bindings.h"

#include <exception>
#include <fmt/format.h>

namespace eg::python {
namespace {

/// Calls f() with the interpreter's lock. A ValueError that it raises becomes a FileError that begins with `source`.
template <class F> auto with_python(const std::string& source, F&& f) {
  const nb::gil_scoped_acquire locked; // the thread may be one of the library's
  try {
    return f(nb::module_::import_("equigrad._archives"));
  } catch (nb::python_error& e) {
    if (e.matches(PyExc_MemoryError)) fail_out_of_memory(fmt::format("{}: unpacking", source));
    if (!e.matches(PyExc_ValueError)) throw;
    throw FileError(fmt::format("{}: {}", source, nb::str(e.value()).c_str()));
  }
}

nb::bytes bytes_of(ByteView bytes) { return nb::bytes(bytes.data(), bytes.size()); }

ByteView view_of(const nb::bytes& bytes) { return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()}; }

Bytes unpack_xz(ByteView packed, const std::string& source, std::uint64_t limit) {
  return with_python(source, [&](const nb::module_& archives) {
    const auto unpacked = nb::cast<nb::bytes>(archives.attr("unpack_xz")(bytes_of(packed), limit));
    const ByteView bytes = view_of(unpacked);
    return Bytes(bytes.begin(), bytes.end());
  });
}

void read_tar(ByteView tar, const std::string& source, FunctionRef<void(const data::ArchiveMember&)> visit) {
  std::exception_ptr refused; // the visitor's own error passes Python as it is
  with_python(source, [&](const nb::module_& archives) {
    const nb::object each = nb::cpp_function([&](const nb::bytes& name, const nb::bytes& content) {
      try {
        visit({std::string(name.c_str(), name.size()), view_of(content)});
      } catch (...) {
        refused = std::current_exception();
        throw ValueError("refused");
      }
    });
    try {
      archives.attr("read_tar")(bytes_of(tar), each);
    } catch (nb::python_error&) {
      if (!refused) throw;
    }
  });
  if (refused) std::rethrow_exception(refused);
}

} // namespace

void lend_python_archives() { data::lend_archives({.unpack_xz = unpack_xz, .read_tar = read_tar}); }

} // namespace eg::python
