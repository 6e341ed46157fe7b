#pragma once
// Counts the flops and bytes of this thread's calls, from the figures in the op definitions.

#include "core/call.h"

#include <cstdint>

namespace eg {

/// While it lives: flops and bytes of every recorded call on this thread, rules of a tape included.
class WorkMeter : private Recorder {
public:
  WorkMeter() { open_recorder(this); }
  ~WorkMeter() override { close_recorder(this); }
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  const Work& total() const { return total_; }
  std::int64_t calls() const { return calls_; }

private:
  void record(const Event& event) override;
  bool observes() const override { return true; }
  bool only_counts() const override { return true; }
  Work total_;
  std::int64_t calls_ = 0;
};

} // namespace eg
