#include "permute/inference/reader.h"

#include "core/base/error.h"
#include "permute/automorphisms.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace eg::permute {
namespace {

bool is_index(const Tensor& t) { return t.dtype() == DType::i64; }

bool same_points(const Points& points, const PointList& a, const PointList& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](Point x, Point y) { return points.find(x) == points.find(y); });
}

/// Indices along an axis by the bytes of the slices at them, classes of equal slices.
std::vector<std::vector<std::int64_t>> equal_slices(const Tensor& t, int axis) {
  std::map<std::string, std::vector<std::int64_t>> classes;
  const Tensor wide = t.transpose(0, axis).contiguous();
  const std::size_t width = wide.nbytes() / static_cast<std::size_t>(t.size(axis));
  for (std::int64_t i = 0; i < t.size(axis); ++i) {
    const auto* begin = reinterpret_cast<const char*>(wide.bytes()) + width * static_cast<std::size_t>(i);
    classes[{begin, width}].push_back(i);
  }
  std::vector<std::vector<std::int64_t>> list;
  list.reserve(classes.size());
  for (auto& [slice, indices] : classes) list.push_back(std::move(indices));
  return list;
}

} // namespace

TapeReader::TapeReader() { open_recorder(this); }
TapeReader::~TapeReader() {
  if (open_) close_recorder(this);
}

const TensorPoints& TapeReader::add(const Tensor& t, TensorPoints known) {
  points_.hold(known, t.shape());
  return tensors_.insert_or_assign(t.id(), std::move(known)).first->second;
}

void TapeReader::declare(const Tensor& leaf) {
  TensorPoints t = fresh_points(points_, leaf.shape());
  if (is_index(leaf)) t.values = std::make_shared<Numbering>();
  leaves_.emplace_back(add(leaf, std::move(t)), leaf.shape());
}

const TensorPoints& TapeReader::of(const Tensor& t) {
  const auto found = tensors_.find(t.id());
  if (found != tensors_.end()) return found->second;
  TensorPoints constant = fresh_points(points_, t.shape());
  constant.constant = t.has_storage();
  if (!constant.constant) {
    const std::string reason = fmt::format("a tensor {} whose computation was not recorded", t.shape().str());
    fix_all(points_, constant, t.shape(), reason);
    for (const auto& [leaf, shape] : leaves_) fix_all(points_, leaf, shape, reason);
  } else if (t.numel() > 1)
    constants_.emplace_back(t, current_place());
  return add(t, std::move(constant));
}

void TapeReader::record(const Event& event) {
  const PauseRecording pause, own(this);
  Call call{event, points_, {}, {}};
  bool constant = true;
  for (const Tensor& t : event.in) {
    call.in.push_back(t.defined() ? of(t) : TensorPoints{});
    constant = constant && (!t.defined() || call.in.back().constant);
  }
  if (constant && !event.in.empty()) return; // the outputs are constants, too
  for (const Tensor& t : event.out)
    call.out.push_back(t.defined()
                           ? TensorPoints{std::vector<AxisPoints>(static_cast<std::size_t>(t.rank())), {}, false}
                           : TensorPoints{});
  if (event.op == nullptr) {
    for (std::size_t i = 0; i < call.in.size(); ++i)
      if (call.given(i))
        fix_all(points_, call.in[i], call.in_shape(i), call.reason("it tells nothing of its symmetries"));
    read_declared(call);
  } else if (const CallRule rule = rule_of(*event.op)) {
    rule(call);
  } else {
    read_declared(call);
  }
  for (std::size_t o = 0; o < call.out.size(); ++o)
    if (event.out[o].defined()) {
      call.out[o].ties = may_tie(call, o);
      add(event.out[o], std::move(call.out[o]));
    }
}

void TapeReader::close() {
  close_recorder(this);
  open_ = false;
  for (const auto& [t, place] : constants_) settle(t);
}

void TapeReader::keep_to_mask(const PointsPtr& list, const Tensor& mask) {
  const std::string reason = fmt::format("a constant mask {}", mask.shape().str());
  try {
    points_.keep_to(list, automorphisms(is_index(mask) ? mask.to(DType::f64) : mask), reason);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) { // NaN, or so regular that the search gives up
    points_.fix(*list, fmt::format("{}: {}", reason, e.what()));
  }
}

void TapeReader::settle(const Tensor& t) {
  const PauseRecording pause;
  const TensorPoints& own = tensors_.at(t.id());
  int rank = t.rank();
  constexpr std::int64_t most = 2048; // of automorphisms
  if (rank >= 2 && t.size(-1) == t.size(-2) && t.size(-1) >= 2 && t.size(-1) <= most &&
      same_points(points_, *own.axis(-1).points, *own.axis(-2).points)) {
    keep_to_mask(own.axis(-1).points, t);
    rank -= 2;
  }
  for (int axis = 0; axis < rank; ++axis) {
    if (t.size(axis) < 2) continue;
    for (const std::vector<std::int64_t>& alike : equal_slices(t, axis)) {
      auto list = std::make_shared<PointList>();
      for (const std::int64_t i : alike) list->push_back((*own.axis(axis).points)[static_cast<std::size_t>(i)]);
      if (list->size() == 1)
        points_.fix(*list, fmt::format("a constant {} holds another value at each place", t.shape().str()));
      points_.hold(list, static_cast<std::int64_t>(list->size()));
    }
  }
}

} // namespace eg::permute
