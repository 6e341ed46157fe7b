#pragma once
// Binds config structs: every field an attribute and a keyword of the constructor, from one list.

#include "core/base/words.h"

#include "bindings.h"

#include <fmt/format.h>
#include <functional>
#include <type_traits>

namespace eg::python {

/// How a type is called in a signature.
template <class T> std::string type_word() {
  if constexpr (std::is_same_v<T, bool>)
    return "bool";
  else if constexpr (std::is_integral_v<T>)
    return "int";
  else if constexpr (std::is_floating_point_v<T>)
    return "float";
  else if constexpr (std::is_same_v<T, std::string>)
    return "str";
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    return "collections.abc.Sequence[float]";
  else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
    return "collections.abc.Sequence[int]";
  else
    return nb::cast<std::string>(nb::type<T>().attr("__name__"));
}

/// Binds a struct: Config<C>(m, "C", doc).field("dim", &C::dim, doc)...done();
template <class T> class Config {
public:
  Config(nb::module_& m, const char* name, const char* doc) : cls_(m, name, doc) {}

  template <class V> Config& field(const char* name, V T::*member, const char* doc) {
    cls_.def_rw(name, member, doc);
    add<V>(name, doc, [member](T& self, nb::handle value) { self.*member = nb::cast<V>(value); });
    return *this;
  }

  /// A field of an enumeration, which Python gives by name.
  template <class E, class Named, class NameOf>
  Config& word(const char* name, E T::*member, Named named, NameOf name_of, const char* doc) {
    const auto set = [member, named](T& self, const std::string& word) { self.*member = named(word); };
    cls_.def_prop_rw(
        name, [member, name_of](const T& self) { return std::string(name_of(self.*member)); }, set, doc);
    add<std::string>(name, doc, [set](T& self, nb::handle value) { set(self, nb::cast<std::string>(value)); });
    return *this;
  }

  nb::class_<T>& done() {
    const std::string signature = fmt::format("def __init__(self, *{}) -> None", parameters_);
    cls_.def(
        "__init__", [fields = fields_](T* self, const nb::kwargs& given) { new (self) T(made(fields, given)); },
        nb::sig(signature.c_str()), lines_.c_str());
    cls_.def("__repr__", [fields = fields_](nb::handle self) { return text(fields, self); });
    cls_.def(
        "__reduce__",
        [fields = fields_](nb::handle self) {
          return nb::module_::import_("equigrad._pickles").attr("reduce_config")(self, values(fields, self));
        },
        nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
    cls_.def(
        "__eq__", [fields = fields_](nb::handle self, nb::handle other) { return equal(fields, self, other); },
        nb::sig("def __eq__(self, other: object, /) -> bool"));
    cls_.attr("__hash__") = nb::none(); // a config can be changed
    return cls_;
  }

private:
  struct Field {
    std::string name;
    std::string type;
    std::function<void(T&, nb::handle)> set;
  };
  using Fields = std::vector<Field>;

  template <class V> void add(const char* name, const char* doc, std::function<void(T&, nb::handle)> set) {
    parameters_ += fmt::format(", {}: {} = ...", name, type_word<V>());
    lines_ += fmt::format("{}: {}\n", name, doc);
    fields_.push_back({name, type_word<V>(), std::move(set)});
  }

  static T made(const Fields& fields, const nb::kwargs& given) {
    T config{};
    for (const auto [key, value] : given) {
      const Field& field = find(fields, nb::cast<std::string>(key));
      try {
        field.set(config, value);
      } catch (const nb::cast_error&) {
        throw nb::type_error(fmt::format("config: '{}' must be {}, not {}", field.name, field.type,
                                         nb::type_name(nb::handle(value).type()).c_str())
                                 .c_str());
      }
    }
    return config;
  }

  static const Field& find(const Fields& fields, const std::string& name) {
    std::vector<std::string> names;
    for (const Field& field : fields) {
      if (field.name == name) return field;
      names.push_back(field.name);
    }
    throw nb::type_error(fmt::format("config: there is no field '{}'{}", name, did_you_mean(name, names)).c_str());
  }

  static nb::dict values(const Fields& fields, nb::handle self) {
    nb::dict dict;
    for (const Field& field : fields) dict[field.name.c_str()] = self.attr(field.name.c_str());
    return dict;
  }

  static nb::object equal(const Fields& fields, nb::handle self, nb::handle other) {
    if (!other.type().is(self.type())) return nb::borrow(Py_NotImplemented);
    return nb::bool_(values(fields, self).equal(values(fields, other)));
  }

  static std::string text(const Fields& fields, nb::handle self) {
    std::string words;
    for (const Field& field : fields)
      words += fmt::format("{}{}={}", words.empty() ? "" : ", ", field.name,
                           nb::repr(self.attr(field.name.c_str())).c_str());
    return fmt::format("{}({})", nb::cast<std::string>(self.type().attr("__name__")), words);
  }

  nb::class_<T> cls_;
  Fields fields_;
  std::string parameters_, lines_;
};

} // namespace eg::python
