#include "permute/inference/reader.h"

#include "core/base/error.h"
#include "core/ops.h"
#include "permute/automorphisms.h"
#include "permute/inference/rules.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <new>
#include <utility>

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

/// Places with equal marks stay among themselves.
void hold_alike(Points& points, const PointList& list, const std::vector<double>& marks) {
  std::map<double, std::shared_ptr<PointList>> alike;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    std::shared_ptr<PointList>& own = alike[marks[i]];
    if (own == nullptr) own = std::make_shared<PointList>();
    own->push_back(list[i]);
  }
  for (const auto& [mark, own] : alike) points.hold(own, static_cast<std::int64_t>(own->size()));
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
  return known(t);
}

const TensorPoints& TapeReader::known(const Tensor& t) {
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
  const auto is_input = [&](const Tensor& t) { // a body may hand it through
    return std::any_of(event.in.begin(), event.in.end(),
                       [&](const Tensor& x) { return x.defined() && x.id() == t.id(); });
  };
  for (std::size_t o = 0; o < call.out.size(); ++o)
    if (event.out[o].defined() && !is_input(event.out[o])) {
      call.out[o].ties = may_tie(call, o);
      add(event.out[o], std::move(call.out[o]));
    }
}

void TapeReader::close() {
  read_all();
  close_recorder(this);
  open_ = false;
  const PauseRecording pause;
  for (const auto& [t, place] : constants_) settle(t);
  std::erase_if(marks_, [&](const auto& marked) { // where no mask takes them into account
    const auto is_same = [&](const auto& mask) { return same_points(points_, *mask.first, *marked.first); };
    if (std::any_of(masks_.begin(), masks_.end(), is_same)) return false;
    hold_alike(points_, *marked.first, marked.second);
    return true;
  });
  while (!masks_.empty()) keep_to_masks();
}

/// The list of the first mask moves by automorphisms of all masks and marks of that list, or not at all where those
/// cannot be found.
void TapeReader::keep_to_masks() {
  const PointsPtr list = masks_.front().first;
  std::vector<Tensor> layers;
  const auto add_layer = [&](const Tensor& t) {
    const auto is_same = [&](const Tensor& other) { return t.shape() == other.shape() && same_bits(t, other); };
    if (std::none_of(layers.begin(), layers.end(), is_same)) layers.push_back(t);
  };
  std::string shapes;
  std::erase_if(masks_, [&](const auto& mask) {
    if (!same_points(points_, *list, *mask.first)) return false;
    const Tensor& t = mask.second;
    if (shapes.find(t.shape().str()) == std::string::npos) shapes += (shapes.empty() ? "" : ", ") + t.shape().str();
    const std::int64_t n = t.size(-1);
    add_layer(reshape(t.to(DType::f64), {t.numel() / (n * n), n, n}).contiguous());
    return true;
  });
  const auto n = static_cast<std::int64_t>(list->size());
  const auto add_marks = [&](const std::vector<double>& marks) {
    std::vector<double> diagonal(static_cast<std::size_t>(n * n), 0.0);
    for (std::size_t i = 0; i < marks.size(); ++i) diagonal[i * marks.size() + i] = marks[i];
    add_layer(Tensor::from(diagonal, {1, n, n}));
  };
  for (const auto& [marked, marks] : marks_)
    if (same_points(points_, *list, *marked)) add_marks(marks);
  std::vector<double> fixed;
  for (const Point p : *list)
    fixed.push_back(points_.reason(p) == nullptr ? 0.0 : static_cast<double>(fixed.size() + 1));
  if (std::any_of(fixed.begin(), fixed.end(), [](double mark) { return mark > 0.0; })) add_marks(fixed);
  const std::string reason = fmt::format("a constant mask {}", shapes);
  try {
    points_.keep_to(list, automorphisms(layers.size() == 1 ? layers.front() : concat(layers, 0)), reason);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) { // NaN, or so regular that the search gives up
    points_.fix(*list, fmt::format("{}: {}", reason, e.what()));
  }
}

void TapeReader::settle(const Tensor& t) {
  const TensorPoints& own = tensors_.at(t.id());
  int rank = t.rank();
  constexpr std::int64_t most = 2048; // of automorphisms
  if (rank >= 2 && t.size(-1) == t.size(-2) && t.size(-1) >= 2 && t.size(-1) <= most &&
      same_points(points_, *own.axis(-1).points, *own.axis(-2).points)) {
    masks_.emplace_back(own.axis(-1).points, t);
    rank -= 2;
  }
  for (int axis = 0; axis < rank; ++axis) {
    if (t.size(axis) < 2) continue;
    std::vector<double> marks(static_cast<std::size_t>(t.size(axis)));
    double mark = 0.0;
    for (const std::vector<std::int64_t>& alike : equal_slices(t, axis)) {
      auto list = std::make_shared<PointList>();
      for (const std::int64_t i : alike) list->push_back((*own.axis(axis).points)[static_cast<std::size_t>(i)]);
      if (list->size() == 1)
        points_.fix(*list, fmt::format("a constant {} holds another value at each place", t.shape().str()));
      mark += 1.0;
      for (const std::int64_t i : alike) marks[static_cast<std::size_t>(i)] = mark;
    }
    if (mark > 1.0) marks_.emplace_back(own.axis(axis).points, std::move(marks));
  }
}

} // namespace eg::permute
