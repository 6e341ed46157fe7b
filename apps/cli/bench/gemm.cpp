// bench gemm: our tiles, in f32, f64 or bf16, against OpenBLAS's own threads on the same shapes (in f32 beside bf16),
// in turn.

#include "apps/cli/bench/bench.h"

#include "core/gemm/blas.h"
#include "core/random.h"
#include "core/strided.h"
#include "core/threads/parallel.h"

#include <array>

namespace eg::cli::bench {
namespace {

struct GemmCase {
  const char* name;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
};

/// The products of the step cases: forward (NT), gradients of inputs (NN) and of weights (TN).
constexpr std::array cases = {
    GemmCase{"4160x512x512-nt", 4160, 512, 512, false, true},
    GemmCase{"4160x1536x512-nt", 4160, 1536, 512, false, true},
    GemmCase{"4160x2048x512-nt", 4160, 2048, 512, false, true},
    GemmCase{"4160x512x2048-nt", 4160, 512, 2048, false, true},
    GemmCase{"4160x512x512-nn", 4160, 512, 512, false, false},
    GemmCase{"4160x512x2048-nn", 4160, 512, 2048, false, false},
    GemmCase{"512x512x4160-tn", 512, 512, 4160, true, false},
    GemmCase{"2048x512x4160-tn", 2048, 512, 4160, true, false},
    GemmCase{"4160x192x192-nt", 4160, 192, 192, false, true},
    GemmCase{"4160x768x192-nt", 4160, 768, 192, false, true},
    GemmCase{"768x192x4160-tn", 768, 192, 4160, true, false},
    GemmCase{"788x3072x768-nt", 788, 3072, 768, false, true},
    GemmCase{"788x768x3072-nt", 788, 768, 3072, false, true},
    GemmCase{"1024x1024x1024-nn", 1024, 1024, 1024, false, false},
    GemmCase{"2048x2048x2048-nn", 2048, 2048, 2048, false, false},
};

/// OpenBLAS's workers look for more work for 2^26 cycles after a call.
constexpr int openblas_spins_ms = 100;

template <class T> void run(const GemmCase& c, const Options& options, Output& output) {
  const RandomKey key{options.seed, 4};
  const Tensor a = random_normal({c.m * c.k}, key.fold(1), 0, 1, dtype_of<T>);
  const Tensor b = random_normal({c.k * c.n}, key.fold(2), 0, 1, dtype_of<T>);
  Tensor y = Tensor::zeros({c.m, c.n}, dtype_of<T>);
  const blas::Matrix<T> left{a.data<T>(), c.transpose_a ? c.m : c.k, c.transpose_a};
  const blas::Matrix<T> right{b.data<T>(), c.transpose_b ? c.k : c.n, c.transpose_b};
  T* out = y.mutable_data<T>();
  const int threads = parallel::threads();
  const PairedTiming timing = measure_in_turn(
      [&] { blas::gemm_tiled<T>(c.m, c.n, c.k, T(1), left, right, T(0), out, c.n); },
      [&] { blas::gemm_openblas_threads<T>(threads, c.m, c.n, c.k, T(1), left, right, T(0), out, c.n); },
      options.seconds, openblas_spins_ms);
  const double flops = 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  const std::string extra = fmt::format(R"(, "dtype": "{}", "ratio_to_openblas": {:.4f})", options.dtype_name(),
                                        timing.b.median_ms / timing.a.median_ms);
  output.write({.bench = "gemm",
                .engine = options.engine(),
                .name = c.name,
                .timing = timing.a,
                .items = 1,
                .work_flops = flops,
                .extra = extra});
  output.write({.bench = "gemm",
                .engine = "openblas",
                .name = c.name,
                .timing = timing.b,
                .items = 1,
                .work_flops = flops,
                .extra = fmt::format(R"(, "dtype": "{}")", name_of(options.dtype))});
}

} // namespace

void gemm(const Options& options, Output& output) {
  const MatmulPrecisionScope products(options.products);
  bool found = false;
  for (const GemmCase& c : cases)
    if (options.matches(c.name)) {
      found = true;
      visit_floating(options.dtype, [&]<class T>() { run<T>(c, options, output); });
    }
  if (!found) throw no_such_case("gemm", options.name, cases);
}

} // namespace eg::cli::bench
