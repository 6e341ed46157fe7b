// A permutation along one axis that is another one at each index of a second axis: wherever the inference reads it off
// a row, the operation commutes with it.

#include "core/meta.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/registry.h"
#include "permute/inference/rules.h"
#include "permute/permutation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fmt/format.h>
#include <string>

using namespace eg;
using namespace eg::permute;

namespace {

/// One call of a row and what it gave.
struct Called {
  std::vector<Tensor> in, out;
  Attrs attrs;
  Event event;

  Called(const OpDef& op, const Sample& sample)
      : in(sample.in), out(call(op, in, sample.attrs)),
        attrs(completed_attributes(op, sample.attrs)), event{.op = &op, .in = in, .out = out, .attrs = &attrs} {}
  Called(const Called&) = delete;
  Called& operator=(const Called&) = delete;
};

/// The tensor of a leg gathered along the leg's axis, at each index along `other` by another permutation.
Tensor gathered(const Tensor& x, int axis, int other, std::uint64_t draw) {
  std::vector<Tensor> slices;
  for (std::int64_t i = 0; i < x.size(other); ++i)
    slices.push_back(
        Permutation::random(x.size(axis), {draw, static_cast<std::uint64_t>(i)}).apply(x.slice(other, i, i + 1), axis));
  return concat(slices, other);
}

std::vector<Tensor> moved(const Called& c, const Symmetry& s, const Symmetry& other, Leg::Side side,
                          std::uint64_t draw) {
  std::vector<Tensor> list = side == Leg::Side::in ? c.in : c.out;
  for (const Leg& leg : s.legs)
    if (leg.side == side && leg_is_present(c.event, leg)) {
      Tensor& x = list[static_cast<std::size_t>(leg.index)];
      x = gathered(x, leg.axis, axis_on(other, leg), draw);
    }
  return list;
}

double error_of(const OpDef& op, const Called& c, const Symmetry& s, const Symmetry& other, std::uint64_t draw) {
  const std::vector<Tensor> wanted = moved(c, s, other, Leg::Side::out, draw),
                            found = call(op, moved(c, s, other, Leg::Side::in, draw), c.attrs);
  double worst = 0.0;
  for (std::size_t o = 0; o < found.size(); ++o) {
    if (!found[o].defined() || found[o].numel() == 0) continue;
    if (is_floating(found[o].dtype()))
      worst = std::max(worst, relative_error(found[o].contiguous(), wanted[o].contiguous()));
    else if (!same_bits(found[o].contiguous(), wanted[o].contiguous()))
      worst = 1.0;
  }
  return worst;
}

bool is_small(const Sample& sample) {
  for (const Tensor& t : sample.in)
    if (t.defined() && (t.numel() == 0 || t.numel() > 2000)) return false;
  return true;
}

std::string legs_of(const Symmetry& s) {
  std::string text;
  for (const Leg& leg : s.legs)
    text += fmt::format("{} {} {}, ", leg.side == Leg::Side::in ? "in" : "out", leg.index, leg.axis);
  for (const int input : s.values) text += fmt::format("values {}, ", input);
  return text + (s.mixes ? "mixes" : "");
}

} // namespace

TEST_CASE("permutations that depend on another axis commute with every row that is read so") {
  int pairs = 0, sums = 0;
  for (const OpDef* op : registry()) {
    if (op->symmetries == nullptr || is_backward(*op)) continue;
    for (const Sample& sample : op->samples(DType::f64)) {
      if (!is_small(sample)) continue;
      const Called c(*op, sample);
      const std::vector<Symmetry> all = declared_symmetries(c.event);
      for (const Symmetry& s : all)
        for (const Symmetry& other : all) {
          if (s.legs.empty() || !may_depend(c.event, s, other)) continue;
          ++pairs;
          const auto is_out = [](const Leg& leg) { return leg.side == Leg::Side::out; };
          sums += std::none_of(other.legs.begin(), other.legs.end(), is_out) ? 1 : 0;
          for (std::uint64_t draw = 0; draw < 3; ++draw)
            CHECK_MESSAGE(error_of(*op, c, s, other, draw) < 1e-9, op->name, " [", sample.note, "]: '", s.name,
                          "' over '", other.name, "'");
        }
    }
  }
  CHECK(pairs > 500);
  CHECK(sums > 20); // summed axes among them
  MESSAGE(pairs, " pairs of axes");
}

TEST_CASE("rows declare the same with and without the defaults of their attributes") {
  int compared = 0;
  for (const OpDef* op : registry()) {
    if (op->symmetries == nullptr || is_backward(*op))
      continue; // their symmetries depend on which outputs are requested
    for (const Sample& sample : op->samples(DType::f64)) {
      const Sample complete{sample.in, completed_attributes(*op, sample.attrs), sample.note};
      const std::vector<Symmetry> short_of = op->symmetries(sample), with = op->symmetries(complete);
      REQUIRE_MESSAGE(short_of.size() == with.size(), op->name);
      for (std::size_t i = 0; i < with.size(); ++i) {
        ++compared;
        CHECK_MESSAGE(legs_of(short_of[i]) == legs_of(with[i]), op->name, " [", sample.note, "] ", with[i].name);
      }
    }
  }
  CHECK(compared > 1000);
}

TEST_CASE("where an operation mixes an axis nothing may depend on it") {
  const Sample sample{{random_normal({3, 4}, {7, 1}, 0.0, 1.0, DType::f64)}, {{"axis", std::int64_t{0}}}, ""};
  const Called c(softmax_op, sample);
  const Symmetry tokens{"tokens", {in_leg(0, 0), out_leg(0, 0)}, {}, true},
      features{"features", {in_leg(0, 1), out_leg(0, 1)}};
  CHECK_FALSE(may_depend(c.event, features, tokens));
  CHECK(error_of(softmax_op, c, features, tokens, 0) > 1e-3);
  CHECK(may_depend(c.event, tokens, features));
  CHECK(error_of(softmax_op, c, tokens, features, 0) < 1e-12);
}
