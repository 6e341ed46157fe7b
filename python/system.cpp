// What the module runs on: threads, memory, libraries.

#include "core/base/error.h"
#include "core/gemm/blas.h"
#include "core/memory/allocator.h"
#include "core/simd/simd.h"
#include "core/threads/parallel.h"
#include "nn/metrics.h"

#include "bindings.h"

#include <fmt/format.h>
#include <string_view>

namespace eg::python {
namespace {

/// OpenBLAS, or why there is none. Throws where products need it.
std::string blas_facts() {
  try {
    return blas::description();
  } catch (const Error& error) {
    if (blas::engine() == "OpenBLAS") throw;
    std::string_view why = error.what();
    constexpr std::string_view room = "blas: ";
    if (why.starts_with(room)) why.remove_prefix(room.size());
    return fmt::format("none, and none is needed: {}", why);
  }
}

} // namespace

void bind_system(nb::module_& m) {
  m.attr("__version__") = EQUIGRAD_VERSION;
  m.def("set_threads", &parallel::set_threads, "count"_a, "Number of threads; 0 restores the default.");
  m.def("threads", &parallel::threads, "Threads in use.");
  m.def(
      "system",
      [] {
        nb::dict facts;
        facts["version"] = EQUIGRAD_VERSION;
        facts["threads"] = parallel::threads_reason();
        facts["parallel"] = parallel::backend();
        facts["blas"] = blas_facts();
        facts["simd"] = simd::target();
        return facts;
      },
      "Versions, threads, BLAS and SIMD in use, as text.", nb::sig("def system() -> dict[str, str]"));
  m.def(
      "memory",
      [] {
        const AllocatorStats stats = allocator::stats();
        nb::dict facts;
        facts["live"] = stats.live_bytes;
        facts["peak"] = stats.peak_bytes;
        facts["cached"] = stats.cached_bytes;
        facts["limit"] = allocator::limit();
        return facts;
      },
      "Bytes of tensors: live, their peak, kept for reuse, and the limit.", nb::sig("def memory() -> dict[str, int]"));
  m.def("release_memory", &allocator::release_cache, "Gives memory that is kept for reuse back to the system.");
  m.def("set_memory_limit", &allocator::set_limit, "bytes"_a, "Most bytes that tensors may have at once.");
  m.def("top_k_accuracy", &nn::top_k_accuracy, "logits"_a, "labels"_a, "k"_a = 1,
        "Share of the rows of logits [N, C] whose label is among the k largest.");
  m.def("auc", &nn::auc, "scores"_a, "labels"_a, "Area under the ROC curve.");
}

} // namespace eg::python
