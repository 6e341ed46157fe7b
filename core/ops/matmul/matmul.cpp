// y = op(A) op(B) over the last two axes; leading axes broadcast.

#include "core/call.h"
#include "core/device/axes.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/matmul/device_product.h"
#include "core/ops/matmul/exact.h"
#include "core/ops/matmul/operands.h"
#include "core/ops/pointwise/run.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

struct Extents {
  std::int64_t m, n, k;
  Shape batch;
};

Shape leading(const Shape& shape) { return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2))); }

/// Throws unless input i is a matrix, or a stack of them, of a floating type.
void check_matrix(const OpArgs& args, std::size_t i) {
  const Tensor& x = args.in[i];
  if (!is_floating(x.dtype()))
    throw DTypeError(
        fmt::format("matmul: inputs must be f32 or f64, one is {}; convert it with to()", name_of(x.dtype())));
  if (x.rank() >= 2) return;
  const std::string_view name = args.op.inputs[i].name;
  throw ShapeError(fmt::format("matmul: inputs need two axes or more, {} is {}; a vector becomes a {} by "
                               "{}.unsqueeze({}), or use einsum",
                               name, x.shape().str(), i == 0 ? "row" : "column", name, i == 0 ? 0 : 1));
}

Extents extents(const OpArgs& args) {
  const Tensor& a = args.in[0];
  const Tensor& b = args.in[1];
  for (const std::size_t i : {0U, 1U}) check_matrix(args, i);
  const bool ta = args.attrs.flag("transpose_a");
  const bool tb = args.attrs.flag("transpose_b");
  const std::int64_t inner_a = a.shape()[ta ? -2 : -1];
  const std::int64_t inner_b = b.shape()[tb ? -1 : -2];
  if (inner_a != inner_b) {
    const bool flipped = inner_a == b.shape()[tb ? -2 : -1];
    throw ShapeError(fmt::format("matmul: inner extents differ, {} and {}: a is {}{}, b is {}{}{}", inner_a, inner_b,
                                 a.shape().str(), ta ? " transposed" : "", b.shape().str(), tb ? " transposed" : "",
                                 flipped ? "; did you mean the other transpose_b?" : ""));
  }
  return {a.shape()[ta ? -1 : -2], b.shape()[tb ? -2 : -1], inner_a,
          broadcast_shapes("matmul", leading(a.shape()), leading(b.shape()))};
}

std::vector<TensorSpec> infer(const OpArgs& args) {
  const Extents e = extents(args);
  Shape shape = e.batch;
  shape.push_back(e.m);
  shape.push_back(e.n);
  return {{shape, args.in[0].dtype()}};
}

/// Strides of the leading axes of x, broadcast to `batch` (0 where repeated).
Shape batch_strides(const Tensor& x, const Shape& batch) {
  Shape strides = batch;
  for (int axis = 0; axis < batch.rank(); ++axis) {
    const int own = axis - batch.rank() + x.rank() - 2;
    strides[axis] = own < 0 || x.shape()[own] == 1 ? 0 : x.strides()[own];
  }
  return strides;
}

/// Offsets of each matrix of the batch in a and b.
struct BatchOffsets {
  std::vector<std::int64_t> a, b;
};
BatchOffsets batch_offsets(const Tensor& a, const Tensor& b, const Shape& batch) {
  BatchOffsets offsets;
  for_each_offset2(batch, batch_strides(a, batch), batch_strides(b, batch), [&](std::int64_t i, std::int64_t j) {
    offsets.a.push_back(i);
    offsets.b.push_back(j);
  });
  return offsets;
}

/// The products of a batch; exact: order-independent sums over the inner axis.
template <class T> void product(const OpArgs& args, Tensor& y, bool exact) {
  const Extents e = extents(args);
  const bool ta = args.attrs.flag("transpose_a");
  T* out = y.mutable_data<T>("matmul");
  if (y.numel() == 0) return;
  // One matrix b for a whole packed batch of a is one tall product.
  const bool tall = !ta && args.in[1].rank() == 2 && args.in[0].rank() > 2 && e.k > 0 && args.in[0].is_contiguous();
  const MatrixOperand a = matrix_operand(tall ? flatten_to_rows(args.in[0]) : args.in[0], ta);
  const MatrixOperand b = matrix_operand(args.in[1], args.attrs.flag("transpose_b"));
  const auto left = [&](std::int64_t offset) {
    return blas::Matrix<T>{a.tensor.data<T>() + offset, a.ld, a.transposed};
  };
  const auto right = [&](std::int64_t offset) {
    return blas::Matrix<T>{b.tensor.data<T>() + offset, b.ld, b.transposed};
  };
  const std::int64_t count = tall ? 1 : e.batch.numel();
  const std::int64_t m = tall ? a.tensor.shape()[0] : e.m;
  const BatchOffsets offsets = tall ? BatchOffsets{{0}, {0}} : batch_offsets(a.tensor, b.tensor, e.batch);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(e.n) * static_cast<double>(e.k);
  constexpr double worth_tiles = 2e8;
  if (count == 1 || (flops > worth_tiles && count < 16)) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      T* c = out + static_cast<std::int64_t>(i) * m * e.n;
      if (exact)
        exact_gemm<T>(m, e.n, e.k, left(offsets.a[i]), right(offsets.b[i]), c, true);
      else
        blas::gemm_tiled<T>(m, e.n, e.k, T(1), left(offsets.a[i]), right(offsets.b[i]), T(0), c, e.n);
    }
    return;
  }
  constexpr double flops_per_chunk = 2e6;
  const auto grain = static_cast<std::int64_t>(std::clamp(flops_per_chunk / std::max(flops, 1.0), 1.0, 1e6));
  const MatmulPrecision wanted = matmul_precision();
  parallel::for_each(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const blas::Matrix<T> l = left(offsets.a[static_cast<std::size_t>(i)]);
      const blas::Matrix<T> r = right(offsets.b[static_cast<std::size_t>(i)]);
      if (exact)
        exact_gemm<T>(m, e.n, e.k, l, r, out + i * m * e.n, false);
      else
        blas::gemm<T>(m, e.n, e.k, T(1), l, r, T(0), out + i * m * e.n, e.n, wanted);
    }
  });
}

/// Where the inner extent is 1: y[.., i, j] = a[.., i] b[.., j], which a product's packing would slow down.
void outer_product(const OpArgs& args, Tensor& y) {
  const auto turned = [&](std::size_t i, const char* flag) {
    return args.attrs.flag(flag) ? args.in[i].transpose() : args.in[i];
  };
  const Tensor in[] = {turned(0, "transpose_a"), turned(1, "transpose_b")};
  pointwise::run(pointwise::Binary::mul, {args.op, in, args.attrs}, y);
}

template <bool exact> void kernel(const OpArgs& args, std::span<Tensor> out) {
  if (!exact && extents(args).k == 1 && matmul_precision() == MatmulPrecision::full) return outer_product(args, out[0]);
  visit_floating(out[0].dtype(), [&]<class T>() { product<T>(args, out[0], exact); });
}

// --- on a device ---

void kernel_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = extents(args);
  const bool ta = args.attrs.flag("transpose_a");
  if (out[0].numel() == 0) return;
  const bool tall = !ta && args.in[1].rank() == 2 && args.in[0].rank() > 2 && args.in[0].is_contiguous();
  device::Product p{.n = e.n,
                    .k = e.k,
                    .a = device::matrix_part(tall ? flatten_to_rows(args.in[0]) : args.in[0], ta),
                    .b = device::matrix_part(args.in[1], args.attrs.flag("transpose_b"))};
  p.m = tall ? p.a.tensor.shape()[0] : e.m;
  if (!tall) {
    p.batch = device::merged_axes<3>(
        e.batch, {leading(out[0].strides()), batch_strides(p.a.tensor, e.batch), batch_strides(p.b.tensor, e.batch)});
  }
  device::start_product("matmul", p, out[0], 0, e.n);
}

// With y = op(A) op(B):  dA = g op(B)^T,  dB = op(A)^T g, each transposed again where its operand was.
Gradients vjp(const VjpArgs& args) {
  const bool ta = args.attrs.flag("transpose_a");
  const bool tb = args.attrs.flag("transpose_b");
  const Tensor& a = args.in[0];
  const Tensor& b = args.in[1];
  const Tensor& g = args.grad[0];
  Gradients gradients(2);
  if (args.wants(0)) gradients[0] = ta ? matmul(b, g, tb, true) : matmul(g, b, false, !tb);
  if (args.wants(1)) {
    // b without batch: one product over all rows instead of a batch of products to be summed.
    const bool tall = b.rank() == 2 && a.rank() > 2 && !ta && a.numel() > 0;
    const Tensor rows_a = tall ? as_rows(a) : a;
    const Tensor rows_g = tall ? as_rows(g) : g;
    gradients[1] = tb ? matmul(rows_g, rows_a, true, ta) : matmul(rows_a, rows_g, !ta, false);
  }
  return gradients;
}

// y[.., i, j] = sum_k a[.., i, k] b[.., k, j]
std::vector<Tensor> reference(const OpArgs& args) {
  const Extents e = extents(args);
  const bool ta = args.attrs.flag("transpose_a");
  const bool tb = args.attrs.flag("transpose_b");
  Shape shape = e.batch;
  shape.push_back(e.m);
  shape.push_back(e.n);
  Tensor y = Tensor::zeros(shape, DType::f64);
  const auto* a = args.in[0].data<double>();
  const auto* b = args.in[1].data<double>();
  auto* out = y.mutable_data<double>();
  const BatchOffsets offsets = batch_offsets(args.in[0], args.in[1], e.batch);
  for (std::size_t batch = 0; batch < offsets.a.size(); ++batch)
    for (std::int64_t i = 0; i < e.m; ++i)
      for (std::int64_t j = 0; j < e.n; ++j, ++out)
        for (std::int64_t k = 0; k < e.k; ++k)
          *out += a[offsets.a[batch] + (ta ? k * e.m + i : i * e.k + k)] *
                  b[offsets.b[batch] + (tb ? j * e.k + k : k * e.n + j)];
  return {y};
}

std::vector<Sample> samples(DType dtype) {
  const auto random = [&](const Shape& shape, std::uint64_t stream) {
    return random_normal(shape, {11, stream}, 0.0, 1.0, dtype);
  };
  const Attrs nt{{"transpose_b", true}};
  const Attrs tn{{"transpose_a", true}};
  const Attrs tt{{"transpose_a", true}, {"transpose_b", true}};
  return {{{random({5, 7}, 1), random({7, 3}, 2)}, {}, "2-D"},
          {{random({5, 7}, 3), random({3, 7}, 4)}, nt, "NT"},
          {{random({7, 5}, 5), random({7, 3}, 6)}, tn, "TN"},
          {{random({7, 5}, 7), random({3, 7}, 8)}, tt, "TT"},
          {{random({33, 65}, 9), random({65, 17}, 10)}, {}, "odd"},
          {{random({4, 3, 5}, 11), random({4, 5, 2}, 12)}, {}, "batched"},
          {{random({4, 3, 5}, 13), random({5, 2}, 14)}, {}, "one b for a batch"},
          {{random({4, 3, 5}, 15), random({2, 5}, 16)}, nt, "one b for a batch, NT"},
          {{random({2, 1, 3, 5}, 17), random({4, 5, 2}, 18)}, {}, "leading axes broadcast"},
          {{random({6, 4}, 19).transpose(), random({2, 6}, 20).transpose()}, {}, "transposed views"},
          {{random({5, 1}, 21), random({1, 3}, 22)}, {}, "inner extent 1"},
          {{random({5, 0}, 23), random({0, 3}, 24)}, {}, "inner extent 0"},
          {{random({0, 4}, 25), random({4, 3}, 26)}, {}, "no rows"}};
}

std::vector<Refusal> refuses() {
  const Tensor a = Tensor::ones({4, 3});
  return {{{a, Tensor::ones({5, 2})}, {}, "matmul: inner extents differ, 3 and 5: a is [4, 3], b is [5, 2]"},
          {{a, Tensor::ones({2, 3})}, {}, "did you mean the other transpose_b?"},
          {{a, Tensor::ones({3})}, {}, "two axes or more"},
          {{a, Tensor::ones({3, 2}, DType::f64)}, {}, "different types"},
          {{Tensor::ones({4, 3}, DType::i64), Tensor::ones({3, 2}, DType::i64)}, {}, "must be f32 or f64"},
          {{Tensor::ones({2, 4, 3}), Tensor::ones({3, 3, 2})}, {}, "do not broadcast"}};
}

// Rows of A, columns of B, the inner axis of both, and the leading axes: one product for each of their indices.
std::vector<Symmetry> symmetries(const Sample& sample) {
  const int row_a = sample.attrs.has("transpose_a") && sample.attrs.flag("transpose_a") ? -1 : -2;
  const int col_b = sample.attrs.has("transpose_b") && sample.attrs.flag("transpose_b") ? -2 : -1;
  std::vector<Symmetry> all{{"rows of A", {in_leg(0, row_a), out_leg(0, -2)}},
                            {"columns of B", {in_leg(1, col_b), out_leg(0, -1)}},
                            {"inner axis", {in_leg(0, -3 - row_a), in_leg(1, -3 - col_b)}}};
  const int rank = std::max(sample.in[0].rank(), sample.in[1].rank());
  for (int back = 3; back <= rank; ++back) {
    Symmetry batch{fmt::format("batch axis -{}", back), {}};
    for (int i = 0; i < 2; ++i) // an axis of extent 1 serves all
      if (const Tensor& x = sample.in[static_cast<std::size_t>(i)]; x.rank() >= back && x.size(-back) >= 2)
        batch.legs.push_back(in_leg(i, -back));
    if (batch.legs.empty()) continue;
    batch.legs.push_back(out_leg(0, -back));
    all.push_back(std::move(batch));
  }
  return all;
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {2.0 * static_cast<double>(out[0].shape.numel()) * static_cast<double>(extents(args).k),
          bytes_moved(args, out)};
}

} // namespace

constinit const OpDef matmul_op = row({
    .name = "matmul",
    .math = "y = op(A) op(B), op(X) = X or X^T over the last two axes",
    .inputs = {{"a"}, {"b"}},
    .attributes = {attr_bool("transpose_a", false, "use A^T"), attr_bool("transpose_b", false, "use B^T")},
    .infer = infer,
    .cpu = kernel<false>,
    .exact = kernel<true>,
    .cuda = kernel_on_device,
    .cuda_same_bits = true,
    .saves = saves::in(0) | saves::in(1),
    .vjp = vjp,
    .rounding = {.by_layout = true},
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  return call1(matmul_op, {widened(a), widened(b)}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

} // namespace eg
