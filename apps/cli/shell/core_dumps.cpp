#include "apps/cli/shell/core_dumps.h"

#include <sys/resource.h>

namespace eg::cli {

void disable_core_dumps() {
  rlimit limit{};
  getrlimit(RLIMIT_CORE, &limit);
  limit.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &limit); // lowering one's own limit cannot fail
}

} // namespace eg::cli
