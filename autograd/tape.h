#pragma once
// Records operations on a tape, and walks them newest first to give gradients.

#include "core/base/function_ref.h"
#include "core/call.h"

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace eg {

/// True for a defined f32 or f64 tensor: one that can have a gradient.
inline bool flows(const Tensor& t) { return t.defined() && is_floating(t.dtype()); }

/// Looks at a cotangent; returns what takes its place, or an undefined tensor to leave it as it is.
using GradientHook = std::function<Tensor(const Tensor& cotangent)>;

/// Removes a hook when it goes. Outliving the tape is harmless.
class [[nodiscard]] HookHandle {
public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  ~HookHandle() { remove(); }
  HookHandle(HookHandle&& other) noexcept;
  HookHandle& operator=(HookHandle&& other) noexcept;
  HookHandle(const HookHandle&) = delete;
  HookHandle& operator=(const HookHandle&) = delete;
  /// Removes it now.
  void remove();
  /// Leaves it in place for as long as the tape lives.
  void keep() { remove_ = nullptr; }

private:
  std::function<void()> remove_;
};

/// Records the calls of this thread from construction until it is closed or destroyed. Gradients are a returned value,
/// so nothing has to be zeroed and two gradients can be compared side by side. Tapes nest: while an outer tape is open,
/// the rules that an inner tape runs are recorded on the outer one, which is how second derivatives are taken.
/// A tape is destroyed on the thread that opened it.
///
/// A value that an operation of the tape computed must not be changed in place, itself or through a view, before it is
/// used again: the next operation, or gradient(), that meets it throws AutogradError naming who computed it and who
/// changed it. Leaves (parameters, data) and their views may be changed before they are used.
///
///     Tape tape;
///     Tensor loss = cross_entropy(model(images), labels);
///     std::vector<Tensor> g = tape.gradient(loss, parameters);
class Tape : private Recorder {
public:
  Tape();
  ~Tape() override;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// d<cotangent, y>/dx for each x of xs; an x that y does not depend on gets zeros. Without cotangent y must have one
  /// element. xs may be leaves or values computed on this tape. Saved values are freed during the backward pass, so the
  /// tape can be used once, unless `retain`. The tape does not record the rules it runs itself. Gradients are packed
  /// and share no elements with each other or with the cotangent (they may while another tape of this thread listens).
  /// Throws AutogradError: y was not computed on this tape, the tape was used up, a saved or computed value was changed
  /// in place (names both operations and the place), an operation between x and y has no gradient.
  std::vector<Tensor> gradient(const Tensor& y, std::span<const Tensor> xs, const Tensor& cotangent = {},
                               bool retain = false);
  std::vector<Tensor> gradient(const Tensor& y, std::initializer_list<Tensor> xs, const Tensor& cotangent = {},
                               bool retain = false);
  /// The same for several outputs at once: d(sum of <cotangents[i], ys[i]>)/dx.
  std::vector<Tensor> gradient(std::span<const Tensor> ys, std::span<const Tensor> xs,
                               std::span<const Tensor> cotangents, bool retain = false);

  /// The same as gradient(), for reading alone: what the rules gave is handed out as it is. A gradient may be a view
  /// that repeats elements (stride 0) or skips some, and may share them with other gradients, the cotangent and
  /// computed values. clone() gives one elements of its own.
  std::vector<Tensor> gradient_views(const Tensor& y, std::span<const Tensor> xs, const Tensor& cotangent = {},
                                     bool retain = false);
  std::vector<Tensor> gradient_views(std::span<const Tensor> ys, std::span<const Tensor> xs,
                                     std::span<const Tensor> cotangents, bool retain = false);

  /// dy/dx for each x of xs, one after another: take(i, gradient) is called once for each i, as soon as the walk has no
  /// more use for x_i, and nothing else keeps the gradient. So not all gradients exist at once, and `take` may change
  /// x_i in place: an optimiser that steps there needs the memory of the largest gradient instead of all. The gradients
  /// have the bits of gradient()'s and are packed and unshared like those; xs that y does not depend on get zeros.
  /// Where an exception ends the walk, some calls have been made. Uses the tape up. Throws AutogradError as gradient()
  /// does, for an x that was computed on this tape or is given twice, and for a y that was not computed on it.
  void gradient_each(const Tensor& y, std::span<const Tensor> xs,
                     FunctionRef<void(std::size_t i, Tensor gradient)> take);

  /// The same as gradient(), joined to what is there: sums[i] (undefined: zero) becomes sums[i] + d(...)/dx_i,
  /// undefined where neither is. The terms are added one by one in the order of the walk, so the bits are those of one
  /// tape that had recorded both parts; the results may share elements with each other. Uses the tape up.
  void add_gradient(std::span<const Tensor> ys, std::span<const Tensor> xs, std::span<const Tensor> cotangents,
                    std::span<Tensor> sums);

  /// Calls `hook` with the whole cotangent of x, once in every gradient() that passes through x: when x was computed on
  /// this tape, before the rule of its operation (so a replacement is what flows on), and when x is one of xs. Hooks on
  /// one value are called in the order of their making. Other tapes record what a hook computes, so second derivatives
  /// include it. The hook is removed when its handle is destroyed. Values inside a checkpointed function cannot be
  /// hooked. Throws AutogradError for an x without gradients; gradient() throws it when a replacement does not fit.
  HookHandle on_gradient(const Tensor& x, GradientHook hook);

  /// Stops recording; what was recorded stays. Throws AutogradError on another thread than the one that opened it.
  void close();
  /// True when an operation recorded here gave this value.
  bool computed(const Tensor& y) const;
  /// True when an operation recorded here read or gave this value.
  bool met(const Tensor& t) const;
  /// Number of recorded operations that a gradient may pass through.
  std::size_t size() const;
  /// Bytes of storage that the tape keeps alive (each storage counted once).
  std::size_t saved_bytes() const;

private:
  void record(const Event& event) override;
  struct Node;
  struct State;
  struct BackwardPass;
  std::vector<Tensor> run_backward(std::span<const Tensor> ys, std::span<const Tensor> xs,
                                   std::span<const Tensor> cotangents, std::span<Tensor> sums, bool retain,
                                   FunctionRef<void(BackwardPass& pass, std::size_t node)> passed);
  std::unique_ptr<State> state_;
};

/// Runs f with no tape of this thread listening.
template <class F> decltype(auto) without_tape(F&& f) {
  PauseRecording pause;
  return f();
}

} // namespace eg
