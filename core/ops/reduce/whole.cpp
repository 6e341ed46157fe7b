#include "core/ops/reduce/whole.h"

#include "core/ops/reduce/groups.h"

#include <atomic>
#include <fmt/format.h>
#include <limits>

namespace eg::reduce {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

/// Fewer than 2^63 numbers of 64 bits: no sum of them leaves 128.
template <class T> Wide sum_of(const T* x, std::int64_t n) {
  if constexpr (sizeof(T) == 1) {
    std::int64_t sum = 0; // of bytes, in vectors
    for (std::int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  } else {
    Wide sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
}

/// The product, or something beyond 64 bits: no order of the factors changes which.
template <class T> Wide product_of(const T* x, std::int64_t n) {
  bool negative = false, beyond = false;
  Wide size = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    const Wide factor = static_cast<Wide>(x[i]);
    if (factor == 0) return 0;
    negative = negative != (factor < 0);
    if (!beyond) size *= factor < 0 ? -factor : factor; // both are at most 2^63
    beyond = beyond || size > static_cast<Wide>(most) + 1;
  }
  return negative ? -size : size;
}

/// y[group] = f(its first element, how many), which 64 bits must hold.
template <class F> void reduce_whole(const OpArgs& args, Tensor& y, const F& f) {
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  std::int64_t* to = y.mutable_data<std::int64_t>();
  std::atomic<bool> all = true;
  visit_whole(args.in[0].dtype(), [&]<class T>() {
    for_each_group<T>(groups, [&](std::int64_t g, const T* x) {
      const Wide value = f(x, groups.extent);
      if (value > most || value < least) all = false;
      to[g] = static_cast<std::int64_t>(value);
    });
  });
  if (!all)
    throw ValueError(
        fmt::format("{}: a result is beyond integers of 64 bits; convert x with to(\"f64\")", args.op.name));
}

} // namespace

void whole_sum(const OpArgs& args, std::span<Tensor> out) {
  reduce_whole(args, out[0], []<class T>(const T* x, std::int64_t n) { return of_pieces(x, n, sum_of<T>, added); });
}

void whole_prod(const OpArgs& args, std::span<Tensor> out) {
  reduce_whole(args, out[0], [](const auto* x, std::int64_t n) { return product_of(x, n); });
}

void whole_mean(const OpArgs& args, std::span<Tensor> out) {
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  float* y = out[0].mutable_data<float>();
  visit_whole(args.in[0].dtype(), [&]<class T>() {
    for_each_group<T>(groups, [&](std::int64_t g, const T* x) {
      y[g] = static_cast<float>(static_cast<double>(of_pieces(x, groups.extent, sum_of<T>, added)) /
                                static_cast<double>(groups.extent));
    });
  });
}

std::vector<Sample> whole_axes_samples(std::uint64_t tag) {
  const auto over = [](std::vector<std::int64_t> axes, bool keepdim = false) {
    return Attrs{{"axes", std::move(axes)}, {"keepdim", keepdim}};
  };
  return {{{sample_whole({2, 4}, tag, -9, 10)}, {}, "whole numbers"},
          {{sample_whole({3, 4, 5}, tag + 1, -6, 7)}, over({1}, true), "whole numbers along a middle axis"},
          {{scattered(sample_whole({8, 6}, tag + 2, 1, 40).to(DType::u8))}, over({0}), "bytes, strided"},
          {{sample_whole({4, 8}, tag + 3, 0, 2).to(DType::boolean)}, over({-1}), "truth values"}};
}

} // namespace eg::reduce
