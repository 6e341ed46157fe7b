#include "core/meta.h"

namespace eg {
namespace {
thread_local int tensors = 0, calls = 0, unread = 0; // scopes that live
} // namespace

MetaTensorScope::MetaTensorScope() { ++tensors; }
MetaTensorScope::~MetaTensorScope() { --tensors; }
MetaCallScope::MetaCallScope() { ++calls; }
MetaCallScope::~MetaCallScope() { --calls; }
UnreadScope::UnreadScope() { ++unread; }
UnreadScope::~UnreadScope() { --unread; }
bool making_meta_tensors() { return tensors > 0; }
bool calling_with_meta_tensors() { return calls > 0; }
bool results_unread() { return unread > 0; }

} // namespace eg
