#include "core/meta.h"

#include "core/base/context.h"

namespace eg {

MetaTensorScope::MetaTensorScope() { ++execution_context().settings.meta_tensors; }
MetaTensorScope::~MetaTensorScope() { --execution_context().settings.meta_tensors; }
MetaCallScope::MetaCallScope() { ++execution_context().settings.meta_calls; }
MetaCallScope::~MetaCallScope() { --execution_context().settings.meta_calls; }
UnreadScope::UnreadScope() { ++execution_context().settings.unread; }
UnreadScope::~UnreadScope() { --execution_context().settings.unread; }
bool making_meta_tensors() { return execution_context().settings.meta_tensors > 0; }
bool calling_with_meta_tensors() { return execution_context().settings.meta_calls > 0; }
bool results_unread() { return execution_context().settings.unread > 0; }

} // namespace eg
