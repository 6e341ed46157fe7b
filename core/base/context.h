#pragma once
// Keeps all that holds for one thread alone: how it computes, who listens, what may stop it.

#include "core/base/device.h"
#include "core/base/function_ref.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace eg {

enum class MatmulPrecision : std::uint8_t; // core/gemm/matmul_precision.h
enum class Reduction : std::uint8_t;       // core/reduction.h

/// How a thread computes. Each member belongs to one scope, whose header says what it means.
struct ContextSettings {
  Device device{};                    ///< DeviceScope
  MatmulPrecision matmul_precision{}; ///< MatmulPrecisionScope
  Reduction reduction{};              ///< ReductionScope
  int meta_tensors = 0;               ///< open MetaTensorScopes
  int meta_calls = 0;                 ///< open MetaCallScopes
  int shape_only = 0;                 ///< open ShapeOnlyScopes
  int init_skips = 0;                 ///< open nn::init::SkipScopes
  int recomputations = 0;             ///< checkpointed functions that run again
  bool operator==(const ContextSettings&) const = default;
};

/// The state of one thread. `settings` may be installed at another time or on another thread (ContextScope); the other
/// members refer to objects on this thread's stack or to recorders that listen to this thread, so they stay here.
struct ExecutionContext {
  struct Recorders; // core/call.cpp
  struct Place;     // core/call.cpp

  ContextSettings settings;
  Recorders* recorders = nullptr;                        ///< null: none is open
  std::size_t pauses = 0;                                ///< open PauseRecordings of all recorders
  std::uint64_t last_recorder = 0;                       ///< serial number
  Place* place = nullptr;                                ///< of the innermost PlaceScope
  const FunctionRef<void()>* interrupt = nullptr;        ///< of the innermost InterruptScope
  const FunctionRef<void()>* kernel_interrupt = nullptr; ///< the same where a loop may stop
  std::size_t refused_bytes = 0; ///< what an allocator without an argument of its own did not get
};
static_assert(std::is_trivially_destructible_v<ExecutionContext>, "else every access would ask whether it was made");

/// This thread's context.
inline ExecutionContext& execution_context() {
  constinit thread_local ExecutionContext context;
  return context;
}

/// Installs settings that were saved at another time or on another thread, while it lives.
class ContextScope {
public:
  explicit ContextScope(const ContextSettings& saved) : before_(std::exchange(execution_context().settings, saved)) {}
  ~ContextScope() { execution_context().settings = before_; }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

private:
  ContextSettings before_;
};

} // namespace eg
