#include "core/gemm/amx.h"

#include "core/base/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <string_view>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace eg::gemm::amx {
namespace {

constexpr std::uint32_t bit(int i) { return std::uint32_t{1} << i; }

/// The kernel gives a process room for the tiles' 8 KiB when it is asked. The answer holds for all threads.
std::string kernel_refusal() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, request_permission, tile_data) == 0) return {};
  return fmt::format("the kernel refuses tile registers: {}", std::strerror(errno));
#else
  return "it is for Linux on x86-64";
#endif
}

std::string found_refusal(Numbers numbers) {
  const char* wished = std::getenv("EQUIGRAD_AMX");
  const std::string_view wish = wished == nullptr ? "" : wished;
  if (!wish.empty() && wish != "off") throw ValueError(fmt::format("EQUIGRAD_AMX is '{}'; it can be off", wish));
  if (std::string why = lacks(this_processor(), numbers); !why.empty()) return why;
  if (wish == "off") return "EQUIGRAD_AMX is off";
  static const std::string kernel = kernel_refusal();
  return kernel;
}

} // namespace

Processor this_processor() {
  Processor found;
#if defined(__x86_64__) && defined(__linux__)
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
  found.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) found.leaf7_edx = d;
  if ((found.leaf1_ecx & bit(27)) != 0) {
    std::uint32_t low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    found.xcr0 = std::uint64_t{high} << 32 | low;
  }
#endif
  return found;
}

std::string lacks(const Processor& p, Numbers numbers) {
  if ((p.leaf7_edx & bit(24)) == 0) return "this processor has no AMX";
  if (numbers == Numbers::bf16 && (p.leaf7_edx & bit(22)) == 0) return "this processor's AMX has no bf16";
  if (numbers == Numbers::int8 && (p.leaf7_edx & bit(25)) == 0) return "this processor's AMX has no int8";
  constexpr std::uint64_t tiles = std::uint64_t{3} << 17; // XTILECFG and XTILEDATA
  if ((p.leaf1_ecx & bit(27)) == 0 || (p.xcr0 & tiles) != tiles) return "the system does not save AMX's registers";
  return {};
}

const std::string& refusal(Numbers numbers) {
  static const std::string bf16 = found_refusal(Numbers::bf16), int8 = found_refusal(Numbers::int8);
  return numbers == Numbers::bf16 ? bf16 : int8;
}

} // namespace eg::gemm::amx
