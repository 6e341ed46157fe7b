#pragma once
// Runs every operation, and reports it to the recorders that are open. Core knows that a recorder can exist, not what a
// tape is.

#include "core/op.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace eg {

/// Checks the inputs and attributes against the row, infers shapes, allocates, runs the kernel (unrecorded), and
/// reports to every recorder that this thread has open. A row with a body runs the body instead, and the recorders get
/// the operations in it. Inputs of different floating types are refused. Throws what the row's shape rule throws; the
/// message ends with the place in the model where the call stood.
std::vector<Tensor> call(const OpDef& op, std::span<const Tensor> in, Attrs attrs = {});
/// The same for operations with one output.
Tensor call1(const OpDef& op, std::initializer_list<Tensor> in, Attrs attrs = {});
std::vector<Tensor> call(const OpDef& op, std::initializer_list<Tensor> in, Attrs attrs = {});

/// The attributes of a call with the row's defaults filled in, as kernels see them. Throws ValueError for one that the
/// row does not declare, that has another kind or that must be given and is not.
Attrs completed_attributes(const OpDef& op, Attrs attrs);

/// An operation that a user defines: forward runs unrecorded, vjp gets (inputs, outputs, cotangents) and returns one
/// gradient per input (undefined: zero). If vjp is made of ops, it can be differentiated again.
struct CustomOp {
  std::string name;
  std::function<std::vector<Tensor>(std::span<const Tensor> in)> forward;
  std::function<std::vector<Tensor>(std::span<const Tensor> in, std::span<const Tensor> out,
                                    std::span<const Tensor> grad)>
      vjp;
  /// Instead of vjp, for a rule that joins its contributions in an order of its own: rounding depends on the order.
  std::function<void(const AddingVjp&)> adding_vjp = {};
  bool saves_outputs = true; ///< false: the rule sees shape and dtype of the outputs only, and the tape keeps no more
};
std::vector<Tensor> call(const std::shared_ptr<const CustomOp>& op, std::span<const Tensor> in);

using Clock = std::chrono::steady_clock;

/// One thing that was done.
struct Event {
  const OpDef* op = nullptr;                   ///< the row, or
  std::shared_ptr<const CustomOp> custom = {}; ///< the user's operation
  std::span<const Tensor> in = {};
  std::span<const Tensor> out = {};
  const Attrs* attrs = nullptr;
  Clock::time_point began = {}; ///< of operations that ran by call()
};

/// Work that is no operation: an optimiser's step.
struct Activity {
  std::string_view name;
  Work work;
  Clock::time_point began;
};

/// One rule that a tape ran in its backward pass.
struct RuleEvent {
  std::string_view name;                  ///< of the operation
  std::string_view place;                 ///< where in the model its call stood
  std::span<const Tensor> grad = {};      ///< cotangents of its outputs
  std::span<const Tensor> gradients = {}; ///< what the rule made of them, by input
};

/// Listens to calls on one thread.
class Recorder {
public:
  virtual ~Recorder() = default;
  virtual void record(const Event& event) = 0;
  /// Work beside the operations, when it is done.
  virtual void activity(const Activity&) {}
  /// A tape's backward pass begins and ends (also by an exception); they nest.
  virtual void backward_starts() {}
  virtual void backward_ends() {}
  /// After the calls that the rule made.
  virtual void rule_done(const RuleEvent&) {}
  /// True: it looks at values and keeps no graph. An observer gets the calls inside a composite (a checkpointed
  /// function), a tape the composite as one event.
  virtual bool observes() const { return false; }
  /// True: it needs names, shapes and times alone, so a sum may be formed in place before it gets the event.
  virtual bool only_counts() const { return false; }
  /// True: it must get every step from one value to another, so no step may be replaced by an unrecorded copy.
  virtual bool links() const { return !observes(); }
};

/// Recorders open on this thread, oldest first. A tape opens itself when it is made. One that is opened during a pause
/// listens at once, and still does when the pause ends; one that is closed during a pause stays closed.
void open_recorder(Recorder* recorder);
void close_recorder(Recorder* recorder);
/// True when some recorder listens on this thread.
bool recording();
/// True when one listens that looks at values: not a work meter, not a profile.
bool values_recording();
/// True when one listens that links values (a tape).
bool graph_recording();
/// Reports one event to the recorders that listen: for what is done otherwise than by call(). A composite event goes to
/// those alone that are no observers.
void notify_recorders(const Event& event);
void notify_of_composite(const Event& event);
void notify_recorders(const RuleEvent& event);
void notify_recorders(const Activity& activity);

/// A tape's backward pass, while it lives: the recorders that listen when it begins are notified of its beginning and
/// end.
class BackwardScope {
public:
  BackwardScope();
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

private:
  std::vector<std::uint64_t> notified_; // serial numbers
};

/// While it lives, the recorders that were open when it began get no events (or, given one, only that recorder gets
/// none). Pauses of a thread end in the reverse order of their beginning.
class PauseRecording {
public:
  PauseRecording();
  explicit PauseRecording(Recorder* only);
  ~PauseRecording();
  PauseRecording(const PauseRecording&) = delete;
  PauseRecording& operator=(const PauseRecording&) = delete;

private:
  bool all_ = true;
  std::uint64_t only_ = 0; // else: serial number of the one that is paused, 0 when it was not open
};

/// While it lives, the recorders that were open when it began and are no observers get no events.
class CompositeScope {
public:
  CompositeScope();
  ~CompositeScope();
  CompositeScope(const CompositeScope&) = delete;
  CompositeScope& operator=(const CompositeScope&) = delete;

private:
  std::vector<std::uint64_t> muted_; // serial numbers
};

/// Names the part of the model that runs while it lives: scopes nest to "encoder.3.attention.qkv".
class PlaceScope {
public:
  explicit PlaceScope(std::string_view name);
  /// The place as current_place() gave it at another time, wherever this stands.
  static PlaceScope at(std::string place) { return PlaceScope(std::move(place), Whole{}); }
  ~PlaceScope();
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

private:
  struct Whole {};
  PlaceScope(std::string place, Whole);
};
/// The present place, "" at top level.
std::string current_place();

} // namespace eg
