// Warp functions are meetings: each lane deposits a value and sleeps, and the last one computes everybody's result.

#include "core/cuda/emulator/machine.h"

#include <algorithm>

namespace eg::emulator {

void warp_meet(const Meeting& meeting, const void* deposit, void* result, const Place& place) {
  Emulator& e = machine();
  const Unseen unseen(e);
  Thread& self = *e.thread;
  if ((meeting.mask >> self.lane & 1U) == 0) fail([] { return "the mask leaves out the lane that calls"; }, place);
  self.place = place;
  auto& open = e.meetings[self.warp];
  auto at = std::find_if(open.begin(), open.end(), [&](const OpenMeeting& m) {
    return m.mask == meeting.mask && m.place.line == place.line && m.place.file == place.file &&
           m.place.what == place.what && (m.arrived >> self.lane & 1U) == 0;
  });
  if (at == open.end()) {
    open.push_back({.mask = meeting.mask, .arrived = 0, .place = place, .deposits = {}, .results = {}});
    at = open.end() - 1;
  }
  // Both lie on the stacks of lanes that sleep.
  at->arrived |= 1U << self.lane;
  at->deposits[self.lane] = static_cast<const std::byte*>(deposit);
  at->results[self.lane] = static_cast<std::byte*>(result);
  if (at->arrived != meeting.mask) {
    e.states[self.linear] = State::waits_in_warp;
    e.wait();
    return;
  }
  if (meeting.finish != nullptr) meeting.finish(at->results.data(), at->deposits.data(), meeting.mask, meeting.extra);
  open.erase(at);
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((meeting.mask >> lane & 1U) != 0) e.states[self.warp * 32 + lane] = State::ready;
  if (meeting.orders_memory) e.shadow.sync_warp(self.warp, meeting.mask);
}

} // namespace eg::emulator
