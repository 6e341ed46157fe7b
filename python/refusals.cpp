// Says in one line which arguments a function takes. nanobind refuses others with a list of signatures on lines of
// their own; its words go through PyErr_SetString, which the linker hands to us here (CMakeLists.txt, --wrap).

#include "bindings.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace eg::python {
namespace {

constexpr std::string_view mark = "(): incompatible function arguments. The following argument types are supported:\n";
constexpr std::string_view core = "equigrad._core.";
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

/// The class that nanobind calls `name`; invalid where no module has it under that name.
nb::object class_named(const std::string& name) {
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    nb::object found = modules.attr("get")(name.substr(0, dot));
    for (std::size_t at = dot; at != std::string::npos;) {
      const std::size_t end = name.find('.', at + 1);
      const std::string part = name.substr(at + 1, end == std::string::npos ? end : end - at - 1);
      found = nb::getattr(found, part.c_str(), nb::none());
      at = end;
    }
    if (nb::isinstance<nb::type_object>(found)) return found;
  }
  return {};
}

/// Whether the method belongs to the first argument that was given. Tensor.clone(3) does not make it one of int. Of a
/// class that is not found it is taken to be one.
bool is_method_of(const std::string& type, const std::string& method, const std::string& signature) {
  if (type.find('.') == std::string::npos) return false; // int, ndarray: what nanobind makes is named with its module
  try {
    const nb::object cls = class_named(type);
    if (!cls.is_valid()) return true;
    for (const nb::handle base : nb::borrow<nb::tuple>(cls.attr("__mro__"))) {
      const nb::object found = base.attr("__dict__").attr("get")(method);
      if (found.is_none()) continue;
      const nb::object words = nb::getattr(found, "__doc__", nb::none());
      if (nb::isinstance<nb::str>(words) && nb::cast<std::string>(words).find(signature) != std::string::npos)
        return true;
    }
    return false;
  } catch (const std::exception&) { // a class of the user's whose attributes cannot be read
    return true;
  }
}

bool is_of_names(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether a list of arguments, "(x: Tensor, *, mask: Tensor)" or "kwargs = { mask: Tensor }", has one of that name.
bool has_argument(std::string_view arguments, const std::string& name) {
  for (std::size_t at = arguments.find(name); at != std::string_view::npos; at = arguments.find(name, at + 1)) {
    const std::string_view behind = arguments.substr(at + name.size());
    if ((at == 0 || !is_of_names(arguments[at - 1])) && (behind.starts_with(":") || behind.starts_with(" =")))
      return true;
  }
  return false;
}

/// "; gradients come from a tape: ..." where an argument was given that other libraries have and this function has not,
/// or where the function has words of its own for a wrong call; else nothing.
std::string hint_for(const std::string& function, const std::vector<std::string>& taken, const std::string& given) {
  const auto takes = [&](const std::string& name) {
    return std::any_of(taken.begin(), taken.end(), [&](const auto& one) { return has_argument(one, name); });
  };
  try {
    const nb::module_ names = nb::module_::import_("equigrad._names");
    for (const auto [key, text] : nb::cast<nb::dict>(names.attr("ARGUMENT_WORDS")))
      if (const auto name = nb::cast<std::string>(key); has_argument(given, name) && !takes(name))
        return "; " + nb::cast<std::string>(text);
    const nb::object words = names.attr("CALL_WORDS").attr("get")(function);
    if (!words.is_none()) return "; " + nb::cast<std::string>(words);
  } catch (const std::exception&) { // while the package is imported
  }
  return {};
}

/// nanobind's words on several lines as one line; other words as they are.
std::string on_one_line(std::string_view words) {
  const std::size_t end_of_name = words.find(mark);
  const std::size_t invoked = words.rfind(invoked_mark);
  if (end_of_name == std::string_view::npos || invoked == std::string_view::npos) return std::string(words);
  const std::string name(words.substr(0, end_of_name));
  std::string_view signatures = words.substr(end_of_name + mark.size(), invoked - end_of_name - mark.size());
  const std::string given_in_full(words.substr(invoked + invoked_mark.size()));
  std::string given = without(given_in_full, core);
  std::string type;
  std::vector<std::string> taken;
  while (!signatures.empty()) {
    const std::size_t line_end = std::min(signatures.find('\n'), signatures.size());
    const std::string in_full(signatures.substr(0, line_end)), line = without(in_full, core);
    signatures.remove_prefix(std::min(line_end + 1, signatures.size()));
    const std::size_t open = line.find('('), arrow = line.rfind(" -> ");
    if (open == std::string::npos) continue;
    std::string arguments = line.substr(open, arrow == std::string::npos ? arrow : arrow - open);
    const std::string first = given_in_full.substr(0, given_in_full.find(','));
    const std::string signature = in_full.substr(in_full.find(". ") + 2); // without its number
    const bool bound = !arguments.starts_with("(self") || is_method_of(first, name, signature);
    for (const std::string_view self : {"(self, /, ", "(self, /", "(self, ", "(self", "(cls: object, "})
      if (bound && arguments.starts_with(self)) { // the first that was given
        type = self.starts_with("(cls") ? line.substr(arrow + 4) : without(first, core);
        arguments.replace(0, self.size(), "(");
        break;
      }
    taken.push_back(arguments);
  }
  const std::string function = called(name, type), hint = hint_for(function, taken, given);
  if (!type.empty()) given.erase(0, given.find(',') == std::string::npos ? given.size() : given.find(',') + 2);
  return fmt::format("{}: it takes {}, and was given ({}){}", function, fmt::join(taken, " or "), given, hint);
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
