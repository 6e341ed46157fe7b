#pragma once
// What the fuzzers do with model folders. A target returns when all is as it must be; any exception is a finding.

#include "core/base/bytes.h"

namespace eg::fuzz {

/// The first byte chooses one of the configs of tests/golden/transformers.json; pairs of bytes after it put a value
/// that readers stumble over into one of its fields, or of another config's. Its weights stay what they were. The
/// folder is refused with a FileError, or the model runs on small inputs or refuses them with an eg::Error.
void model_folder(ByteView bytes);

} // namespace eg::fuzz
