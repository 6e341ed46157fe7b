// Sums of gradients over ranks: the bits of one balanced tree, whatever the number of ranks is, against a plain sum.

#include "distributed/gradient_sum.h"

#include "support/in_process_ranks.h"
#include "support/message.h"

#include "core/ops.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>

using namespace eg;
using namespace eg::distributed;
using namespace eg::test;

namespace {

/// Odd sizes: of nothing, below, at and above a unit, and of several units.
const std::vector<Shape> shapes = {{3, 5}, {1}, {32767}, {0}, {2, 16384}, {32769}, {7, 14321}};

std::vector<Tensor> parameters_of(DType dtype) {
  std::vector<Tensor> all;
  for (const Shape& shape : shapes) all.push_back(Tensor::zeros(shape, dtype));
  return all;
}

/// What one part of a shard gives for parameter i; undefined for some. Zeros of either sign are among them.
Tensor gradient_of(int shard, int part, std::size_t i, DType dtype) {
  static std::mutex guard;
  static std::map<std::tuple<int, int, std::size_t, DType>, Tensor> drawn;
  const std::lock_guard lock(guard);
  Tensor& g = drawn[{shard, part, i, dtype}];
  const auto draw = static_cast<std::uint64_t>(shard * 100 + part * 10) + i;
  if (g.defined() || i == 1 || (shard + part + static_cast<int>(i)) % 4 == 0) return g;
  g = random_normal(shapes[i], RandomKey{11, draw}, 0.0, 1.0, dtype);
  if (i % 2 == 0) return g;
  const auto sink = [&g]<class T>(T) {
    for (T *x = g.mutable_data<T>(), *end = x + g.numel(); x < end; ++x) *x = *x > 0 ? T(-0.0) : *x;
  };
  dtype == DType::f32 ? sink(0.0F) : sink(0.0);
  return g;
}

/// Of the parts of a leaf one after another; undefined where all are.
Tensor leaf_of(int shard, int parts, std::size_t i, DType dtype) {
  Tensor sum;
  for (int part = 0; part < parts; ++part) {
    const Tensor g = gradient_of(shard, part, i, dtype);
    if (part == 0)
      sum = g.defined() ? g : Tensor::zeros(shapes[i], dtype);
    else if (g.defined())
      sum = sum + g;
  }
  return sum;
}

Tensor balanced(int first, int last, int parts, std::size_t i, DType dtype) {
  if (last - first == 1) return leaf_of(first, parts, i, dtype);
  const int middle = (first + last) / 2;
  return balanced(first, middle, parts, i, dtype) + balanced(middle, last, parts, i, dtype);
}

Tensor one_after_another(int shards, int parts, std::size_t i, DType dtype) {
  Tensor sum = leaf_of(0, parts, i, dtype);
  for (int k = 1; k < shards; ++k) sum = sum + leaf_of(k, parts, i, dtype);
  return sum;
}

bool is_defined(int shards, int parts, std::size_t i, DType dtype) {
  for (int k = 0; k < shards; ++k)
    for (int part = 0; part < parts; ++part)
      if (gradient_of(k, part, i, dtype).defined()) return true;
  return false;
}

bool same_bits_in(const Tensor& a, const Tensor& b, std::int64_t begin, std::int64_t end) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
  return x.dtype() == y.dtype() && x.numel() == y.numel() &&
         std::memcmp(x.bytes() + begin * size, y.bytes() + begin * size,
                     static_cast<std::size_t>((end - begin) * size)) == 0;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

struct Sums {
  std::vector<Tensor> balanced, sequential;
  std::vector<bool> defined;
};

Sums sums_of(int shards, int parts, DType dtype) {
  Sums sums;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    sums.defined.push_back(is_defined(shards, parts, i, dtype));
    sums.balanced.push_back(balanced(0, shards, parts, i, dtype));
    sums.sequential.push_back(one_after_another(shards, parts, i, dtype));
  }
  return sums;
}

std::vector<Tensor> sum_on(GradientSum& sum, int parts, DType dtype) {
  for (int k = sum.shards().first; k < sum.shards().last; ++k)
    for (int part = 0; part < parts; ++part)
      sum.add(k, part == 0, part + 1 == parts, [&](GradientSum::Take take) {
        for (std::size_t i = shapes.size(); i-- > 0;) take(i, gradient_of(k, part, i, dtype));
      });
  return sum.finish();
}

/// Two steps, so that what is kept between steps is used.
void check_sums(Communicator& c, const GradientSumOptions& options, int parts, DType dtype, const Sums& expected) {
  GradientSum sum(c, parameters_of(dtype), options);
  for (int step = 0; step < 2; ++step) {
    const std::vector<Tensor> found = sum_on(sum, parts, dtype);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i].numel() == 0) continue; // an empty parameter has no gradient to announce
      require(found[i].defined() == expected.defined[i], fmt::format("parameter {} is defined", i));
      if (!found[i].defined() || (options.divided && !options.spread)) continue;
      require(same_bits(found[i], expected.balanced[i]), fmt::format("bits of parameter {}, step {}", i, step));
    }
    for (const ParameterPart& part : sum.part())
      if (found[part.parameter].defined())
        require(same_bits_in(found[part.parameter], expected.balanced[part.parameter], part.begin, part.end),
                fmt::format("own bits of parameter {}", part.parameter));
  }
}

} // namespace

TEST_CASE("sums have the bits of the balanced tree with one to nine ranks") {
  for (const int shards : {1, 2, 4, 8, 16})
    for (const int parts : {1, 3}) {
      const Sums expected = sums_of(shards, parts, DType::f32);
      for (int n = 1; n <= std::min(9, shards); ++n)
        for (const std::int64_t bucket : {std::int64_t{1}, std::int64_t{100'000}, std::int64_t{1} << 30}) {
          if (bucket != 100'000 && n % 4 != 1) continue; // time
          CAPTURE(shards);
          CAPTURE(parts);
          CAPTURE(n);
          CAPTURE(bucket);
          const GradientSumOptions options{.shards = shards, .overlap = n % 2 == 0, .bucket_bytes = bucket};
          CHECK(joined(run_ranks(n, [&](Communicator& c) { check_sums(c, options, parts, DType::f32, expected); },
                                 {.rendezvous = n % 3 == 0})) == "");
        }
    }
}

TEST_CASE("sums in f64 too") {
  const Sums expected = sums_of(8, 2, DType::f64);
  for (const int n : {1, 3, 8})
    CHECK(joined(run_ranks(n, [&](Communicator& c) {
            check_sums(c, {.shards = 8, .bucket_bytes = 300'000}, 2, DType::f64, expected);
          })) == "");
}

TEST_CASE("negative control: another order of additions, or another number of shards, has other bits") {
  const Sums eight = sums_of(8, 1, DType::f32);
  CHECK_FALSE(same_bits(eight.balanced[2], eight.sequential[2]));
  CHECK_FALSE(same_bits(eight.balanced[2], sums_of(16, 1, DType::f32).balanced[2]));
  // And a sum that is wrong by one bit of one element is seen.
  Sums wrong = eight;
  Tensor changed = wrong.balanced[6].clone();
  changed.mutable_bytes("test")[4 * 99'999] ^= std::byte{1};
  wrong.balanced[6] = changed;
  const std::string errors =
      joined(run_ranks(3, [&](Communicator& c) { check_sums(c, {.shards = 8}, 1, DType::f32, wrong); }));
  CHECK(errors.find("bits of parameter 6") != std::string::npos);
}

TEST_CASE("owners: each element has one, whatever is divided, spread or whole") {
  const Sums expected = sums_of(8, 1, DType::f32);
  std::vector<bool> whole(shapes.size());
  whole[6] = whole[4] = true;
  for (const bool spread : {false, true})
    for (const std::vector<bool>& uncut : {std::vector<bool>(), whole})
      for (int n = 1; n <= 8; ++n) {
        CAPTURE(spread);
        CAPTURE(n);
        const GradientSumOptions options{
            .shards = 8, .divided = true, .spread = spread, .whole = uncut, .bucket_bytes = 200'000};
        const auto work = [&](Communicator& c) {
          check_sums(c, options, 1, DType::f32, expected);
          GradientSum sum(c, parameters_of(DType::f32), options);
          std::vector<std::vector<int>> owners;
          for (const Shape& shape : shapes) owners.emplace_back(static_cast<std::size_t>(shape.numel()), -1);
          for (int p = 0; p < n; ++p)
            for (const ParameterPart& part : sum.part_of(p)) {
              if (!uncut.empty() && uncut[part.parameter])
                require(part.begin == 0 && part.end == shapes[part.parameter].numel(), "a whole parameter is cut");
              for (std::int64_t e = part.begin; e < part.end; ++e) {
                int& owner = owners[part.parameter][static_cast<std::size_t>(e)];
                require(owner == -1, "an element has two owners");
                owner = p;
              }
            }
          for (const std::vector<int>& of_parameter : owners)
            for (std::size_t e = 0; e < of_parameter.size(); ++e) {
              require(of_parameter[e] >= 0, "an element has no owner");
              require(e % GradientSum::unit == 0 || of_parameter[e] == of_parameter[e - 1], "a unit has two owners");
            }
          // Parameters that each owner has changed in its part alone.
          std::vector<Tensor> mine;
          for (const Shape& shape : shapes) mine.push_back(Tensor::zeros(shape));
          for (const ParameterPart& part : sum.part())
            for (std::int64_t e = part.begin; e < part.end; ++e)
              mine[part.parameter].mutable_data<float>()[e] =
                  static_cast<float>(c.rank() + 1) + static_cast<float>(e % 1000);
          sum.gather_parameters(mine);
          for (std::size_t i = 0; i < shapes.size(); ++i)
            for (std::size_t e = 0; e < owners[i].size(); ++e)
              require(mine[i].data<float>()[e] == static_cast<float>(owners[i][e] + 1) + static_cast<float>(e % 1000),
                      "gathered parameters");
        };
        CHECK(joined(run_ranks(n, work)) == "");
      }
}

TEST_CASE("what cannot be summed is refused") {
  Communicator alone;
  const std::vector<Tensor> f32 = parameters_of(DType::f32);
  for (const int shards : {0, -1, 3, 6, 12})
    CHECK(message_of<ValueError>([&] { GradientSum(alone, f32, {.shards = shards}); }).find("a power of two") !=
          std::string::npos);
  CHECK(message_of<DTypeError>([&] {
          GradientSum(alone, {Tensor::zeros({2}), Tensor::zeros({2}, DType::f64)}, {});
        }) != "");
  CHECK(message_of<DTypeError>([&] { GradientSum(alone, {Tensor::zeros({2}, DType::i64)}, {}); }) != "");
  const std::string errors = joined(run_ranks(3, [&](Communicator& c) { GradientSum(c, f32, {.shards = 2}); }));
  CHECK(errors.find("2 shards are fewer than the 3 processes") != std::string::npos);
}

TEST_CASE("ranks of which one has other parameters or shards are refused") {
  const auto sizes = [](Communicator& c) {
    GradientSum sum(c, {Tensor::zeros({c.rank() == 1 ? 12 : 13})}, {.shards = 4});
    for (int k = sum.shards().first; k < sum.shards().last; ++k)
      sum.add(k, true, true, [&](GradientSum::Take take) { take(0, Tensor::zeros({c.rank() == 1 ? 12 : 13})); });
    sum.finish();
  };
  CHECK(joined(run_ranks(2, sizes)).find("were due") != std::string::npos);
}
