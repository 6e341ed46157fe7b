#pragma once
// Sums the gradients of a batch's shards over processes, in an order that does not depend on their number.

#include "core/base/function_ref.h"
#include "core/tensor.h"
#include "distributed/communicator.h"
#include "distributed/shard_tree.h"

#include <cstdint>
#include <future>
#include <vector>

namespace eg::distributed {

struct GradientSumOptions {
  int shards = 8;      ///< leaves of the tree: a power of two, at least the number of processes
  bool overlap = true; ///< send what is there while the backward pass goes on
  /// Each process receives the sums of its own elements alone, and updates these (part()); gather_parameters() then
  /// gives every process all parameters.
  bool divided = false;
  bool spread = false;                 ///< where `divided`: give every process all sums nevertheless
  std::vector<bool> whole = {};        ///< parameters that one process must have whole; empty: none
  std::int64_t bucket_bytes = 4 << 20; ///< how much leaves at a time
};

/// Elements [begin, end) of a parameter, counted in its row-major order.
struct ParameterPart {
  std::size_t parameter = 0;
  std::int64_t begin = 0, end = 0;
};

/// Sums of one gradient for each parameter over the shards of a batch. Shard sums are joined along the balanced binary
/// tree over shard numbers (shard_tree.h), ((g0 + g1) + (g2 + g3)) + ..., so that the bits depend on the number of
/// shards alone: each process joins what its own shards give; of every element one process, its owner, joins the rest.
/// A step sends 2 (N - 1)/N of the gradients' bytes from each of N processes, the least there is, where N is a power of
/// two (else each of its roots), in buckets that leave while the backward pass goes on. Memory: the gradients, which
/// are taken without a copy, once for every level of the tree that a process joins itself, at least once, and 1/N of a
/// bucket for each other process.
class GradientSum {
public:
  /// Elements of a parameter that one process owns together, from its first element on, where `divided`.
  static constexpr std::int64_t unit = 32768;

  /// Throws ValueError for shards that are no power of two, fewer than the processes; DTypeError unless all parameters
  /// are f32 or all are f64.
  GradientSum(Communicator& processes, const std::vector<Tensor>& parameters, GradientSumOptions options);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// The shards of this process.
  ShardRange shards() const { return range_; }
  const GradientSumOptions& options() const { return options_; }

  /// Receives the gradient of parameter i (undefined: zero), as Tape::gradient_each gives them.
  using Take = FunctionRef<void(std::size_t i, Tensor gradient)>;
  /// Adds one part of a shard. Shards come in order, each in one or more parts; parts of a shard are added one after
  /// another. `backward` calls its argument once for each parameter.
  void add(int shard, bool first_part, bool last_part, FunctionRef<void(Take)> backward);
  /// Waits for all processes. The sums, which stay until the next step; undefined where no shard had a gradient. With
  /// `divided` elements of other owners are not sums.
  std::vector<Tensor> finish();

  /// The elements that this process owns, where gradients are `divided`.
  const std::vector<ParameterPart>& part() const { return own_; }
  /// Those of any process.
  std::vector<ParameterPart> part_of(int rank) const;
  /// Replaces the elements of each tensor (one for each parameter, of its shape) by those of their owner.
  void gather_parameters(const std::vector<Tensor>& parameters);

private:
  struct Range {
    std::int64_t begin = 0, end = 0; ///< in the flat order
    int owner = 0;
  };
  struct Bucket {
    std::vector<Range> ranges;
    std::vector<std::size_t> parameters;
    std::size_t missing = 0; ///< parameters whose last gradient is not there
  };
  struct Sum {
    TreeNode node;
    std::vector<Tensor> gradients; ///< of each parameter; undefined before the backward pass comes to it
    std::vector<std::byte*> bytes; ///< of `gradients`, for the communication thread
  };

  void lay_out();
  void take(std::size_t i, Tensor gradient);
  void post_ready_buckets();
  void await_pending();
  void reduce(Link& link, const Bucket& bucket);
  void join(const ParameterPart& piece, const std::vector<std::byte*>& received);
  void spread(Link& link, const Bucket& bucket);
  /// The bytes of a sum's elements.
  std::span<std::byte> at(const Sum& sum, const ParameterPart& piece) const;
  std::vector<ParameterPart> pieces_of(const Bucket& bucket, const Range& range) const;

  Communicator& processes_;
  GradientSumOptions options_;
  ShardRange range_;
  DType dtype_ = DType::f32;
  std::vector<Shape> shapes_;
  std::vector<std::int64_t> offsets_; ///< of each parameter in the flat order, which is that of the backward pass
  std::vector<std::size_t> order_;    ///< parameters in the flat order
  std::int64_t total_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_; ///< of each parameter
  std::vector<ParameterPart> own_;

  // the present step
  std::vector<Sum> sums_; ///< sums of shards that are done, and of the present one
  struct Part {
    bool adds = false;     ///< to what the last sum holds
    bool is_leaf = false;  ///< where it adds: the last sum is the sibling's
    std::size_t joins = 0; ///< of sums, when a parameter is done
    bool leaves = false;   ///< parameters that are done are final
  } part_;
  std::vector<std::uint8_t> defined_; ///< some shard had a gradient
  std::size_t posted_ = 0;
  std::vector<std::future<void>> pending_;
};

} // namespace eg::distributed
