// Rows of any, all and count_nonzero: elements of every type, compared with 0.

#include "core/ops/list.h"
#include "core/ops/reduce/groups.h"
#include "core/ops/reduce/on_device.h"

namespace eg {
namespace {

using namespace reduce;

template <DType type> std::vector<TensorSpec> infer(const OpArgs& args) { return {{result_shape(args), type}}; }

/// How many of n elements differ from 0; a NaN does.
template <class T> std::int64_t nonzeros(const T* x, std::int64_t n) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) count += x[i] != T{} ? 1 : 0;
  return count;
}

bool some(std::int64_t count, std::int64_t) { return count > 0; }
bool every(std::int64_t count, std::int64_t n) { return count == n; }
std::int64_t number(std::int64_t count, std::int64_t) { return count; }

/// answer(elements that differ from 0, elements) of every group.
template <class Answer, Answer (*answer)(std::int64_t, std::int64_t)>
void answer_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  Answer* y = out[0].mutable_data<Answer>();
  visit_dtype(args.in[0].dtype(), [&]<class T>() {
    for_each_group<T>(groups, [&](std::int64_t g, const T* x) {
      y[g] = answer(of_pieces(x, groups.extent, nonzeros<T>, added), groups.extent);
    });
  });
}

template <device::ReduceKind kind> void answer_on_device(const OpArgs& args, std::span<Tensor> out) {
  run_on_device(args.op.name, kind, args.in[0], axes_attribute(args), {out[0], {}, {}});
}

template <class Answer, Answer (*answer)(std::int64_t, std::int64_t)> std::vector<Tensor> naive(const OpArgs& args) {
  Tensor y = Tensor::empty(result_shape(args), dtype_of<Answer>);
  for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
    std::int64_t count = 0;
    for (const double value : x)
      if (value != 0.0) ++count;
    y.mutable_data<Answer>()[g] = answer(count, static_cast<std::int64_t>(x.size()));
  });
  return {y};
}

/// 0 where the sample is below `bound`.
Tensor with_zeros(const Tensor& x, double bound) {
  std::vector<double> v = x.to(DType::f64).to_vector<double>();
  for (double& value : v) value = value < bound ? 0.0 : value;
  return Tensor::from<double>(v, x.shape()).to(x.dtype());
}

std::vector<Sample> samples(DType dtype) {
  const auto sparse = [&](double bound, std::uint64_t tag) {
    std::vector<Sample> list = axes_samples(dtype, tag, {1.0, 0.0, false});
    for (Sample& s : list) s.in[0] = with_zeros(s.in[0], bound);
    return list;
  };
  std::vector<Sample> list = sparse(1.2, 1300);                 // most are 0
  for (const Sample& s : sparse(-1.5, 1320)) list.push_back(s); // few are 0
  list.push_back({{with_zeros(sample_normal({3, 7}, dtype, 1341), 0.0).to(DType::boolean)},
                  {{"axes", std::vector<std::int64_t>{0}}},
                  "truth values"});
  list.push_back({{Tensor::from<std::int64_t>({0, 5, 0, -1, 0, 0}, {3, 2})},
                  {{"axes", std::vector<std::int64_t>{1}}, {"keepdim", true}},
                  "integers"});
  return list;
}

} // namespace

constinit const OpDef any_op = row({
    .name = "any",
    .math = "y = some x over the axes differs from 0",
    .inputs = {{"x"}},
    .attributes = {axes_spec, keepdim_spec},
    .infer = infer<DType::boolean>,
    .cpu = answer_cpu<bool, some>,
    .cuda = answer_on_device<device::ReduceKind::any>,
    .cuda_same_bits = true,
    .no_gradient = "a truth value does not change when x changes a little",
    .reference = naive<bool, some>,
    .samples = samples,
    .refuses = axes_only_refusals,
    .symmetries = axes_symmetries,
    .work = group_work<1>,
});

constinit const OpDef all_op = row({
    .name = "all",
    .math = "y = every x over the axes differs from 0",
    .inputs = {{"x"}},
    .attributes = {axes_spec, keepdim_spec},
    .infer = infer<DType::boolean>,
    .cpu = answer_cpu<bool, every>,
    .cuda = answer_on_device<device::ReduceKind::all>,
    .cuda_same_bits = true,
    .no_gradient = "a truth value does not change when x changes a little",
    .reference = naive<bool, every>,
    .samples = samples,
    .refuses = axes_only_refusals,
    .symmetries = axes_symmetries,
    .work = group_work<1>,
});

constinit const OpDef count_nonzero_op = row({
    .name = "count_nonzero",
    .math = "y = how many x over the axes differ from 0",
    .inputs = {{"x"}},
    .attributes = {axes_spec, keepdim_spec},
    .infer = infer<DType::i64>,
    .cpu = answer_cpu<std::int64_t, number>,
    .cuda = answer_on_device<device::ReduceKind::nonzeros>,
    .cuda_same_bits = true,
    .no_gradient = "a count is an integer: it does not change when x changes a little",
    .reference = naive<std::int64_t, number>,
    .samples = samples,
    .refuses = axes_only_refusals,
    .symmetries = axes_symmetries,
    .work = group_work<1>,
});

Tensor any(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(any_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

Tensor all(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(all_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

Tensor count_nonzero(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(count_nonzero_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

} // namespace eg
