#include "cli/doctor.h"
#include "cli/verb.h"

#include "core/allocator.h"
#include "core/blas.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "core/simd.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>

namespace eg::cli {
namespace {

nlohmann::json findings() {
  return {{"version", EQUIGRAD_VERSION},
          {"threads", parallel::threads()},
          {"threads_reason", parallel::threads_reason()},
          {"pool", parallel::backend()},
          {"blas", blas::description()},
          {"simd", simd::target()},
          {"memory_limit_bytes", allocator::limit()},
          {"operations", registry().size()},
          {"cuda", nullptr},
          {"optional_modules", nlohmann::json::array()}};
}

} // namespace

std::vector<std::pair<std::string, std::string>> doctor_lines() {
  return {{"equigrad", EQUIGRAD_VERSION},
          {"threads", fmt::format("{}, {}", parallel::threads_reason(), parallel::backend())},
          {"BLAS", blas::description()},
          {"SIMD", simd::target()},
          {"memory", fmt::format("limit {:.1f} GiB", static_cast<double>(allocator::limit()) / 1073741824.0)},
          {"operations", std::to_string(registry().size())},
          {"CUDA", "not built"},
          {"modules", "none"}};
}

void print_doctor(const std::vector<std::pair<std::string, std::string>>& lines) {
  for (const auto& [what, value] : lines) fmt::print("{:<12}{}\n", what, value);
  std::fflush(stdout);
}

Job declare_doctor(CLI::App&, const CommonOptions& common) {
  return [&common]() -> int {
    if (common.talks()) print_doctor(doctor_lines());
    write_json(common, findings());
    return done;
  };
}

} // namespace eg::cli
