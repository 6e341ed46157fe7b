#include "golden/draw.h"

#include "core/base/error.h"
#include "core/call.h"
#include "core/registry.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <string_view>

namespace eg::golden {
namespace {

/// Names of streams beside those of the inputs.
constexpr std::uint64_t cotangents = 32;
constexpr std::uint64_t directions = 64;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// Word e of a stream, 31 bits.
std::int64_t word(std::uint64_t salt, std::uint64_t stream, std::int64_t e) {
  return static_cast<std::int64_t>(mix((salt << 32U) + (stream << 20U) + static_cast<std::uint64_t>(e)) >> 33U);
}

/// 0 ... n-1 in an order that the words give.
std::vector<double> shuffled(const std::function<std::int64_t(std::int64_t)>& word_of, std::int64_t first,
                             std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return word_of(first + a) < word_of(first + b); });
  return {order.begin(), order.end()};
}

std::vector<double> listed(std::string_view text) {
  std::vector<double> values;
  while (!text.empty()) {
    double value = 0.0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error != std::errc()) throw FileError(fmt::format("golden file: not a list of numbers: '{}'", text));
    values.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1); // comma
  }
  return values;
}

/// One element of the ways that draw each by itself.
double element(std::string_view way, std::int64_t r) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  switch (way.front()) {
  case 'n': // [-2, 2)
    return number(r % 256 - 128) / 64.0;
  case 'p': // [0.25, 2.25)
    return number(r % 128 + 16) / 64.0;
  case 'u': // (0, 1)
    return number(2 * (r % 64) + 1) / 128.0;
  case 's': // [-0.5, 0.5)
    return number(r % 256 - 128) / 256.0;
  case 'w': // [-8, 8)
    return number(r % 256 - 128) / 16.0;
  case 'k': // off zero: 0.25 <= |x| < 2
    return (r % 2 == 0 ? 1.0 : -1.0) * number(r / 2 % 112 + 16) / 64.0;
  case 'o': // odd multiples of 1/64 in [-4, 4): never an integer nor halfway between two
    return number(r % 256 - 128) / 32.0 + 1.0 / 64.0;
  case 'b':
    return number(r % 2);
  default:
    throw FileError(fmt::format("golden file: an unknown way to draw: '{}'", way));
  }
}

/// "i3_7": integers 3 <= x < 7.
std::pair<std::int64_t, std::int64_t> range(std::string_view way) {
  const auto number = [way](std::string_view text) {
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw FileError(fmt::format("golden file: not a range: '{}'", way));
    return std::int64_t{value};
  };
  const std::size_t bar = std::min(way.find('_'), way.size());
  const std::int64_t low = number(way.substr(1, bar - 1));
  const std::int64_t high = number(way.substr(std::min(bar + 1, way.size())));
  if (low >= high) throw FileError(fmt::format("golden file: an empty range: '{}'", way));
  return {low, high};
}

std::vector<double> drawn(const std::string& way, const Shape& shape, std::uint64_t salt, std::uint64_t stream) {
  if (way.starts_with('=')) return listed(std::string_view(way).substr(1));
  const std::int64_t count = shape.numel();
  const auto word_of = [&](std::int64_t e) { return word(salt, stream, e); };
  std::vector<double> values;
  if (way == "d") { // all different, none of them 0
    values = shuffled(word_of, 0, count);
    for (double& x : values) x = (2.0 * x - static_cast<double>(count) + 1.0) / 16.0 + 1.0 / 64.0;
  } else if (way == "P" && shape.rank() > 0) { // a permutation along the last axis
    for (std::int64_t row = 0; row < count; row += shape[-1]) {
      const std::vector<double> one = shuffled(word_of, row, shape[-1]);
      values.insert(values.end(), one.begin(), one.end());
    }
  } else if (way.starts_with('i')) {
    const auto [low, high] = range(way);
    for (std::int64_t e = 0; e < count; ++e) values.push_back(static_cast<double>(low + word_of(e) % (high - low)));
  } else {
    for (std::int64_t e = 0; e < count; ++e) values.push_back(element(way, word_of(e)));
  }
  return values;
}

/// The same elements in another layout.
Tensor laid_out(const Tensor& x, char layout) {
  switch (layout) {
  case 'c': // packed
    return x;
  case 't': { // axes stored in reverse order
    std::vector<std::int64_t> axes(static_cast<std::size_t>(x.rank()));
    std::iota(axes.rbegin(), axes.rend(), 0);
    const auto reversed = [&](const Tensor& y) { return call(find_op("permute"), {y}, {{"axes", axes}})[0]; };
    return reversed(reversed(x).contiguous());
  }
  case 's': { // every other element of a larger tensor, from the second on
    Shape roomy = x.shape();
    for (int axis = 0; axis < roomy.rank(); ++axis) roomy[axis] = 2 * roomy[axis] + 1;
    Tensor view = Tensor::full(roomy, x.dtype() == DType::boolean ? 1.0 : 99.0, x.dtype());
    for (int axis = 0; axis < roomy.rank(); ++axis) view = view.slice(axis, 1, 1 + 2 * x.shape()[axis], 2);
    view.copy_from(x);
    return view;
  }
  case 'e': // the first axis repeats one slice: stride 0
    return x.slice(0, 0, 1).clone().expand(x.shape());
  default:
    throw FileError(fmt::format("golden file: an unknown layout: '{}'", layout));
  }
}

DType dtype_for(char type, DType floating) {
  switch (type) {
  case 'f':
    return floating;
  case 'i':
    return DType::i64;
  case 'u':
    return DType::u8;
  case 'b':
    return DType::boolean;
  default:
    throw FileError(fmt::format("golden file: an unknown element type: '{}'", type));
  }
}

Tensor along(const Case& c, std::uint64_t stream, const Tensor& like) {
  return Tensor::from(drawn("n", like.shape(), c.salt, stream), like.shape()).to(like.dtype());
}

} // namespace

std::vector<double> draw(const Case& c, std::size_t index) {
  const InputSpec& spec = c.inputs[index];
  std::vector<double> values = drawn(spec.drawn, spec.shape, c.salt, index);
  if (values.size() != static_cast<std::size_t>(spec.shape.numel()))
    throw FileError(fmt::format("golden file: {}: input {} lists {} numbers", c.name(), index, values.size()));
  return values;
}

Tensor input(const Case& c, std::size_t index, DType dtype) {
  const InputSpec& spec = c.inputs[index];
  if (!spec.given) return {};
  const PauseRecording pause;
  const Tensor x = Tensor::from(draw(c, index), spec.shape).to(dtype_for(spec.type, dtype));
  return laid_out(x, spec.layout);
}

Tensor cotangent(const Case& c, std::size_t index, const Tensor& output) {
  return along(c, cotangents + index, output);
}

Tensor direction(const Case& c, std::size_t index, const Tensor& input) { return along(c, directions + index, input); }

} // namespace eg::golden
