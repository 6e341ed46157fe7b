#include "data/loader.h"

#include "core/threads/at_fork.h"
#include "core/threads/parallel_common.h"
#include "data/batch_maker.h"

#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>
#include <set>
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

/// What a loader's threads share. A child of fork() has none of them and begins with a new one.
struct Queue {
  std::mutex starting; // held while the workers are started; taken before `mutex`
  std::mutex mutex;
  std::condition_variable space;  // a worker may begin another batch, or has to stop
  std::condition_variable filled; // a batch came in
  std::map<Ticket, Outcome> ready;
  Ticket to_make;
  int taken = 0; // tickets being made or ready, of this round
  std::uint64_t round = 0;
  bool stopping = false;
  std::shared_ptr<const std::vector<std::int64_t>> known_order;
  std::int64_t known_epoch = 0;
  std::vector<std::thread> workers;
};

/// The queues of all loaders. In a child of fork() each is constructed again in its place, without destroying the old
/// one: that would wait for workers and free what they were changing.
class Queues {
public:
  static Queues& all() {
    static Queues instance;
    return instance;
  }
  void add(Queue& queue) {
    const std::lock_guard lock(mutex_);
    queues_.insert(&queue);
  }
  void remove(Queue& queue) {
    const std::lock_guard lock(mutex_);
    queues_.erase(&queue);
  }

private:
  Queues() {
    at_fork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); }, [] { all().forked(); });
  }
  /// In the child, with the lock that was taken before the fork.
  void forked() {
    for (Queue* queue : queues_) std::construct_at(queue);
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::set<Queue*> queues_;
};

} // namespace

/// The queue between workers and next(). Workers take tickets in stream order; `round` grows with every seek so that
/// what was begun before it is dropped.
struct Loader::State {
  explicit State(BatchMaker batch_maker) : maker(std::move(batch_maker)) {
    require_workers();
    Queues::all().add(queue);
  }
  ~State() {
    Queues::all().remove(queue);
    stop();
  }

  /// Starts the workers where there are none: at first, and at the first next() of a child of fork().
  void require_workers() {
    const std::lock_guard starting(queue.starting);
    if (!queue.workers.empty() || maker.options().workers == 0) return;
    {
      const std::lock_guard lock(queue.mutex);
      queue.stopping = false;
      rewind();
    }
    try {
      for (int i = 0; i < maker.options().workers; ++i) queue.workers.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      const std::size_t started = queue.workers.size();
      stop();
      throw Error(fmt::format("loader: the system gives {} of {} workers ({}); use fewer, or {}", started,
                              maker.options().workers, error.what(), parallel::more_threads));
    }
  }

  void stop() {
    {
      const std::lock_guard lock(queue.mutex);
      queue.stopping = true;
    }
    queue.space.notify_all();
    for (std::thread& worker : queue.workers) worker.join();
    queue.workers.clear();
  }

  Ticket after(Ticket t) const {
    return t.batch + 1 < maker.batches() ? Ticket{t.epoch, t.batch + 1} : Ticket{t.epoch + 1, 0};
  }

  /// The order of an epoch, made once and shared by its users.
  std::shared_ptr<const std::vector<std::int64_t>> order_of(std::int64_t epoch) {
    {
      const std::lock_guard lock(queue.mutex);
      if (queue.known_order && queue.known_epoch == epoch) return queue.known_order;
    }
    auto made = std::make_shared<const std::vector<std::int64_t>>(maker.order(epoch));
    const std::lock_guard lock(queue.mutex);
    queue.known_order = made;
    queue.known_epoch = epoch;
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
    std::unique_lock lock(queue.mutex);
    for (;;) {
      queue.space.wait(lock, [&] { return queue.stopping || queue.taken < maker.options().prefetch; });
      if (queue.stopping) return;
      const Ticket ticket = queue.to_make;
      const std::uint64_t mine = queue.round;
      queue.to_make = after(queue.to_make);
      ++queue.taken;
      lock.unlock();
      Outcome outcome = produce(ticket);
      lock.lock();
      if (mine != queue.round) continue;
      queue.ready.emplace(ticket, std::move(outcome));
      queue.filled.notify_all();
    }
  }

  Outcome take() {
    require_workers();
    std::unique_lock lock(queue.mutex);
    const Ticket ticket = to_give;
    place(after(ticket));
    if (maker.options().workers == 0) {
      lock.unlock();
      return produce(ticket);
    }
    queue.filled.wait(lock, [&] { return queue.ready.contains(ticket); });
    Outcome outcome = std::move(queue.ready.at(ticket));
    queue.ready.erase(ticket);
    --queue.taken;
    lock.unlock();
    queue.space.notify_one();
    return outcome;
  }

  void seek(Ticket ticket) {
    {
      const std::lock_guard lock(queue.mutex);
      place(ticket);
      rewind();
    }
    queue.space.notify_all();
  }

  /// Has next() give that batch; a fork comes before or after it, so that the child's place is a whole one.
  void place(Ticket ticket) {
    const ForkWaits whole;
    to_give = ticket;
  }

  /// Has the workers begin at the position of next().
  void rewind() {
    queue.to_make = to_give;
    queue.ready.clear();
    queue.taken = 0;
    ++queue.round;
  }

  const BatchMaker maker;
  Queue queue;
  Ticket to_give; // changed with queue.mutex held
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
