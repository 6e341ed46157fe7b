#pragma once
// Lets Python's garbage collector see the functions that recorded operations call. Each has one owner among Python's
// objects, which the collector visits; C++ calls it through a handle that does not keep it alive.

#include "core/base/error.h"

#include "bindings.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace eg::python {

/// Refers to the object of an Owned without keeping it alive. May be copied and dropped without the interpreter's lock.
class Lent {
public:
  Lent() = default;
  explicit Lent(std::weak_ptr<nb::object> object) : object_(std::move(object)) {}
  /// Throws AutogradError when the owner was destroyed. Only with the lock.
  nb::object get() const;

private:
  std::weak_ptr<nb::object> object_;
};

/// A Python object of one owner. Only with the interpreter's lock.
class Owned {
public:
  Owned() = default;
  explicit Owned(nb::handle object) : object_(std::make_shared<nb::object>(nb::borrow(object))) {}
  Lent lend() const { return Lent(object_); }
  /// Null when it holds nothing.
  PyObject* ptr() const { return object_ ? object_->ptr() : nullptr; }

private:
  std::shared_ptr<nb::object> object_;
};

/// What a tape needs of Python as long as it can be walked: custom operations, checkpointed functions, hooks.
/// Only with the interpreter's lock.
class Kept {
public:
  /// Once each.
  void add(nb::handle object) { objects_.try_emplace(object.ptr(), nb::borrow(object)); }
  /// Keeps a hook until remove_hook(number).
  std::pair<std::uint64_t, Lent> add_hook(nb::handle hook);
  void remove_hook(std::uint64_t number) { hooks_.erase(number); }
  /// Lets all go.
  void clear();
  /// For the collector.
  int traverse(visitproc visit, void* arg) const;

private:
  std::map<PyObject*, nb::object> objects_;
  std::map<std::uint64_t, Owned> hooks_;
  std::uint64_t next_ = 0;
};

/// From here on what is recorded on this thread is kept there too.
void start_keeping(const std::shared_ptr<Kept>& kept);
void stop_keeping(const std::shared_ptr<Kept>& kept);
/// Has every tape that records on this thread keep an object which its records will call. Nothing while none listens.
void keep_for_tapes(nb::handle object);

/// Keeps what the tapes that C++ opens while it lives need of Python. Made and destroyed with the interpreter's lock.
class KeptScope {
public:
  KeptScope() { start_keeping(kept_); }
  ~KeptScope() { stop_keeping(kept_); }
  KeptScope(const KeptScope&) = delete;
  KeptScope& operator=(const KeptScope&) = delete;

private:
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

/// Slots of a class whose instances have traverse(visit, arg) and clear(), through which the collector sees them.
template <class T> const PyType_Slot* collected() {
  static const PyType_Slot slots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(+[](PyObject* self, visitproc visit, void* arg) -> int {
         Py_VISIT(Py_TYPE(self));
         return nb::inst_ready(self) ? nb::inst_ptr<T>(self)->traverse(visit, arg) : 0;
       })},
      {Py_tp_clear, reinterpret_cast<void*>(+[](PyObject* self) -> int {
         if (nb::inst_ready(self)) nb::inst_ptr<T>(self)->clear();
         return 0;
       })},
      {0, nullptr}};
  return slots;
}

} // namespace eg::python
