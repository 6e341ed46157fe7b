#include "nn/attention_recorder.h"

#include "core/threads/at_fork.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

namespace eg::nn {
namespace {

/// The recorders that are open, each with the thread that it listens to, inner ones behind outer ones. They are rare,
/// so a thread's context holds no place for them, and attention asks their number alone.
std::atomic<int> how_many = 0;
std::mutex guard;
std::vector<std::pair<std::thread::id, AttentionRecorder*>> recorders; // under the guard

const bool watching = [] { // a child must not find it taken by a thread that it has not
  at_fork([] { guard.lock(); }, [] { guard.unlock(); }, [] { guard.unlock(); });
  return true;
}();

} // namespace

Tensor attention_logits(const Tensor& q, const Tensor& k, double scale) {
  const std::int64_t heads = q.size(1), shared = k.size(1);
  return matmul(q, (heads == shared ? k : repeat_interleave(k, heads / shared, 1)).transpose(-1, -2)) * scale;
}

AttentionRecorder::AttentionRecorder() {
  const std::lock_guard lock(guard);
  recorders.emplace_back(std::this_thread::get_id(), this);
  how_many = static_cast<int>(recorders.size());
}

AttentionRecorder::~AttentionRecorder() {
  const std::lock_guard lock(guard);
  std::erase_if(recorders, [this](const auto& one) { return one.second == this; });
  how_many = static_cast<int>(recorders.size());
}

AttentionRecorder* AttentionRecorder::current() {
  if (how_many.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(guard);
  const auto found = std::find_if(recorders.rbegin(), recorders.rend(),
                                  [](const auto& one) { return one.first == std::this_thread::get_id(); });
  return found == recorders.rend() ? nullptr : found->second;
}

} // namespace eg::nn
