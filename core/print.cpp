// Tensor::str: values for people to read.

#include "core/device/transfer.h"
#include "core/strided.h"
#include "core/tensor.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

constexpr std::int64_t longest_axis = 12; // a longer axis is shortened
constexpr std::int64_t edge = 3;          // to this many elements at each end

bool shortened(std::int64_t extent) { return extent > longest_axis; }

/// visit(offset) for every element that is shown, in row-major order.
template <class F> void for_each_shown(const Tensor& x, int axis, std::int64_t offset, F& visit) {
  if (axis == x.rank()) return visit(offset);
  const std::int64_t extent = x.shape()[axis];
  for (std::int64_t i = 0; i < extent; ++i) {
    if (shortened(extent) && i == edge) i = extent - edge;
    for_each_shown(x, axis + 1, offset + i * x.strides()[axis], visit);
  }
}

enum class Notation : std::uint8_t { whole, fixed, scientific };

/// One notation for all: whole numbers with one decimal, scientific where fixed digits would lose or flood.
Notation notation_for(const std::vector<double>& shown) {
  double largest = 0;
  double smallest = INFINITY;
  bool whole = true;
  for (const double value : shown) {
    if (!std::isfinite(value)) continue;
    const double size = std::abs(value);
    largest = std::max(largest, size);
    if (size > 0) smallest = std::min(smallest, size);
    whole = whole && value == std::floor(value);
  }
  if (largest >= 1e7) return Notation::scientific;
  if (whole) return Notation::whole;
  return largest < 1e-3 || (smallest < 1e-4 && largest / smallest > 1e6) ? Notation::scientific : Notation::fixed;
}

std::string number(double value, Notation notation, int precision) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  switch (notation) {
  case Notation::whole:
    return fmt::format("{:.1f}", value);
  case Notation::fixed:
    return fmt::format("{:.{}f}", value, precision);
  case Notation::scientific:
    return fmt::format("{:.{}e}", value, precision);
  }
  return {};
}

template <class T> std::vector<std::string> words_of(const Tensor& x, int precision) {
  const T* data = x.data<T>();
  std::vector<std::string> words;
  if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, BFloat16>) {
    std::vector<double> shown;
    const auto collect = [&](std::int64_t offset) { shown.push_back(static_cast<double>(data[offset])); };
    for_each_shown(x, 0, 0, collect);
    const Notation notation = notation_for(shown);
    for (const double value : shown) words.push_back(number(value, notation, precision));
  } else {
    const auto collect = [&](std::int64_t offset) { words.push_back(fmt::format("{}", data[offset])); };
    for_each_shown(x, 0, 0, collect);
  }
  return words;
}

/// Lays the words out as nested brackets; every word takes the same width.
class Layout {
public:
  Layout(const Shape& shape, const std::vector<std::string>& words) : shape_(shape), words_(words) {
    for (const std::string& word : words) width_ = std::max(width_, word.size());
  }
  std::string text() {
    write(0);
    return std::move(text_);
  }

private:
  void write(int axis) {
    if (axis == shape_.rank()) {
      text_ += fmt::format("{:>{}}", words_[next_++], width_);
      return;
    }
    const std::int64_t extent = shape_[axis];
    text_ += '[';
    for (std::int64_t i = 0; i < extent; ++i) {
      if (i > 0) separate(axis);
      if (shortened(extent) && i == edge) {
        text_ += "...";
        separate(axis);
        i = extent - edge;
      }
      write(axis + 1);
    }
    text_ += ']';
  }

  /// Elements are side by side, rows below each other, matrices with a blank line between them.
  void separate(int axis) {
    const int below = shape_.rank() - 1 - axis;
    if (below == 0) {
      text_ += ", ";
      return;
    }
    text_ += ',';
    text_.append(static_cast<std::size_t>(std::min(below, 2)), '\n');
    text_.append(static_cast<std::size_t>(axis) + 1, ' ');
  }

  const Shape& shape_;
  const std::vector<std::string>& words_;
  std::size_t width_ = 0;
  std::size_t next_ = 0;
  std::string text_;
};

} // namespace

std::string Tensor::str(int precision) const {
  if (!defined()) return "undefined";
  if (precision < 0 || precision > 17)
    throw ValueError(fmt::format("str: precision is {}; it must be in [0, 17]", precision));
  const std::string kind = fmt::format("{} {}", name_of(dtype()), shape().str());
  if (!has_storage()) return fmt::format("{} without values", kind);
  if (numel() == 0) return fmt::format("[]\n{}", kind);
  const Tensor here = device::on_cpu(*this);
  std::vector<std::string> words;
  visit_dtype(dtype(), [&]<class T>() { words = words_of<T>(here, precision); });
  return fmt::format("{}\n{}{}", Layout(shape(), words).text(), kind,
                     device().is_cpu() ? std::string() : fmt::format(" on {}", device().str()));
}

} // namespace eg
