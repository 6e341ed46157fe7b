// Rows of nansum and nanmean: reductions that leave NaN out.

#include "core/ops/list.h"
#include "core/ops/reduce/groups.h"

namespace eg {
namespace {

using namespace reduce;

Tensor sum_of_numbers(const OpArgs& args, const Tensor& missing) {
  const Tensor& x = args.in[0];
  return sum(where(missing, Tensor::zeros({}, x.dtype()), x), args.attrs.integers("axes"), args.attrs.flag("keepdim"));
}

std::vector<Tensor> sum_body(const OpArgs& args) { return {sum_of_numbers(args, isnan(args.in[0]))}; }

std::vector<Tensor> mean_body(const OpArgs& args) {
  const Tensor missing = isnan(args.in[0]);
  const Tensor count = count_nonzero(logical_not(missing), args.attrs.integers("axes"), args.attrs.flag("keepdim"));
  return {div(sum_of_numbers(args, missing), count)};
}

template <bool mean> std::vector<Tensor> reference(const OpArgs& args) {
  Tensor y = reference_output(result_shape(args));
  for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
    double total = 0, count = 0;
    for (const double value : x)
      if (!std::isnan(value)) total += value, count += 1;
    values(y)[g] = mean ? total / count : total;
  });
  return {y};
}

/// Without NaN, beside which differences say nothing of the gradient; the golden calls and Python's tests have some.
std::vector<Sample> samples(DType dtype) { return axes_samples(dtype, 1900); }

} // namespace

constinit const OpDef nansum_op = row({
    .name = "nansum",
    .math = "y = sum over the axes of the x that are not NaN",
    .inputs = {{"x"}},
    .attributes = {axes_spec, keepdim_spec},
    .infer = infer_floating,
    .body = sum_body,
    .reference = reference<false>,
    .samples = samples,
    .refuses = axes_refusals,
    .symmetries = axes_symmetries,
    .work = group_work<2>,
});

constinit const OpDef nanmean_op = row({
    .name = "nanmean",
    .math = "y = mean over the axes of the x that are not NaN; of none: NaN",
    .inputs = {{"x"}},
    .attributes = {axes_spec, keepdim_spec},
    .infer = infer_floating,
    .body = mean_body,
    .reference = reference<true>,
    .samples = samples,
    .refuses = axes_refusals,
    .symmetries = axes_symmetries,
    .work = group_work<3>,
});

Tensor nansum(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(nansum_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

Tensor nanmean(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(nanmean_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

} // namespace eg
