#include "modules.h"

#include "core/call.h"
#include "core/device/device.h"

#include "hooks.h"
#include "kept.h"

#include <algorithm>
#include <fmt/format.h>
#include <nanobind/operators.h>
#include <set>

namespace eg::python {

Tensor& PyModule::slot(const std::string& name, const Tensor& value) {
  Tensor& place = slots_.emplace_back(value);
  tensors_[name] = &place;
  return place;
}

void PyModule::add_state(const std::string& name, const Tensor& value) {
  if (holds(name)) throw ValueError(fmt::format("module: '{}' is registered already", name));
  register_state(name, slot(name, value));
  order_.push_back(name);
  states_.insert(name);
}

namespace {

bool is_sequence(nb::handle value) { return PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0; }

bool is_mapping(nb::handle value) {
  return PyDict_Check(value.ptr()) != 0 || Py_TYPE(value.ptr()) == &PyDictProxy_Type;
}

bool is_deque(nb::handle value) { return std::string_view(Py_TYPE(value.ptr())->tp_name) == "collections.deque"; }

/// An array of NumPy's whose elements are Python's objects.
bool is_object_array(nb::handle value) {
  if (std::string_view(Py_TYPE(value.ptr())->tp_name) != "numpy.ndarray") return false;
  return nb::cast<std::string>(value.attr("dtype").attr("kind")) == "O";
}

/// A list, tuple, set, dict, read-only mapping, deque or array of objects.
bool holds_others(nb::handle value) {
  return is_sequence(value) || is_mapping(value) || PyAnySet_Check(value.ptr()) != 0 || is_deque(value) ||
         is_object_array(value);
}

/// What such a value holds; of a dict its values.
nb::object contents_of(nb::handle value) {
  if (is_object_array(value)) return nb::borrow(value.attr("flat"));
  return is_mapping(value) ? value.attr("values")() : nb::borrow(value);
}

template <class T> bool holds(nb::handle value) {
  for (const nb::handle item : contents_of(value))
    if (nb::isinstance<T>(item)) return true;
  return false;
}

/// Whether modules or Parameters are in it, however deep.
bool holds_parts(nb::handle value, int depth = 0) {
  if (!holds_others(value)) return false;
  if (holds<nn::Module>(value) || holds<PyParameter>(value)) return true;
  if (depth == 8) return false; // it may be in itself
  for (const nb::handle item : contents_of(value))
    if (holds_parts(item, depth + 1)) return true;
  return false;
}

bool is_module_list(nb::handle value) { return is_sequence(value) && holds<nn::Module>(value); }
bool is_module_dict(nb::handle value) { return is_mapping(value) && holds<nn::Module>(value); }

nn::Module& module_of(nb::handle object, std::string_view what) {
  return instance_of<nn::Module>(object, what, "a Module whose super().__init__() was called");
}

/// What a module registers when it is assigned to an attribute.
bool is_part(nb::handle value) {
  return is_module_list(value) || is_module_dict(value) || nb::isinstance<nn::Module>(value) ||
         nb::isinstance<PyParameter>(value);
}

/// The part of a name that a key of a dict of modules gives.
std::string key_of_module(const std::string& name, nb::handle key) {
  const bool text = nb::isinstance<nb::str>(key);
  const std::string word = text ? nb::cast<std::string>(key) : std::string(nb::str(key).c_str());
  if (!text || word.empty() || word.find('.') != std::string::npos)
    throw ValueError(fmt::format("module: '{}' is a dict of modules, whose keys are text without dots, not {}", name,
                                 nb::repr(key).c_str()));
  return fmt::format("{}.{}", name, word);
}

/// The modules of a value that is a part, with the names that they are registered under.
std::vector<std::pair<std::string, nn::Module*>> named_modules_in(const std::string& name, nb::handle value) {
  std::vector<std::pair<std::string, nn::Module*>> found;
  const auto add = [&](const std::string& full, nb::handle child) {
    found.emplace_back(full, &module_of(child, fmt::format("module: '{}'", full)));
  };
  if (nb::isinstance<nn::Module>(value))
    add(name, value);
  else if (is_mapping(value))
    for (const nb::handle item : value.attr("items")()) add(key_of_module(name, item[0]), nb::object(item[1]));
  else
    for (const nb::handle child : value) add(fmt::format("{}.{}", name, found.size()), child);
  return found;
}

[[noreturn]] void refuse_lost_parts(nb::handle self, const std::string& name, nb::handle value) {
  const std::string kind = nb::str(value.type().attr("__name__")).c_str();
  throw ValueError(fmt::format(
      "module: '{}' of a {} holds modules or Parameters that are not registered, as they were put into the {} after it "
      "was assigned; assign the {} once it is full",
      name, nb::type_name(self.type()).c_str(), kind, kind));
}

/// Calls visit(name, value) for every attribute of an object that is a list, tuple, dict or set.
template <class Visit> void each_attribute_that_holds_others(nb::handle self, Visit visit) {
  const nb::object attributes = nb::getattr(self, "__dict__", nb::none());
  if (!nb::isinstance<nb::dict>(attributes)) return; // a module of the library's own class
  for (const auto [name, value] : nb::borrow<nb::dict>(attributes))
    if (holds_others(value)) visit(nb::cast<std::string>(name), value);
}

/// require_lists_as_assigned() of a module and all in it, whatever the lengths.
void require_all_registered(nb::handle self, std::set<const nn::Module*>& seen) {
  const nn::Module& module = module_of(self, "module: self");
  if (!seen.insert(&module).second) return;
  const auto* made = dynamic_cast<const PyModule*>(&module);
  each_attribute_that_holds_others(self, [&](const std::string& name, nb::handle value) {
    if ((made == nullptr || !made->holds(name)) && holds_parts(value)) refuse_lost_parts(self, name, value);
  });
  if (made != nullptr) made->require_sources_as_assigned(self);
  if (made != nullptr) made->each_module_held([&](nb::handle child) { require_all_registered(child, seen); });
}

/// The module, once it is sure that all that it holds is registered.
nn::Module& with_all_registered(nb::handle self) {
  std::set<const nn::Module*> seen;
  require_all_registered(self, seen);
  return module_of(self, "module: self");
}

} // namespace

template <class Visit> void PyModule::each_module_held(Visit visit) const {
  for (const auto& [name, value] : children_) {
    if (nb::isinstance<nn::Module>(value)) {
      visit(nb::handle(value));
      continue;
    }
    for (const nb::handle child : contents_of(value)) visit(child);
  }
}

void PyModule::require_sources_as_assigned(nb::handle self) const {
  std::erase_if(sources_, [](const auto& one) { return Py_REFCNT(one.second.ptr()) == 1; }); // nobody can add to it
  for (const auto& [name, source] : sources_)
    if (nb::len(source) > nb::len(children_.at(name))) refuse_lost_parts(self, name, source);
}

void PyModule::require_lists_as_assigned(nb::handle self) const {
  require_sources_as_assigned(self);
  each_attribute_that_holds_others(self, [&](const std::string& name, nb::handle value) {
    if (holds(name)) return;
    const std::size_t length = nb::len(value);
    const auto known = lengths_.find(name);
    if (known != lengths_.end() && known->second == length) return;
    if (holds_parts(value)) refuse_lost_parts(self, name, value);
    lengths_[name] = length;
  });
}

bool PyModule::is_parameter_of_this(const Tensor& value) const {
  const Tensors all = parameters();
  return std::any_of(all.begin(), all.end(), [&](const Tensor& one) { return one.id() == value.id(); });
}

bool PyModule::assign(const std::string& name, nb::handle value) {
  if (holds(name)) return replace(name, value);
  const Tensor* const tied = nb::isinstance<PyParameter>(value) ? nullptr : as_tensor(value);
  if (tied != nullptr && is_parameter_of_this(*tied)) return assign(name, nb::cast(PyParameter{*tied}));
  if (!is_part(value)) return false;
  if (name.empty() || name.find('.') != std::string::npos)
    throw ValueError(fmt::format("module: '{}' cannot be the name of a part: it is empty or has a dot", name));
  if (nb::isinstance<PyParameter>(value)) {
    const Tensor tensor = nb::cast<PyParameter&>(value).value;
    register_parameter(name, slot(name, tensor));
    if (tensor.has_storage()) assign_parameter(name, tensor); // it may be another's: tied
    order_.push_back(name);
    return true;
  }
  const auto added = named_modules_in(name, value);
  for (const auto& [full, child] : added)
    if (contains(child, this)) throw ValueError(fmt::format("module: '{}' would be a part of itself", full));
  children_[name] = nb::borrow(value);
  for (const auto& [full, child] : added) register_shared_module(full, *child);
  order_.push_back(name);
  return true;
}

bool PyModule::replace(const std::string& name, nb::handle value) {
  if (const auto held = children_.find(name); held != children_.end() && !nb::isinstance<nn::Module>(held->second))
    throw ValueError(fmt::format("module: '{}' is registered already, and its modules stay what they are; build the "
                                 "whole {} first and assign it once",
                                 name, is_mapping(held->second) ? "dict" : "list"));
  const auto child = children_.find(name);
  const bool one_for_one =
      child != children_.end() && nb::isinstance<nn::Module>(child->second) && nb::isinstance<nn::Module>(value);
  if (!one_for_one)
    throw ValueError(
        fmt::format("module: '{}' is registered already; a parameter takes a tensor of its shape, a module "
                    "another module; for anything else build a new one",
                    name));
  auto& made = module_of(value, fmt::format("module: '{}'", name));
  if (contains(&made, this)) throw ValueError(fmt::format("module: '{}' would be a part of itself", name));
  replace_shared_module(name, made);
  const nb::object old = std::exchange(child->second, nb::borrow(value));
  return true;
}

bool PyModule::contains(const nn::Module* whole, const nn::Module* part) {
  if (whole == part) return true;
  const auto* made = dynamic_cast<const PyModule*>(whole);
  if (made == nullptr) return false; // those of C++ hold none of Python's
  bool found = false;
  made->each_module_held([&](nb::handle child) { found = found || contains(&nb::cast<nn::Module&>(child), part); });
  return found;
}

Tensor* PyModule::find(const std::string& name) {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

nb::list PyModule::parts() const {
  nb::list list;
  for (const std::string& name : order_) {
    if (const auto child = children_.find(name); child != children_.end()) {
      list.append(nb::make_tuple(name, child->second));
      continue;
    }
    const Tensor& tensor = *tensors_.at(name);
    list.append(nb::make_tuple(name, states_.contains(name) ? to_python(tensor) : nb::cast(PyParameter{tensor})));
  }
  return list;
}

nb::object PyModule::run(nb::handle self, const nb::args& args, const nb::kwargs& kwargs) const {
  require_lists_as_assigned(self);
  const Scope scope(*this);
  return after_forward(self, *this, args, self.attr("forward")(*args, **kwargs));
}

namespace {

/// The value that an attribute gets: lists and dicts of modules become tuples and read-only mappings, as they would let
/// modules be added without registration. Throws TypeError for what holds modules or Parameters otherwise.
nb::object frozen(const nb::str& name, nb::object value) {
  if (PyTuple_CheckExact(value.ptr()) != 0 && is_module_list(value)) return value;
  if (is_module_list(value)) return nb::tuple(value);
  if (is_module_dict(value)) {
    nb::dict own;
    own.update(value);
    return nb::steal(PyDictProxy_New(own.ptr()));
  }
  if (PyGen_Check(value.ptr()) != 0)
    throw nb::type_error(
        fmt::format("module: '{}' is a generator, whose modules would not be registered; assign a list of them: [...]",
                    name.c_str())
            .c_str());
  if (holds_parts(value))
    throw nb::type_error(
        fmt::format("module: '{}' is a {} with {} in it, which would not be registered; assign lists or dicts of "
                    "modules, and each Parameter, to attributes of their own",
                    name.c_str(), nb::str(value.type().attr("__name__")).c_str(),
                    holds<PyParameter>(value) ? "Parameters" : "modules")
            .c_str());
  return value;
}

/// `module.name = value` for every class of modules.
void set_attribute(nb::handle self, const nb::str& name, nb::object value) {
  const nb::object given = value;
  value = frozen(name, std::move(value));
  if (!nb::inst_ready(self))
    throw nb::type_error("module: call super().__init__() before anything is assigned to its attributes");
  auto& module = nb::cast<nn::Module&>(self);
  const Tensor* tensor = nb::isinstance<PyParameter>(value) ? &nb::cast<PyParameter&>(value).value : as_tensor(value);
  if (tensor != nullptr && module.assign_parameter(name.c_str(), *tensor)) {
    take_memory(*tensor);
    return;
  }
  if (auto* made = dynamic_cast<PyModule*>(&module)) {
    const bool registered = made->assign(name.c_str(), value);
    if (registered && !value.is(given)) made->remember_source(name.c_str(), given);
    if (registered && made->find(name.c_str()) != nullptr) {
      // Read through __getattr__, which a value of that name that was there before would hide.
      if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), nullptr) != 0) PyErr_Clear();
      return;
    }
  } else if (is_part(value)) {
    throw nb::type_error("module: parts can be assigned to classes that derive from eg.nn.Module itself");
  }
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) != 0) throw nb::python_error();
}

void delete_attribute(nb::handle self, const nb::str& name) {
  if (const auto* made = dynamic_cast<PyModule*>(&module_of(self, "module: self")); made && made->holds(name.c_str()))
    throw ValueError(fmt::format("module: '{}' is registered and cannot be deleted", name.c_str()));
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), nullptr) != 0) throw nb::python_error();
}

nb::object missing_attribute(nb::handle self, const std::string& name) {
  if (nb::inst_ready(self))
    if (auto* made = dynamic_cast<PyModule*>(&nb::cast<nn::Module&>(self)))
      if (const Tensor* tensor = made->find(name)) return to_python(*tensor);
  const nb::module_ names = nb::module_::import_("equigrad._names");
  nb::object words = names.attr("ATTRIBUTE_WORDS").attr("get")(name);
  if (words.is_none()) words = names.attr("WORDS").attr("get")(name);
  throw nb::attribute_error(fmt::format("'{}' object has no attribute '{}'{}",
                                        nb::str(self.type().attr("__name__")).c_str(), name,
                                        words.is_none() ? "" : fmt::format(": {}", nb::str(words).c_str()))
                                .c_str());
}

PyModule& made_in_python(nb::handle self, const char* asked) {
  if (auto* made = dynamic_cast<PyModule*>(&module_of(self, "module: self"))) return *made;
  throw nb::type_error(fmt::format("module: {} is for classes that derive from eg.nn.Module", asked).c_str());
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  auto& module = *nb::inst_ptr<nn::Module>(self);
  if (const auto* made = dynamic_cast<const PyModule*>(&module)) {
    if (const int stop = visit_hooks(module, visit, arg); stop != 0) return stop;
    return made->each_child([&](PyObject* child) { return visit(child, arg); });
  }
  if (!nb::inst_state(self).second) return 0; // a part of another one, which shows its hooks
  int stop = 0;
  module.each_module([&](const nn::Module& part) {
    if (stop == 0) stop = visit_hooks(part, visit, arg);
  });
  return stop;
}

int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  auto& module = *nb::inst_ptr<nn::Module>(self);
  if (auto* made = dynamic_cast<PyModule*>(&module)) {
    made->clear_children();
    drop_hooks(module);
  } else if (nb::inst_state(self).second) {
    module.each_module(drop_hooks);
  }
  return 0;
}

PyType_Slot slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)}, {Py_tp_clear, reinterpret_cast<void*>(&clear)}, {0, nullptr}};

using NamedModules = std::vector<std::pair<std::string, nb::object>>;

NamedModules children_of(nb::handle self) {
  NamedModules list;
  for (const auto& [name, child] : module_of(self, "module: self").children())
    list.emplace_back(name, nb::cast(child, nb::rv_policy::reference_internal, self));
  return list;
}

/// `self` under `name` and the modules in it, depth first, each once.
void add_modules(const std::string& name, nb::handle self, std::set<const nn::Module*>& seen, NamedModules& list) {
  if (!seen.insert(&module_of(self, "module: self")).second) return;
  list.emplace_back(name, nb::borrow(self));
  for (const auto& [child_name, child] : children_of(self))
    add_modules(name.empty() ? child_name : name + "." + child_name, child, seen, list);
}

NamedModules modules_of(nb::handle self) {
  std::set<const nn::Module*> seen;
  NamedModules list;
  add_modules("", self, seen, list);
  return list;
}

nb::list without_names(const NamedModules& named) {
  nb::list list;
  for (const auto& [name, module] : named) list.append(module);
  return list;
}

/// A line for each module, those inside a module below it: "(0): Linear, weight [4, 3], bias [4]".
std::string tree_of(nb::handle self, int depth) {
  std::string text = nb::str(self.type().attr("__name__")).c_str();
  for (const nn::Parameter& p : module_of(self, "module: self").named_parameters())
    if (p.name.find('.') == std::string::npos) text += fmt::format(", {} {}", p.name, p.value.shape().str());
  for (const auto& [name, child] : children_of(self))
    text += fmt::format("\n{:{}}({}): {}", "", 2 * depth + 2, name, tree_of(child, depth + 1));
  return text;
}

void bind_tree(nb::class_<nn::Module, PyModule>& cls) {
  cls.def("named_children", &children_of, "(name, module) of the modules that this one registered, in order.",
          nb::sig("def named_children(self) -> list[tuple[str, Module]]"))
      .def(
          "children", [](nb::handle self) { return without_names(children_of(self)); }, "Those modules alone.",
          nb::sig("def children(self) -> list[Module]"))
      .def("named_modules", &modules_of,
           "(name, module) of this module, whose name is empty, and of those in it, depth first, each once.",
           nb::sig("def named_modules(self) -> list[tuple[str, Module]]"))
      .def(
          "modules", [](nb::handle self) { return without_names(modules_of(self)); }, "Those modules alone.",
          nb::sig("def modules(self) -> list[Module]"))
      .def(
          "apply",
          [](nb::handle self, const nb::callable& function) {
            const NamedModules list = modules_of(self);
            for (auto at = list.rbegin(); at != list.rend(); ++at) function(at->second);
            return nb::borrow(self);
          },
          "function"_a, "Calls function(module) for every module in this one, and last for itself. Returns the module.",
          nb::sig("def apply(self, function: collections.abc.Callable[[Module], typing.Any]) -> typing.Self"))
      .def(
          "__str__", [](nb::handle self) { return tree_of(self, 0); }, "The tree of modules with their parameters.");
}

void bind_state(nb::class_<nn::Module, PyModule>& cls) {
  cls.def(
         "named_parameters",
         [](nb::handle self) {
           std::vector<std::pair<std::string, Tensor>> list;
           for (const nn::Parameter& p : with_all_registered(self).named_parameters())
             list.emplace_back(p.name, p.value);
           return list;
         },
         "(name, tensor) of every parameter, depth first, in the order of registration.",
         nb::sig("def named_parameters(self) -> list[tuple[str, equigrad._core.Tensor]]"))
      .def(
          "parameters", [](nb::handle self) { return with_all_registered(self).parameters(); },
          "Their tensors alone: what Tape.gradient and an optimiser take.",
          nb::sig("def parameters(self) -> list[equigrad._core.Tensor]"))
      .def(
          "parameter_count", [](nb::handle self) { return with_all_registered(self).parameter_count(); },
          "Number of parameter elements.", nb::sig("def parameter_count(self) -> int"))
      .def(
          "state_dict", [](nb::handle self) { return dict_of(with_all_registered(self).state_dict()); },
          "Parameters and running statistics by name: the module's own tensors, not copies.",
          nb::sig("def state_dict(self) -> dict[str, equigrad._core.Tensor]"))
      .def(
          "load_state_dict",
          [](nb::handle self, const nb::dict& state) {
            with_all_registered(self).load_state_dict(named_tensors_from(state, "load_state_dict"));
          },
          "state"_a,
          "Copies values in by name. Raises ShapeError or ValueError that list what does not fit; nothing is changed "
          "then.",
          nb::sig("def load_state_dict(self, state: collections.abc.Mapping[str, typing.Any]) -> None"))
      .def(
          "train",
          [](nn::Module& module, bool on) {
            module.train(on);
            return nb::find(module);
          },
          "on"_a = true, "Dropout and the like behave as in training. Returns the module.",
          nb::sig("def train(self, on: bool = True) -> typing.Self"))
      .def(
          "eval",
          [](nn::Module& module) {
            module.eval();
            return nb::find(module);
          },
          "They behave as in evaluation. Returns the module.", nb::sig("def eval(self) -> typing.Self"))
      .def_prop_ro("training", &nn::Module::training)
      .def(
          "to",
          [](nb::handle self, nb::handle dtype, nb::handle device) {
            nn::Module& module = with_all_registered(self);
            const std::optional<Device> first = device_from(dtype);
            if (first && !device.is_none()) throw nb::type_error("to: two devices were given");
            if (dtype.is_none() && device.is_none())
              throw nb::type_error("to: give a dtype, 'f32' or 'f64', or a device: 'cpu', 'cuda', ...");
            const Device to = device.is_none() ? first.value_or(module.device()) : device_or_current(device, "to");
            const std::optional<DType> type = first ? std::nullopt : dtype_from(dtype);
            device::require_device(to); // before anything changes
            if (type) module.to(*type);
            if (to != module.device()) module.to(to);
            return nb::borrow(self);
          },
          "dtype"_a = nb::none(), "device"_a = nb::none(),
          "Converts every parameter and buffer to 'f32' or 'f64', or moves them to a device ('cpu', 'cuda', 'cuda:1'); "
          "take parameters() afterwards. Returns the module.",
          nb::sig("def to(self, dtype: str | None = None, device: str | None = None) -> typing.Self"))
      .def(
          "cuda",
          [](nb::handle self, int index) {
            with_all_registered(self).to(Device::cuda(index));
            return nb::borrow(self);
          },
          "index"_a = 0, "Moves every parameter and buffer to that CUDA device, as to() does. Returns the module.",
          nb::sig("def cuda(self, index: int = 0) -> typing.Self"))
      .def(
          "cpu",
          [](nb::handle self) {
            with_all_registered(self).to(Device::cpu());
            return nb::borrow(self);
          },
          "Moves every parameter and buffer to the CPU, as to() does. Returns the module.",
          nb::sig("def cpu(self) -> typing.Self"))
      .def_prop_ro(
          "device", [](const nn::Module& module) { return name_for_python(module.device()); },
          "'cpu' or 'cuda:0', which is equal to 'cuda': where its parameters are.", nb::sig("def device(self) -> str"));
}

/// The tensor that a Parameter of this value trains. Throws DTypeError for one that is not f32 or f64.
Tensor parameter_from(nb::handle given) {
  if (nb::isinstance<nn::Module>(given))
    throw nb::type_error("Parameter: a module has its own parameters; assign the module to an attribute");
  const Tensor value = import_array(given, std::nullopt, std::nullopt);
  if (!is_floating(value.dtype()))
    throw DTypeError(fmt::format("Parameter: it is f32 or f64, not {}; convert it with to(\"f32\"){}",
                                 name_of(value.dtype()),
                                 as_tensor(given) == nullptr ? ", or write its numbers with a point: [0.0, 1.0]" : ""));
  if (!value.is_contiguous()) {
    const PauseRecording pause; // the copy is what is trained
    return value.clone();
  }
  take_memory(value);
  return value;
}

void bind_base(nb::module_& m) {
  nb::class_<nn::Module, PyModule> cls(
      m, "Module", nb::type_slots(slots),
      "Base of layers and models. A class of your own calls super().__init__(), assigns modules, full lists or dicts "
      "of "
      "modules and Parameters to attributes, and defines forward(). A plain Tensor in an attribute is a constant.");
  cls.def(nb::init<>());
  bind_state(cls);
  bind_tree(cls);
  bind_hooks(m, cls);
  cls.def(
         "register_state",
         [](nb::handle self, const std::string& name, const Tensor& value) {
           made_in_python(self, "register_state").add_state(name, value);
         },
         "name"_a, "value"_a, "A tensor that is not trained and belongs to the state nevertheless.")
      .def(
          "__call__",
          [](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
            return made_in_python(self, "forward").run(self, args, kwargs);
          },
          nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any"))
      .def("__setattr__", &set_attribute, "name"_a, "value"_a.none(),
           nb::sig("def __setattr__(self, name: str, value: typing.Any, /) -> None"))
      .def("__delattr__", &delete_attribute, nb::sig("def __delattr__(self, name: str, /) -> None"))
      .def("__getattr__", &missing_attribute, nb::sig("def __getattr__(self, name: str, /) -> typing.Any"))
      .def("__repr__", [](nb::handle self) {
        return fmt::format("<{}: {} parameters>", nb::type_name(self.type()).c_str(),
                           module_of(self, "module: self").parameter_count());
      });
  nb::class_<PyParameter>(m, "Parameter", "Marks a tensor as trained, where it is assigned to a module's attribute.")
      .def(
          "__init__",
          [](PyParameter* self, nb::handle given) {
            const Tensor value = parameter_from(given);
            new (self) PyParameter{value};
          },
          "value"_a,
          "A tensor of f32 or f64, an array or numbers. A tensor on an array's memory moves to memory of its own, so "
          "that training leaves the array alone; one that is not packed is copied.",
          nb::sig("def __init__(self, value: typing.Any) -> None"))
      .def_ro("value", &PyParameter::value);
}

/// nn::ParameterScope as a `with` block.
class PyParameterScope {
public:
  PyParameterScope(nb::object module, Tensors values) : module_(std::move(module)), values_(std::move(values)) {}
  void enter() { scope_ = std::make_unique<nn::ParameterScope>(nb::cast<const nn::Module&>(module_), values_); }
  void exit() { scope_.reset(); }
  // An open scope will write to its module's slots once more, so it is in use.
  int traverse(visitproc visit, void* arg) const {
    if (scope_ == nullptr) Py_VISIT(module_.ptr());
    return 0;
  }
  void clear() { const nb::object gone = std::exchange(module_, {}); }

private:
  nb::object module_;
  Tensors values_;
  std::unique_ptr<nn::ParameterScope> scope_;
};

void bind_parameter_scope(nb::module_& m) {
  nb::class_<PyParameterScope>(m, "ParameterScope", nb::type_slots(collected<PyParameterScope>()),
                               "with ParameterScope(model, values): the model computes with `values` in place of its "
                               "parameters(), which makes a loss a function of them (grad, hvp, ...).")
      .def(
          "__init__",
          [](PyParameterScope* self, nb::object module, nb::handle values) {
            if (!nb::isinstance<nn::Module>(module)) throw nb::type_error("ParameterScope: module must be a Module");
            new (self) PyParameterScope(module, tensors_from(values, "ParameterScope: values"));
          },
          "module"_a, "values"_a,
          nb::sig(
              "def __init__(self, module: Module, values: collections.abc.Sequence[equigrad._core.Tensor]) -> None"))
      .def(
          "__enter__", [](PyParameterScope& scope) { scope.enter(); }, nb::sig("def __enter__(self) -> None"))
      .def(
          "__exit__", [](PyParameterScope& scope, const nb::args&) { scope.exit(); },
          nb::sig("def __exit__(self, *exc: object) -> None"));
}

} // namespace

void bind_modules(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("nn", "Parameters, layers and models.");
  bind_base(m);
  bind_parameter_scope(m);
}

} // namespace eg::python
