#include "apps/cli/shell/core_dumps.h"

#include <sys/resource.h>

namespace eg::cli {

void leave_no_core_dump() {
  rlimit limit{};
  getrlimit(RLIMIT_CORE, &limit);
  limit.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &limit); // lowering one's own limit cannot fail
}

} // namespace eg::cli
