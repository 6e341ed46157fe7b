#pragma once
// Records every call on this thread with its duration, flops, bytes and the memory in use after it.

#include "core/call.h"
#include "core/simd/roofline.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace eg {

/// While it lives, it records the operations of this thread, rules of a tape and optimisers included. What happens
/// inside an operation is the operation's; work that is not reported (reading data, C++ between the calls) is the rest.
class Profile : private Recorder {
public:
  /// One call.
  struct Call {
    std::string name;  ///< of the operation: "linear"
    std::string place; ///< in the model: "blocks.3.attention.qkv"
    bool backward = false;
    DType dtype = DType::f32; ///< of its first output
    double start_us = 0;      ///< since the profile began
    double us = 0;
    Work work = {};
    std::size_t live_bytes = 0; ///< handed out by the allocator when it was done
    std::size_t peak_bytes = 0; ///< the most that was, since the profile began
  };
  /// All calls of one name and direction.
  struct Row {
    std::string name;
    bool backward = false;
    std::int64_t calls = 0;
    double us = 0;
    Work work = {};
    double least_ms = 0; ///< by the roofline
  };

  /// Calls kept for the trace; later ones are in the table alone.
  static constexpr std::size_t most_calls = 200'000;

  /// Resets the allocator's peak.
  Profile();
  ~Profile() override { close_recorder(this); }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  const std::vector<Call>& calls() const { return calls_; }
  /// Calls that the trace does not hold.
  std::int64_t dropped() const { return dropped_; }
  /// By time, longest first; least_ms from `roofline`.
  std::vector<Row> rows(const Roofline& roofline) const;
  /// Microseconds since the profile began.
  double elapsed_us() const;

  /// The trace in Chrome's format (chrome://tracing, ui.perfetto.dev): calls on one line each for the way forward and
  /// back, and the allocator's live and peak megabytes as counters.
  std::string chrome_trace(const Roofline& roofline) const;
  /// A table for people: time, share, GFLOP/s, GB/s and share of the roofline by operation; the last rows are what was
  /// not recorded in `elapsed_us`, between the calls and around them, and the peak memory.
  std::string table(const Roofline& roofline, double elapsed_us) const;

private:
  struct Sum {
    std::int64_t calls = 0;
    double us = 0;
    Work f32, f64;
  };
  void record(const Event& event) override;
  void activity(const Activity& activity) override;
  void backward_starts() override { ++walks_; }
  void backward_ends() override { --walks_; }
  bool observes() const override { return true; }
  bool only_counts() const override { return true; }
  void add(Call call, Clock::time_point began);

  Clock::time_point start_ = Clock::now();
  int walks_ = 0;                    // tapes in their backward pass
  double begin_us_ = 0, end_us_ = 0; // of the first call, of the last
  std::size_t peak_bytes_ = 0;
  std::vector<Call> calls_;
  std::int64_t dropped_ = 0;
  std::map<std::pair<std::string, bool>, Sum> sums_;
};

} // namespace eg
