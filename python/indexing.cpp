// x[...] as NumPy reads it, composed of the library's view operations, so that a tape records it.

#include "core/call.h"
#include "core/device/device.h"
#include "core/ops.h"

#include "bindings.h"

#include <fmt/format.h>

namespace eg::python {
namespace {

/// The parts of an index: a tuple's items, or the single index.
std::vector<nb::handle> parts_of(nb::handle index) {
  if (!PyTuple_Check(index.ptr())) return {index};
  std::vector<nb::handle> parts;
  for (const nb::handle part : index) parts.push_back(part);
  return parts;
}

bool is_ellipsis(nb::handle part) { return part.ptr() == Py_Ellipsis; }

/// How many axes of x the parts index.
int axes_named(const std::vector<nb::handle>& parts) {
  int named = 0;
  for (const nb::handle part : parts) named += part.is_none() || is_ellipsis(part) ? 0 : 1;
  return named;
}

/// An integer of an index; nullopt for other parts.
std::optional<std::int64_t> position_from(nb::handle part) {
  try {
    const auto position = attribute_from(part, AttrKind::integer);
    return position ? std::optional(std::get<std::int64_t>(*position)) : std::nullopt;
  } catch (const ValueError& error) { // no tensor has so many elements
    throw IndexError(fmt::format("index: {}", error.what()));
  }
}

/// Walks along the axes of x, part by part.
class Indexer {
public:
  /// `views`: refuse what cannot be a view.
  Indexer(Tensor x, bool views) : x_(std::move(x)), views_(views) {}

  Tensor run(nb::handle index) {
    const std::vector<nb::handle> parts = parts_of(index);
    const int rest = x_.rank() - axes_named(parts);
    if (rest < 0)
      throw IndexError(fmt::format("index: {} axes are named, the tensor has {}: {}", axes_named(parts), x_.rank(),
                                   x_.shape().str()));
    bool skipped = false;
    for (const nb::handle part : parts) {
      if (!is_ellipsis(part)) {
        take(part);
        continue;
      }
      if (std::exchange(skipped, true)) throw IndexError("index: only one Ellipsis can stand for the rest");
      axis_ += rest;
    }
    return x_;
  }

private:
  void take(nb::handle part) {
    if (part.is_none()) {
      x_ = x_.unsqueeze(axis_++);
    } else if (PySlice_Check(part.ptr())) {
      take_slice(part);
    } else if (const auto position = position_from(part)) {
      x_ = x_.select(axis_, *position);
    } else {
      take_list(part);
    }
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

  void take_list(nb::handle part) {
    if (PyBool_Check(part.ptr()) || nb::isinstance<nb::str>(part))
      throw nb::type_error("index: give integers, slices, None, Ellipsis or one list of positions");
    if (views_)
      throw nb::type_error("index: a list of positions cannot be written to; use ops.scatter_add or ops.where");
    if (std::exchange(listed_, true))
      throw nb::type_error("index: only one list of positions is taken; use ops.gather");
    const Tensor positions = import_array(part, std::nullopt, std::nullopt);
    if (positions.dtype() != DType::i64)
      throw DTypeError(fmt::format("index: positions are i64, not {}; ops.where and ops.masked_fill take truth values",
                                   name_of(positions.dtype())));
    const Shape there = positions.shape();
    Tensor taken = index_select(x_, axis_, from_the_front(positions.reshape({-1})));
    if (there.rank() != 1) {
      Shape shape = taken.shape();
      shape.erase(axis_);
      for (int i = 0; i < there.rank(); ++i) shape.insert(axis_ + i, there[i]);
      taken = taken.reshape(shape);
    }
    x_ = taken;
    axis_ += there.rank();
  }

  /// Negative positions count from the end of the present axis; the result is where x is.
  Tensor from_the_front(const Tensor& positions) const {
    const std::int64_t extent = x_.size(axis_);
    const DeviceScope there(x_.device());
    std::vector<std::int64_t> values = positions.to_vector<std::int64_t>();
    for (std::int64_t& value : values) value += value < 0 ? extent : 0;
    return Tensor::from(values, positions.shape());
  }

  Tensor x_;
  bool views_;
  bool listed_ = false;
  int axis_ = 0;
};

} // namespace

Tensor get_item(const Tensor& x, nb::handle index) { return Indexer(x, false).run(index); }

void set_item(Tensor& x, nb::handle index, nb::handle value) {
  if (graph_recording())
    throw AutogradError("index: a tape listens, and would not hear this write; use ops.where or ops.concat, or write "
                        "under pause()");
  const PauseRecording pause;
  Tensor there = Indexer(x, true).run(index);
  if (const auto whole = whole_element(value, there.dtype())) return there.copy_from(whole->expand(there.shape()));
  const auto number = attribute_from(value, AttrKind::real);
  if (number && !nb::isinstance<Tensor>(value)) return there.fill(std::get<double>(*number));
  if (PyBool_Check(value.ptr())) return there.fill(value.ptr() == Py_True ? 1.0 : 0.0);
  const Tensor source = import_array(value, there.dtype(), std::nullopt);
  there.copy_from(source.shape() == there.shape() ? source : source.expand(there.shape()));
}

} // namespace eg::python
