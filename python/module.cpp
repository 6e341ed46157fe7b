// The extension module equigrad._core; the package in equigrad/ gives its parts their public names.

#include "bindings.h"

#include <cstdlib>

namespace eg::python {

// Not in bindings.h, which the other parts share.
void bind_training(nb::module_& m);
void bind_reports(nb::module_& m);

} // namespace eg::python

NB_MODULE(_core, m) {
  using namespace eg::python;
  m.doc() = "Tensors, operations and modules of equigrad, as the library has them.";
  remember_main_thread();
  // When Python ends, daemon threads still hold objects: no mistake of theirs, and nothing that a user can mend. Tests
  // ask for the words.
  nb::set_leak_warnings(std::getenv("EQUIGRAD_LEAK_WARNINGS") != nullptr);
  bind_errors(m);
  bind_tensor(m);
  bind_random(m);
  bind_ops(m);
  bind_autograd(m);
  bind_custom_ops(m);
  bind_functional(m);
  bind_checks(m);
  bind_modules(m);
  bind_module_copies(m);
  bind_layers(m);
  bind_blocks(m);
  bind_vit(m);
  bind_language_models(m);
  bind_more_models(m);
  bind_optim(m);
  bind_permute(m);
  bind_catalogue(m);
  bind_data(m);
  bind_files(m);
  bind_hub(m);
  bind_tokenizers(m);
  bind_system(m);
  bind_devices(m);
  bind_pickles(m);
  bind_training(m);
  bind_reports(m);
#if defined(EQUIGRAD_LENDS_ARCHIVES)
  lend_python_archives();
#endif
}
