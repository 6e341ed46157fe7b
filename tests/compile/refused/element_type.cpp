// Only the five element types can be asked for.

#include "core/tensor.h"

double use(const eg::Tensor& x) {
#ifdef MISTAKE
  return *x.data<int>();
#else
  return *x.data<float>();
#endif
}
