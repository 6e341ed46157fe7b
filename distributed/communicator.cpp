#include "distributed/communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <fstream>
#include <mutex>
#include <optional>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace eg::distributed {
namespace {

using Clock = std::chrono::steady_clock;

/// Tags of operations: kind, and the low bits of the operation's number.
constexpr int kinds = 16, numbers = 2048;
/// Of what is no operation: a process lives, a process stopped and says why. No Kind is 0.
constexpr int heartbeat_tag = 0, farewell_tag = kinds;
/// Before the words of a farewell: the process was interrupted.
constexpr char interruption = '\x03';
/// Most bytes of a farewell: so few that every MPI sends them before the receiver asks.
constexpr std::size_t most_words = 2048;
/// Most bytes that a process may send where the receiver does not know how many come.
constexpr std::uint64_t most_text = std::uint64_t{1} << 28;
/// Bytes of one message of a broadcast.
constexpr std::size_t broadcast_piece = std::size_t{1} << 26;

template <class T> std::span<const std::byte> bytes_of(const T& value) { return std::as_bytes(std::span(&value, 1)); }

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::span<std::byte> writable(std::string& text) { return std::as_writable_bytes(std::span(text)); }

/// What /proc/self/status says of the processors that this process may use.
std::string affinity_list() {
  std::ifstream status("/proc/self/status");
  constexpr std::string_view key = "Cpus_allowed_list:";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) {
      const std::size_t begin = line.find_first_not_of(" \t", key.size());
      return begin == std::string::npos ? std::string() : line.substr(begin);
    }
  return {};
}

int processor_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::string encoded(const Process& p) { return fmt::format("{}\n{}\n{}\n{}", p.host, p.pid, p.affinity, p.processors); }

Process decoded(const std::string& text) {
  std::array<std::string, 4> words;
  std::size_t begin = 0;
  for (std::string& word : words) {
    const std::size_t end = text.find('\n', begin);
    word = text.substr(begin, end - begin);
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return {words[0], std::atoll(words[1].c_str()), words[2], std::max(1, std::atoi(words[3].c_str()))};
}

/// Sleeps longer the longer nothing happens, so that a process that waits leaves its core to one that computes.
class Backoff {
public:
  void reset() { idle_ = 0; }
  void pause() {
    if (++idle_ <= 20) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(10 * (idle_ - 20), 200)));
  }

private:
  int idle_ = 0;
};

/// One message to every other process, `out_of()`, and one from each, into `in_of(process)`.
template <class Out, class In> void exchange_with_all(Link& link, Out&& out_of, In&& in_of) {
  std::vector<Link::Out> out;
  std::vector<Link::In> in;
  for (int p = 0; p < link.size(); ++p) {
    if (p == link.rank()) continue;
    out.push_back({p, out_of()});
    in.push_back({p, in_of(static_cast<std::size_t>(p))});
  }
  link.exchange(out, in);
}

std::vector<std::string> gather_on(Link& link, const std::string& mine) {
  const auto size = static_cast<std::size_t>(link.size());
  const auto me = static_cast<std::size_t>(link.rank());
  const std::uint64_t length = mine.size();
  if (length > most_text) throw DistributedError(fmt::format("gather: {} bytes are more than {}", length, most_text));
  std::vector<std::uint64_t> lengths(size, length);
  link.begin(Kind::lengths);
  exchange_with_all(
      link, [&] { return bytes_of(length); },
      [&](std::size_t p) { return std::as_writable_bytes(std::span(&lengths[p], 1)); });
  std::vector<std::string> all(size);
  for (std::size_t p = 0; p < size; ++p) {
    if (lengths[p] > most_text)
      throw DistributedError(fmt::format("process {} announces {} bytes, more than {}", p, lengths[p], most_text));
    all[p].resize(lengths[p]);
  }
  all[me] = mine;
  link.begin(Kind::gather);
  exchange_with_all(
      link, [&] { return bytes_of(mine); }, [&](std::size_t p) { return writable(all[p]); });
  return all;
}

/// From process 0 along a binomial tree: process r receives from r without its highest bit.
void broadcast_on(Link& link, std::span<std::byte> bytes) {
  const int rank = link.rank(), size = link.size();
  int reach = 1; // processes [0, reach) have the bytes
  for (; reach < size; reach *= 2) {
    const int partner = rank < reach ? rank + reach : rank - reach;
    if (rank >= 2 * reach || partner >= size) continue;
    const std::array<Link::Out, 1> out{{{partner, bytes}}};
    const std::array<Link::In, 1> in{{{partner, bytes}}};
    if (rank < reach)
      link.exchange(out, {});
    else
      link.exchange({}, in);
  }
}

} // namespace

std::string Process::words(int rank) const { return fmt::format("process {} (pid {} on {})", rank, pid, host); }

Process this_process() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return {name.data(), ::getpid(), affinity_list(), processor_count()};
}

/// The thread that communicates, and what it is asked to do.
class Communicator::Worker final : public Link {
public:
  Worker(std::function<std::unique_ptr<Transport>()> open, Seconds timeout) : timeout_(timeout) {
    std::promise<void> opened;
    std::future<void> is_open = opened.get_future();
    thread_ = std::thread([this, &opened, open = std::move(open)] {
      try {
        transport_ = open();
        heard_ = told_ = Clock::now();
      } catch (...) {
        opened.set_exception(std::current_exception());
        return;
      }
      opened.set_value();
      serve();
    });
    try {
      is_open.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }
  ~Worker() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::future<void> post(std::function<void(Link&)> work) {
    Job job{std::move(work), {}};
    std::future<void> done = job.done.get_future();
    {
      const std::lock_guard lock(mutex_);
      if (failure_)
        job.done.set_exception(failure_);
      else
        jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
    return done;
  }
  const Transport& transport() const { return *transport_; }
  void know(std::vector<Process> processes) { processes_ = std::move(processes); }
  void request_abort(int code) {
    {
      const std::lock_guard lock(mutex_);
      abort_code_ = code;
    }
    wake_.notify_one();
  }
  void leave() {
    post([](Link& link) {
      link.begin(Kind::leaving);
      const std::byte mine{1};
      std::vector<std::byte> theirs(static_cast<std::size_t>(link.size()));
      exchange_with_all(
          link, [&] { return std::span(&mine, 1); }, [&](std::size_t p) { return std::span(&theirs[p], 1); });
    }).get();
  }
  void close() {
    post([this](Link&) {
      transport_->finish();
      closed_ = true;
    }).get();
  }
  bool closed() const { return closed_; }
  std::int64_t sent() const { return sent_; }

  // --- what work uses, on the communication thread ---
  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  void begin(Kind kind) override {
    number_ = (number_ + 1) % numbers;
    tag_ = static_cast<int>(kind) + kinds * number_;
  }
  void exchange(std::span<const Out> out, std::span<const In> in) override {
    try {
      exchange_all(out, in);
    } catch (...) {
      say_farewell(std::current_exception()); // while what is received still has its place
      throw;
    }
  }
  bool waiting(int from) override {
    std::deque<Transport::Arrival>& kept = kept_of(from);
    if (kept.empty())
      if (std::optional<Transport::Arrival> arrival = fresh(from)) kept.push_back(std::move(*arrival));
    return !kept.empty();
  }
  void keep_alive() override { stay_alive(); }

private:
  struct Job {
    std::function<void(Link&)> work;
    std::promise<void> done;
  };

  void exchange_all(std::span<const Out> out, std::span<const In> in) {
    std::vector<std::unique_ptr<Transport::Request>> requests;
    for (const Out& o : out) {
      requests.push_back(transport_->send(o.to, tag_, o.bytes.data(), static_cast<std::int64_t>(o.bytes.size())));
      sent_ += static_cast<std::int64_t>(o.bytes.size());
    }
    std::vector<bool> begun(in.size());
    std::size_t waiting = in.size();
    Backoff backoff;
    while (waiting > 0 || !requests.empty()) {
      bool progress = false;
      std::vector<bool> skipped(static_cast<std::size_t>(size())); // a process whose earlier message has not come
      for (std::size_t i = 0; i < in.size(); ++i) {
        const auto from = static_cast<std::size_t>(in[i].from);
        if (begun[i] || skipped[from]) continue;
        std::optional<Transport::Arrival> arrival = next(in[i].from);
        if (!arrival) {
          skipped[from] = true;
          continue;
        }
        check(*arrival, in[i]);
        requests.push_back(transport_->receive(std::move(*arrival), in[i].bytes.data()));
        begun[i] = true;
        --waiting;
        progress = true;
      }
      progress |= std::erase_if(requests, [](const auto& request) { return request->done(); }) > 0;
      if (progress)
        backoff.reset();
      else
        backoff.pause();
      stay_alive();
    }
  }

  void serve() {
    for (;;) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        const auto asked = [&] { return ended_ || abort_code_ || !jobs_.empty(); };
        if (failure_ || closed_)
          wake_.wait(lock, asked);
        else
          wake_.wait_for(lock, std::chrono::milliseconds(200), asked);
        if (jobs_.empty() && ended_ && !abort_code_) return;
        if (!jobs_.empty()) {
          job = std::move(jobs_.front());
          jobs_.pop_front();
        }
      }
      try {
        obey();
        // After a failure no message is taken any more: its bytes could go where memory is freed. The others hear
        // nothing from here, so that they end even where this process does not.
        if (!closed_ && !failed()) stay_alive();
        if (!job.work) continue;
        job.work(*this);
        job.done.set_value();
      } catch (...) {
        fail(std::current_exception(), job);
      }
    }
  }

  /// From here on every job has this error: what other processes expect next is not known.
  void fail(const std::exception_ptr& why, Job& job) {
    say_farewell(why);
    std::deque<Job> left;
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = why;
      left.swap(jobs_);
    }
    if (job.work) job.done.set_exception(failure_);
    for (Job& other : left) other.done.set_exception(failure_);
  }

  /// Tells all others why this process stops, so that they need not wait until it falls silent.
  void say_farewell(const std::exception_ptr& why) {
    if (told_why_ || closed_ || size() == 1) return;
    told_why_ = true;
    if (heard_why_.empty()) {
      try {
        std::rethrow_exception(why);
      } catch (const Interrupted& error) {
        heard_why_ = interruption + std::string(error.what());
      } catch (const std::exception& error) {
        heard_why_ = fmt::format("{} stopped: {}", words_of(rank()), error.what());
      } catch (...) {
        heard_why_ = words_of(rank()) + " stopped";
      }
    }
    heard_why_.resize(std::min(heard_why_.size(), most_words));
    try {
      std::vector<std::unique_ptr<Transport::Request>> requests;
      for (int p = 0; p < size(); ++p)
        if (p != rank())
          requests.push_back(
              transport_->send(p, farewell_tag, heard_why_.data(), static_cast<std::int64_t>(heard_why_.size())));
      // Where a process is gone its farewell stays here.
      for (const Clock::time_point begin = Clock::now();
           !requests.empty() && Clock::now() - begin < std::chrono::milliseconds(200);) {
        std::erase_if(requests, [](const auto& request) { return request->done(); });
        std::this_thread::yield();
      }
    } catch (const std::exception&) { // the transport is what failed
    }
  }

  std::string words_of(int rank) const {
    const auto p = static_cast<std::size_t>(rank);
    return p < processes_.size() ? processes_[p].words(rank) : fmt::format("process {}", rank);
  }

  void check(const Transport::Arrival& arrival, const In& wanted) const {
    const auto bytes = static_cast<std::int64_t>(wanted.bytes.size());
    if (arrival.tag == tag_ && arrival.bytes == bytes) return;
    // One that met an error says so, and ends all.
    if (arrival.tag % kinds == static_cast<int>(Kind::leaving))
      throw Interrupted(fmt::format("{} was interrupted", words_of(wanted.from)));
    throw DistributedError(fmt::format(
        "{} sent {} bytes of kind {} of operation {}; {} bytes of kind {} of operation {} were due",
        words_of(wanted.from), arrival.bytes, arrival.tag % kinds, arrival.tag / kinds, bytes, tag_ % kinds, number_));
  }

  /// The next message of a process that is no heartbeat.
  std::optional<Transport::Arrival> next(int from) {
    std::deque<Transport::Arrival>& kept = kept_of(from);
    if (kept.empty()) return fresh(from);
    Transport::Arrival arrival = std::move(kept.front());
    kept.pop_front();
    return arrival;
  }

  std::deque<Transport::Arrival>& kept_of(int from) {
    kept_.resize(static_cast<std::size_t>(size()));
    return kept_[static_cast<std::size_t>(from)];
  }

  std::optional<Transport::Arrival> fresh(int from) {
    for (;;) {
      std::optional<Transport::Arrival> arrival = transport_->probe(from);
      if (arrival && from == before()) heard_ = Clock::now();
      if (arrival && arrival->tag == farewell_tag) hear_farewell(from, std::move(*arrival));
      if (!arrival || arrival->tag != heartbeat_tag) return arrival;
      if (arrival->bytes != 1)
        throw DistributedError(fmt::format("{} sent a heartbeat of {} bytes", words_of(from), arrival->bytes));
      std::byte nothing{};
      const std::unique_ptr<Transport::Request> request = transport_->receive(std::move(*arrival), &nothing);
      while (!request->done()) std::this_thread::yield();
    }
  }

  [[noreturn]] void hear_farewell(int from, Transport::Arrival arrival) {
    const auto bytes = static_cast<std::uint64_t>(arrival.bytes);
    if (bytes > most_words)
      throw DistributedError(fmt::format("{} sent a farewell of {} bytes", words_of(from), bytes));
    heard_why_.resize(bytes);
    const std::unique_ptr<Transport::Request> request = transport_->receive(std::move(arrival), heard_why_.data());
    for (const Clock::time_point begin = Clock::now(); !request->done();) {
      if (Clock::now() - begin > timeout_)
        throw DistributedError(fmt::format("{} stopped while it said why", words_of(from)));
      obey();
      std::this_thread::yield();
    }
    if (heard_why_.starts_with(interruption)) throw Interrupted(heard_why_.substr(1));
    throw DistributedError(heard_why_);
  }

  int before() const { return (rank() + size() - 1) % size(); }

  /// Ends all processes when abort() asks for it.
  void obey() {
    if (const std::optional<int> code = asked_to_abort()) transport_->abort(*code);
  }

  /// Tells the process behind that this one lives, listens to the one before, and obeys abort().
  void stay_alive() {
    obey();
    if (size() == 1) return;
    const Clock::time_point now = Clock::now();
    if (now - told_ >= std::chrono::seconds(1)) {
      std::erase_if(beats_, [](const auto& request) { return request->done(); });
      if (beats_.size() < 100) // one that does not answer is told no more
        beats_.push_back(transport_->send((rank() + 1) % size(), heartbeat_tag, &beat_, 1));
      told_ = now;
    }
    if (now - listened_ >= std::chrono::milliseconds(50)) {
      listened_ = now;
      while (std::optional<Transport::Arrival> arrival = fresh(before()))
        kept_of(before()).push_back(std::move(*arrival));
    }
    if (now - heard_ > timeout_)
      throw DistributedError(fmt::format("{} has not answered for {:.0f} s: it or the network to it is gone",
                                         words_of(before()), std::chrono::duration<double>(now - heard_).count()));
  }

  bool failed() {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr;
  }

  std::optional<int> asked_to_abort() {
    const std::lock_guard lock(mutex_);
    return abort_code_;
  }

  Seconds timeout_;
  std::unique_ptr<Transport> transport_;
  std::vector<Process> processes_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::exception_ptr failure_;
  std::optional<int> abort_code_;
  bool ended_ = false;
  std::atomic<bool> closed_ = false;
  std::atomic<std::int64_t> sent_ = 0;

  int number_ = 0, tag_ = 0;
  std::vector<std::deque<Transport::Arrival>> kept_; ///< of each process: messages that were found and not yet received
  Clock::time_point heard_, told_, listened_;
  bool told_why_ = false;
  std::string heard_why_; ///< of a process that stopped; "" before
  std::byte beat_{1};
  std::vector<std::unique_ptr<Transport::Request>> beats_;
};

Communicator::Communicator() : processes_{this_process()} {}

Communicator::Communicator(std::function<std::unique_ptr<Transport>()> open, Seconds timeout)
    : worker_(std::make_unique<Worker>(std::move(open), timeout)), rank_(worker_->transport().rank()),
      size_(worker_->transport().size()), name_(worker_->transport().name()) {
  for (const std::string& text : gather(encoded(this_process()))) processes_.push_back(decoded(text));
  worker_->post([this](Link&) { worker_->know(processes_); }).get();
}

Communicator::~Communicator() {
  if (worker_ && !worker_->closed()) abort(1);
}

int Communicator::fair_threads() const {
  const Process& mine = processes_[static_cast<std::size_t>(rank_)];
  const auto sharing = std::count_if(processes_.begin(), processes_.end(), [&](const Process& p) {
    return p.host == mine.host && p.affinity == mine.affinity;
  });
  return std::max(1, mine.processors / static_cast<int>(sharing));
}

std::future<std::vector<std::string>> Communicator::gather_later(std::string mine) {
  auto promise = std::make_shared<std::promise<std::vector<std::string>>>();
  std::future<std::vector<std::string>> result = promise->get_future();
  if (!worker_) {
    promise->set_value({std::move(mine)});
    return result;
  }
  auto all = std::make_shared<std::vector<std::string>>();
  std::future<void> done = worker_->post([all, mine = std::move(mine)](Link& link) { *all = gather_on(link, mine); });
  return std::async(std::launch::deferred, [all, done = std::move(done)]() mutable {
    done.get();
    return std::move(*all);
  });
}

std::vector<std::string> Communicator::gather(std::string mine) { return wait(gather_later(std::move(mine))); }

std::string Communicator::broadcast(std::string bytes) {
  if (!worker_) return bytes;
  std::uint64_t length = bytes.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)));
  if (length > most_text)
    throw DistributedError(fmt::format("process 0 announces {} bytes, more than {}", length, most_text));
  bytes.resize(length);
  broadcast(writable(bytes));
  return bytes;
}

void Communicator::broadcast(std::span<std::byte> bytes) {
  if (!worker_) return;
  wait(worker_->post([bytes](Link& link) {
    for (std::size_t begin = 0; begin < bytes.size(); begin += broadcast_piece) {
      link.begin(Kind::broadcast);
      broadcast_on(link, bytes.subspan(begin, std::min(broadcast_piece, bytes.size() - begin)));
    }
  }));
}

bool Communicator::any(bool mine) {
  const std::vector<std::string> all = gather(mine ? "1" : "0");
  return std::any_of(all.begin(), all.end(), [](const std::string& one) { return one == "1"; });
}

bool Communicator::decided(bool by_first) { return broadcast(std::string(by_first ? "1" : "0")) == "1"; }

void Communicator::require_same(const std::string& what, std::string mine) {
  const std::vector<std::string> all = gather(std::move(mine));
  for (std::size_t p = 1; p < all.size(); ++p)
    if (all[p] != all[0])
      throw DistributedError(
          fmt::format("{}: {} is not that of process 0", processes_[p].words(static_cast<int>(p)), what));
}

void Communicator::barrier() { static_cast<void>(gather({})); }

std::future<void> Communicator::post(std::function<void(Link&)> work) {
  if (worker_) return worker_->post(std::move(work));
  std::promise<void> done; // one process has nobody to exchange with
  done.set_value();
  return done.get_future();
}

Communicator::Traffic Communicator::traffic() const { return {waited_.count(), worker_ ? worker_->sent() : 0}; }

void Communicator::finish(const std::function<void()>& before_end) {
  if (!worker_ || worker_->closed()) return;
  // Others may write files for minutes. MPI_Finalize would busy-wait, and heartbeats would stop.
  worker_->leave();
  if (before_end) before_end();
  worker_->close();
}

void Communicator::abort(int code) noexcept {
  if (worker_ && !worker_->closed()) {
    worker_->request_abort(code);
    std::this_thread::sleep_for(std::chrono::seconds(5)); // the communication thread ends this process
  }
  std::_Exit(code);
}

} // namespace eg::distributed
