#pragma once
// Shares the settings and checks of cross_entropy and cross_entropy_backward.

#include "core/device/jobs.h"
#include "core/ops/row_tools.h"

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace eg::cross_entropy_parts {

/// What becomes of the losses of the rows: the attribute "reduction".
enum class Joined : std::uint8_t { mean, sum, none };

/// One call: logits [rows, classes] and the settings of its attributes.
struct Settings {
  std::int64_t rows, classes;
  double smoothing;
  std::int64_t ignore;
  Joined joined;
};

/// Checks logits (input 0), labels (input 1) and the attributes. Throws ShapeError, DTypeError, ValueError.
Settings settings(const OpArgs& args);

/// Shape of the loss: [] or, for "none", the shape of the labels.
Shape loss_shape(const OpArgs& args, const Settings& s);

/// The labels, packed, each in [0, classes) or ignored. Throws IndexError that names the first one that is neither.
std::vector<std::int64_t> checked_labels(const OpArgs& args, const Settings& s);

/// What the device kernels need of packed logits and labels.
device::CrossEntropyRows device_rows(std::string_view op, const Tensor& logits, const Tensor& labels,
                                     const Settings& s);

/// True where a row is ignored: bool, of the shape of the labels.
Tensor ignored_rows(const OpArgs& args);

/// Factor of each row's loss in the output: 1 over the number of rows that count for "mean" (0 if none), else 1.
double row_factor(const std::vector<std::int64_t>& labels, const Settings& s);

/// The mean or the sum: factor times what `add` gives for the losses. A sum that leaves the range of double is
/// taken again of losses divided by a power of two above their number.
template <class T, class Add> double joined_losses(std::vector<T>& losses, double factor, Add add) {
  const double joined = add(losses) * factor;
  if (std::isfinite(joined) || losses.empty()) return joined;
  const int exponent = std::ilogb(static_cast<double>(losses.size())) + 1;
  for (T& loss : losses) loss = std::ldexp(loss, -exponent);
  return std::ldexp(add(losses) * factor, exponent);
}

/// Attributes of both ops.
inline constexpr FixedList<AttrSpec, 8> attributes = {
    attr_real("label_smoothing", 0.0, "s in t = (1 - s) onehot(label) + s / C, in [0, 1]"),
    attr_int("ignore_index", -100, "rows with this label do not count"),
    attr_text("reduction", "mean", "mean (over the rows that count), sum or none")};
/// The attributes of one call, for the other op.
Attrs same_attributes(const OpArgs& args);

/// Labels for samples: tag-dependent, in [0, classes).
Tensor sample_labels(const Shape& shape, std::int64_t classes, std::uint64_t tag);

} // namespace eg::cross_entropy_parts
