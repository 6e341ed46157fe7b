#include "core/reduction.h"

#include "core/base/context.h"

#include <utility>

namespace eg {

Reduction reduction() { return execution_context().settings.reduction; }

ReductionScope::ReductionScope(Reduction wanted)
    : before_(std::exchange(execution_context().settings.reduction, wanted)) {}

ReductionScope::~ReductionScope() { execution_context().settings.reduction = before_; }

} // namespace eg
