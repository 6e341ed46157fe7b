#include "apps/cli/main_job/doctor.h"
#include "apps/cli/main_job/doctor_processes.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/spread.h"
#include "apps/cli/shell/verb.h"

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/gemm/amx.h"
#include "core/gemm/blas.h"
#include "core/gemm/gemm_bf16.h"
#include "core/gemm/int8_product.h"
#include "core/memory/allocator.h"
#include "core/ops/linalg/engine.h"
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

/// Who multiplies f32 matrices, those in bf16 or whether they would be refused, and whole numbers of 8 bits.
std::string products_line() {
  const std::string refusal = gemm::bf16_refusal();
  return fmt::format("f32 by {}; bf16 {}; int8 by {}", blas::engine(),
                     refusal.empty() ? "by " + gemm::bf16_instruction() + " on request" : "refused: " + refusal,
                     int8_product::engines().front().name);
}

/// Whether tiles multiply bf16 and int8, or why not.
std::string amx_line() {
  const std::string &bf16 = gemm::amx::refusal(gemm::amx::Numbers::bf16),
                    &int8 = gemm::amx::refusal(gemm::amx::Numbers::int8);
  if (bf16 == int8) return bf16.empty() ? "used for bf16 and int8" : "not used: " + bf16;
  const auto verdict = [](const std::string& why) { return why.empty() ? "used" : "not used: " + why; };
  return fmt::format("bf16 {}; int8 {}", verdict(bf16), verdict(int8));
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

double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / 1073741824.0; }

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// The module and its devices; or none, and each place that was looked at, a line each.
std::vector<std::pair<std::string, std::string>> cuda_lines() {
  std::vector<std::pair<std::string, std::string>> lines;
  if (std::string why = device::why_unavailable(); !why.empty()) {
    lines.emplace_back("CUDA", "no device; the module is libequigrad_cuda.so, which -DEQUIGRAD_CUDA=ON builds:");
    for (std::size_t end = 0; end != std::string::npos; why.erase(0, end == std::string::npos ? end : end + 2)) {
      end = why.find("; ");
      lines.emplace_back("", "  " + why.substr(0, end));
    }
    return lines;
  }
  const device::ModuleInfo module = device::open_module();
  const std::vector<device::DeviceInfo> devices = device::list_devices();
  const int driver = devices.front().driver_version;
  lines.emplace_back("CUDA", fmt::format("{} ({}){}", module.path, module.build,
                                         driver > 0 ? fmt::format("; driver for CUDA {}", version_text(driver)) : ""));
  for (const device::DeviceInfo& d : devices)
    lines.emplace_back(d.device.str(),
                       fmt::format("{}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB, {:.1f} free", d.name,
                                   d.compute_major, d.compute_minor, d.multiprocessors, gib(d.total_bytes),
                                   gib(d.free_bytes)));
  lines.emplace_back("", "matrix products there: " + device::products());
  return lines;
}

/// null without a device.
nlohmann::json cuda_json() {
  if (!device::is_available()) return nullptr;
  const device::ModuleInfo module = device::open_module();
  nlohmann::json devices = nlohmann::json::array();
  for (const device::DeviceInfo& d : device::list_devices())
    devices.push_back({{"device", d.device.str()},
                       {"name", d.name},
                       {"compute_capability", fmt::format("{}.{}", d.compute_major, d.compute_minor)},
                       {"multiprocessors", d.multiprocessors},
                       {"total_bytes", d.total_bytes},
                       {"free_bytes", d.free_bytes}});
  return {{"module", module.path},
          {"name", module.name},
          {"build", module.build},
          {"products", device::products()},
          {"devices", std::move(devices)}};
}

nlohmann::json findings() {
  return {{"version", EQUIGRAD_VERSION},
          {"threads", parallel::threads()},
          {"threads_reason", parallel::threads_reason()},
          {"pool", parallel::backend()},
          {"blas", blas_line()},
          {"products", blas::engine()},
          {"factorisations", linalg::engine()},
          {"bf16", gemm::bf16_refusal().empty()},
          {"bf16_instruction", gemm::bf16_instruction()},
          {"int8", int8_product::engines().front().name},
          {"amx_refusal", gemm::amx::refusal(gemm::amx::Numbers::bf16)},
          {"simd", simd::target()},
          {"allocator", "caching"},
          {"compiler", compiler()},
          {"memory_limit_bytes", allocator::limit()},
          {"operations", registry().size()},
          {"cuda", cuda_json()},
          {"cuda_refusal", device::why_unavailable()},
          {"optional_modules", nlohmann::json::array()}};
}

} // namespace

std::vector<std::pair<std::string, std::string>> doctor_lines() {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"equigrad", EQUIGRAD_VERSION},
      {"threads", fmt::format("{}, {}", parallel::threads_reason(), parallel::backend())},
      {"BLAS", blas_line()},
      {"products", products_line()},
      {"AMX", amx_line()},
      {"matrices", fmt::format("factorised by {}", linalg::engine())},
      {"SIMD", simd::target()},
      {"memory", fmt::format("at most {:.1f} GiB, the least of machine and cgroup; freed blocks are kept, {}-byte "
                             "aligned",
                             gib(allocator::limit()), allocator::alignment)},
      {"compiler", compiler()},
      {"operations", std::to_string(registry().size())}};
  for (auto& line : cuda_lines()) lines.push_back(std::move(line));
  lines.emplace_back("modules", "none");
  return lines;
}

void print_doctor(const std::vector<std::pair<std::string, std::string>>& lines) {
  for (const auto& [what, value] : lines) say(fmt::format("{:<12}{}\n", what, value));
}

Job declare_doctor(CLI::App&, const CommonOptions& common) {
  return [&common]() -> int {
    const std::vector<ProcessLine> processes = process_lines(common);
    if (!speaks(common)) return done;
    if (common.talks()) {
      print_doctor(doctor_lines());
      print_doctor(mpi_lines(common, processes));
    }
    nlohmann::json json = findings();
    json["mpi"] = mpi_json(common);
    json["processes"] = processes_json(processes);
    write_json(common, json);
    return done;
  };
}

} // namespace eg::cli
