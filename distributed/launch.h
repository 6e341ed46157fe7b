#pragma once
// Tells whether a launcher of MPI started this process, from the environment alone.

#include <optional>
#include <string>

namespace eg::distributed {

/// What a launcher says of this process before MPI is started.
struct Launch {
  std::string launcher; ///< "Open MPI", "MPICH" (also other launchers that speak PMI) or "PMIx"
  int rank = 0;
  int size = 0; ///< 0: the launcher does not say
};

/// Nothing where no launcher started this process. Throws ValueError for variables of a launcher that are no numbers.
std::optional<Launch> launch();

} // namespace eg::distributed
