#include "core/meta.h"

#include "core/base/context.h"

namespace eg {

MetaTensorScope::MetaTensorScope() { ++execution_context().settings.meta_tensors; }
MetaTensorScope::~MetaTensorScope() { --execution_context().settings.meta_tensors; }
MetaCallScope::MetaCallScope() { ++execution_context().settings.meta_calls; }
MetaCallScope::~MetaCallScope() { --execution_context().settings.meta_calls; }
ShapeOnlyScope::ShapeOnlyScope() { ++execution_context().settings.shape_only; }
ShapeOnlyScope::~ShapeOnlyScope() { --execution_context().settings.shape_only; }
bool making_meta_tensors() { return execution_context().settings.meta_tensors > 0; }
bool is_shape_only() { return execution_context().settings.shape_only > 0; }

} // namespace eg
