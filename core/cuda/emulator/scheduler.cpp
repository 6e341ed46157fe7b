// Which thread of a block goes on: fibers run one after another until each has to wait.

#include "core/cuda/emulator/machine.h"

#include <algorithm>
#include <exception>
#include <map>

namespace eg::emulator {

void Emulator::make_order() {
  const std::size_t count = thread_count, warps = (count + 31) / 32;
  order.resize(count);
  switch (schedule.order) {
  case Order::ascending:
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<unsigned>(i);
    break;
  case Order::descending:
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<unsigned>(count - 1 - i);
    break;
  case Order::random:
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<unsigned>(i);
    std::shuffle(order.begin(), order.end(), generator);
    break;
  case Order::interleaved: {
    std::size_t at = 0;
    for (std::size_t lane = 0; lane < 32; ++lane)
      for (std::size_t w = 0; w < warps; ++w)
        if (const std::size_t i = (w + first_warp) % warps * 32 + lane; i < count)
          order[at++] = static_cast<unsigned>(i);
    break;
  }
  }
}

std::vector<std::size_t> Emulator::block_order(std::size_t blocks) {
  std::vector<std::size_t> turns(blocks);
  for (std::size_t b = 0; b < blocks; ++b) turns[b] = b;
  if (schedule.order == Order::descending) std::reverse(turns.begin(), turns.end());
  if (schedule.order == Order::random) std::shuffle(turns.begin(), turns.end(), generator);
  if (schedule.order == Order::interleaved) // odd ones first
    std::stable_partition(turns.begin(), turns.end(), [](std::size_t b) { return b % 2 != 0; });
  return turns;
}

Thread* Emulator::next_thread() {
  while (turn < thread_count) {
    const unsigned i = order[turn++];
    if (states[i] == State::fresh || states[i] == State::ready) return &threads[i];
  }
  return nullptr;
}

Fiber& Emulator::fiber_of(Thread& wanted) {
  if (wanted.fiber == nullptr) {
    wanted.fiber = &fibers.take();
    wanted.fiber->thread = &wanted;
  }
  return *wanted.fiber;
}

/// A fiber runs thread after thread until one has to wait: kernels without barriers need a single one.
void Emulator::fiber_loop() {
  Fibers::arrived();
  for (;;) {
    Fiber& self = *fibers.current();
    Thread& mine = *self.thread;
    thread = &mine;
    states[mine.linear] = State::ready;
    bool thrown = false;
    try {
      seeing = true;
      launch->enter(call);
      seeing = false;
    } catch (const std::exception& e) {
      accuse(Finding(std::string("an exception leaves the kernel: ") + e.what()));
      thrown = true;
    }
    if (thrown) leave_kernel();
    states[mine.linear] = State::done;
    mine.fiber = nullptr;
    ++done;
    Thread* const next = next_thread();
    if (next != nullptr && next->fiber == nullptr) {
      next->fiber = &self;
      self.thread = next;
      continue;
    }
    fibers.give_back(self);
    if (next != nullptr) thread = next;
    fibers.leave(self, next != nullptr ? next->fiber : nullptr);
  }
}

void Emulator::wait() {
  Fiber& self = *fibers.current();
  ++counts.switches;
  Thread* const next = next_thread();
  Fiber* const to = next != nullptr ? &fiber_of(*next) : nullptr;
  if (next != nullptr) thread = next;
  fibers.leave(self, to);
}

void Emulator::run_block() {
  shared.start(launch->dynamic_shared);
  shadow.start_block();
  std::fill_n(states.begin(), thread_count, State::fresh);
  for (std::size_t w = 0; w * 32 < thread_count; ++w) meetings[w].clear();
  done = at_barrier = 0;
  barriers = first_warp = 0;
  make_order();
  for (;;) {
    turn = 0;
    bool moved = false;
    while (Thread* const next = next_thread()) {
      moved = true;
      thread = next;
      fibers.enter(fiber_of(*next));
      if (!finding.empty()) throw Error(reporter.text(finding));
    }
    if (done == thread_count) break;
    if (!moved) finish_barrier();
  }
  shadow.end_block();
}

/// Threads that left while others wait are an error too: allowed since Volta, never meant.
void Emulator::finish_barrier() {
  if (at_barrier < thread_count) stuck();
  const Place& place = threads[0].place;
  for (std::size_t i = 1; i < thread_count; ++i)
    if (threads[i].place.line != place.line || threads[i].place.file != place.file) stuck();
  std::fill_n(states.begin(), thread_count, State::ready);
  at_barrier = 0;
  ++barriers;
  ++first_warp;
  if (schedule.order == Order::random || schedule.order == Order::interleaved) make_order();
}

void Emulator::stuck() {
  std::map<std::string, std::vector<unsigned>> by_place;
  for (std::size_t i = 0; i < thread_count; ++i) {
    const Thread& t = threads[i];
    by_place[states[i] == State::done ? "the end of the kernel" : words_of(t.place)].push_back(t.linear);
  }
  std::string words = kernel_name(launch->place) + ": block " + words_of(block) + " is stuck";
  std::string before = ": ";
  for (const auto& [place, who] : by_place) {
    words +=
        before + std::to_string(who.size()) + " threads (first " + std::to_string(who.front()) + ") are at " + place;
    before = "; ";
  }
  throw Error(words);
}

void block_barrier(const Place& place) {
  Emulator& e = machine();
  const Unseen unseen(e);
  e.thread->place = place;
  e.states[e.thread->linear] = State::waits_at_barrier;
  ++e.at_barrier;
  e.wait();
}

} // namespace eg::emulator
