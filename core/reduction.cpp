#include "core/reduction.h"

#include <utility>

namespace eg {
namespace {

thread_local Reduction present = Reduction::fast;

} // namespace

Reduction reduction() { return present; }

ReductionScope::ReductionScope(Reduction wanted) : before_(std::exchange(present, wanted)) {}

ReductionScope::~ReductionScope() { present = before_; }

} // namespace eg
