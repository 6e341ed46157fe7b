// libFuzzer programs for split learning and STIP: EQUIGRAD_FUZZ_TARGET names a function of split_targets.h or
// stip_targets.h.

#include "fuzz/split_targets.h"
#include "fuzz/stip_targets.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  eg::fuzz::EQUIGRAD_FUZZ_TARGET({bytes, size});
  return 0;
}
