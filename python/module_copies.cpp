// How modules are copied and pickled: equigrad/_pickles.py takes them apart and puts them together with these.

#include "nn/init.h"

#include "modules.h"

namespace eg::python {
namespace {

/// A module of a class with the structure that the arguments give, whose tensors have no values yet. Where the class is
/// the user's own, its __init__ is not run: the constructor of the library's class that it derives from is.
nb::object made(nb::handle cls, const nb::dict& arguments) {
  nb::object module = cls.attr("__new__")(cls);
  for (const nb::handle base : nb::borrow<nb::tuple>(cls.attr("__mro__")))
    if (nb::str(base.attr("__module__")).equal(nb::str("equigrad._core.nn"))) {
      const nn::init::SkipScope undrawn;
      base.attr("__init__")(module, **arguments);
      return module;
    }
  refuse_type("module: its class", "one that derives from eg.nn.Module", cls);
}

nn::Module& module_from(nb::handle object) { return instance_of<nn::Module>(object, "module", "a Module"); }

/// (its tensors, which modules are in training)
nb::tuple contents_of(nb::handle self) {
  const nn::Module::Contents contents = module_from(self).contents();
  for (const Tensor& tensor : contents.tensors)
    if (!tensor.has_storage())
      throw nb::type_error(fmt::format("{} cannot be copied or pickled: some of its weights have no values",
                                       nb::type_name(self.type()).c_str())
                               .c_str());
  return nb::make_tuple(to_python(contents.tensors), contents.training);
}

void adopt(nb::handle self, nb::handle tensors, const std::vector<bool>& training) {
  module_from(self).adopt({tensors_from(tensors, "module: its tensors"), training});
}

/// None for a module that is not made in Python.
nb::object parts_of(nb::handle self) {
  const auto* made_in_python = dynamic_cast<const PyModule*>(&module_from(self));
  return made_in_python != nullptr ? nb::object(made_in_python->parts()) : nb::none();
}

nb::object pickles(const char* function) { return nb::module_::import_("equigrad._pickles").attr(function); }

} // namespace

void bind_module_copies(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("nn"));
  nb::class_<nn::Module, PyModule> cls = nb::borrow<nb::class_<nn::Module, PyModule>>(m.attr("Module"));
  cls.def("_arguments", [](nb::handle) { return nb::dict(); })
      .def("_contents", &contents_of)
      .def("_adopt", &adopt)
      .def("_parts", &parts_of)
      .def(
          "__reduce__", [](nb::handle self) { return pickles("reduce_module")(self); },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def(
          "__deepcopy__", [](nb::handle self, nb::handle memo) { return pickles("copied_module")(self, memo); },
          "memo"_a, nb::sig("def __deepcopy__(self, memo: dict[int, typing.Any]) -> Module"))
      .def(
          "__getstate__", [](nb::handle self) { return pickles("module_state")(self); },
          "What copies and pickles take over: tensors, training flags, attributes.",
          nb::sig("def __getstate__(self) -> dict[str, typing.Any]"))
      // Under its own name it would be a constructor to nanobind.
      .def(
          "_set_state", [](nb::handle self, nb::handle state) { pickles("set_module_state")(self, state); },
          nb::sig("def _set_state(self, state: dict[str, typing.Any]) -> None"));
  cls.attr("__setstate__") = cls.attr("_set_state");
  m.def("_made", &made);
}

} // namespace eg::python
