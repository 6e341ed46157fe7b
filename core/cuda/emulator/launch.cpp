// A launch: what CUDA would refuse, every block in its turn, and how a finding ends it.

#include "core/cuda/emulator/machine.h"

#include <algorithm>

namespace eg::emulator {

namespace {

constexpr std::size_t most_parameter_bytes = 4096;

Emulator state;

void run_fiber() { machine().fiber_loop(); }

/// Leaves the emulator as it was before the launch, however that ends.
class Launched {
public:
  Launched(Emulator& e, const Launch& launch, const void* call) : e_(e), open_(e.memory) {
    e.launch = &launch;
    e.call = call;
    e.host = pthread_self();
    e.finding = {};
    e.thread_count = launch.block.count();
    e.block_extent = launch.block;
    e.grid = launch.grid;
  }
  ~Launched() {
    e_.launch = nullptr;
    e_.seeing = false;
    if (!whole) e_.fibers.reset(); // kernels own nothing that a destructor would have to give back
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  bool whole = false; ///< every thread ended

private:
  Emulator& e_;
  FaultHandlers handlers_;
  DeviceMemory::Open open_;
};

} // namespace

Running* const running = &state;
Emulator& machine() { return state; }

Emulator::Emulator() : signal_stack(std::size_t{64} << 10), fibers(run_fiber) {}

void check(const Launch& launch) {
  const std::string where =
      kernel_name(launch.place) + ": launch at " + words_of(Place{"", launch.place.file, launch.place.line}) + ": ";
  const std::size_t threads = launch.block.count();
  const Extent &block = launch.block, &grid = launch.grid;
  if (threads == 0 || threads > Emulator::most_threads || block.z > 64)
    throw Error(where + "a block of " + words_of(block) + " threads; there may be 1 to 1024, and 64 along z");
  if (grid.count() == 0 || grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535)
    throw Error(where + "a grid of " + words_of(grid) + " blocks; there may be 1 to 65535 along y and z");
  if (launch.call_bytes > most_parameter_bytes) throw Error(where + "more than 4 KiB of parameters");
  const std::lock_guard lock(machine().mutex);
  if (launch.dynamic_shared > machine().shared.limit)
    throw Error(where + std::to_string(launch.dynamic_shared) + " bytes of dynamic shared memory; there may be " +
                std::to_string(machine().shared.limit));
}

void run(const Launch& launch, const void* call) {
  check(launch);
  Emulator& e = machine();
  const std::lock_guard lock(e.mutex);
  e.run(launch, call);
}

void Emulator::run(const Launch& what, const void* arguments) {
  Launched launched(*this, what, arguments);
  const Extent size = what.block;
  for (unsigned i = 0; i < thread_count; ++i) {
    Thread& t = threads[i];
    t.linear = i;
    t.lane = i % 32;
    t.warp = i / 32;
    t.index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    t.fiber = nullptr;
    t.place = {};
  }
  shadow.start_launch(reinterpret_cast<const void*>(what.enter));
  const std::size_t blocks = what.grid.count();
  const auto run_one = [&](std::size_t b) {
    block_number = b;
    block = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
             static_cast<unsigned>(b / grid.x / grid.y)};
    run_block();
  };
  if (schedule.order == Order::ascending)
    for (std::size_t b = 0; b < blocks; ++b) run_one(b);
  else
    for (const std::size_t b : block_order(blocks)) run_one(b);
  launched.whole = true;
  ++counts.launches;
  counts.blocks += blocks;
  counts.threads += blocks * thread_count;
}

void Emulator::accuse(Finding what) {
  seeing = false;
  finding = {};
  if (in_kernel())
    finding = Finding(kernel_name(launch->place) + ": block " + words_of(block) + " thread " + words_of(thread->index) +
                      ": ");
  for (auto& part : what.parts) finding.parts.push_back(std::move(part));
}

void Emulator::leave_kernel() {
  if (!in_kernel()) throw Error(reporter.text(finding));
  fibers.abandon();
}

void accuse(const std::string& words, const Place& place) { machine().accuse(Finding(words + ", " + words_of(place))); }
void leave_kernel() { machine().leave_kernel(); }

void* shared_array(const void* tag, const char* name, std::size_t bytes, std::size_t alignment, const Place& place) {
  Emulator& e = machine();
  const Unseen unseen(e);
  if (const auto* known = e.shared.find(tag)) return known->begin;
  if (alignment > 128)
    fail([&] { return "shared memory has no alignment of " + std::to_string(alignment) + " bytes"; }, place);
  const std::size_t total = e.shared.static_bytes() + bytes;
  if (total > SharedMemory::static_limit)
    fail([&] { return std::to_string(total) + " bytes of static shared memory; there may be 49152"; }, place);
  if (total + e.shared.dynamic_bytes() > e.shared.limit)
    fail(
        [&] {
          return std::to_string(total + e.shared.dynamic_bytes()) +
                 " bytes of static and dynamic shared memory; there may be " + std::to_string(e.shared.limit);
        },
        place);
  const SharedMemory::Array& made = e.shared.add(tag, name, bytes);
  e.shadow.add_shared(made.begin, bytes);
  return made.begin;
}

void* dynamic_shared(const Place& place) {
  Emulator& e = machine();
  const Unseen unseen(e);
  if (e.shared.dynamic_bytes() == 0) fail([] { return "the launch gives no dynamic shared memory"; }, place);
  return e.shared.dynamic();
}

#if !defined(EG_EMULATOR_CHECKED)
void note(const void* address, std::size_t size, Access, const void*, const Place& place) {
  if (reinterpret_cast<std::uintptr_t>(address) % size != 0)
    fail([&] { return "the address is no multiple of " + std::to_string(size) + " bytes"; }, place);
}
#endif

} // namespace eg::emulator
