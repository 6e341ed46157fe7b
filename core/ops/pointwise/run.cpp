#include "core/ops/pointwise/run.h"

#include "core/ops/row_tools.h"
#include "core/parallel.h"

#include <algorithm>

namespace eg::pointwise {
namespace {

/// Two operands over the output's axes, neighbouring axes merged where both allow it; stride 0 repeats.
struct Loop {
  Shape shape;
  Shape stride_a;
  Shape stride_b;

  std::int64_t inner() const { return shape.rank() == 0 ? 1 : shape[-1]; }
  std::int64_t inner_a() const { return shape.rank() == 0 ? 1 : stride_a[-1]; }
  std::int64_t inner_b() const { return shape.rank() == 0 ? 1 : stride_b[-1]; }
};

/// Stride of x along the output's axis `back` places from the end.
std::int64_t broadcast_stride(const Tensor& x, int back) {
  if (x.rank() < back || x.shape()[-back] == 1) return 0;
  return x.strides()[-back];
}

Loop merged_loop(const Tensor& a, const Tensor& b, const Shape& out) {
  Loop loop;
  for (int axis = 0; axis < out.rank(); ++axis) {
    if (out[axis] == 1) continue;
    const int back = out.rank() - axis;
    const std::int64_t sa = broadcast_stride(a, back);
    const std::int64_t sb = broadcast_stride(b, back);
    const bool merges =
        loop.shape.rank() > 0 && loop.stride_a[-1] == sa * out[axis] && loop.stride_b[-1] == sb * out[axis];
    if (merges) {
      loop.shape[-1] *= out[axis];
      loop.stride_a[-1] = sa;
      loop.stride_b[-1] = sb;
    } else {
      loop.shape.push_back(out[axis]);
      loop.stride_a.push_back(sa);
      loop.stride_b.push_back(sb);
    }
  }
  return loop;
}

/// Offset of row `row` (all axes but the last) in elements.
std::int64_t row_offset(const Loop& loop, const Shape& strides, std::int64_t row) {
  std::int64_t offset = 0;
  for (int axis = loop.shape.rank() - 2; axis >= 0; --axis) {
    offset += row % loop.shape[axis] * strides[axis];
    row /= loop.shape[axis];
  }
  return offset;
}

Steps steps_of(const Loop& loop) {
  if (loop.inner_a() == 0) return loop.inner_b() == 0 ? Steps::both : Steps::second;
  return loop.inner_b() == 0 ? Steps::first : Steps::both;
}

/// Rows of the merged loop, each cut into pieces of one chunk; short rows are taken several at a time.
template <class T> void run_rows(BinaryKernel<T> f, const Loop& loop, const T* a, const T* b, T* y) {
  const std::int64_t n = loop.inner();
  const std::int64_t rows = n == 0 ? 0 : loop.shape.numel() / n;
  const std::int64_t pieces = parallel::chunks(n, chunk);
  const Steps steps = steps_of(loop);
  parallel::for_each(rows * pieces, std::max<std::int64_t>(1, chunk / std::max<std::int64_t>(n, 1)),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t task = begin; task < end; ++task) {
                         const std::int64_t row = task / pieces;
                         const std::int64_t start = task % pieces * chunk;
                         f(a + row_offset(loop, loop.stride_a, row) + start * loop.inner_a(),
                           b + row_offset(loop, loop.stride_b, row) + start * loop.inner_b(), y + row * n + start,
                           std::min(chunk, n - start), steps);
                       }
                     });
}

/// The kernels step by 1 or stay; any other step along the innermost axis is packed away first.
bool steps_by_one_or_stays(std::int64_t stride) { return stride == 0 || stride == 1; }

template <class T> void run_binary(Binary op, Tensor a, Tensor b, Tensor& y) {
  Loop loop = merged_loop(a, b, y.shape());
  if (!steps_by_one_or_stays(loop.inner_a())) a = packed(a);
  if (!steps_by_one_or_stays(loop.inner_b())) b = packed(b);
  loop = merged_loop(a, b, y.shape());
  if (loop.inner() > 1 && loop.inner_a() == 0 && loop.inner_b() == 0) { // both repeat: views made by expand
    a = packed(a);
    b = packed(b);
    loop = merged_loop(a, b, y.shape());
  }
  run_rows(kernel<T>(op), loop, a.data<T>(), b.data<T>(), y.mutable_data<T>());
}

template <class T> void run_unary(Unary op, const Tensor& x, Tensor& y, const double* p) {
  const UnaryKernel<T> f = kernel<T>(op);
  const T* from = x.data<T>();
  T* to = y.mutable_data<T>();
  parallel::for_each(x.numel(), chunk,
                     [&](std::int64_t begin, std::int64_t end) { f(from + begin, to + begin, end - begin, p); });
}

} // namespace

std::vector<double> parameters(const OpArgs& args) {
  std::vector<double> values;
  for (const AttrSpec& spec : args.op.attributes)
    if (spec.kind == AttrKind::real) values.push_back(args.attrs.real(spec.name));
  return values;
}

void run(Unary op, const OpArgs& args, Tensor& y) {
  const Tensor x = packed(args.in[0]);
  const std::vector<double> p = parameters(args);
  visit_floating(x.dtype(), [&]<class T>() { run_unary<T>(op, x, y, p.data()); });
}

void run(Binary op, const OpArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  visit_floating(y.dtype(), [&]<class T>() { run_binary<T>(op, args.in[0], args.in[1], y); });
}

} // namespace eg::pointwise
