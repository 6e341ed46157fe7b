#include "kept.h"

#include "core/call.h"

#include <algorithm>
#include <thread>

namespace eg::python {
namespace {

struct Keeper {
  std::thread::id thread; ///< whose records it keeps
  std::weak_ptr<Kept> kept;
};

/// Of all threads; only with the interpreter's lock.
std::vector<Keeper> keepers;

} // namespace

nb::object Lent::get() const {
  const std::shared_ptr<nb::object> object = object_.lock();
  if (!object) throw AutogradError("tape: a Python function that its gradient needs is gone");
  return *object;
}

std::pair<std::uint64_t, Lent> Kept::add_hook(nb::handle hook) {
  const auto [at, added] = hooks_.emplace(next_++, Owned(hook));
  return {at->first, at->second.lend()};
}

void Kept::clear() {
  // Destruction may run Python code, which must find a consistent state.
  const auto objects = std::exchange(objects_, {});
  const auto hooks = std::exchange(hooks_, {});
}

int Kept::traverse(visitproc visit, void* arg) const {
  for (const auto& [address, object] : objects_) Py_VISIT(object.ptr());
  for (const auto& [number, hook] : hooks_) Py_VISIT(hook.ptr());
  return 0;
}

void start_keeping(const std::shared_ptr<Kept>& kept) { keepers.push_back({std::this_thread::get_id(), kept}); }

void stop_keeping(const std::shared_ptr<Kept>& kept) {
  std::erase_if(keepers, [&](const Keeper& keeper) { return keeper.kept.lock() == kept; });
}

void keep_for_tapes(nb::handle object) {
  if (!graph_recording()) return;
  for (const Keeper& keeper : keepers)
    if (keeper.thread == std::this_thread::get_id())
      if (const std::shared_ptr<Kept> there = keeper.kept.lock()) there->add(object);
}

} // namespace eg::python
