#include "core/ops/cross_entropy/parts.h"

#include "core/random.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::cross_entropy_parts {

Settings settings(const OpArgs& args) {
  check_floating(args, 0);
  check_dtype(args, 1, DType::i64);
  check_rank_at_least(args, 0, 1);
  const Shape& shape = args.in[0].shape();
  check_shape(args, 1, Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1))));
  const double smoothing = args.attrs.real("label_smoothing");
  if (!(smoothing >= 0.0 && smoothing <= 1.0))
    throw ValueError(fmt::format("{}: label_smoothing must lie in [0, 1], it is {}", args.op.name, smoothing));
  const std::string& word = args.attrs.text("reduction");
  if (word != "mean" && word != "sum" && word != "none")
    throw ValueError(fmt::format("{}: reduction must be mean, sum or none, it is '{}'", args.op.name, word));
  const Joined joined = word == "mean" ? Joined::mean : word == "sum" ? Joined::sum : Joined::none;
  return {args.in[1].numel(), shape[-1], smoothing, args.attrs.integer("ignore_index"), joined};
}

Shape loss_shape(const OpArgs& args, const Settings& s) {
  return s.joined == Joined::none ? args.in[1].shape() : Shape{};
}

std::vector<std::int64_t> checked_labels(const OpArgs& args, const Settings& s) {
  std::vector<std::int64_t> labels = args.in[1].to_vector<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != s.ignore && (labels[i] < 0 || labels[i] >= s.classes))
      throw IndexError(fmt::format("{}: label {} of row {} is outside [0, {}): there are {} classes, and ignore_index "
                                   "is {}",
                                   args.op.name, labels[i], i, s.classes, s.classes, s.ignore));
  return labels;
}

device::CrossEntropyRows device_rows(std::string_view op, const Tensor& logits, const Tensor& labels,
                                     const Settings& s) {
  return {op,
          logits.dtype(),
          logits.device_bytes(),
          reinterpret_cast<const std::int64_t*>(labels.device_bytes()),
          s.rows,
          s.classes,
          s.ignore,
          s.smoothing,
          s.joined == Joined::mean,
          s.joined == Joined::none};
}

Tensor ignored_rows(const OpArgs& args) {
  return eq(args.in[1], Tensor::from<std::int64_t>({args.attrs.integer("ignore_index")}, {}));
}

double row_factor(const std::vector<std::int64_t>& labels, const Settings& s) {
  if (s.joined != Joined::mean) return 1.0;
  const auto counted =
      std::count_if(labels.begin(), labels.end(), [&](std::int64_t label) { return label != s.ignore; });
  return counted > 0 ? 1.0 / static_cast<double>(counted) : 0.0;
}

Attrs same_attributes(const OpArgs& args) {
  return {{"label_smoothing", args.attrs.real("label_smoothing")},
          {"ignore_index", args.attrs.integer("ignore_index")},
          {"reduction", args.attrs.text("reduction")}};
}

Tensor sample_labels(const Shape& shape, std::int64_t classes, std::uint64_t tag) {
  return random_integers(shape, RandomKey{20240613, tag}, 0, classes);
}

} // namespace eg::cross_entropy_parts
