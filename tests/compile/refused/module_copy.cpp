// Children are registered by address, so a module is not copied.

#include "nn/layers.h"

std::int64_t use(const eg::nn::Linear& layer) {
#ifdef MISTAKE
  const eg::nn::Linear copy = layer;
  return copy.parameter_count();
#else
  return layer.parameter_count();
#endif
}
