// Bytes to calls.

#include "core/call.h"
#include "core/ops.h"
#include "core/registry.h"
#include "core/strided.h"
#include "fuzz/op_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::fuzz {

std::uint8_t Choices::byte() {
  if (bytes_.empty()) return 0;
  const std::uint8_t first = bytes_.front();
  bytes_ = bytes_.subspan(1);
  return first;
}

std::size_t Choices::below(std::size_t count) {
  if (count <= 1) return 0;
  std::size_t number = byte();
  if (count > 256) number = number << 8U | byte();
  return number % count;
}

namespace {

constexpr std::array<DType, 5> dtypes{DType::f32, DType::f64, DType::i64, DType::u8, DType::boolean};
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::array<std::int64_t, 20> integers{
    0, 1, 2, 3, 4, 5, 7, 8, 16, 33, -1, -2, -3, -100, 64, 127, 1 << 20, std::int64_t{1} << 31, largest, -largest - 1};
constexpr std::array<std::int64_t, 8> extents{0, 1, 2, 3, 5, 7, 17, 33};
constexpr std::array<std::int64_t, 5> huge{std::int64_t{1} << 20, std::int64_t{1} << 31, std::int64_t{1} << 40,
                                           (std::int64_t{1} << 61) - 1, largest};
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array<double, 18> reals{0.0,  -0.0,  1.0,   -1.0,  0.5,    2.0,    nan,  infinity, -infinity,
                                       1e30, -3e38, 1e-30, 1e-42, -1e308, 5e-324, 88.8, 1e5,      -745.0};
constexpr std::array<const char*, 12> words{"",        "mean",          "sum",  "none",   "nearest",   "bilinear",
                                            "bicubic", "nearest-exact", "tanh", "ij->ji", "ij,jk->ik", "a..."};

/// Writes f(element, choice of value) where `where` says.
void write_value(Tensor& x, std::int64_t first, std::int64_t count, double value, std::int64_t whole) {
  if (x.dtype() != DType::f64 && std::isfinite(value)) value = std::clamp(value, -3.4e38, 3.4e38);
  visit_dtype(x.dtype(), [&]<class T>() {
    T* to = x.mutable_data<T>("fuzz");
    for (std::int64_t i = first; i < std::min(first + count, x.numel()); ++i) {
      if constexpr (std::is_same_v<T, bool>)
        to[i] = whole % 2 != 0;
      else if constexpr (std::is_integral_v<T>)
        to[i] = static_cast<T>(whole);
      else
        to[i] = static_cast<T>(value);
    }
  });
}

/// Small enough to be written out.
bool writable(const Tensor& x) { return x.defined() && x.has_storage() && x.numel() <= 1 << 16; }

void change_values(Choices& choose, Tensor& x) {
  if (!writable(x) || x.numel() == 0) return;
  x = x.clone();
  const auto n = static_cast<std::size_t>(x.numel());
  const double value = choose.pick(reals);
  const std::int64_t whole = choose.pick(integers);
  const auto first = static_cast<std::int64_t>(choose.below(n));
  switch (choose.below(4)) {
  case 0:
    return write_value(x, 0, x.numel(), value, whole);
  case 1: // a whole row of the last axis
    if (x.rank() > 0) {
      const std::int64_t row = x.shape()[-1];
      return write_value(x, first / row * row, row, value, whole);
    }
    [[fallthrough]];
  default:
    return write_value(x, first, 1, value, whole);
  }
}

/// Values of x, over and over, in another shape; ones where x has none.
Tensor refilled(const Tensor& x, const Shape& shape) {
  Tensor y = Tensor::empty(shape, x.dtype());
  visit_dtype(x.dtype(), [&]<class T>() {
    const std::vector<T> from = writable(x) ? x.to_vector<T>() : std::vector<T>{};
    T* to = y.mutable_data<T>("fuzz");
    for (std::int64_t i = 0; i < y.numel(); ++i)
      to[i] = from.empty() ? static_cast<T>(1.0F) : static_cast<T>(from[static_cast<std::size_t>(i) % from.size()]);
  });
  return y;
}

/// One element seen as a huge tensor: it takes no memory.
Tensor vast(Choices& choose, const Tensor& x) {
  Shape shape;
  const std::size_t rank = 1 + choose.below(4);
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(choose.rarely(2) ? choose.pick(huge) : choose.pick(extents));
  return refilled(x, {}).view_as(
      shape,
      [&] {
        Shape none = shape;
        for (int i = 0; i < none.rank(); ++i) none[i] = 0;
        return none;
      }(),
      0);
}

void change_extent(Choices& choose, std::vector<Tensor>& in, bool everywhere) {
  const std::int64_t extent = choose.pick(extents);
  const auto back = -1 - static_cast<int>(choose.below(4));
  const std::size_t only = choose.below(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if ((!everywhere && i != only) || !in[i].defined() || in[i].rank() < -back) continue;
    Shape shape = in[i].shape();
    shape[back] = extent;
    bool small = true;
    for (const std::int64_t e : shape) small = small && e <= 4096;
    if (small && shape.numel() <= 1 << 16) in[i] = refilled(in[i], shape);
  }
}

Tensor of_any_rank(Choices& choose, const Tensor& x) {
  Shape shape;
  const std::size_t rank = choose.below(9);
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(static_cast<std::int64_t>(choose.below(4)));
  return refilled(x, shape);
}

Tensor in_other_layout(Choices& choose, const Tensor& x) {
  if (!writable(x)) return x;
  switch (choose.below(4)) {
  case 0: {
    if (x.rank() < 2) return x;
    const int a = static_cast<int>(choose.below(static_cast<std::size_t>(x.rank())));
    const int b = static_cast<int>(choose.below(static_cast<std::size_t>(x.rank())));
    return x.transpose(a, b).clone().transpose(a, b);
  }
  case 1: { // every other element of something longer
    Shape roomy = x.shape();
    if (x.rank() == 0 || roomy[-1] > 1 << 20) return x; // an axis of any length beside one of 0
    roomy[-1] = 2 * roomy[-1] + 1;
    Tensor view = Tensor::full(roomy, is_floating(x.dtype()) ? nan : 1.0, x.dtype());
    view = view.slice(-1, 1, 1 + 2 * x.shape()[-1], 2);
    view.copy_from(x);
    return view;
  }
  case 2: { // one slice, expanded
    if (x.rank() == 0 || x.numel() == 0) return x;
    const auto axis = static_cast<int>(choose.below(static_cast<std::size_t>(x.rank())));
    return x.slice(axis, 0, 1).expand(x.shape());
  }
  default: { // off the alignment
    Tensor view = Tensor::zeros({x.numel() + 1}, x.dtype()).slice(0, 1, x.numel() + 1).reshape(x.shape());
    view.copy_from(x);
    return view;
  }
  }
}

void change_inputs(Choices& choose, std::vector<Tensor>& in) {
  const std::size_t at = choose.below(in.size());
  switch (choose.below(6)) {
  case 0:
    in[at] = Tensor();
    break;
  case 1:
    in.pop_back();
    break;
  case 2:
    in.push_back(in[at]);
    break;
  case 3:
    std::swap(in[at], in[choose.below(in.size())]);
    break;
  case 4:
    in[at] = in[choose.below(in.size())];
    break;
  default:
    if (in[at].defined()) in[at] = Tensor::meta(in[at].shape(), in[at].dtype());
  }
}

AttrValue any_value(Choices& choose, AttrKind kind) {
  switch (kind) {
  case AttrKind::boolean:
    return choose.below(2) == 1;
  case AttrKind::integer:
    return choose.pick(integers);
  case AttrKind::real:
    return choose.pick(reals);
  case AttrKind::integers: {
    std::vector<std::int64_t> list;
    for (std::size_t count = choose.below(10); count > 0; --count) list.push_back(choose.pick(integers));
    return list;
  }
  case AttrKind::reals: {
    std::vector<double> list;
    for (std::size_t count = choose.below(10); count > 0; --count) list.push_back(choose.pick(reals));
    return list;
  }
  case AttrKind::text:
    break;
  }
  return std::string(choose.pick(words));
}

void change_attribute(Choices& choose, OpCall& call, const std::vector<Sample>& samples) {
  const std::size_t count = call.op->attributes.size();
  if (count == 0 || choose.rarely(16)) return call.attrs.set("speed", any_value(choose, AttrKind::real));
  const AttrSpec& spec = call.op->attributes[choose.below(count)];
  const std::size_t way = choose.below(5);
  if (way == 0) { // of another kind
    call.attrs.set(spec.name, any_value(choose, static_cast<AttrKind>(choose.below(6))));
  } else if (way == 1 && !samples.empty()) { // from another sample
    const Sample& other = choose.pick(samples);
    for (const auto& [name, value] : other.attrs.items())
      if (name == spec.name) call.attrs.set(name, value);
  } else if (way == 2 && spec.kind == AttrKind::integers && call.attrs.has(spec.name)) { // one entry
    std::vector<std::int64_t> list;
    for (const auto& [name, value] : call.attrs.items())
      if (const auto* held = std::get_if<std::vector<std::int64_t>>(&value); name == spec.name && held != nullptr)
        list = *held;
    if (!list.empty()) list[choose.below(list.size())] = choose.pick(integers);
    call.attrs.set(spec.name, list);
  } else {
    call.attrs.set(spec.name, any_value(choose, spec.kind));
  }
}

void change(Choices& choose, OpCall& call, const std::vector<Sample>& samples) {
  const std::size_t way = choose.below(16);
  if (call.in.empty() || way >= 12) return change_attribute(choose, call, samples);
  Tensor& x = call.in[choose.below(call.in.size())];
  if (way < 4) return change_values(choose, x);
  if (way < 6) return change_extent(choose, call.in, way == 5);
  if (way == 6) return change_inputs(choose, call.in);
  if (!x.defined()) return;
  if (way < 9)
    x = in_other_layout(choose, x);
  else if (way == 9)
    x = of_any_rank(choose, x);
  else if (way == 10)
    x = choose.rarely(2) ? vast(choose, x) : of_any_rank(choose, x);
  else if (writable(x))
    x = refilled(x, x.shape()).to(choose.pick(dtypes));
}

} // namespace

OpCall decode_op_call(std::span<const std::uint8_t> bytes) {
  const PauseRecording pause;
  Choices choose(bytes);
  OpCall call;
  call.op = registry()[choose.below(registry().size())];
  const std::uint8_t flags = choose.byte();
  call.exact = (flags & 1U) != 0;
  call.backward = (flags & 2U) == 0;
  call.second = call.backward && (flags & 4U) == 0;
  call.wild_grad = (flags & 24U) == 24U;
  const std::vector<Sample> samples = call.op->samples((flags & 32U) != 0 ? DType::f32 : DType::f64);
  const std::vector<Refusal> refusals = call.op->refuses();
  if ((flags & 192U) == 192U && !refusals.empty()) {
    const Refusal& refusal = choose.pick(refusals);
    call.in = refusal.in;
    call.attrs = refusal.attrs;
  } else if (!samples.empty()) {
    const Sample& sample = choose.pick(samples);
    call.in = sample.in;
    call.attrs = sample.attrs;
  }
  for (std::size_t changes = choose.below(5); changes > 0; --changes) {
    try {
      change(choose, call, samples);
    } catch (const Error&) {
      continue; // the change itself cannot be made: another one may
    }
  }
  return call;
}

std::vector<std::uint8_t> random_bytes(std::uint64_t seed, std::uint64_t round) {
  RandomStream random({.seed = seed, .stream = round});
  std::vector<std::uint8_t> bytes(4 + random.below(44));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next_u32());
  return bytes;
}

namespace {

std::string text_of(const AttrValue& value) {
  struct {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{:.17g}", v); }
    std::string operator()(const std::vector<std::int64_t>& v) const {
      std::string text = "[";
      for (const std::int64_t e : v) text += fmt::format("{} ", e);
      return text + "]";
    }
    std::string operator()(const std::string& v) const { return "'" + v + "'"; }
    std::string operator()(const std::vector<double>& v) const {
      std::string text = "[";
      for (const double e : v) text += fmt::format("{:.17g} ", e);
      return text + "]";
    }
  } print;
  return std::visit(print, value);
}

} // namespace

std::string described(const OpCall& call) {
  std::string text = fmt::format("{}(", call.op->name);
  for (const Tensor& x : call.in) {
    if (!x.defined()) {
      text += "none, ";
      continue;
    }
    text += fmt::format("{} {} strides {}{}, ", name_of(x.dtype()), x.shape().str(), x.strides().str(),
                        x.has_storage() ? "" : " meta");
  }
  text += ";";
  for (const auto& [name, value] : call.attrs.items()) text += fmt::format(" {}={}", name, text_of(value));
  return text + fmt::format("){}{}{}{}", call.exact ? " exact" : "", call.backward ? " backward" : "",
                            call.second ? " second" : "", call.wild_grad ? " wild cotangents" : "");
}

} // namespace eg::fuzz
