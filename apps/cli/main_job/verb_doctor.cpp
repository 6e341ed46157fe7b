#include "apps/cli/main_job/doctor.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"

#include "core/base/error.h"
#include "core/gemm/blas.h"
#include "core/gemm/gemm_bf16.h"
#include "core/memory/allocator.h"
#include "core/registry.h"
#include "core/simd/simd.h"
#include "core/threads/parallel.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>

namespace eg::cli {
namespace {

#ifdef NDEBUG
constexpr const char* checks = "assertions off";
#else
constexpr const char* checks = "assertions on";
#endif

std::string compiler() {
#ifdef __clang__
  return fmt::format("Clang {}.{}.{}, {}", __clang_major__, __clang_minor__, __clang_patchlevel__, checks);
#else
  return fmt::format("GCC {}.{}.{}, {}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__, checks);
#endif
}

/// Who multiplies matrices, and whether --precision bf16 would be followed.
std::string products_line() {
  const std::string refusal = gemm::bf16_refusal();
  return fmt::format("{}; bf16 {}", blas::engine(), refusal.empty() ? "on request" : "refused: " + refusal);
}

/// OpenBLAS, or why there is none; the products of our own kernel do without it. Throws where they would need it.
std::string blas_line() {
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

nlohmann::json findings() {
  return {{"version", EQUIGRAD_VERSION},
          {"threads", parallel::threads()},
          {"threads_reason", parallel::threads_reason()},
          {"pool", parallel::backend()},
          {"blas", blas_line()},
          {"products", blas::engine()},
          {"bf16", gemm::bf16_refusal().empty()},
          {"simd", simd::target()},
          {"allocator", "caching"},
          {"compiler", compiler()},
          {"memory_limit_bytes", allocator::limit()},
          {"operations", registry().size()},
          {"cuda", nullptr},
          {"optional_modules", nlohmann::json::array()}};
}

} // namespace

std::vector<std::pair<std::string, std::string>> doctor_lines() {
  return {{"equigrad", EQUIGRAD_VERSION},
          {"threads", fmt::format("{}, {}", parallel::threads_reason(), parallel::backend())},
          {"BLAS", blas_line()},
          {"products", products_line()},
          {"SIMD", simd::target()},
          {"memory", fmt::format("at most {:.1f} GiB, the least of machine and cgroup; freed blocks are kept, {}-byte "
                                 "aligned",
                                 static_cast<double>(allocator::limit()) / 1073741824.0, allocator::alignment)},
          {"compiler", compiler()},
          {"operations", std::to_string(registry().size())},
          {"CUDA", "not built: this version computes on processors alone"},
          {"modules", "none"}};
}

void print_doctor(const std::vector<std::pair<std::string, std::string>>& lines) {
  for (const auto& [what, value] : lines) say(fmt::format("{:<12}{}\n", what, value));
}

Job declare_doctor(CLI::App&, const CommonOptions& common) {
  return [&common]() -> int {
    if (common.talks()) print_doctor(doctor_lines());
    write_json(common, findings());
    return done;
  };
}

} // namespace eg::cli
