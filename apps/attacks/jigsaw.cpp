#include "apps/attacks/jigsaw.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace eg::attacks {
namespace {

using Order = std::vector<std::int64_t>;

/// |difference|^0.3 for |2 x - x' - y| of bytes.
const std::array<double, 1021>& powers() {
  static const std::array<double, 1021> table = [] {
    std::array<double, 1021> t{};
    for (std::size_t i = 0; i < t.size(); ++i) t[i] = std::pow(static_cast<double>(i), 0.3);
    return t;
  }();
  return table;
}

/// The pixels of a piece `depth` behind one of its borders, channel by channel.
enum class Side { left, right, top, bottom };
std::vector<int> border(ByteView pixels, std::int64_t channels, std::int64_t side, std::int64_t patch,
                        std::int64_t piece, Side which, std::int64_t depth) {
  const std::int64_t grid = side / patch, y0 = piece / grid * patch, x0 = piece % grid * patch;
  const std::int64_t far = patch - 1 - depth;
  std::vector<int> found;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < patch; ++i) {
      const std::int64_t y = which == Side::top ? depth : which == Side::bottom ? far : i;
      const std::int64_t x = which == Side::left ? depth : which == Side::right ? far : i;
      found.push_back(pixels[static_cast<std::size_t>((c * side + y0 + y) * side + x0 + x)]);
    }
  return found;
}

/// [pieces, pieces] of how badly `ahead` borders of the first fit `behind` borders of the second.
std::vector<double> costs_between(ByteView pixels, std::int64_t channels, std::int64_t side, std::int64_t patch,
                                  Side ahead, Side behind) {
  const std::int64_t pieces = (side / patch) * (side / patch);
  struct Borders {
    std::vector<int> a1, a2, b1, b2;
  };
  std::vector<Borders> all;
  for (std::int64_t p = 0; p < pieces; ++p) {
    const auto of = [&](Side which, std::int64_t depth) {
      return border(pixels, channels, side, patch, p, which, depth);
    };
    all.push_back({of(ahead, 0), of(ahead, 1), of(behind, 0), of(behind, 1)});
  }
  std::vector<double> costs;
  for (const Borders& first : all)
    for (const Borders& second : all) {
      double sum = 0.0;
      for (std::size_t i = 0; i < first.a1.size(); ++i) {
        const int forward = std::abs(2 * first.a1[i] - first.a2[i] - second.b1[i]);
        const int backward = std::abs(2 * second.b1[i] - second.b2[i] - first.a1[i]);
        sum += powers()[static_cast<std::size_t>(forward)] + powers()[static_cast<std::size_t>(backward)];
      }
      costs.push_back(sum);
    }
  return costs;
}

/// An arrangement in a square and what its borders cost.
class Board {
public:
  Board(const BorderCosts& costs, Order order)
      : costs_(costs), order_(std::move(order)),
        grid_(static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(costs.pieces))))) {}

  const Order& order() const { return order_; }
  std::int64_t grid() const { return grid_; }
  double total() const {
    double sum = 0.0;
    for (std::int64_t p = 0; p < costs_.pieces; ++p) sum += right_of(p) + below(p);
    return sum;
  }
  /// What the borders of one or both places cost.
  double around(std::int64_t p) const {
    double sum = right_of(p) + below(p);
    if (p % grid_ > 0) sum += right_of(p - 1);
    if (p >= grid_) sum += below(p - grid_);
    return sum;
  }
  double around(std::int64_t p, std::int64_t q) const {
    double sum = around(p) + around(q);
    const std::int64_t a = std::min(p, q), b = std::max(p, q); // a border between them counts once
    if (b == a + 1 && b % grid_ > 0) sum -= right_of(a);
    if (b == a + grid_) sum -= below(a);
    return sum;
  }
  void exchange(std::int64_t p, std::int64_t q) {
    std::swap(order_[static_cast<std::size_t>(p)], order_[static_cast<std::size_t>(q)]);
  }

private:
  std::int64_t at(std::int64_t p) const { return order_[static_cast<std::size_t>(p)]; }
  double right_of(std::int64_t p) const {
    return p % grid_ + 1 < grid_ ? costs_.right[static_cast<std::size_t>(at(p) * costs_.pieces + at(p + 1))] : 0.0;
  }
  double below(std::int64_t p) const {
    return p + grid_ < costs_.pieces ? costs_.below[static_cast<std::size_t>(at(p) * costs_.pieces + at(p + grid_))]
                                     : 0.0;
  }
  const BorderCosts& costs_;
  Order order_;
  std::int64_t grid_;
};

Order first_order(std::int64_t pieces) {
  Order order(static_cast<std::size_t>(pieces));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Order best_of_all(const BorderCosts& costs) {
  Order order = first_order(costs.pieces), best = order;
  double least = std::numeric_limits<double>::infinity();
  do {
    const double cost = Board(costs, order).total();
    if (cost < least) std::tie(least, best) = std::pair(cost, order);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

/// Exchanges of two places, worse ones with probability exp(-d / T), T falling from `hot` to a hundredth of it.
void anneal(Board& board, std::int64_t pieces, double hot, RandomStream& random) {
  const std::int64_t moves = 2400 * pieces;
  for (std::int64_t m = 0; m < moves; ++m) {
    const double t = hot * std::pow(0.01, static_cast<double>(m) / static_cast<double>(moves));
    const auto p = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(pieces)));
    const auto q = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(pieces)));
    if (p == q) continue;
    const double before = board.around(p, q);
    board.exchange(p, q);
    const double worse = board.around(p, q) - before;
    if (worse > 0.0 && random.uniform() >= std::exp(-worse / t)) board.exchange(p, q);
  }
}

/// The cheapest of the arrangement's cyclic shifts, and its cost: an image may be assembled off its position.
std::pair<double, Order> best_shift(const BorderCosts& costs, const Board& board) {
  const std::int64_t grid = board.grid();
  std::pair<double, Order> best(board.total(), board.order());
  for (std::int64_t dy = 0; dy < grid; ++dy)
    for (std::int64_t dx = 0; dx < grid; ++dx) {
      Order shifted;
      for (std::int64_t p = 0; p < costs.pieces; ++p)
        shifted.push_back(
            board.order()[static_cast<std::size_t>((p / grid + dy) % grid * grid + (p % grid + dx) % grid)]);
      const double cost = Board(costs, shifted).total();
      if (cost < best.first) best = {cost, std::move(shifted)};
    }
  return best;
}

} // namespace

Bytes shuffled_patches(ByteView pixels, std::int64_t channels, std::int64_t side, std::int64_t patch,
                       const permute::Permutation& order) {
  Bytes out(pixels.size());
  const std::int64_t grid = side / patch;
  for (std::int64_t p = 0; p < grid * grid; ++p)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < patch; ++y) {
        const auto row = [&](std::int64_t q) { return (c * side + q / grid * patch + y) * side + q % grid * patch; };
        std::copy_n(pixels.begin() + row(order[p]), patch, out.begin() + row(p));
      }
  return out;
}

BorderCosts border_costs(ByteView pixels, std::int64_t channels, std::int64_t side, std::int64_t patch) {
  if (patch < 2 || side % patch != 0 || static_cast<std::int64_t>(pixels.size()) != channels * side * side)
    throw ValueError(fmt::format("border_costs: patches of {0} x {0} do not tile {1} x {1} pixels", patch, side));
  const std::int64_t grid = side / patch;
  return {.pieces = grid * grid,
          .right = costs_between(pixels, channels, side, patch, Side::right, Side::left),
          .below = costs_between(pixels, channels, side, patch, Side::bottom, Side::top)};
}

std::vector<std::int64_t> solve_jigsaw(const BorderCosts& costs, RandomKey key) {
  if (costs.pieces <= 4) return best_of_all(costs);
  constexpr int beginnings = 4;
  const double border =
      std::accumulate(costs.right.begin(), costs.right.end(), 0.0) / static_cast<double>(costs.right.size());
  Order best;
  double least = std::numeric_limits<double>::infinity();
  RandomStream random(key);
  for (int b = 0; b < beginnings; ++b) {
    Order order = first_order(costs.pieces);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    Board board(costs, std::move(order));
    anneal(board, costs.pieces, 0.3 * border, random);
    if (auto [cost, found] = best_shift(costs, board); cost < least) std::tie(least, best) = std::pair(cost, found);
  }
  return best;
}

double jigsaw_accuracy(const data::ImageDataset& images, std::int64_t patch, std::int64_t count, RandomKey key,
                       StopFlag stop) {
  const std::int64_t side = images.height(), pieces = (side / patch) * (side / patch);
  const std::int64_t all = std::min(count, images.size());
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < all; ++i) {
    if (stop != nullptr && stop->load()) throw Interrupted("jigsaw: interrupted");
    const RandomKey of_image = key.fold(static_cast<std::uint64_t>(i));
    const auto order = permute::Permutation::random(pieces, of_image.fold(0));
    const Bytes seen = shuffled_patches(images.pixels(i), images.channels(), side, patch, order);
    const std::vector<std::int64_t> found =
        solve_jigsaw(border_costs(seen, images.channels(), side, patch), of_image.fold(1));
    for (std::int64_t p = 0; p < pieces; ++p)
      right += order[found[static_cast<std::size_t>(p)]] == p ? 1 : 0; // the patch that is now at p belongs there
  }
  return 100.0 * static_cast<double>(right) / static_cast<double>(all * pieces);
}

} // namespace eg::attacks
