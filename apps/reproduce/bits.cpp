#include "apps/reproduce/bits.h"

#include "core/call.h"
#include "core/strided.h"

#include <cstring>

namespace eg::reproduce {

double differing_bits(const nn::StateDict& a, const nn::StateDict& b) {
  const PauseRecording pause;
  double count = 0.0;
  for (std::size_t p = 0; p < a.size(); ++p) {
    const Tensor x = a[p].second.contiguous(), y = b[p].second.contiguous();
    visit_floating(x.dtype(), [&]<class T>() {
      for (std::int64_t i = 0; i < x.numel(); ++i)
        count += std::memcmp(x.data<T>() + i, y.data<T>() + i, sizeof(T)) == 0 ? 0.0 : 1.0;
    });
  }
  return count;
}

} // namespace eg::reproduce
