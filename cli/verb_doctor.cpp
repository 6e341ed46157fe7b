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

void print(const nlohmann::json& found) {
  const auto line = [](const char* what, const std::string& value) { fmt::print("{:<12}{}\n", what, value); };
  line("equigrad", found["version"].get<std::string>());
  line("threads", fmt::format("{}, {}", found["threads_reason"].get<std::string>(), found["pool"].get<std::string>()));
  line("BLAS", found["blas"].get<std::string>());
  line("SIMD", found["simd"].get<std::string>());
  line("memory", fmt::format("limit {:.1f} GiB", found["memory_limit_bytes"].get<double>() / 1073741824.0));
  line("operations", std::to_string(found["operations"].get<std::size_t>()));
  line("CUDA", "not built");
  line("modules", "none");
}

} // namespace

Job declare_doctor(CLI::App&, const CommonOptions& common) {
  return [&common]() -> int {
    const nlohmann::json found = findings();
    if (common.talks()) print(found);
    write_json(common, found);
    return done;
  };
}

} // namespace eg::cli
