// row() runs in the compiler: a row cannot be put together while the program runs.

#include "core/op.h"

eg::OpDef use(eg::OpDef def) {
#ifdef MISTAKE
  return eg::row(def);
#else
  return def;
#endif
}
