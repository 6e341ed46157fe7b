#include "fuzz/inference/brute_force.h"

#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "fuzz/inference/claims.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace eg::fuzz {
namespace {

using permute::ModelSymmetries;
using permute::SymmetryElement;
using Integers = std::vector<std::int64_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// All permutations of n places, as gathers, with their products.
class AllOrders {
public:
  explicit AllOrders(std::int64_t n) {
    Integers order(at(n));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    do {
      number_[order] = orders_.size();
      orders_.push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  std::size_t count() const { return orders_.size(); }
  const Integers& operator[](std::size_t i) const { return orders_[i]; }
  /// Nothing for a list that is no permutation.
  std::optional<std::size_t> find(const Integers& order) const {
    const auto found = number_.find(order);
    return found == number_.end() ? std::nullopt : std::optional(found->second);
  }
  /// First a, then b.
  std::size_t product(std::size_t a, std::size_t b) const {
    Integers both(orders_[a].size());
    for (std::size_t i = 0; i < both.size(); ++i) both[i] = orders_[a][at(orders_[b][i])];
    return number_.at(both);
  }

private:
  std::vector<Integers> orders_;
  std::map<Integers, std::size_t> number_;
};

/// An axis of a leaf, or the numbers that it holds (axis -1).
struct Coordinate {
  std::size_t leaf;
  int axis;
  AllOrders orders;
};
/// The number of a permutation for each coordinate.
using Combination = std::vector<std::size_t>;

/// All permutations of all axes of the leaves.
class Combinations {
public:
  explicit Combinations(const Program& program) : leaves_(program.leaves) {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      for (int axis = 0; axis < leaves_[i].shape.rank(); ++axis)
        if (leaves_[i].shape[axis] > 1) coordinates_.push_back({i, axis, AllOrders(leaves_[i].shape[axis])});
      if (leaves_[i].range > 1) coordinates_.push_back({i, -1, AllOrders(leaves_[i].range)});
    }
  }

  /// How many there are of a program.
  static double count(const Program& program) {
    double all = 1.0;
    for (const ProgramLeaf& leaf : program.leaves) {
      for (const std::int64_t e : leaf.shape) all *= std::tgamma(static_cast<double>(e) + 1.0);
      if (leaf.range > 0) all *= std::tgamma(static_cast<double>(leaf.range) + 1.0);
    }
    return all;
  }

  Combination identity() const { return Combination(coordinates_.size(), 0); }
  std::int64_t number_of(const Combination& c) const {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < c.size(); ++i)
      number = number * static_cast<std::int64_t>(coordinates_[i].orders.count()) + static_cast<std::int64_t>(c[i]);
    return number;
  }
  Combination at_number(std::int64_t number) const {
    Combination c(coordinates_.size());
    for (std::size_t i = c.size(); i-- > 0;) {
      const auto count = static_cast<std::int64_t>(coordinates_[i].orders.count());
      c[i] = at(number % count);
      number /= count;
    }
    return c;
  }
  Combination product(const Combination& a, const Combination& b) const {
    Combination both(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) both[i] = coordinates_[i].orders.product(a[i], b[i]);
    return both;
  }

  /// The leaves as a combination moves them.
  std::vector<Tensor> moved(const Combination& c, std::vector<Tensor> leaves) const {
    for (std::size_t i = 0; i < c.size(); ++i) {
      const Coordinate& own = coordinates_[i];
      const Integers& order = own.orders[c[i]];
      const Tensor index = Tensor::from(order, {static_cast<std::int64_t>(order.size())});
      Tensor& x = leaves[own.leaf];
      x = own.axis >= 0 ? index_select(x, own.axis, index)
                        : index_select(index, 0, reshape(x, {x.numel()})).reshape(x.shape());
    }
    return leaves;
  }

  /// What an element does to the leaves; nothing where it is no permutation of axes.
  std::optional<Combination> combination_of(const ModelSymmetries& claims, const SymmetryElement& element) const {
    Combination c = identity();
    for (std::size_t i = 0; i < c.size(); ++i) {
      const std::optional<std::size_t> own = order_of(claims, element, coordinates_[i]);
      if (!own) return {};
      c[i] = *own;
    }
    // The same as the product of what it does to each axis.
    std::vector<Tensor> places;
    for (const ProgramLeaf& leaf : leaves_) places.push_back(places_of(leaf));
    const std::vector<Tensor> wanted = moved(c, places);
    for (std::size_t l = 0; l < leaves_.size(); ++l)
      if (distance(claims.moved(element, leaf_name(l), places[l]), wanted[l], 1.0) > 0.0) return {};
    return c;
  }

private:
  /// Different numbers in all places.
  static Tensor places_of(const ProgramLeaf& leaf) {
    const Tensor places = Tensor::arange(leaf.shape.numel()).reshape(leaf.shape);
    return leaf.range > 0 ? places : places.to(DType::f64);
  }

  std::optional<std::size_t> order_of(const ModelSymmetries& claims, const SymmetryElement& element,
                                      const Coordinate& own) const {
    const ProgramLeaf& leaf = leaves_[own.leaf];
    const std::string name = leaf_name(own.leaf);
    Integers order;
    if (own.axis < 0) {
      for (std::int64_t v = 0; v < leaf.range; ++v) order.push_back(image_of(claims, element, name, leaf, v));
      return own.orders.find(order); // nothing where a table has more rows than the leaf has numbers
    }
    Integers numbers(at(leaf.range)); // of index tensors: what each number was
    for (std::int64_t v = 0; v < leaf.range; ++v) {
      const std::int64_t image = image_of(claims, element, name, leaf, v);
      if (image >= leaf.range) return {};
      numbers[at(image)] = v;
    }
    Tensor line = claims.moved(element, name, places_of(leaf));
    std::int64_t stride = 1;
    for (int axis = own.axis + 1; axis < leaf.shape.rank(); ++axis) stride *= leaf.shape[axis];
    for (int axis = 0; axis < leaf.shape.rank(); ++axis)
      if (axis != own.axis) line = line.slice(axis, 0, 1);
    for (const std::int64_t v : line.to(DType::i64).contiguous().to_vector<std::int64_t>())
      order.push_back((leaf.range > 0 ? numbers[at(v)] : v) / stride % leaf.shape[own.axis]);
    return own.orders.find(order);
  }

  static std::int64_t image_of(const ModelSymmetries& claims, const SymmetryElement& element, const std::string& name,
                               const ProgramLeaf& leaf, std::int64_t number) {
    const Tensor all = Tensor::full(leaf.shape, static_cast<double>(number), DType::i64);
    return claims.moved(element, name, all).contiguous().to_vector<std::int64_t>().front();
  }

  std::vector<ProgramLeaf> leaves_;
  std::vector<Coordinate> coordinates_;
};

/// The orders in which the elements of a tensor stand when its axes are permuted, each a gather of all elements.
std::vector<Integers> element_orders(const Shape& shape) {
  std::vector<Integers> all{{}};
  all.front().resize(at(shape.numel()));
  std::iota(all.front().begin(), all.front().end(), std::int64_t{0});
  std::int64_t stride = shape.numel();
  for (const std::int64_t n : shape) {
    stride /= n;
    std::vector<Integers> next;
    const AllOrders orders(n);
    for (const Integers& before : all)
      for (std::size_t o = 0; o < orders.count(); ++o) {
        Integers order(before.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
          const std::int64_t own = static_cast<std::int64_t>(i) / stride % n;
          order[i] = before[at(static_cast<std::int64_t>(i) + (orders[o][at(own)] - own) * stride)];
        }
        next.push_back(std::move(order));
      }
    all = std::move(next);
  }
  return all;
}

/// A program at several points, and whether it commutes with a combination.
class Subject {
public:
  Subject(const Program& program, const Combinations& combinations, RandomKey key)
      : program_(program), combinations_(combinations) {
    constexpr std::uint64_t draws = 6, draws_of_steps = 16; // piecewise constant functions agree by chance more often
    const std::uint64_t count = has_jumps(program) ? draws_of_steps : draws;
    for (std::uint64_t draw = 0; draw < count; ++draw) {
      // Two different numbers below two are in order or not; equal ones tie where scores are put in order.
      leaves_.push_back(leaf_values(program, key.fold(draw), draw % 2 == 1 && !has_order(program)));
      outputs_.push_back(numbers_of(run(program, leaves_.back())));
    }
    for (const Tensor& y : run(program, leaves_.front())) orders_.push_back(element_orders(y.shape()));
  }

  bool commutes_with(const Combination& c) const {
    std::vector<std::vector<const Integers*>> left(orders_.size()); // orders of each output that still fit
    for (std::size_t o = 0; o < orders_.size(); ++o)
      for (const Integers& order : orders_[o]) left[o].push_back(&order);
    for (std::size_t draw = 0; draw < leaves_.size(); ++draw) {
      const std::vector<std::vector<double>> found = numbers_of(run(program_, combinations_.moved(c, leaves_[draw])));
      for (std::size_t o = 0; o < left.size(); ++o) {
        const std::vector<double>& y = outputs_[draw][o];
        if (draw == 0 && !equal_sorted(found[o], y)) return false;
        std::erase_if(left[o], [&](const Integers* order) { return !fits(found[o], y, *order); });
        if (left[o].empty()) return false;
      }
    }
    return true;
  }

private:
  static bool has_jumps(const Program& program) {
    return std::any_of(program.steps.begin(), program.steps.end(),
                       [](const ProgramStep& s) { return !s.op->no_gradient.empty() || !s.op->zero_gradient.empty(); });
  }
  static bool has_order(const Program& program) {
    constexpr const OpDef* ops[] = {&sort_op,   &argsort_op,        &topk_op,          &argmax_op,
                                    &argmin_op, &max_with_index_op, &min_with_index_op};
    return std::any_of(program.steps.begin(), program.steps.end(), [&](const ProgramStep& s) {
      return std::find(std::begin(ops), std::end(ops), s.op) != std::end(ops);
    });
  }
  static std::vector<std::vector<double>> numbers_of(const std::vector<Tensor>& list) {
    std::vector<std::vector<double>> numbers;
    for (const Tensor& t : list) numbers.push_back(t.to(DType::f64).contiguous().to_vector<double>());
    return numbers;
  }
  static bool near(double a, double b, double scale) {
    constexpr double tolerance = 1e-9;
    return std::abs(a - b) <= tolerance * scale || (std::isnan(a) && std::isnan(b)) || a == b;
  }
  static double scale_of(const std::vector<double>& y) {
    double scale = 1e-6;
    for (const double v : y)
      if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
    return scale;
  }
  static bool equal_sorted(std::vector<double> a, std::vector<double> b) {
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    const double scale = scale_of(b);
    return std::equal(a.begin(), a.end(), b.begin(), [&](double x, double y) { return near(x, y, scale); });
  }
  static bool fits(const std::vector<double>& found, const std::vector<double>& y, const Integers& order) {
    const double scale = scale_of(y);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!near(found[i], y[at(order[i])], scale)) return false;
    return true;
  }

  const Program& program_;
  const Combinations& combinations_;
  std::vector<std::vector<Tensor>> leaves_;               // by draw
  std::vector<std::vector<std::vector<double>>> outputs_; // by draw
  std::vector<std::vector<Integers>> orders_;             // by output
};

/// The group that these generate, by number. Few enough to be listed.
std::vector<Combination> generated(const Combinations& all, const std::vector<Combination>& generators) {
  std::vector<Combination> list{all.identity()};
  std::map<std::int64_t, bool> seen{{0, true}};
  for (std::size_t i = 0; i < list.size(); ++i)
    for (const Combination& g : generators) {
      Combination next = all.product(list[i], g);
      if (seen.try_emplace(all.number_of(next), true).second) list.push_back(std::move(next));
    }
  return list;
}

bool is_comparable(const Program& program, const std::vector<Tensor>& outputs, const BruteForceOptions& options) {
  if (Combinations::count(program) > static_cast<double>(options.most_combinations)) return false;
  return std::all_of(outputs.begin(), outputs.end(), [&](const Tensor& y) {
    double orders = 1.0;
    for (const std::int64_t e : y.shape()) orders *= std::tgamma(static_cast<double>(e) + 1.0);
    return y.dtype() != DType::i64 && orders <= static_cast<double>(options.most_output_orders);
  });
}

} // namespace

BruteForce try_all(const Program& program, const ModelSymmetries& claims, const BruteForceOptions& options) {
  BruteForce result;
  if (!is_comparable(program, run(program, leaf_values(program, options.key)), options)) return result;
  const Combinations all(program);
  const Subject subject(program, all, options.key);
  std::vector<Combination> generators;
  for (const permute::SymmetryGroup& g : claims.groups())
    for (const SymmetryElement& e : claims.generators(g.name)) {
      std::optional<Combination> c = all.combination_of(claims, e);
      if (!c) return result; // it moves rows of a leaf each in its own way
      generators.push_back(*std::move(c));
    }
  result.combinations = static_cast<std::int64_t>(Combinations::count(program));
  const std::vector<Combination> inferred = generated(all, generators);
  result.inferred = static_cast<std::int64_t>(inferred.size());
  if (!std::all_of(generators.begin(), generators.end(),
                   [&](const Combination& c) { return subject.commutes_with(c); })) {
    result.outcome = BruteForce::Outcome::larger;
    return result;
  }
  std::vector<bool> done(at(result.combinations), false);
  for (std::int64_t number = 0; number < result.combinations; ++number) {
    if (done[at(number)]) continue;
    const Combination c = all.at_number(number);
    if (subject.commutes_with(c)) result.found += result.inferred;
    for (const Combination& g : inferred) done[at(all.number_of(all.product(c, g)))] = true;
  }
  result.outcome = result.found == result.inferred ? BruteForce::Outcome::whole : BruteForce::Outcome::smaller;
  return result;
}

} // namespace eg::fuzz
