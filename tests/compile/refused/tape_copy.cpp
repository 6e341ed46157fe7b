// A tape is a scope: it is not copied.

#include "autograd/tape.h"

void use(eg::Tape& tape) {
#ifdef MISTAKE
  eg::Tape copy = tape;
  (void)copy;
#endif
  tape.close();
}
