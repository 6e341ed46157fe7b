#include "distributed/deal.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

namespace eg::distributed {
namespace {

/// What a process says to process 0: how its item ended, or that nothing more comes.
enum class Said : std::uint64_t { result = 1, failed, interrupted, bye };
/// What process 0 says: an item to compute, that the item is wanted no more, that there is none left.
enum class Told : std::uint64_t { compute = 1, stop, end };
constexpr std::uint64_t no_item = ~std::uint64_t{0};
/// Most bytes of one result.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 28;
/// How long a thread sleeps between two looks at the network.
constexpr std::chrono::microseconds glance(300);

struct Report {
  Said said = Said::bye;
  std::uint64_t item = no_item;
  std::string text = {};
};
struct ReportHead {
  std::uint64_t said, item, bytes;
};
struct Order {
  std::uint64_t told, item;
};

template <class T> std::span<const std::byte> sent(const T& value) { return std::as_bytes(std::span(&value, 1)); }
template <class T> std::span<std::byte> received(T& value) { return std::as_writable_bytes(std::span(&value, 1)); }

/// One item, and whatever it throws.
Report report_of(const Communicator& processes, std::uint64_t item, const std::function<std::string()>& work) {
  const auto failed = [&](const char* what) {
    const Process& mine = processes.processes()[static_cast<std::size_t>(processes.rank())];
    return Report{Said::failed, item, fmt::format("{}: {}", mine.words(processes.rank()), what)};
  };
  try {
    std::string result = work();
    if (result.size() > most_bytes) return failed("a result is larger than 256 MiB");
    return {Said::result, item, std::move(result)};
  } catch (const Interrupted& error) {
    return {Said::interrupted, item, error.what()};
  } catch (const std::bad_alloc&) {
    return failed("out of memory");
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

/// Results of one kind after another: lengths before bytes.
class Packed {
public:
  void add(const std::string& text) {
    const std::uint64_t length = text.size();
    text_.append(reinterpret_cast<const char*>(&length), sizeof length);
    text_ += text;
  }
  std::string& text() { return text_; }

private:
  std::string text_;
};

std::vector<std::string> unpacked(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t length = 0;
    if (text.size() - at < sizeof length) throw DistributedError("deal: what process 0 sent ends within a length");
    std::memcpy(&length, text.data() + at, sizeof length);
    at += sizeof length;
    if (text.size() - at < length) throw DistributedError("deal: what process 0 sent ends within a result");
    parts.emplace_back(text, at, length);
    at += length;
  }
  return parts;
}

/// What process 0 knows, shared by its two threads.
class Table {
public:
  Table(std::size_t items, const std::vector<double>& costs) : results_(items), there_(items), order_(items) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    if (!costs.empty())
      std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  }

  std::optional<std::size_t> next_item() {
    const std::lock_guard lock(mutex_);
    if (end_ || next_ == order_.size()) return {};
    return order_[next_++];
  }
  void take(Report report) {
    {
      const std::lock_guard lock(mutex_);
      if (report.said == Said::result) {
        results_[report.item] = std::move(report.text);
        there_[report.item] = true;
        ++done_;
      } else if (!end_) {
        end_ = std::move(report); // the first one says why
      }
    }
    changed_.notify_all();
  }
  bool failed() const {
    const std::lock_guard lock(mutex_);
    return end_.has_value();
  }
  bool over() const {
    const std::lock_guard lock(mutex_);
    return end_ || done_ == results_.size();
  }
  std::size_t done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  /// A result that may be shown: those before it are there. It stays where it is.
  const std::string* shown(std::size_t item) const {
    const std::lock_guard lock(mutex_);
    return !end_ && item < results_.size() && there_[item] ? &results_[item] : nullptr;
  }
  template <class Duration> void wait_a_moment(Duration duration) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, duration);
  }
  /// How it ended, then all results.
  std::string packed() {
    Packed all;
    const std::lock_guard lock(mutex_);
    all.add(!end_ ? "" : end_->said == Said::interrupted ? "i" : "f");
    if (end_)
      all.add(end_->text);
    else
      for (const std::string& result : results_) all.add(result);
    return std::move(all.text());
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> results_;
  std::vector<bool> there_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0, done_ = 0;
  std::optional<Report> end_;
};

/// Serves the others until each has said goodbye. On the communication thread of process 0.
class Server {
public:
  Server(Link& link, Table& table, const DealOptions& options) : link_(link), table_(table), options_(options) {}

  void run() {
    link_.begin(Kind::deal);
    std::vector<Other> others;
    for (int p = 1; p < link_.size(); ++p) others.push_back({.rank = p});
    bool stopped = false;
    for (auto left = others.size(); left > 0;) {
      if (!stopped && table_.failed()) {
        stopped = true;
        if (options_.stop) options_.stop();
      }
      bool moved = false;
      for (Other& other : others) {
        if (other.gone) continue;
        if (link_.waiting(other.rank)) {
          hear(other);
          moved = true;
        }
        speak(other);
        if (other.gone) --left;
      }
      if (!moved) table_.wait_a_moment(glance);
      link_.keep_alive();
    }
    if (!stopped && table_.failed() && options_.stop) options_.stop();
  }

private:
  struct Other {
    int rank = 0;
    std::uint64_t item = no_item; ///< that it computes
    bool stopping = false, ending = false, gone = false;
  };

  void hear(Other& other) {
    ReportHead head{};
    const std::array<Link::In, 1> in{{{other.rank, received(head)}}};
    link_.exchange({}, in);
    const auto said = static_cast<Said>(head.said);
    const bool known = said >= Said::result && said <= Said::bye;
    const bool of_item = head.item == other.item || (head.item == no_item && said != Said::result);
    if (!known || !of_item || head.bytes > most_bytes)
      throw DistributedError(fmt::format("deal: process {} reports {} of item {} with {} bytes, and computes item {}",
                                         other.rank, head.said, head.item, head.bytes, other.item));
    Report report{said, head.item, std::string(head.bytes, '\0')};
    const std::array<Link::In, 1> text{{{other.rank, std::as_writable_bytes(std::span(report.text))}}};
    if (head.bytes > 0) link_.exchange({}, text);
    if (head.item != no_item) other.item = no_item;
    if (said == Said::bye)
      other.gone = true;
    else
      table_.take(std::move(report));
  }

  void speak(Other& other) {
    if (other.gone || other.ending) return;
    if (other.item == no_item) {
      if (table_.over()) {
        other.ending = true;
        tell(other, Told::end);
      } else if (const std::optional<std::size_t> item = table_.next_item()) {
        other.item = *item;
        tell(other, Told::compute, *item);
      }
    } else if (!other.stopping && table_.failed()) {
      other.stopping = true;
      tell(other, Told::stop);
    }
  }

  void tell(const Other& other, Told told, std::uint64_t item = no_item) {
    const Order order{static_cast<std::uint64_t>(told), item};
    const std::array<Link::Out, 1> out{{{other.rank, sent(order)}}};
    link_.exchange(out, {});
  }

  Link& link_;
  Table& table_;
  const DealOptions& options_;
};

/// What the two threads of another process than 0 hand each other.
class Desk {
public:
  void report(Report report) {
    {
      const std::lock_guard lock(mutex_);
      reports_.push_back(std::move(report));
    }
    changed_.notify_all();
  }
  /// An item; no_item after the end; nothing yet.
  std::optional<std::uint64_t> order(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return order_.has_value(); });
    return std::exchange(order_, std::nullopt);
  }
  void put(std::uint64_t item) {
    {
      const std::lock_guard lock(mutex_);
      order_ = item;
    }
    changed_.notify_all();
  }

  /// Until process 0 ends it. On the communication thread.
  void serve(Link& link, const DealOptions& options, std::size_t items) {
    link.begin(Kind::deal);
    for (;;) {
      while (const std::optional<Report> report = next_report()) send(link, *report);
      if (link.waiting(0)) {
        Order order{};
        const std::array<Link::In, 1> in{{{0, received(order)}}};
        link.exchange({}, in);
        switch (static_cast<Told>(order.told)) {
        case Told::compute:
          if (order.item >= items)
            throw DistributedError(fmt::format("deal: process 0 asks for item {} of {}", order.item, items));
          put(order.item);
          continue;
        case Told::stop:
          if (options.stop) options.stop();
          continue;
        case Told::end:
          while (const std::optional<Report> report = next_report()) send(link, *report);
          send(link, {});
          put(no_item);
          return;
        }
        throw DistributedError(fmt::format("deal: process 0 says {}", order.told));
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, glance, [&] { return !reports_.empty(); });
      lock.unlock();
      link.keep_alive();
    }
  }

private:
  std::optional<Report> next_report() {
    const std::lock_guard lock(mutex_);
    if (reports_.empty()) return {};
    Report report = std::move(reports_.front());
    reports_.pop_front();
    return report;
  }
  static void send(Link& link, const Report& report) {
    const ReportHead head{static_cast<std::uint64_t>(report.said), report.item, report.text.size()};
    const std::array<Link::Out, 2> out{{{0, sent(head)}, {0, std::as_bytes(std::span(report.text))}}};
    link.exchange(std::span(out).first(report.text.empty() ? 1 : 2), {});
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Report> reports_;
  std::optional<std::uint64_t> order_;
};

/// Process 0: computes items itself, shows what is there, and waits for the others.
std::string lead(Communicator& processes, std::size_t items, const std::function<std::string(std::size_t)>& run,
                 const DealOptions& options) {
  Table table(items, options.costs);
  std::future<void> served = processes.post([&](Link& link) {
    try {
      Server(link, table, options).run();
    } catch (...) {
      table.take({Said::failed, no_item, ""});
      if (options.stop) options.stop();
      throw;
    }
  });
  std::size_t shown = 0;
  // What showing throws ends the work as what an item throws does.
  const auto show = [&] {
    if (table.failed()) return;
    Report report = report_of(processes, no_item, [&] {
      for (const std::string* result = nullptr; options.on_result && (result = table.shown(shown)) != nullptr;)
        options.on_result(shown++, *result);
      if (options.on_progress) options.on_progress(table.done());
      if (options.check) options.check();
      return std::string();
    });
    if (report.said != Said::result) table.take(std::move(report));
  };
  do {
    show();
    if (const std::optional<std::size_t> item = table.next_item())
      table.take(report_of(processes, *item, [&] { return run(*item); }));
    else
      table.wait_a_moment(std::chrono::milliseconds(100));
  } while (served.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
  served.get();
  show();
  return table.packed();
}

/// Another process.
void follow(Communicator& processes, std::size_t items, const std::function<std::string(std::size_t)>& run,
            const DealOptions& options) {
  Desk desk;
  std::future<void> served = processes.post([&](Link& link) {
    try {
      desk.serve(link, options, items);
    } catch (...) {
      if (options.stop) options.stop();
      desk.put(no_item);
      throw;
    }
  });
  for (bool told = false;;) {
    const std::optional<std::uint64_t> item = desk.order(std::chrono::milliseconds(100));
    if (item == no_item) break;
    if (item) {
      desk.report(report_of(processes, *item, [&] { return run(*item); }));
      continue;
    }
    if (served.wait_for(std::chrono::seconds(0)) == std::future_status::ready) break; // also where it never began
    Report waiting = report_of(processes, no_item, [&] {
      if (options.check) options.check();
      return std::string();
    });
    if (waiting.said != Said::result && !std::exchange(told, true)) desk.report(std::move(waiting));
  }
  served.get();
}

} // namespace

std::vector<std::string> deal(Communicator& processes, std::size_t items,
                              const std::function<std::string(std::size_t item)>& run, const DealOptions& options) {
  if (!options.costs.empty() && options.costs.size() != items)
    throw ValueError(fmt::format("deal: {} costs of {} items", options.costs.size(), items));
  std::vector<std::string> results;
  if (processes.alone()) {
    for (std::size_t item = 0; item < items; ++item) {
      if (options.on_progress) options.on_progress(item);
      results.push_back(run(item));
      if (options.on_result) options.on_result(item, results.back());
      if (options.check) options.check();
    }
    return results;
  }
  processes.require_same("the number of items", std::to_string(items));
  std::string all;
  if (processes.first())
    all = lead(processes, items, run, options);
  else
    follow(processes, items, run, options);
  results = unpacked(processes.broadcast(std::move(all)));
  if (results.empty()) throw DistributedError("deal: process 0 sent nothing");
  const std::string how = std::move(results.front());
  results.erase(results.begin());
  if (!how.empty() && results.size() != 1) throw DistributedError("deal: process 0 sent no reason");
  if (how == "i") throw Interrupted(results.front());
  if (how == "f") throw DistributedError(results.front());
  if (!how.empty() || results.size() != items)
    throw DistributedError(fmt::format("deal: process 0 sent {} results of {}", results.size(), items));
  return results;
}

} // namespace eg::distributed
