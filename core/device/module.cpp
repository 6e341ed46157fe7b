#include "core/device/module.h"

#include "core/base/context.h"
#include "core/base/error.h"
#include "core/device/check.h"
#include "core/device/device.h"
#include "core/device/shared_library.h"
#include "core/threads/at_fork.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

namespace eg::device {
namespace {

constexpr const char* file_name = "libequigrad_cuda.so";
constexpr const char* variable = "EQUIGRAD_CUDA_MODULE";

std::string text_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

/// Folder of the file that holds this code: the executable, or the Python module.
std::filesystem::path own_folder() {
  Dl_info info{};
  static const int anchor = 0;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return std::filesystem::canonical(info.dli_fname, ignored).parent_path();
}

std::filesystem::path executable_folder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::vector<std::filesystem::path> places() {
  std::vector<std::filesystem::path> list;
  const auto add = [&](const std::filesystem::path& place) {
    if (std::find(list.begin(), list.end(), place) == list.end()) list.push_back(place);
  };
  for (const std::filesystem::path& folder : {executable_folder(), own_folder()}) {
    if (folder.empty()) continue;
    add(folder / file_name);
    add((folder / "../lib/equigrad").lexically_normal() / file_name);
  }
  return list;
}

/// The module, or why there is none.
struct Module {
  std::string path;
  const Table* table = nullptr;
  std::string failures; ///< "; PATH: why" for each place

  Module() {
    const std::string wished = text_of(variable);
    if (!wished.empty()) {
      try_file(wished);
    } else {
      failures = fmt::format("; {}: not set", variable);
      for (const std::filesystem::path& place : places())
        if (try_file(place.string())) break;
    }
  }

private:
  bool try_file(const std::string& file) {
    const auto fail = [&](const std::string& why) {
      failures += fmt::format("; {}: {}", file, why);
      return false;
    };
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return fail("no such file");
    if (!std::filesystem::is_regular_file(file, ignored)) return fail("is no file");
    // The loader would map a file that was cut short, and die at the first page that is missing.
    if (const std::string why = why_no_whole_library(file); !why.empty()) return fail(why);
    // A name without a folder would be looked for elsewhere.
    void* const library = dlopen(std::filesystem::absolute(file, ignored).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail(dlerror());
    const auto function = reinterpret_cast<TableFunction>(dlsym(library, table_symbol));
    if (function == nullptr) return fail(fmt::format("has no {}: it is no device module", table_symbol));
    const Table* const found = function();
    if (found == nullptr) return fail("gives no table of functions: it is no device module");
    if (found->layout != layout_number)
      return fail(
          fmt::format("was built for another equigrad: layout {:x}, this one has {:x}", found->layout, layout_number));
    path = file;
    table = found;
    return true;
  }
};

std::atomic<bool> module_was_opened = false;

const Module& module() {
  module_was_opened = true;
  static const Module* const instance = new Module; // never closed: device memory may outlive static objects
  return *instance;
}

/// What a kernel refused, in the words of the row's CPU kernel.
[[noreturn]] void throw_refusal(Device device, const KernelError& e) {
  const auto [value, limit, position] = std::array{e.value, e.limit, e.position};
  switch (static_cast<Refused>(e.code)) {
  case Refused::index:
    throw IndexError(fmt::format("{}: index {} at position {} is outside [0, {}), on {}", e.kernel, value, position,
                                 limit, device.str()));
  case Refused::number:
    throw IndexError(fmt::format("{}: x is {} at position {}; it must be in [0, {}), on {}", e.kernel, value, position,
                                 limit, device.str()));
  case Refused::repeated:
    throw ValueError(fmt::format("{}: not a permutation of 0..{}: {} occurs at positions {} and {}, on {}", e.kernel,
                                 limit - 1, value, e.other, position, device.str()));
  case Refused::not_finite:
    throw ValueError(fmt::format("{}: weight is {} at [{}, {}], on {}", e.kernel, std::bit_cast<double>(value), e.other,
                                 position, device.str()));
  case Refused::label:
    throw IndexError(fmt::format("{}: label {} of row {} is outside [0, {}): there are {} classes, on {}", e.kernel,
                                 value, position, limit, limit, device.str()));
  case Refused::none:
  case Refused::outside:
    break;
  }
  throw IndexError(fmt::format("{}: {} is outside [0, {}), on {}", e.kernel, value, limit, device.str()));
}

bool waits_after_launches() {
  static const bool yes = [] {
    const std::string value = text_of("EQUIGRAD_CUDA_CHECK");
    if (!value.empty() && value != "0" && value != "1")
      throw ValueError(fmt::format("EQUIGRAD_CUDA_CHECK must be 0 or 1, not '{}'", value));
    return value == "1";
  }();
  return yes;
}

std::array<std::atomic<std::uint64_t>, Device::max_index + 1> kernels_started;

/// Waits for the compute lane, or for everything on the device, and throws what a kernel refused.
void wait_and_check(Device device, bool everything) {
  KernelError error{};
  require(device, "synchronize", module_table().synchronize(device.index, everything, &error));
  if (error.code != 0) throw_refusal(device, error);
}

/// This process is a child of fork(): CUDA cannot be used in it, and locks of the module may be held for ever.
std::atomic<bool> forked = false;
const bool watching = [] {
  at_fork(nullptr, nullptr, [] { forked = module_was_opened.load(); });
  return true;
}();

} // namespace

const Table& module_table() {
  if (forked) throw DeviceError("device: no device can be used in a child of fork(); start a process of its own");
  if (module().table == nullptr)
    throw DeviceError(fmt::format("device: no module for CUDA was found{}; docs/devices.md says how to build one",
                                  module().failures));
  return *module().table;
}

void require(Device device, const char* what, Failure failure) {
  if (failure != nullptr) throw DeviceError(fmt::format("{}: {}: {}", device.str(), what, failure));
}

void finish_launch(Device device, const char* name, Failure failure) {
  require(device, name, failure);
  kernels_started[device.index].fetch_add(1, std::memory_order_relaxed);
  if (waits_after_launches()) wait_and_check(device, false);
}

void copy_to_device(Device device, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require(device, "copy to the device", module_table().copy_in(device.index, to, from, bytes));
}

void copy_to_host(Device device, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require(device, "copy to the host", module_table().copy_out(device.index, to, from, bytes));
  wait_and_check(device, false); // so that a failed check is heard before the values are used
}

void copy_within_device(Device device, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require(device, "copy", module_table().copy_within(device.index, to, from, bytes));
}

ModuleInfo open_module() {
  const Table& table = module_table();
  return {module().path, table.name, table.build};
}

std::vector<DeviceInfo> list_devices() {
  const Table& table = module_table();
  int count = 0;
  if (const Failure failure = table.count(&count); failure != nullptr)
    throw DeviceError(fmt::format("device: {}: {}", module().path, failure));
  std::vector<DeviceInfo> list;
  for (int i = 0; i < count && i <= Device::max_index; ++i) {
    const Device device = Device::cuda(i);
    Description d{};
    require(device, "description", table.describe(i, &d));
    list.push_back({device, d.name, d.compute_major, d.compute_minor, d.multiprocessors, d.total_bytes, d.free_bytes,
                    d.driver_version});
  }
  return list;
}

std::string why_unavailable() {
  if (module().table == nullptr) return module().failures.substr(2);
  int count = 0;
  if (const Failure failure = module().table->count(&count); failure != nullptr)
    return fmt::format("{}: {}", module().path, failure);
  return count > 0 ? std::string() : fmt::format("{}: there is no device", module().path);
}

bool is_available() { return why_unavailable().empty(); }

void synchronize(Device device) {
  if (!device.is_cpu()) wait_and_check(device, true);
}

std::string products() { return module_table().products(); }

std::uint64_t started_kernels(Device device) { return kernels_started[device.index].load(std::memory_order_relaxed); }

} // namespace eg::device

namespace eg {

DeviceScope::DeviceScope(Device device) : before_(std::exchange(execution_context().settings.device, device)) {}
DeviceScope::~DeviceScope() { execution_context().settings.device = before_; }
Device current_device() { return execution_context().settings.device; }

} // namespace eg
