#include "data/loader.h"

#include "core/parallel_common.h"
#include "core/random.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

namespace eg::data {

namespace {

constexpr std::uint64_t shuffle_stream = 0x73687566; // "shuf"
constexpr std::uint64_t augment_stream = 0x6175676D; // "augm"

void check_options(const ImageDataset& dataset, const LoaderOptions& options) {
  const auto refuse = [](const std::string& reason) { throw ValueError("loader: " + reason); };
  if (options.batch_size < 1) refuse(fmt::format("batch_size is {}; at least 1 is needed", options.batch_size));
  if (options.workers < 0 || options.workers > 256)
    refuse(fmt::format("workers is {}; 0 to 256 are possible", options.workers));
  if (options.prefetch < 1) refuse(fmt::format("prefetch is {}; at least 1 is needed", options.prefetch));
  if (!is_floating(options.dtype)) refuse(fmt::format("dtype is {}; images are f32 or f64", name_of(options.dtype)));
  check(options.augmentation, dataset.height(), dataset.width(), "loader");
  const Normalization& n = options.normalization;
  const auto channels = static_cast<std::size_t>(dataset.channels());
  if (n.mean.size() != channels || n.stddev.size() != channels)
    refuse(fmt::format("normalization has {} means and {} deviations for {} channels", n.mean.size(), n.stddev.size(),
                       channels));
  for (const double deviation : n.stddev)
    if (!(deviation > 0.0)) refuse(fmt::format("normalization: a deviation is {}", deviation));
  const std::int64_t needed = options.drop_last ? options.batch_size : 1;
  if (dataset.size() < needed)
    refuse(fmt::format("dataset {} has {} images; a batch needs {}", dataset.name(), dataset.size(), needed));
}

LoaderOptions completed(LoaderOptions options, const ImageDataset& dataset) {
  if (options.normalization.mean.empty() && options.normalization.stddev.empty())
    options.normalization = Normalization::standard(dataset);
  return options;
}

/// Makes batches; nothing in it changes, so any number of threads may use it.
class BatchMaker {
public:
  BatchMaker(ImageDataset dataset, LoaderOptions options)
      : dataset_(std::move(dataset)), options_(completed(std::move(options), dataset_)) {
    check_options(dataset_, options_);
    for (std::size_t c = 0; c < options_.normalization.mean.size(); ++c)
      for (int value = 0; value < 256; ++value)
        normalized_.push_back((value / 255.0 - options_.normalization.mean[c]) / options_.normalization.stddev[c]);
  }

  const ImageDataset& dataset() const { return dataset_; }
  const LoaderOptions& options() const { return options_; }

  std::int64_t batches() const {
    const std::int64_t whole = dataset_.size() / options_.batch_size;
    return options_.drop_last || dataset_.size() % options_.batch_size == 0 ? whole : whole + 1;
  }

  std::vector<std::int64_t> order(std::int64_t epoch) const {
    if (options_.shuffle) {
      const RandomKey key = RandomKey{options_.seed, shuffle_stream}.fold(static_cast<std::uint64_t>(epoch));
      return random_permutation(dataset_.size(), key).to_vector<std::int64_t>();
    }
    std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset_.size()));
    std::iota(indices.begin(), indices.end(), 0);
    return indices;
  }

  Batch make(std::int64_t epoch, std::int64_t batch, std::span<const std::int64_t> order) const {
    const std::int64_t begin = batch * options_.batch_size;
    const std::int64_t count = std::min(options_.batch_size, dataset_.size() - begin);
    const auto part = order.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    Batch out{Tensor::empty({count, dataset_.channels(), dataset_.height(), dataset_.width()}, options_.dtype),
              Tensor::empty({count}, DType::i64),
              attributes_of(part),
              std::vector<std::int64_t>(part.begin(), part.end()),
              epoch,
              batch};
    auto* labels = out.labels.mutable_data<std::int64_t>("loader");
    for (std::size_t i = 0; i < part.size(); ++i) labels[i] = dataset_.label(part[i]);
    if (options_.dtype == DType::f32)
      fill(out.images.mutable_data<float>("loader"), part, epoch);
    else
      fill(out.images.mutable_data<double>("loader"), part, epoch);
    return out;
  }

private:
  Tensor attributes_of(std::span<const std::int64_t> indices) const {
    if (!dataset_.has_attributes()) return {};
    std::vector<double> values;
    for (const std::int64_t index : indices)
      for (const std::uint8_t value : dataset_.attributes(index)) values.push_back(value);
    return Tensor::from<double>(values, {static_cast<std::int64_t>(indices.size()), dataset_.classes()})
        .to(options_.dtype);
  }

  template <class T> void fill(T* to, std::span<const std::int64_t> indices, std::int64_t epoch) const {
    const auto plane = static_cast<std::size_t>(dataset_.height() * dataset_.width());
    Planes changed{
        .channels = dataset_.channels(), .height = dataset_.height(), .width = dataset_.width(), .bytes = {}};
    for (const std::int64_t index : indices) {
      const ByteView pixels = augmented(index, epoch, changed);
      for (std::size_t c = 0; c * plane < pixels.size(); ++c)
        for (std::size_t p = 0; p < plane; ++p) *to++ = static_cast<T>(normalized_[c * 256 + pixels[c * plane + p]]);
    }
  }

  ByteView augmented(std::int64_t index, std::int64_t epoch, Planes& changed) const {
    const ByteView pixels = dataset_.pixels(index);
    if (!options_.augmentation.any() && !options_.transform) return pixels;
    RandomStream random(RandomKey{options_.seed, augment_stream}
                            .fold(static_cast<std::uint64_t>(epoch))
                            .fold(static_cast<std::uint64_t>(index)));
    changed.bytes.assign(pixels.begin(), pixels.end());
    augment(options_.augmentation, changed, random);
    if (options_.transform) options_.transform(epoch, index, changed.bytes);
    return changed.bytes;
  }

  ImageDataset dataset_;
  LoaderOptions options_;
  std::vector<double> normalized_; // [channel][byte]
};

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
