// x[...] as NumPy reads it, composed of the library's view operations, so that a tape records it.

#include "core/call.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "core/ops/rearrange/constructors.h"

#include "bindings.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::python {
namespace {

/// One part of an index that names an axis or makes one, in order. A mask is as many lists as it has axes.
struct Part {
  enum class Kind { position, slice, new_axis, rest, list };
  Kind kind;
  nb::handle slice;          ///< slice
  std::int64_t position = 0; ///< position
  Tensor list = {};          ///< list, i64
};

/// An integer of an index; nullopt for other parts.
std::optional<std::int64_t> position_from(nb::handle part) {
  try {
    const auto position = attribute_from(part, AttrKind::integer);
    return position ? std::optional(std::get<std::int64_t>(*position)) : std::nullopt;
  } catch (const ValueError& error) { // no tensor has so many elements
    throw IndexError(fmt::format("index: {}", error.what()));
  }
}

Tensor on_cpu(const std::vector<std::int64_t>& values, const Shape& shape) {
  const DeviceScope there(Device::cpu());
  return Tensor::from(values, shape);
}

/// Adds where `mask` is true, one list for each of its axes, which are those of x from `axis` on.
void add_mask(const Tensor& mask, const Shape& x, int axis, std::vector<Part>& parts) {
  for (int i = 0; i < mask.rank(); ++i)
    if (axis + i >= x.rank() || mask.size(i) != x[axis + i])
      throw IndexError(
          fmt::format("index: a mask of {} does not fit {} from axis {} on", mask.shape().str(), x.str(), axis));
  std::vector<std::vector<std::int64_t>> places(static_cast<std::size_t>(mask.rank()));
  const std::vector<bool> truth = [&] {
    const Tensor here = mask.to(Device::cpu()).contiguous();
    const bool* first = here.data<bool>();
    return std::vector<bool>(first, first + here.numel());
  }();
  for (std::size_t flat = 0; flat < truth.size(); ++flat) {
    if (!truth[flat]) continue;
    auto rest = static_cast<std::int64_t>(flat);
    for (int i = mask.rank() - 1; i >= 0; --i) {
      places[static_cast<std::size_t>(i)].push_back(rest % mask.size(i));
      rest /= mask.size(i);
    }
  }
  for (const std::vector<std::int64_t>& list : places)
    parts.push_back({Part::Kind::list, {}, 0, on_cpu(list, {static_cast<std::int64_t>(list.size())})});
}

/// A part of an index as it was given, and as a list of positions or a mask, where it is no other kind.
struct Given {
  nb::handle part;
  Tensor list;

  bool is_rest() const { return part.ptr() == Py_Ellipsis; }
  int axes() const {
    if (list.defined()) return list.dtype() == DType::boolean ? list.rank() : 1;
    return part.is_none() || is_rest() ? 0 : 1;
  }
};

/// Positions (i64) or a mask (bool), on the CPU; undefined for the other kinds of parts.
Tensor list_from(nb::handle part) {
  if (part.is_none() || part.ptr() == Py_Ellipsis || PySlice_Check(part.ptr()) || position_from(part)) return {};
  if (PyBool_Check(part.ptr()) || nb::isinstance<nb::str>(part))
    throw nb::type_error("index: give integers, slices, None, Ellipsis, lists of positions or masks");
  Tensor list = import_array(part, std::nullopt, std::nullopt);
  const bool nothing = list.numel() == 0 && (nb::isinstance<nb::list>(part) || nb::isinstance<nb::tuple>(part));
  if (list.dtype() == DType::u8 || nothing) list = list.to(DType::i64);
  if (list.dtype() != DType::i64 && list.dtype() != DType::boolean)
    throw DTypeError(fmt::format("index: positions are i64 and masks bool, not {}", name_of(list.dtype())));
  return list.to(Device::cpu());
}

/// The parts of an index for a tensor of `shape`: a tuple's items, or the single index.
std::vector<Part> parts_of(nb::handle index, const Shape& shape) {
  std::vector<Given> given;
  if (PyTuple_Check(index.ptr()))
    for (const nb::handle part : index) given.push_back({part, list_from(part)});
  else
    given.push_back({index, list_from(index)});
  int named = 0;
  for (const Given& part : given) named += part.axes();
  const int rest = shape.rank() - named;
  if (rest < 0)
    throw IndexError(fmt::format("index: {} axes are named, the tensor has {}: {}", named, shape.rank(), shape.str()));
  std::vector<Part> parts;
  int axis = 0;
  for (const Given& g : given) {
    if (g.is_rest()) {
      if (std::ranges::count_if(given, &Given::is_rest) > 1)
        throw IndexError("index: only one Ellipsis can stand for the rest");
      parts.push_back({Part::Kind::rest, {}, rest});
      axis += rest;
    } else if (g.part.is_none()) {
      parts.push_back({Part::Kind::new_axis, {}});
    } else if (PySlice_Check(g.part.ptr())) {
      parts.push_back({Part::Kind::slice, g.part});
    } else if (!g.list.defined()) {
      parts.push_back({Part::Kind::position, {}, *position_from(g.part)});
    } else if (g.list.dtype() == DType::boolean) {
      add_mask(g.list, shape, axis, parts);
    } else {
      parts.push_back({Part::Kind::list, {}, 0, g.list});
    }
    axis += g.axes();
  }
  return parts;
}

bool has_lists(const std::vector<Part>& parts) {
  return std::ranges::any_of(parts, [](const Part& part) { return part.kind == Part::Kind::list; });
}

/// Walks along the axes of x, part by part.
class Indexer {
public:
  /// `views`: refuse what cannot be a view.
  Indexer(Tensor x, bool views) : x_(std::move(x)), views_(views) {}

  Tensor run(const std::vector<Part>& parts) {
    for (const Part& part : parts) take(part);
    return listed_.empty() ? x_ : picked();
  }

private:
  /// An axis whose positions are listed.
  struct Listed {
    int axis;
    Tensor positions;
  };

  void take(const Part& part) {
    switch (part.kind) {
    case Part::Kind::rest:
      axis_ += static_cast<int>(part.position);
      apart_ = apart_ || !listed_.empty();
      return;
    case Part::Kind::new_axis:
      x_ = x_.unsqueeze(axis_++);
      apart_ = apart_ || !listed_.empty();
      return;
    case Part::Kind::slice:
      take_slice(part.slice);
      apart_ = apart_ || !listed_.empty();
      return;
    case Part::Kind::position: // beside lists too, as in PyTorch: NumPy takes it for one of them
      x_ = x_.select(axis_, part.position);
      return;
    case Part::Kind::list:
      add({axis_++, part.list});
      return;
    }
  }

  void add(Listed listed) {
    scattered_ = scattered_ || (apart_ && !listed_.empty());
    listed_.push_back(std::move(listed));
  }

  void take_slice(nb::handle part) {
    Py_ssize_t start = 0, stop = 0, step = 1;
    if (PySlice_Unpack(part.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
    const std::int64_t extent = x_.size(axis_);
    const std::int64_t count = PySlice_AdjustIndices(extent, &start, &stop, step);
    if (step > 0) {
      if (count != extent)
        x_ = count == 0 ? x_.slice(axis_, 0, 0) : x_.slice(axis_, start, start + (count - 1) * step + 1, step);
    } else {
      if (views_) throw nb::type_error("index: elements that run backwards cannot be written to");
      const std::int64_t lowest = start + (count - 1) * step;
      x_ = count == 0 ? x_.slice(axis_, 0, 0) : flip(x_.slice(axis_, lowest, start + 1, -step), {axis_});
    }
    ++axis_;
  }

  /// The elements at the listed positions: the listed axes become one, whose places are looked up. The axes of the
  /// lists stand where the first listed axis was, and in front where something stood between listed axes, as in NumPy.
  Tensor picked() const {
    Shape lists = listed_.front().positions.shape();
    for (const Listed& listed : listed_) lists = broadcast_shapes("index", lists, listed.positions.shape());
    std::vector<std::int64_t> places(static_cast<std::size_t>(lists.numel()));
    std::int64_t extent = 1;
    for (const Listed& listed : listed_) {
      const std::int64_t own = x_.size(listed.axis);
      const std::vector<std::int64_t> positions = listed.positions.expand(lists).contiguous().to_vector<std::int64_t>();
      for (std::size_t i = 0; i < places.size(); ++i) {
        if (positions[i] < -own || positions[i] >= own)
          throw IndexError(fmt::format("index: position {} is outside an axis of {}", positions[i], own));
        places[i] = places[i] * own + positions[i] + (positions[i] < 0 ? own : 0);
      }
      extent *= own;
    }
    const int first = scattered_ ? 0 : listed_.front().axis;
    std::vector<std::int64_t> order; // of the axes, the listed ones side by side from `first` on
    Shape merged;
    for (int axis = 0; axis < x_.rank(); ++axis)
      if (std::ranges::none_of(listed_, [&](const Listed& listed) { return listed.axis == axis; })) {
        order.push_back(axis);
        merged.push_back(x_.size(axis));
      }
    for (std::size_t i = 0; i < listed_.size(); ++i)
      order.insert(order.begin() + first + static_cast<int>(i), listed_[i].axis);
    merged.insert(first, extent);
    const Tensor flat = (listed_.size() == 1 ? x_ : permute_axes(x_, order)).reshape(merged);
    const DeviceScope there(x_.device());
    const auto count = static_cast<std::int64_t>(places.size());
    const Tensor taken = index_select(flat, first, Tensor::from(places, {count}));
    Shape shape = merged;
    shape.erase(first);
    for (int i = 0; i < lists.rank(); ++i) shape.insert(first + i, lists[i]);
    return taken.reshape(shape);
  }

  Tensor x_;
  bool views_;
  int axis_ = 0;
  std::vector<Listed> listed_;
  bool apart_ = false;     ///< something stood behind a listed axis
  bool scattered_ = false; ///< and another listed axis behind that
};

/// x[index] = source where the index has lists: of equal places the last one counts, as in NumPy.
void write_listed(Tensor& x, const std::vector<Part>& parts, const Tensor& source) {
  const DeviceScope there(x.device());
  const Tensor all = arange_whole(0, x.numel(), 1).reshape(x.shape());
  const Tensor at = Indexer(all, false).run(parts);
  const Tensor values = source.expand(at.shape()).reshape({-1});
  if (at.numel() == 0) return;
  const std::vector<std::int64_t> places = at.contiguous().to_vector<std::int64_t>();
  std::vector<std::int64_t> from(static_cast<std::size_t>(x.numel()), 0);
  std::vector<std::uint8_t> written(from.size(), 0);
  for (std::size_t i = 0; i < places.size(); ++i) {
    from[static_cast<std::size_t>(places[i])] = static_cast<std::int64_t>(i);
    written[static_cast<std::size_t>(places[i])] = 1;
  }
  const Tensor mask = Tensor::from(written, x.shape()).to(DType::boolean);
  x.copy_from(where(mask, index_select(values, 0, Tensor::from(from, {x.numel()})).reshape(x.shape()), x));
}

} // namespace

Tensor get_item(const Tensor& x, nb::handle index) { return Indexer(x, false).run(parts_of(index, x.shape())); }

void set_item(Tensor& x, nb::handle index, nb::handle value) {
  if (graph_recording())
    throw AutogradError("index: a tape listens, and would not hear this write; use ops.where or ops.concat, or write "
                        "under pause()");
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.strides()[axis] == 0 && x.size(axis) > 1)
      throw ValueError("index: elements of an expanded tensor share their memory; write to x.clone()");
  const PauseRecording pause;
  const std::vector<Part> parts = parts_of(index, x.shape());
  const DeviceScope where_x_is(x.device());
  Tensor source;
  if (const auto whole = whole_element(value, x.dtype()))
    source = *whole;
  else if (const auto number = attribute_from(value, AttrKind::real); number && !nb::isinstance<Tensor>(value))
    source = Tensor::full({}, std::get<double>(*number), x.dtype());
  else if (PyBool_Check(value.ptr()))
    source = Tensor::full({}, value.ptr() == Py_True ? 1.0 : 0.0, x.dtype());
  else
    source = import_array(value, x.dtype(), std::nullopt);
  if (has_lists(parts)) return write_listed(x, parts, source);
  Tensor there = Indexer(x, true).run(parts);
  there.copy_from(source.shape() == there.shape() ? source : source.expand(there.shape()));
}

} // namespace eg::python
