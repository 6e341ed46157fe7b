#include "permute/inference/reader.h"

#include "core/base/error.h"
#include "core/ops.h"
#include "permute/inference/patterns.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <utility>

namespace eg::permute {
namespace {

bool is_index(const Tensor& t) { return t.dtype() == DType::i64; }

} // namespace

TapeReader::TapeReader() { open_recorder(this); }
TapeReader::~TapeReader() {
  if (open_) close_recorder(this);
}

const TensorPoints& TapeReader::add(const Tensor& t, TensorPoints known) {
  points_.hold(known, t.shape());
  if (known.base == 0) known.base = t.id();
  return tensors_.insert_or_assign(t.id(), std::move(known)).first->second;
}

void TapeReader::declare(const Tensor& leaf, bool is_parameter) {
  is_parameter ? dependences_.declare(leaf) : dependences_.declare_input(leaf);
  declared_.emplace_back(leaf, is_parameter);
}

TensorPoints TapeReader::points_of_leaf(const Tensor& leaf, bool is_parameter) {
  if (!is_parameter) return fresh_points(points_, leaf.shape());
  const std::vector<std::vector<int>> over = dependences_.of(leaf);
  double count = 0.0;
  for (int axis = 0; axis < leaf.rank(); ++axis) {
    double own = static_cast<double>(leaf.size(axis));
    for (const int other : over[static_cast<std::size_t>(axis)]) own *= static_cast<double>(leaf.size(other));
    count += own;
  }
  constexpr double most = 1 << 22; // points: what is read must end in seconds
  return count > most ? fresh_points(points_, leaf.shape()) : dependent_points(points_, leaf.shape(), over);
}

/// First what axes may depend on, from all calls; then the points.
void TapeReader::read_all() {
  const std::vector<RecordedCall> calls = std::exchange(calls_, {});
  for (const RecordedCall& call : calls) dependences_.read(call);
  for (const auto& [leaf, is_parameter] : std::exchange(declared_, {})) {
    TensorPoints t = points_of_leaf(leaf, is_parameter);
    if (is_index(leaf)) t.values = std::make_shared<Numbering>();
    leaves_.emplace_back(add(leaf, std::move(t)), leaf.shape());
  }
  for (const RecordedCall& call : calls) {
    const PlaceScope place = PlaceScope::at(call.place);
    read(call);
  }
}

const TensorPoints& TapeReader::of(const Tensor& t) {
  read_all();
  const TensorPoints& own = known(t);
  if (own.constant) constants_.try_emplace(t.id(), t);
  return own;
}

const TensorPoints& TapeReader::known(const Tensor& t) {
  const auto found = tensors_.find(t.id());
  if (found != tensors_.end()) {
    if (found->second.stay_when_read != nullptr) points_.fix(*found->second.stay_when_read, found->second.stay_because);
    return found->second;
  }
  TensorPoints constant = fresh_points(points_, t.shape());
  constant.constant = t.has_storage();
  if (!constant.constant) {
    const std::string reason = fmt::format("a tensor {} whose computation was not recorded", t.shape().str());
    fix_all(points_, constant, t.shape(), reason);
    for (const auto& [leaf, shape] : leaves_) fix_all(points_, leaf, shape, reason);
  }
  return add(t, std::move(constant));
}

namespace {

void apply_rule(Call& call) {
  if (call.event.op == nullptr) {
    for (std::size_t i = 0; i < call.in.size(); ++i)
      if (call.given(i))
        fix_all(call.points, call.in[i], call.in_shape(i), call.reason("it tells nothing of its symmetries"));
    return read_declared(call);
  }
  const CallRule rule = rule_of(*call.event.op);
  rule != nullptr ? rule(call) : read_declared(call);
}

} // namespace

void TapeReader::read(const RecordedCall& recorded) {
  const PauseRecording pause, own(this);
  const Event event = recorded.event();
  Call call{event, points_, {}, {}};
  bool constant = true;
  for (const Tensor& t : event.in) {
    call.in.push_back(t.defined() ? known(t) : TensorPoints{});
    constant = constant && (!t.defined() || call.in.back().constant);
  }
  if (constant && !event.in.empty()) return; // the outputs are constants, too
  for (const Tensor& t : event.out)
    call.out.push_back(t.defined()
                           ? TensorPoints{std::vector<AxisPoints>(static_cast<std::size_t>(t.rank())), {}, false}
                           : TensorPoints{});
  const std::int64_t reorders = points_.reorders();
  try {
    apply_rule(call);
  } catch (const Interrupted&) {
    throw;
  } catch (const TooManyPoints&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) { // one call that is not understood does not end the whole
    refuse(call, e.what());
  }
  for (std::size_t i = 0; i < call.in.size(); ++i)
    if (call.in[i].constant && event.in[i].numel() > 1 && !call.read_otherwise.contains(i))
      constants_.try_emplace(event.in[i].id(), event.in[i]);
  const auto is_input = [&](const Tensor& t) { // a body may hand it through
    return std::any_of(event.in.begin(), event.in.end(),
                       [&](const Tensor& x) { return x.defined() && x.id() == t.id(); });
  };
  for (std::size_t o = 0; o < call.out.size(); ++o)
    if (event.out[o].defined() && !is_input(event.out[o])) {
      // x_i x_j is x_j x_i: what combines an axis with itself in another order may be equal at two places.
      const bool reordered = points_.reorders() > reorders;
      call.out[o].ties = may_tie(call, o) || reordered;
      call.out[o].computed_twice = is_computed_twice(call) || reordered;
      call.out[o].normalised = is_normalised(call, o);
      call.out[o].base = inherited_base(call);
      add(event.out[o], std::move(call.out[o]));
    }
}

void TapeReader::close() {
  read_all();
  close_recorder(this);
  open_ = false;
  const PauseRecording pause;
  for (const auto& [id, t] : std::exchange(constants_, {})) {
    std::vector<PointsPtr> axes;
    for (const AxisPoints& axis : tensors_.at(id).axes) axes.push_back(axis.points);
    points_.add_pattern(pattern_of(t, std::move(axes),
                                   fmt::format("a constant {} holds another value at each place", t.shape().str())));
  }
  settle_patterns(points_);
}

} // namespace eg::permute
