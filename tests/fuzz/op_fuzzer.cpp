// libFuzzer program over every row of the registry: fuzz_ops CORPUS -timeout=20 -rss_limit_mb=2048.

#include "fuzz/op_calls.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*words*/) {
  eg::fuzz::prepare_op_calls();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  eg::fuzz::run_op_call(eg::fuzz::decode_op_call({bytes, size}));
  return 0;
}
