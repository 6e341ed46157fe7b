// Says in one line which arguments a function takes. nanobind refuses others with a list of signatures on lines of
// their own; its words go through PyErr_SetString, which the linker hands to us here (CMakeLists.txt, --wrap).

#include "bindings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace eg::python {
namespace {

constexpr std::string_view mark = "(): incompatible function arguments. The following argument types are supported:\n";
constexpr std::string_view invoked_mark = "\nInvoked with types: ";

std::string without(std::string text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
  return text;
}

/// What the user wrote to call it: clone of a Tensor is Tensor.clone, __init__ of one is Tensor.
std::string called(const std::string& name, const std::string& type) {
  if (type.empty()) return name;
  const std::string short_type = type.substr(type.rfind('.') + 1);
  return name == "__init__" || name == "__new__" ? short_type : fmt::format("{}.{}", short_type, name);
}

/// nanobind's words on several lines as one line; other words as they are.
std::string on_one_line(std::string_view words) {
  const std::size_t end_of_name = words.find(mark);
  const std::size_t invoked = words.rfind(invoked_mark);
  if (end_of_name == std::string_view::npos || invoked == std::string_view::npos) return std::string(words);
  const std::string name(words.substr(0, end_of_name));
  std::string_view signatures = words.substr(end_of_name + mark.size(), invoked - end_of_name - mark.size());
  std::string given = without(std::string(words.substr(invoked + invoked_mark.size())), "equigrad._core.");
  std::string type;
  std::vector<std::string> taken;
  while (!signatures.empty()) {
    const std::size_t line_end = std::min(signatures.find('\n'), signatures.size());
    const std::string line = without(std::string(signatures.substr(0, line_end)), "equigrad._core.");
    signatures.remove_prefix(std::min(line_end + 1, signatures.size()));
    const std::size_t open = line.find('('), arrow = line.rfind(" -> ");
    if (open == std::string::npos) continue;
    std::string arguments = line.substr(open, arrow == std::string::npos ? arrow : arrow - open);
    for (const std::string_view self : {"(self, /, ", "(self, /", "(self, ", "(self", "(cls: object, "})
      if (arguments.starts_with(self)) { // the first that was given
        type = self.starts_with("(cls") ? line.substr(arrow + 4) : given.substr(0, given.find(','));
        arguments.replace(0, self.size(), "(");
        break;
      }
    taken.push_back(arguments);
  }
  if (!type.empty()) given.erase(0, given.find(',') == std::string::npos ? given.size() : given.find(',') + 2);
  return fmt::format("{}: it takes {}, and was given ({})", called(name, type), fmt::join(taken, " or "), given);
}

} // namespace
} // namespace eg::python

extern "C" {
void __real_PyErr_SetString(PyObject* type, const char* words);

void __wrap_PyErr_SetString(PyObject* type, const char* words) {
  if (type == PyExc_TypeError && words != nullptr)
    __real_PyErr_SetString(type, eg::python::on_one_line(words).c_str());
  else
    __real_PyErr_SetString(type, words);
}
}
