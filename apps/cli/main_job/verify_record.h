#pragma once
// Writes a row's result for another process, every bit of it.

#include "apps/cli/shell/spread.h"
#include "permute/catalogue/catalogue.h"

namespace eg::cli {

/// What VerifyResult has, whole.
extern const RecordForm<permute::VerifyResult> verify_record;

} // namespace eg::cli
