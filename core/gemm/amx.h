#pragma once
// Finds out whether this process may use the tile registers of Intel's AMX, and asks the kernel for them.

#include <cstdint>
#include <string>

namespace eg::gemm::amx {

/// What the processor says of itself: words of CPUID, and of XCR0 what the system saves.
struct Processor {
  std::uint32_t leaf1_ecx = 0, leaf7_edx = 0;
  std::uint64_t xcr0 = 0; ///< read where leaf1_ecx has OSXSAVE alone
};
Processor this_processor();

/// Which of the two a use needs beside the tiles themselves.
enum class Numbers : std::uint8_t { bf16, int8 };

/// Why a processor cannot do such products in tiles, as half a sentence; empty where it can.
std::string lacks(const Processor& processor, Numbers numbers);

/// Why this process does not: what the processor lacks, EQUIGRAD_AMX=off, or the kernel's refusal
/// (arch_prctl(ARCH_REQ_XCOMP_PERM), asked once a process); empty where it does. Throws ValueError for another value of
/// that variable.
const std::string& refusal(Numbers numbers);

} // namespace eg::gemm::amx
