// Measures what messages between processes cost: run it with mpirun -n 2, on one machine or two.

#include "core/base/error.h"
#include "distributed/communicator.h"
#include "distributed/launch.h"
#include "distributed/mpi.h"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fmt/format.h>
#include <vector>

namespace {

using namespace eg::distributed;

/// Seconds of one exchange of `messages` messages of `bytes` bytes each with every other process: the mean of
/// `repeats`, after a warm-up.
double seconds_of(Communicator& processes, std::size_t messages, std::size_t bytes, int repeats) {
  double seconds = 0.0;
  processes
      .post([&](Link& link) {
        std::vector<std::byte> out(bytes), in(bytes * messages * static_cast<std::size_t>(link.size()));
        for (int round = -repeats / 4; round < repeats; ++round) {
          const auto begin = std::chrono::steady_clock::now();
          link.begin(Kind::state);
          std::vector<Link::Out> sends;
          std::vector<Link::In> receives;
          for (int p = 0; p < link.size(); ++p)
            for (std::size_t m = 0; p != link.rank() && m < messages; ++m) {
              sends.push_back({p, out});
              receives.push_back(
                  {p, std::span(in).subspan((static_cast<std::size_t>(p) * messages + m) * bytes, bytes)});
            }
          link.exchange(sends, receives);
          if (round >= 0) seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        }
      })
      .get();
  return seconds / repeats;
}

} // namespace

int main() {
  try {
    const auto launch = eg::distributed::launch();
    if (!launch) throw eg::ValueError("start it with mpirun -n 2");
    Communicator processes([&] { return open_mpi(*launch); });
    const double one = seconds_of(processes, 1, 1, 2000);
    const double many = seconds_of(processes, 64, 1, 500);
    constexpr std::size_t large = std::size_t{4} << 20;
    const double wide = seconds_of(processes, 1, large, 50);
    if (processes.first())
      fmt::print("latency {:.1f} us, {:.2f} us a message more, {:.2f} GB/s each way\n", one * 1e6,
                 (many - one) / 63 * 1e6, static_cast<double>(large) * (processes.size() - 1) / wide / 1e9);
    processes.finish();
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "distributed_ping: {}\n", e.what());
    return 1;
  }
}
