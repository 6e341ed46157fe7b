#include "distributed/gradient_sum.h"

#include "core/threads/parallel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <type_traits>
#include <utility>

namespace eg::distributed {
namespace {

/// Elements of a chunk of a loop.
constexpr std::int64_t grain = 32768;
/// Fewest elements that one process owns together: a message for less is mostly its own cost.
constexpr std::int64_t smallest_unit = 2048;

template <class T> void add_elements(T* to, const T* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/// to += from, on the calling thread.
void add_serially(DType dtype, std::byte* to, const std::byte* from, std::int64_t count) {
  if (dtype == DType::f32)
    add_elements(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), count);
  else
    add_elements(reinterpret_cast<double*>(to), reinterpret_cast<const double*>(from), count);
}

void add(DType dtype, std::byte* to, const std::byte* from, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  parallel::for_each(count, grain, [&](std::int64_t begin, std::int64_t end) {
    add_serially(dtype, to + begin * size, from + begin * size, end - begin);
  });
}

/// What adding zeros to `to` gives: -0 becomes +0.
void add_zeros(DType dtype, std::byte* to, std::int64_t count) {
  const auto each = [count](auto* values) {
    using T = std::remove_pointer_t<decltype(values)>;
    parallel::for_each(count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) values[i] += T(0);
    });
  };
  if (dtype == DType::f32)
    each(reinterpret_cast<float*>(to));
  else
    each(reinterpret_cast<double*>(to));
}

std::byte* writable_bytes(const Tensor& packed) {
  Tensor handle = packed;
  return handle.mutable_bytes("gradient_sum");
}

} // namespace

GradientSum::GradientSum(Communicator& processes, const std::vector<Tensor>& parameters, GradientSumOptions options)
    : processes_(processes), options_(std::move(options)) {
  const int shards = options_.shards;
  if (shards < 1 || !std::has_single_bit(static_cast<unsigned>(shards)))
    throw ValueError(fmt::format("shards must be a power of two, not {}", shards));
  if (shards < processes.size())
    throw ValueError(
        fmt::format("{} shards are fewer than the {} processes; give more shards", shards, processes.size()));
  range_ = shards_of(processes.rank(), processes.size(), shards);
  if (!parameters.empty()) dtype_ = parameters.front().dtype();
  for (const Tensor& p : parameters) {
    if (p.dtype() != dtype_ || !is_floating(dtype_))
      throw DTypeError(fmt::format("gradients are summed over processes in f32 or in f64, not {} beside {}",
                                   name_of(p.dtype()), name_of(dtype_)));
    shapes_.push_back(p.shape());
  }
  lay_out();
}

GradientSum::~GradientSum() { await_pending(); }

/// Work that was posted uses what is freed next.
void GradientSum::await_pending() {
  for (std::future<void>& work : pending_)
    if (work.valid()) work.wait();
  pending_.clear();
}

/// Flat order, buckets and owners: from the shapes alone, so the same on every process.
void GradientSum::lay_out() {
  const std::size_t count = shapes_.size();
  order_.resize(count);
  std::iota(order_.rbegin(), order_.rend(), std::size_t{0}); // the backward pass ends at the first parameters
  offsets_.resize(count);
  buckets_of_.resize(count);
  struct Unit {
    std::size_t parameter;
    std::int64_t begin, end;
  };
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const int n = processes_.size();
  // Of many processes each owns some of every bucket where it may.
  const std::int64_t step =
      options_.divided ? unit : std::clamp<std::int64_t>(options_.bucket_bytes / (size * n), smallest_unit, unit);
  std::vector<Unit> units;
  for (const std::size_t i : order_) {
    offsets_[i] = total_;
    const std::int64_t elements = shapes_[i].numel();
    const bool whole = options_.divided && !options_.whole.empty() && options_.whole[i];
    for (std::int64_t begin = 0; begin < elements;) {
      const std::int64_t end = whole ? elements : std::min(elements, begin + step);
      units.push_back({i, total_ + begin, total_ + end});
      begin = end;
    }
    total_ += elements;
  }
  std::vector<std::int64_t> load(static_cast<std::size_t>(n));
  const bool some_whole = std::find(options_.whole.begin(), options_.whole.end(), true) != options_.whole.end();
  for (std::size_t begin = 0; begin < units.size();) {
    std::size_t end = begin;
    while (end < units.size() && (units[end].begin - units[begin].begin) * size < options_.bucket_bytes) ++end;
    Bucket bucket;
    for (std::size_t u = begin; u < end; ++u) {
      // Of elements runs of units, turned on by one owner from bucket to bucket; whole matrices go where least is.
      const auto run = static_cast<int>((u - begin) * static_cast<std::size_t>(n) / (end - begin));
      int owner = static_cast<int>((static_cast<std::size_t>(run) + buckets_.size()) % static_cast<std::size_t>(n));
      if (options_.divided && some_whole)
        owner = static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin());
      load[static_cast<std::size_t>(owner)] += units[u].end - units[u].begin;
      if (!bucket.ranges.empty() && bucket.ranges.back().owner == owner)
        bucket.ranges.back().end = units[u].end;
      else
        bucket.ranges.push_back({units[u].begin, units[u].end, owner});
      if (bucket.parameters.empty() || bucket.parameters.back() != units[u].parameter) {
        bucket.parameters.push_back(units[u].parameter);
        buckets_of_[units[u].parameter].push_back(buckets_.size());
      }
    }
    buckets_.push_back(std::move(bucket));
    begin = end;
  }
  own_ = part_of(processes_.rank());
}

std::vector<ParameterPart> GradientSum::pieces_of(const Bucket& bucket, const Range& range) const {
  std::vector<ParameterPart> pieces;
  for (const std::size_t i : bucket.parameters) {
    const std::int64_t first = offsets_[i], last = first + shapes_[i].numel();
    const std::int64_t begin = std::max(first, range.begin), end = std::min(last, range.end);
    if (begin < end) pieces.push_back({i, begin - first, end - first});
  }
  return pieces;
}

std::vector<ParameterPart> GradientSum::part_of(int rank) const {
  std::vector<ParameterPart> parts;
  for (const Bucket& bucket : buckets_)
    for (const Range& range : bucket.ranges) {
      if (range.owner != rank) continue;
      for (const ParameterPart& piece : pieces_of(bucket, range)) {
        if (!parts.empty() && parts.back().parameter == piece.parameter && parts.back().end == piece.begin)
          parts.back().end = piece.end;
        else
          parts.push_back(piece);
      }
    }
  return parts;
}

std::span<std::byte> GradientSum::at(const Sum& sum, const ParameterPart& piece) const {
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  return {sum.bytes[piece.parameter] + piece.begin * size, static_cast<std::size_t>((piece.end - piece.begin) * size)};
}

void GradientSum::add(int shard, bool first_part, bool last_part, FunctionRef<void(Take)> backward) {
  if (shard == range_.first && first_part) {
    await_pending(); // of a step that failed
    posted_ = 0;
    sums_.clear();
    defined_.assign(shapes_.size(), 0);
    for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters.size();
  }
  const TreeNode leaf{0, shard};
  if (first_part) {
    // One part alone is added to its sibling at once: the same sum without a tensor of its own.
    const bool at_once = last_part && !sums_.empty() && leaf.is_sibling_of(sums_.back().node);
    part_.adds = part_.is_leaf = at_once;
    if (at_once) {
      sums_.back().node = leaf.parent();
    } else {
      sums_.push_back({leaf, std::vector<Tensor>(shapes_.size()), std::vector<std::byte*>(shapes_.size())});
    }
  } else {
    part_.adds = true;
    part_.is_leaf = false;
  }
  part_.joins = 0;
  part_.leaves = last_part && shard + 1 == range_.last;
  std::vector<TreeNode> nodes;
  for (const Sum& sum : sums_) nodes.push_back(sum.node);
  while (last_part && nodes.size() > 1 && nodes.back().is_sibling_of(nodes[nodes.size() - 2])) {
    nodes.pop_back();
    nodes.back() = nodes.back().parent();
    ++part_.joins;
  }
  const auto taken = [this](std::size_t i, Tensor gradient) { take(i, std::move(gradient)); };
  backward(taken);
  for (std::size_t j = 0; j < part_.joins; ++j) {
    sums_.pop_back();
    sums_.back().node = sums_.back().node.parent();
  }
}

void GradientSum::take(std::size_t i, Tensor gradient) {
  const std::int64_t count = shapes_[i].numel();
  Sum& sum = sums_.back();
  if (gradient.defined()) {
    defined_[i] = 1;
    Tensor here = gradient.to(Device::cpu()).contiguous();
    gradient = Tensor();
    if (part_.adds) {
      distributed::add(dtype_, sum.bytes[i], here.bytes(), count);
    } else {
      sum.gradients[i] = here.exclusive() ? std::move(here) : here.clone();
      sum.bytes[i] = sum.gradients[i].mutable_bytes("gradient_sum");
    }
  } else if (!part_.adds) {
    sum.gradients[i] = Tensor::zeros(shapes_[i], dtype_);
    sum.bytes[i] = sum.gradients[i].mutable_bytes("gradient_sum");
  } else if (part_.is_leaf) {
    add_zeros(dtype_, sum.bytes[i], count); // as where its leaf is a sum of its own
  }
  for (std::size_t j = 0, top = sums_.size() - 1; j < part_.joins; ++j, --top) {
    distributed::add(dtype_, sums_[top - 1].bytes[i], sums_[top].bytes[i], count);
    sums_[top].gradients[i] = Tensor();
  }
  if (!part_.leaves || processes_.alone()) return;
  for (const std::size_t b : buckets_of_[i]) --buckets_[b].missing;
  if (options_.overlap) post_ready_buckets();
}

void GradientSum::post_ready_buckets() {
  for (; posted_ < buckets_.size() && buckets_[posted_].missing == 0; ++posted_)
    pending_.push_back(processes_.post([this, &bucket = buckets_[posted_]](Link& link) {
      reduce(link, bucket);
      if (!options_.divided || options_.spread) spread(link, bucket);
    }));
}

/// Sends the roots of this process's shards to the owners of the elements, and joins what comes for its own.
void GradientSum::reduce(Link& link, const Bucket& bucket) {
  link.begin(Kind::shard_sums);
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const int me = link.rank();
  std::vector<std::uint8_t> flags;
  for (const std::size_t i : bucket.parameters) flags.push_back(defined_[i]);
  std::vector<Link::Out> out;
  std::vector<Link::In> in;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  struct Own {
    ParameterPart piece;
    std::vector<std::byte*> received; ///< in the order of the tree's nodes
  };
  std::vector<Own> own;
  const auto roots = static_cast<std::size_t>(std::ssize(roots_of(range_)));
  for (const Range& range : bucket.ranges)
    for (const ParameterPart& piece : pieces_of(bucket, range)) {
      if (range.owner != me) {
        for (std::size_t r = 0; r < roots; ++r) out.push_back({range.owner, at(sums_[r], piece)});
        continue;
      }
      const auto bytes = static_cast<std::size_t>((piece.end - piece.begin) * size);
      own.push_back({piece, {}});
      for (int p = 0; p < link.size(); ++p) {
        const std::size_t theirs = roots_of(shards_of(p, link.size(), options_.shards)).size();
        for (std::size_t r = 0; r < theirs; ++r) {
          if (p == me) {
            own.back().received.push_back(at(sums_[r], piece).data());
            continue;
          }
          memory.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
          own.back().received.push_back(memory.back().get());
          in.push_back({p, {memory.back().get(), bytes}});
        }
      }
    }
  std::vector<std::vector<std::uint8_t>> others(static_cast<std::size_t>(link.size()),
                                                std::vector<std::uint8_t>(flags.size()));
  for (int p = 0; p < link.size(); ++p) {
    if (p == me) continue;
    out.push_back({p, std::as_bytes(std::span(flags))});
    in.push_back({p, std::as_writable_bytes(std::span(others[static_cast<std::size_t>(p)]))});
  }
  link.exchange(out, in);
  for (const std::vector<std::uint8_t>& theirs : others)
    for (std::size_t k = 0; k < theirs.size(); ++k)
      if (theirs[k] != 0) defined_[bucket.parameters[k]] = 1;
  for (const Own& o : own) join(o.piece, o.received);
}

/// Joins the roots of all processes into the first sum of this one.
void GradientSum::join(const ParameterPart& piece, const std::vector<std::byte*>& received) {
  const std::int64_t count = piece.end - piece.begin;
  struct Entry {
    TreeNode node;
    std::byte* values;
  };
  std::vector<Entry> stack;
  std::size_t next = 0;
  for (int p = 0; p < processes_.size(); ++p)
    for (const TreeNode& node : roots_of(shards_of(p, processes_.size(), options_.shards))) {
      stack.push_back({node, received[next++]});
      while (stack.size() > 1 && stack.back().node.is_sibling_of(stack[stack.size() - 2].node)) {
        const Entry right = stack.back();
        stack.pop_back();
        add_serially(dtype_, stack.back().values, right.values, count);
        stack.back().node = stack.back().node.parent();
      }
    }
  assert(stack.size() == 1);
  const std::span<std::byte> to = at(sums_.front(), piece);
  if (stack.front().values != to.data()) std::memcpy(to.data(), stack.front().values, to.size());
}

/// Sends the sums of this process's elements to all others.
void GradientSum::spread(Link& link, const Bucket& bucket) {
  link.begin(Kind::sums);
  std::vector<Link::Out> out;
  std::vector<Link::In> in;
  for (const Range& range : bucket.ranges)
    for (const ParameterPart& piece : pieces_of(bucket, range)) {
      const std::span<std::byte> bytes = at(sums_.front(), piece);
      if (range.owner != link.rank()) {
        in.push_back({range.owner, bytes});
        continue;
      }
      for (int p = 0; p < link.size(); ++p)
        if (p != link.rank()) out.push_back({p, bytes});
    }
  link.exchange(out, in);
}

std::vector<Tensor> GradientSum::finish() {
  if (!processes_.alone()) post_ready_buckets();
  for (std::future<void>& work : pending_) processes_.wait(std::move(work));
  pending_.clear();
  std::vector<Tensor> result(shapes_.size());
  for (std::size_t i = 0; i < shapes_.size(); ++i)
    if (defined_[i] != 0) result[i] = std::move(sums_.front().gradients[i]);
  sums_.clear(); // so that gradients live as long as the result: a checkpoint needs their room
  return result;
}

void GradientSum::gather_parameters(const std::vector<Tensor>& parameters) {
  if (processes_.alone()) return;
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  std::vector<std::byte*> places;
  for (const Tensor& p : parameters) places.push_back(writable_bytes(p));
  processes_.wait(processes_.post([&](Link& link) {
    for (const Bucket& bucket : buckets_) {
      link.begin(Kind::weights);
      std::vector<Link::Out> out;
      std::vector<Link::In> in;
      for (const Range& range : bucket.ranges)
        for (const ParameterPart& piece : pieces_of(bucket, range)) {
          const std::span<std::byte> bytes{places[piece.parameter] + piece.begin * size,
                                           static_cast<std::size_t>((piece.end - piece.begin) * size)};
          if (range.owner != link.rank()) {
            in.push_back({range.owner, bytes});
            continue;
          }
          for (int p = 0; p < link.size(); ++p)
            if (p != link.rank()) out.push_back({p, bytes});
        }
      link.exchange(out, in);
    }
  }));
}

} // namespace eg::distributed
