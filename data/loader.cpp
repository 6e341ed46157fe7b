#include "data/loader.h"

#include "core/parallel_common.h"
#include "data/batch_maker.h"

#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

namespace eg::data {

namespace {

/// A place in the endless stream.
struct Ticket {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  friend auto operator<=>(const Ticket&, const Ticket&) = default;
};

/// What became of a ticket: a batch, or what was thrown instead.
struct Outcome {
  Batch batch;
  std::exception_ptr error;
};

} // namespace

/// The queue between workers and next(). Workers take tickets in stream order; `round` grows with every seek so that
/// what was begun before it is dropped.
struct Loader::State {
  explicit State(BatchMaker batch_maker) : maker(std::move(batch_maker)) {
    try {
      for (int i = 0; i < maker.options().workers; ++i) workers.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      const std::size_t started = workers.size();
      stop();
      throw Error(fmt::format("loader: the system gives {} of {} workers ({}); use fewer, or {}", started,
                              maker.options().workers, error.what(), parallel::more_threads));
    }
  }
  ~State() { stop(); }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    space.notify_all();
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  }

  Ticket after(Ticket t) const {
    return t.batch + 1 < maker.batches() ? Ticket{t.epoch, t.batch + 1} : Ticket{t.epoch + 1, 0};
  }

  /// The order of an epoch, made once and shared by those who still need it.
  std::shared_ptr<const std::vector<std::int64_t>> order_of(std::int64_t epoch) {
    {
      const std::lock_guard lock(mutex);
      if (known_order && known_epoch == epoch) return known_order;
    }
    auto made = std::make_shared<const std::vector<std::int64_t>>(maker.order(epoch));
    const std::lock_guard lock(mutex);
    known_order = made;
    known_epoch = epoch;
    return made;
  }

  Outcome produce(Ticket t) {
    Outcome outcome;
    try {
      outcome.batch = maker.make(t.epoch, t.batch, *order_of(t.epoch));
    } catch (...) {
      outcome.error = std::current_exception();
    }
    return outcome;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      space.wait(lock, [&] { return stopping || taken < maker.options().prefetch; });
      if (stopping) return;
      const Ticket ticket = to_make;
      const std::uint64_t mine = round;
      to_make = after(to_make);
      ++taken;
      lock.unlock();
      Outcome outcome = produce(ticket);
      lock.lock();
      if (mine != round) continue;
      ready.emplace(ticket, std::move(outcome));
      filled.notify_all();
    }
  }

  Outcome take() {
    std::unique_lock lock(mutex);
    const Ticket ticket = to_give;
    to_give = after(to_give);
    if (workers.empty()) {
      lock.unlock();
      return produce(ticket);
    }
    filled.wait(lock, [&] { return ready.contains(ticket); });
    Outcome outcome = std::move(ready.at(ticket));
    ready.erase(ticket);
    --taken;
    lock.unlock();
    space.notify_one();
    return outcome;
  }

  void seek(Ticket ticket) {
    {
      const std::lock_guard lock(mutex);
      to_give = to_make = ticket;
      ready.clear();
      taken = 0;
      ++round;
    }
    space.notify_all();
  }

  const BatchMaker maker;
  std::mutex mutex;
  std::condition_variable space;  // a worker may begin another batch, or has to stop
  std::condition_variable filled; // a batch came in
  std::map<Ticket, Outcome> ready;
  Ticket to_make, to_give;
  int taken = 0; // tickets being made or ready, of this round
  std::uint64_t round = 0;
  bool stopping = false;
  std::shared_ptr<const std::vector<std::int64_t>> known_order;
  std::int64_t known_epoch = 0;
  std::vector<std::thread> workers;
};

Loader::Loader(ImageDataset dataset, LoaderOptions options)
    : state_(std::make_unique<State>(BatchMaker(std::move(dataset), std::move(options)))) {}

Loader::~Loader() = default;

const ImageDataset& Loader::dataset() const { return state_->maker.dataset(); }
const LoaderOptions& Loader::options() const { return state_->maker.options(); }
std::int64_t Loader::batches_per_epoch() const { return state_->maker.batches(); }
std::vector<std::int64_t> Loader::order(std::int64_t epoch) const { return state_->maker.order(epoch); }

Batch Loader::next() {
  Outcome outcome = state_->take();
  if (outcome.error) std::rethrow_exception(outcome.error);
  return std::move(outcome.batch);
}

namespace {

void check_place(std::int64_t epoch, std::int64_t batch, std::int64_t batches) {
  if (epoch < 0 || batch < 0 || batch >= batches)
    throw IndexError(fmt::format("loader: epoch {}, batch {}: an epoch has {} batches", epoch, batch, batches));
}

} // namespace

void Loader::seek(std::int64_t epoch, std::int64_t batch) {
  check_place(epoch, batch, batches_per_epoch());
  state_->seek({epoch, batch});
}

Batch Loader::batch(std::int64_t epoch, std::int64_t batch) const {
  check_place(epoch, batch, batches_per_epoch());
  return state_->maker.make(epoch, batch, *state_->order_of(epoch));
}

} // namespace eg::data
