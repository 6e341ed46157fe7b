#pragma once
// Binds the base class of modules written in Python, and the layers.

#include "nn/module.h"

#include "bindings.h"

#include <deque>
#include <fmt/format.h>
#include <map>
#include <nanobind/typing.h>
#include <set>
#include <utility>
#include <vector>

namespace eg::python {

/// A module made in Python: children and parameters are what is assigned to its attributes, and forward() computes.
class PyModule : public nn::Module {
public:
  /// Registers what is assigned under a name where it is a module, a sequence or dict of modules, a Parameter, or the
  /// tensor of a parameter in this module, which is tied then. False where it is none of these. Throws ValueError when
  /// the name is registered already.
  bool assign(const std::string& name, nb::handle value);
  /// Throws ValueError where modules or Parameters were put into a list, dict or set that is an attribute of `self`,
  /// after it was assigned. Looks into all of them at first, then into those whose length is not what it was.
  void require_lists_as_assigned(nb::handle self) const;
  /// Remembers the list or dict whose modules were registered under a name: one that grows afterwards is refused.
  void remember_source(const std::string& name, nb::handle source) { sources_[name] = nb::borrow(source); }
  /// Throws ValueError where such a list or dict has grown since.
  void require_sources_as_assigned(nb::handle self) const;
  /// The parameter or state of that name; nullptr where there is none.
  Tensor* find(const std::string& name);
  bool holds(const std::string& name) const { return tensors_.contains(name) || children_.contains(name); }
  void add_state(const std::string& name, const Tensor& value);
  /// What was registered, in that order: (name, a module, a tuple or mapping of modules, or a Parameter or tensor).
  nb::list parts() const;
  /// forward(*args, **kwargs), named in the errors of what runs inside.
  nb::object run(nb::handle self, const nb::args& args, const nb::kwargs& kwargs) const;
  /// Calls visit(object) for every Python object that is held.
  template <class Visit> int each_child(Visit visit) const {
    for (const auto& [name, child] : children_)
      if (const int stop = visit(child.ptr()); stop != 0) return stop;
    for (const auto& [name, source] : sources_)
      if (const int stop = visit(source.ptr()); stop != 0) return stop;
    return 0;
  }
  void clear_children() {
    const auto sources = std::exchange(sources_, {});
    children_.clear();
  }
  /// Calls visit(module) for every module that is held, alone or among others.
  template <class Visit> void each_module_held(Visit visit) const;

private:
  bool replace(const std::string& name, nb::handle value);
  bool is_parameter_of_this(const Tensor& value) const;
  Tensor& slot(const std::string& name, const Tensor& value);
  static bool contains(const nn::Module* whole, const nn::Module* part);
  std::vector<std::string> order_; // of registration
  std::map<std::string, Tensor*> tensors_;
  std::set<std::string> states_;               // those of the tensors that are not trained
  std::deque<Tensor> slots_;                   // whose addresses stay
  std::map<std::string, nb::object> children_; // modules are registered by address, so they must not go before us
  mutable std::map<std::string, nb::object> sources_;  // lists and dicts that modules were registered from
  mutable std::map<std::string, std::size_t> lengths_; // of lists, dicts and sets without modules
};

/// A tensor that a Python module trains.
struct PyParameter {
  Tensor value;
};

namespace detail {
inline void add_arguments(nb::dict&) {}
template <class V, class... Rest>
void add_arguments(nb::dict& dict, const char* name, const V& value, const Rest&... rest) {
  dict[name] = nb::cast(value);
  add_arguments(dict, rest...);
}
} // namespace detail

/// Arguments by name: arguments("dim", 3, "eps", 1e-5).
template <class... NamesAndValues> nb::dict arguments(const NamesAndValues&... names_and_values) {
  nb::dict dict;
  detail::add_arguments(dict, names_and_values...);
  return dict;
}

/// Says how modules of a class are copied and pickled: arguments_of(module) is what its constructor takes to make one
/// of the same structure, whatever the key.
template <class Layer, class Cls, class ArgumentsOf> void made_from(Cls& cls, ArgumentsOf arguments_of) {
  cls.def("_arguments", [arguments_of](const Layer& self) { return arguments_of(self); });
}

/// The same for a module that is made from its public config and a key.
template <class Layer, class Cls> void made_from_config(Cls& cls) {
  made_from<Layer>(cls, [](const Layer& self) { return arguments("config", self.config, "key", 0); });
}

enum class Missing : bool { never, sometimes };

/// Adds an attribute for a parameter or a running statistic: the tensor that the module holds now, None where it has
/// none. What is assigned goes through Module.__setattr__, which takes tensors that fit; the setter refuses the rest.
template <class Cls>
void tensor_attribute(Cls& cls, const char* name, Tensor Cls::Type::*member, Missing missing = Missing::never,
                      const char* doc = "") {
  const std::string get =
      fmt::format("def {}(self) -> equigrad._core.Tensor{}", name, missing == Missing::sometimes ? " | None" : "");
  const std::string set = fmt::format("def {}(self, value: equigrad._core.Tensor | Parameter, /) -> None", name);
  cls.def_prop_rw(
      name, [member](const typename Cls::Type& self) { return to_python(self.*member); },
      [name = std::string(name)](typename Cls::Type&, nb::handle value) {
        refuse_type(fmt::format("module: '{}'", name), "a Tensor that takes the place of its own", value);
      },
      doc, nb::for_getter(nb::sig(get.c_str())), nb::for_setter(nb::sig(set.c_str())));
}

/// The same for a child that may be missing.
template <class Cls, class Child>
void optional_child(Cls& cls, const char* name, std::optional<Child> Cls::Type::*member, const char* type) {
  const std::string signature = fmt::format("def {}(self) -> {} | None", name, type);
  cls.def_prop_ro(
      name,
      [member](nb::handle self) -> nb::object {
        auto& child = nb::cast<typename Cls::Type&>(self).*member;
        return child ? nb::cast(&*child, nb::rv_policy::reference_internal, self) : nb::none();
      },
      nb::sig(signature.c_str()));
}

/// Children that a module owns one by one, as a tuple; each keeps `self` alive.
template <class Owned> nb::tuple children(nb::handle self, const Owned& owned) {
  nb::list list;
  for (const auto& child : owned) list.append(nb::cast(child.get(), nb::rv_policy::reference_internal, self));
  return nb::tuple(list);
}

/// The default of an optional tensor argument.
inline Tensor or_undefined(const std::optional<Tensor>& tensor) { return tensor.value_or(Tensor{}); }

} // namespace eg::python
