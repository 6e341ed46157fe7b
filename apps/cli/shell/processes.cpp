#include "apps/cli/shell/processes.h"

#include "apps/cli/shell/output.h"

#include "core/base/words.h"
#include "core/threads/parallel.h"
#include "distributed/mpi.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <future>
#include <optional>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace eg::cli {
namespace {

/// Seconds without a word from a process after which it counts as gone.
double timeout() {
  const char* const text = std::getenv("EQUIGRAD_MPI_TIMEOUT");
  if (text == nullptr) return 60.0;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds >= 1.0 && seconds <= 86400.0))
    throw ValueError(fmt::format("EQUIGRAD_MPI_TIMEOUT must be seconds from 1 to 86400, not '{}'", text));
  return seconds;
}

/// While it lives a signal ends this process: what waits for other processes to start looks at no flag.
class UncaughtSignals {
public:
  UncaughtSignals() : interrupt_(std::signal(SIGINT, SIG_DFL)), terminate_(std::signal(SIGTERM, SIG_DFL)) {}
  ~UncaughtSignals() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
  }
  UncaughtSignals(const UncaughtSignals&) = delete;
  UncaughtSignals& operator=(const UncaughtSignals&) = delete;

private:
  void (*interrupt_)(int);
  void (*terminate_)(int);
};

/// Calls `give_up` on a thread of its own where it still lives after `limit`.
class Deadline {
public:
  Deadline(std::chrono::duration<double> limit, std::function<void()> give_up)
      : watch_([limit, met = met_.get_future(), late = std::move(give_up)] {
          if (met.wait_for(limit) != std::future_status::ready) late();
        }) {}
  ~Deadline() {
    met_.set_value();
    watch_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

private:
  std::promise<void> met_;
  std::thread watch_;
};

/// Waits until the launcher has read what this process wrote to it: MPICH's, asked to end all, forwards no more.
void wait_until_forwarded() {
  struct stat is {};
  if (::fstat(STDERR_FILENO, &is) != 0 || !S_ISFIFO(is.st_mode)) return;
  for (int tries = 0, left = 0; tries < 1000; ++tries) {
    if (::ioctl(STDERR_FILENO, FIONREAD, &left) != 0 || left == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

} // namespace

Processes::Processes() : launch_(distributed::launch()) {
  if (!silent()) return;
  // Whatever prints, prints once.
  const int nowhere = ::open("/dev/null", O_WRONLY);
  if (nowhere < 0) return;
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
}

void Processes::open(const Verb& verb, CommonOptions& common) {
  if (launch_ && verb.spreads == nullptr && launch_->size > 1)
    throw UsageError(fmt::format("{} works in one process, and {} started {}: start it without the launcher", verb.name,
                                 launch_->launcher, launch_->size));
  if (silent()) {
    common.quiet = true;
    common.json.clear();
    common.profile.clear();
  }
  if (launch_ && verb.spreads != nullptr) {
    start();
    opened_->require_same("the verb", std::string(verb.name));
    common.processes = opened_.get();
  }
  const bool shares = opened_ && !opened_->alone() && common.threads == 0 && std::getenv("EQUIGRAD_THREADS") == nullptr;
  parallel::set_threads(shares ? opened_->fair_threads() : common.threads);
}

void Processes::start() {
  started_ = true;
  const distributed::Communicator::Seconds silence(timeout());
  const UncaughtSignals uncaught;
  const auto open_in_time = [&] {
    const Deadline deadline(2 * silence, [&] { give_up_start(2 * silence.count()); });
    return distributed::open_mpi(*launch_);
  };
  opened_ = std::make_unique<distributed::Communicator>(open_in_time, silence);
  if (launch_->size > 0 && opened_->size() != launch_->size)
    throw distributed::DistributedError(
        fmt::format("{} started {} processes, and {} knows of {}: it is another MPI than the launcher's",
                    launch_->launcher, launch_->size, opened_->transport(), opened_->size()));
}

/// MPI_Init, which waits for all processes, cannot be called off.
void Processes::give_up_start(double seconds) {
  complain(fmt::format("MPI has not started within {:g} s: a process stands still, or the network to it is gone "
                       "(EQUIGRAD_MPI_TIMEOUT is half of that time)",
                       seconds),
           bad_input);
  wait_until_forwarded();
  end_without_mpi();
  std::_Exit(bad_input);
}

/// MPI_Finalize of MPICH 4.0 can hang over TCP: a process whose own messages are acknowledged waits in the launcher's
/// barrier and acknowledges no more of its peers' (mended by its pull request 6596).
void Processes::give_up_end(double seconds, int code) {
  complain(fmt::format("MPI_Finalize has not returned within {:g} s: all files are written, and this process ends "
                       "without it; the launcher may call that an error",
                       seconds),
           code);
  wait_until_forwarded();
  std::_Exit(code);
}

/// The others wait in MPI for one that fails before it has started MPI, and not every launcher ends them.
void Processes::start_to_end() noexcept {
  if (!launch_ || launch_->size == 1 || started_) return;
  try {
    start();
  } catch (...) { // this process ends without MPI
  }
}

int Processes::complain(std::string_view message, int code) {
  if (!silent()) {
    // What a closed stderr returns must not change the exit code.
    std::fputs(fmt::format("equigrad: {}\n", printable(message)).c_str(), stderr);
    return code;
  }
  if (code == interrupted) return code;
  start_to_end();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  std::fputs(
      fmt::format("equigrad: {}: {}\n", distributed::this_process().words(launch_->rank), printable(message)).c_str(),
      stderr);
  return code;
}

void Processes::finish(int code) {
  if (code == bad_input) end(code); // which the others need not have met
  if (!opened_) return;
  std::future<void> done = std::async(std::launch::async, [&, silence = timeout()] {
    std::optional<Deadline> deadline;
    opened_->finish(
        [&] { deadline.emplace(std::chrono::duration<double>(silence), [&] { give_up_end(silence, code); }); });
  });
  if (code != interrupted) return done.get();
  // Where the interruption reached this process alone, the others are at something else. They say so meanwhile.
  if (done.wait_for(std::chrono::seconds(3)) != std::future_status::ready) opened_->abort(code);
  try {
    done.get();
  } catch (const std::exception&) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    opened_->abort(code);
  }
}

void Processes::end(int code) {
  start_to_end();
  if (launch_ && launch_->size > 1) wait_until_forwarded();
  if (opened_) opened_->abort(code);
  end_without_mpi();
}

void Processes::end_without_mpi() {
  if (!launch_ || launch_->launcher != "MPICH" || launch_->size == 1) return;
  // MPICH's launcher ends the others where a process is ended by a signal, not where one returns an exit code.
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
}

} // namespace eg::cli
