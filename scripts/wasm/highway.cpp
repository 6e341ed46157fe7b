// What Highway's headers call of its library, which Debian builds for its own processors alone.

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <hwy/base.h>

namespace hwy {

void Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: ", file, line);
  va_list values;
  va_start(values, format);
  std::vfprintf(stderr, format, values);
  va_end(values);
  std::fputc('\n', stderr);
  std::abort();
}

} // namespace hwy
