#pragma once
// A limit of the system that programs are started under.

#include <algorithm>
#include <sys/resource.h>

namespace eg::test {

/// A soft limit of this process, and of the programs that it starts, while it lives.
class Limit {
public:
  Limit(__rlimit_resource resource, rlim_t soft) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit lower{std::min(soft, before_.rlim_max), before_.rlim_max};
    setrlimit(resource_, &lower);
  }
  ~Limit() { setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

private:
  __rlimit_resource resource_;
  rlimit before_{};
};

} // namespace eg::test
