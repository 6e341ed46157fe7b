#pragma once
// Defines the error of work that several processes share.

#include "core/base/error.h"

namespace eg::distributed {

/// MPI that cannot be used, a process that does not answer, or one that sends what was not asked for.
class DistributedError : public Error {
public:
  using Error::Error;
};

} // namespace eg::distributed
