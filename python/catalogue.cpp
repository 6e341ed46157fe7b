// The theorem catalogue.

#include "permute/catalogue/catalogue.h"

#include "bindings.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>

#include <algorithm>

namespace eg::python {
namespace {

using permute::Identity;
using permute::VerifyResult;

const Identity& identity_of(const VerifyResult& r) {
  const std::vector<Identity>& all = permute::catalogue();
  return *std::find_if(all.begin(), all.end(), [&](const Identity& i) { return i.id == r.id; });
}

std::string line_of(const VerifyResult& r) {
  if (!r.skipped.empty()) return fmt::format("<{}: skipped, {}>", r.id, r.skipped);
  return fmt::format("<{}: {}, error {:.1e} (gate {:.0e}), control {:.1e}>", r.id, r.pass ? "holds" : "FAILS", r.error,
                     r.tolerance, r.control.error);
}

void bind_result(nb::module_& m) {
  nb::class_<VerifyResult>(m, "Verified", "One identity of the catalogue, measured.")
      .def_ro("id", &VerifyResult::id, "The row of docs/catalogue.md.")
      .def_ro("title", &VerifyResult::title)
      .def_prop_ro("statement", [](const VerifyResult& r) { return identity_of(r).statement; })
      .def_prop_ro(
          "formula", [](const VerifyResult& r) { return identity_of(r).tex; }, "In TeX.")
      .def_ro("paper", &VerifyResult::paper)
      .def_ro("equation", &VerifyResult::equation)
      .def_prop_ro(
          "kind", [](const VerifyResult& r) { return std::string(permute::name_of(r.kind)); },
          "'identity', 'counterexample', 'erratum' or 'law'.")
      .def_prop_ro(
          "dtype", [](const VerifyResult& r) { return name_for_python(r.dtype); }, nb::sig("def dtype(self) -> str"))
      .def_prop_ro(
          "device", [](const VerifyResult& r) { return name_for_python(r.device); }, "Where both sides were computed.",
          nb::sig("def device(self) -> str"))
      .def_ro("sizes", &VerifyResult::sizes)
      .def_ro("error", &VerifyResult::error, "Largest difference of the two sides, relative to the largest entry.")
      .def_ro("tolerance", &VerifyResult::tolerance)
      .def_prop_ro(
          "control", [](const VerifyResult& r) { return r.control.what; }, "What must fail.")
      .def_prop_ro("control_error", [](const VerifyResult& r) { return r.control.error; })
      .def_prop_ro("control_must_exceed", [](const VerifyResult& r) { return r.control.must_exceed; })
      .def_ro("bitwise", &VerifyResult::bitwise, "Both sides have the same bits; None for a counterexample.")
      .def_ro("compared", &VerifyResult::compared, "Elements on either side.")
      .def_ro("candidates", &VerifyResult::candidates, "Tried in the search for counterexamples.")
      .def_ro("holds", &VerifyResult::pass, "The error is within its gate, and the control fails.")
      .def_ro("skipped", &VerifyResult::skipped, "Why it was not measured: what it needs more of; '' where it was.")
      .def_ro("detail", &VerifyResult::detail)
      .def("__bool__", [](const VerifyResult& r) { return r.pass; })
      .def("__repr__", line_of);
}

} // namespace

void bind_catalogue(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("catalogue", "The identities that the project rests on, each a measurement.");
  bind_result(m);
  m.def(
      "verify",
      [](const std::string& filter, nb::handle dtype, std::int64_t batch, std::int64_t tokens, std::int64_t dim,
         std::int64_t heads, std::int64_t hidden, std::int64_t layers, std::int64_t steps, std::uint64_t seed,
         bool exact, nb::handle device) {
        const permute::VerifyOptions options{.dtype = dtype_from(dtype).value_or(DType::f64),
                                             .batch = batch,
                                             .tokens = tokens,
                                             .dim = dim,
                                             .heads = heads,
                                             .hidden = hidden,
                                             .layers = layers,
                                             .steps = steps,
                                             .seed = seed,
                                             .exact = exact,
                                             .device = device_or_current(device, "verify"),
                                             .filter = filter};
        return released([&] { return permute::run_catalogue(options); });
      },
      "filter"_a = "*", nb::kw_only(), "dtype"_a = "f64", "batch"_a = 2, "tokens"_a = 7, "dim"_a = 12, "heads"_a = 3,
      "hidden"_a = 20, "layers"_a = 2, "steps"_a = 60, "seed"_a = 1, "exact"_a = false, "device"_a = nb::none(),
      "Measures the identities whose ids (or equation numbers) fit a glob: verify('eq4*'), verify('thm4.1'). On a "
      "device those that it can compute.",
      nb::sig("def verify(filter: str = '*', *, dtype: str = 'f64', batch: int = 2, tokens: int = 7, dim: int = 12, "
              "heads: int = 3, hidden: int = 20, layers: int = 2, steps: int = 60, seed: int = 1, exact: bool = "
              "False, device: str | None = None) -> list[Verified]"));
}

} // namespace eg::python
