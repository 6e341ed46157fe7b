// Writing needs mutable_data, which raises the version that the tape compares.

#include "core/tensor.h"

void use(eg::Tensor& x) {
#ifdef MISTAKE
  *x.data<float>() = 1.0F;
#else
  *x.mutable_data<float>() = 1.0F;
#endif
}
