#pragma once
// Declares the operations as functions. Each has an op definition of the same name in the registry; docs/ops.md holds
// their mathematics, symmetries and costs. All throw ShapeError, DTypeError, IndexError or ValueError for calls that do
// not fit. Floating inputs of one call share one dtype. X is [..., rows, columns] unless said.

#include "core/random.h"
#include "core/tensor.h"

namespace eg {

// --- pointwise, with NumPy broadcasting ---
// Arithmetic (+ - * and what is like them: neg, abs, sign, square, minimum, maximum, clamp, fmod, remainder,
// floor_divide, pow) also takes whole numbers. i64, u8 and bool are then computed in i64, and a result that 64 bits do
// not hold is a ValueError, as is a division by 0. Beside f32 or f64, whole numbers become that type. A quotient a / b
// of whole numbers is f32.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
/// y = scale * x + shift
Tensor affine(const Tensor& x, double scale, double shift);
Tensor neg(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
/// x^(-1/2)
Tensor rsqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
/// x Phi(x) with Phi the normal distribution function: the erf form
Tensor gelu(const Tensor& x);
/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
Tensor gelu_tanh(const Tensor& x);
/// x sigmoid(x)
Tensor silu(const Tensor& x);
/// x sigmoid(1.702 x)
Tensor quick_gelu(const Tensor& x);
/// ln sigmoid(x)
Tensor log_sigmoid(const Tensor& x);
/// x tanh(ln(1 + e^x))
Tensor mish(const Tensor& x);
/// x clamp(x + 3, 0, 6) / 6
Tensor hardswish(const Tensor& x);
/// clamp(x + 3, 0, 6) / 6
Tensor hardsigmoid(const Tensor& x);
/// min(max(x, min), max): max where min > max. The gradient passes at both bounds.
Tensor clamp(const Tensor& x, double min, double max);
/// The same values; no gradient passes at the bounds.
Tensor hardtanh(const Tensor& x, double min_val = -1.0, double max_val = 1.0);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// x for x > 0, else alpha (e^x - 1)
Tensor elu(const Tensor& x, double alpha = 1.0);
/// ln(1 + e^(beta x)) / beta; x itself where beta x > threshold
Tensor softplus(const Tensor& x, double beta = 1.0, double threshold = 20.0);
/// The gradient at 0 is 0.
Tensor abs(const Tensor& x);
/// -1, 0 or 1; NaN for NaN. Its gradient, and that of the four roundings, is zero.
Tensor sign(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
/// Towards zero.
Tensor trunc(const Tensor& x);
/// To the nearest integer, halves to the even one.
Tensor round(const Tensor& x);
Tensor square(const Tensor& x);
/// 1 / x
Tensor reciprocal(const Tensor& x);
/// e^x - 1, exact for small x
Tensor expm1(const Tensor& x);
/// ln(1 + x), exact for small x
Tensor log1p(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor atan(const Tensor& x);
/// Inverse functions are NaN outside of what the function reaches: asin and acos beyond [-1, 1], acosh below 1.
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor log10(const Tensor& x);
/// The angle of the point (x, y) = (b, a), in radians from -pi to pi.
Tensor atan2(const Tensor& a, const Tensor& b);
Tensor erf(const Tensor& x);
/// 1 - erf(x), exact for large x
Tensor erfc(const Tensor& x);
/// x^exponent; NaN for negative x unless the exponent is a whole number
Tensor pow_scalar(const Tensor& x, double exponent);
inline Tensor pow(const Tensor& x, double exponent) { return pow_scalar(x, exponent); }
Tensor pow(const Tensor& a, const Tensor& b);
/// The smaller and the larger of two; NaN beside NaN. Where both are equal each receives half of the gradient.
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
/// a - trunc(a / b) b: the remainder with the sign of a, as std::fmod
Tensor fmod(const Tensor& a, const Tensor& b);
/// a - floor(a / b) b: the remainder with the sign of b, as Python's %
Tensor remainder(const Tensor& a, const Tensor& b);
/// The largest whole number that is at most a / b, as Python's //; its gradient is zero.
Tensor floor_divide(const Tensor& a, const Tensor& b);

// --- comparisons and truth values: bool, no gradient; broadcasting; both of one element type, any ---
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
/// With a number. Throws ValueError where a's whole-number type cannot hold it.
Tensor eq(const Tensor& a, double b);
Tensor ne(const Tensor& a, double b);
Tensor lt(const Tensor& a, double b);
Tensor le(const Tensor& a, double b);
Tensor gt(const Tensor& a, double b);
Tensor ge(const Tensor& a, double b);
/// Of bool tensors.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

// --- of three, with broadcasting ---
/// a where cond (bool) is true, else b; a and b of one element type, any.
Tensor where(const Tensor& cond, const Tensor& a, const Tensor& b);
/// value where mask (bool) is true, else x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// a + weight (b - a): exactly a for weight 0, exactly b for weight 1.
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor lerp_scalar(const Tensor& a, const Tensor& b, double weight);
inline Tensor lerp(const Tensor& a, const Tensor& b, double weight) { return lerp_scalar(a, b, weight); }
/// x + value a b
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1.0);
/// x + value a / b
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1.0);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator*(const Tensor& x, double s) { return affine(x, s, 0.0); }
inline Tensor operator*(double s, const Tensor& x) { return affine(x, s, 0.0); }
inline Tensor operator+(const Tensor& x, double s) { return affine(x, 1.0, s); }
inline Tensor operator-(const Tensor& x, double s) { return affine(x, 1.0, -s); }
inline Tensor operator/(const Tensor& x, double s) { return affine(x, 1.0 / s, 0.0); }

// --- reductions; axes empty means all ---
// sum and prod of whole numbers (i64, u8, bool) are i64 and exact: beyond 64 bits a ValueError. Their mean is f32.
// Largest, smallest, places and order take every type but bf16, and keep it.
Tensor sum(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// Largest along one axis; the gradient goes to the first of equals.
Tensor max(const Tensor& x, int axis, bool keepdim = false);
Tensor min(const Tensor& x, int axis, bool keepdim = false);
/// Index of the first largest, i64. A NaN counts as larger (for argmin: smaller) than everything.
Tensor argmax(const Tensor& x, int axis, bool keepdim = false);
Tensor argmin(const Tensor& x, int axis, bool keepdim = false);
/// Two outputs of one shape.
struct ValuesAndIndices {
  Tensor values;
  Tensor indices; ///< places along the axis, i64
};
/// Largest along one axis and its first place; the gradient goes to that place.
ValuesAndIndices max_with_index(const Tensor& x, int axis, bool keepdim = false);
ValuesAndIndices min_with_index(const Tensor& x, int axis, bool keepdim = false);
/// Largest (smallest) over several axes; equals share the gradient evenly.
Tensor amax(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// x - mean over the axes, the mean taken in double.
Tensor center(const Tensor& x, const std::vector<std::int64_t>& axes = {});
/// sum (x - mean)^2 / max(0, n - correction) over n elements, by two passes: no cancellation. A sum of squares over 0
/// is NaN where it is 0, else infinite.
Tensor var(const Tensor& x, const std::vector<std::int64_t>& axes = {}, double correction = 1.0, bool keepdim = false);
/// Square root of var; its gradient is 0 where it is 0. Op "std": the function's name must not be a namespace's.
Tensor std_deviation(const Tensor& x, const std::vector<std::int64_t>& axes = {}, double correction = 1.0,
                     bool keepdim = false);
/// Product; the gradient is right where factors are 0. Of nothing: 1.
Tensor prod(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// y_i = product of the other factors along one axis, without a division.
Tensor prod_of_others(const Tensor& x, int axis = -1);
/// log sum exp x, shifted by the largest: never overflows. All -inf: -inf, with gradient 0.
Tensor logsumexp(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// (sum |x|^p)^(1/p), p > 0; p = infinity: the largest |x|. Scaled where it would overflow. The gradient at 0 is 0.
Tensor norm(const Tensor& x, double p = 2.0, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// Sum and mean of what is no NaN; the mean of nothing is NaN.
Tensor nansum(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
Tensor nanmean(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// The value in the middle, of an even number the mean of the two; NaN where there is one. As NumPy's, not the lower of
/// the two as PyTorch's.
Tensor median(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// The value at place q (n - 1) of n in order, q in [0, 1], linear between neighbours; NaN where there is one.
Tensor quantile(const Tensor& x, double q, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// True where some (all) elements differ from 0; any type, NaN is not 0.
Tensor any(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);
/// How many elements differ from 0, i64; any type.
Tensor count_nonzero(const Tensor& x, const std::vector<std::int64_t>& axes = {}, bool keepdim = false);

// --- along one axis ---
/// y_k = x_0 + ... + x_k (reverse: x_k + ... + x_last), added up in double; f32, f64 or i64.
Tensor cumsum(const Tensor& x, int axis, bool reverse = false);
/// y_k = x_0 x_1 ... x_k
Tensor cumprod(const Tensor& x, int axis);
/// y_k = a_k y_(k-1) + b_k with y_(-1) = 0 along one axis (reverse: from the end); a_0 is not used.
Tensor linear_scan(const Tensor& a, const Tensor& b, int axis = -1, bool reverse = false);
/// x in ascending (descending) order along one axis, equals in their order; a NaN is larger than everything.
ValuesAndIndices sort(const Tensor& x, int axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);
/// The k largest (or smallest) along one axis, best first (sorted = false: in the order of their places); of equals the
/// first. Throws ValueError when the axis has fewer than k elements.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, int axis = -1, bool largest = true, bool sorted = true);

/// What is in x, and where.
struct UniqueResult {
  Tensor values;  ///< the different elements of x in ascending order, [N]; NaN last, once
  Tensor inverse; ///< the place of each element of x among them, i64, of x's shape
  Tensor counts;  ///< how often each is in x, i64 [N]
};
/// Every type but bf16; the result's shape depends on the values.
UniqueResult unique(const Tensor& x);
/// How many elements of sorted [..., N], which ascend along the last axis, come before each of values [..., K]: those
/// below it, right = true: those that are not above it. i64 [..., K]. sorted [N] serves values of every shape.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);
/// The indices of the elements that differ from 0, in row-major order, i64 [count, rank of x].
Tensor nonzero(const Tensor& x);
/// The elements of x where mask (bool, broadcast to x's shape) is true, in row-major order, [count].
Tensor masked_select(const Tensor& x, const Tensor& mask);

/// Sums broadcast axes away so that the result has `shape`.
Tensor sum_to(const Tensor& x, const Shape& shape);

// --- products; bf16 operands are converted to f32, in which the sums are made and the result is ---
/// op(A) op(B) over the last two axes, leading axes broadcast; 2-D or batched.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
/// y[i, j] = a_i b_j for vectors.
Tensor outer(const Tensor& a, const Tensor& b);
/// The vector product along an axis of 3 elements, with broadcasting; the axis counts from the end: -1.
Tensor cross(const Tensor& a, const Tensor& b, int axis = -1);
/// Products of any number of tensors in index notation: "bhqd,bhkd->bhqk". A repeated letter within an operand is its
/// diagonal, letters that the result lacks are summed over, "..." stands for leading axes that broadcast, without
/// "->" the result has the letters that occur once, in alphabetical order after "...". Lowered to matmul.
/// order "left_to_right" or "greedy" (the cheapest pair first).
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands, const char* order = "left_to_right");

// --- linear algebra: matrices in the last two axes, f32 or f64; signs are fixed, so that results are unique ---
// All throw ValueError for an element that is not finite, naming the matrix: "inv: a[1, 2] has an element ...".
/// L, lower triangular with a positive diagonal, L L^T = (a + a^T) / 2. Throws ValueError where that is not positive
/// definite.
Tensor cholesky(const Tensor& a);
/// a^-1 b for b [..., n, k] or [n]; leading axes broadcast. Throws ValueError for a singular matrix.
Tensor solve(const Tensor& a, const Tensor& b);
/// t^-1 b with t the upper (or lower) triangle of a; the other triangle is not looked at. Throws ValueError for a zero
/// on its diagonal, which `unitriangular` takes as ones.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper = true, bool unitriangular = false);
/// a^-1. Throws ValueError for a singular matrix.
Tensor inv(const Tensor& a);
/// The pseudo-inverse [..., n, m] of a [..., m, n]: v diag(1 / s) u^T over the singular values above rtol times the
/// largest; rtol -1 means max(m, n) times the type's epsilon.
Tensor pinv(const Tensor& a, double rtol = -1.0);
/// [...]
Tensor det(const Tensor& a);
/// det a = sign e^logabsdet, each [...]; 0 and -inf for a singular matrix.
struct SlogdetResult {
  Tensor sign;
  Tensor logabsdet;
};
SlogdetResult slogdet(const Tensor& a);
/// a = q r, q [..., m, k] with orthonormal columns, r [..., k, n] upper triangular with a diagonal that is not
/// negative, k = min(m, n).
struct QrResult {
  Tensor q;
  Tensor r;
};
QrResult qr(const Tensor& a);
/// (a + a^T) / 2 = v diag(w) v^T: w [..., n] ascending, v [..., n, n] orthogonal. The largest entry of each column of v
/// is positive, the first of equals.
struct EighResult {
  Tensor eigenvalues;
  Tensor eigenvectors;
};
EighResult eigh(const Tensor& a);
/// a = u diag(s) vh: u [..., m, k], s [..., k] descending, vh [..., k, n], k = min(m, n), u^T u = vh vh^T = 1. The
/// largest entry of each column of u is positive, the first of equals.
struct SvdResult {
  Tensor u;
  Tensor s;
  Tensor vh;
};
SvdResult svd(const Tensor& a);
/// x W^T + b (+ addend): x [..., in], weight [out, in], bias [out], addend [..., out]; bias and addend may be
/// undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Tensor& addend = {});
/// gelu(x W^T + b), fused; the tape keeps the pre-activation. approximate: the tanh form.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, bool approximate = false);
/// A matrix [out, in] in 8 bits. codes u8 [out, in]: each byte is a signed whole number q, -127 to 127 (two's
/// complement); scales [out], in the matrix's type; element (o, i) stands for scales[o] q.
struct Int8Matrix {
  Tensor codes, scales;
};
/// weight [out, in] in 8 bits: scales[o] is max_i |w[o, i]| / 127 rounded up to 16 significant bits (at least the
/// smallest normal f32), q is w / scale rounded to nearest, so |w - scale q| <= scale / 2, and scale q is exact in f32.
/// Throws ValueError, naming the element, where weight holds a NaN or an infinity.
Int8Matrix quantize_int8(const Tensor& weight);
/// scales[o] q[o, i]: the matrix [out, in] that codes and scales stand for.
Tensor dequantize_int8(const Tensor& codes, const Tensor& scales);
/// linear(x, dequantize_int8(codes, scales), bias, addend) that reads a byte a weight. For up to 8 rows of x in f32 a
/// row's result depends on that row alone.
Tensor linear_int8(const Tensor& x, const Tensor& codes, const Tensor& scales, const Tensor& bias = {},
                   const Tensor& addend = {});
/// linear(x, weight, bias, addend) of a weight in bf16, which is read in place and gets no gradient. For up to 8 rows
/// of x in f32 a row's result depends on that row alone.
Tensor linear_bf16(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Tensor& addend = {});

// --- windows of images [N, C, H, W] ---
/// Rows and columns; one number stands for both.
struct Size2 {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  constexpr Size2(std::int64_t both) : rows(both), columns(both) {} // NOLINT(google-explicit-constructor)
  constexpr Size2(std::int64_t r, std::int64_t c) : rows(r), columns(c) {}
};
/// Windows as columns (im2col): [N, C, H, W] -> [N, C kh kw, windows], windows in row-major order, 0 where a window
/// reaches beyond the image. Along each axis: windows = (extent + 2 padding - dilation (kernel - 1) - 1) / stride + 1.
Tensor unfold(const Tensor& x, Size2 kernel, Size2 stride = 1, Size2 padding = 0, Size2 dilation = 1);
/// The adjoint of unfold: adds columns [N, C kh kw, windows] into images [N, C, output_size].
Tensor fold(const Tensor& x, Size2 output_size, Size2 kernel, Size2 stride = 1, Size2 padding = 0, Size2 dilation = 1);
struct Conv2dOptions {
  Size2 stride{1};
  Size2 padding{0};
  Size2 dilation{1};
  std::int64_t groups = 1;
};
/// y[n, o, i, j] = bias_o + sum over c, u, v of weight[o, c, u, v] x[n, c, i stride - padding + u dilation, ..]: x
/// [N, Cin, H, W], weight [Cout, Cin / groups, kh, kw], bias [Cout] or undefined -> [N, Cout, windows]. Output channels
/// of a group see the input channels of that group alone. Memory beside the tensors does not grow with the batch (but
/// that of the gradient by the weight in exact mode does).
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& options = {});
struct Conv1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
/// The same along one axis: x [N, C, L], weight [O, C / groups, K], bias [O].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv1dOptions& options = {});
struct ConvTranspose2dOptions {
  Size2 stride = {1};
  Size2 padding = {0};
  Size2 output_padding = {0}; ///< rows and columns added at the end: below the stride or the dilation
  Size2 dilation = {1};
  std::int64_t groups = 1;
};
/// The transpose of conv2d's map of images: x [N, C, H, W], weight [C, O / groups, KH, KW], bias [O] ->
/// [N, O, (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1, ...].
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});
struct ConvTranspose1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
/// The same along one axis: x [N, C, L], weight [C, O / groups, K], bias [O].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});
struct Pool2dOptions {
  Size2 stride{0}; ///< 0: the kernel, so that windows touch
  Size2 padding{0};
  Size2 dilation{1};             ///< of max_pool2d
  bool ceil_mode = false;        ///< count windows that begin in the image, even where they reach beyond its padding
  bool count_include_pad = true; ///< avg_pool2d: padding counts among the elements
  std::int64_t divisor = 0;      ///< avg_pool2d: divide by this; 0: by the number of elements
};
/// Largest under each window [N, C, windows], and its place r W + q in the plane, i64; padding is -infinity, a NaN is
/// larger than everything, the first of equals wins.
struct MaxPool {
  Tensor values;
  Tensor places;
};
MaxPool max_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options = {});
/// Mean under each window; padding counts as zeros or not at all.
Tensor avg_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options = {});
/// Mean over output_size bins: bin i of n covers [floor(i H / n), ceil((i + 1) H / n)).
Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output_size);
MaxPool adaptive_max_pool2d(const Tensor& x, Size2 output_size);
struct InterpolateOptions {
  bool align_corners = false; ///< the corners' centres are kept: place = i (in - 1) / (out - 1)
  bool antialias = false;     ///< shrinking averages over all pixels covered, as Pillow does
};
/// Resizes [N, C, H, W] to [N, C, size]. mode "nearest", "nearest-exact", "bilinear", "bicubic" (a = -0.75, edges
/// repeated; with antialias a = -0.5, weights outside dropped and the rest scaled to sum 1).
Tensor interpolate(const Tensor& x, Size2 size, const char* mode = "bilinear", const InterpolateOptions& options = {});
/// What Pillow's Image.resize gives for "F" images: interpolate with antialias. mode "bilinear" or "bicubic".
Tensor resize_pillow(const Tensor& x, Size2 size, const char* mode = "bicubic");
/// Keeps the frequencies |f| <= cutoff (whole cycles per image) along both axes of [.., H, W]: y = L_H x L_W with the
/// projection L_n[i, j] = 1/n sum over |f| <= cutoff of cos(2 pi f (i - j) / n); the identity where 2 cutoff >= n.
Tensor fft_low_pass(const Tensor& images, std::int64_t cutoff);

// --- normalisation and attention ---
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
/// (x - mean) / sqrt(var + eps) * gamma + beta over the last axis; var is the biased one; gamma, beta may be undefined.
Tensor layer_norm(const Tensor& x, const Tensor& gamma = {}, const Tensor& beta = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) * gamma over the last axis; gamma [C] may be undefined. Squares never overflow.
Tensor rms_norm(const Tensor& x, const Tensor& gamma = {}, double eps = 1e-6);
/// Batch normalisation of each channel over the other axes, x [N, C, ...] with at least one value a channel.
struct BatchNormResult {
  Tensor y;        ///< (x - mean) / sqrt(variance + eps) * gamma + beta
  Tensor mean;     ///< of the batch [C]
  Tensor variance; ///< of the batch, divided by the count [C]; running statistics want it times count / (count - 1)
};
/// By the statistics of the batch; gamma, beta [C] may be undefined. Sums are taken in f64.
BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma = {}, const Tensor& beta = {}, double eps = 1e-5);
/// By given statistics, mean and variance [C].
Tensor batch_norm_inference(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& gamma = {},
                            const Tensor& beta = {}, double eps = 1e-5);
/// The same over the places of each of `groups` groups of channels of a sample; x [N, C, ...], groups divides C.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma = {}, const Tensor& beta = {},
                  double eps = 1e-5);
/// group_norm with a group for each channel.
Tensor instance_norm(const Tensor& x, const Tensor& gamma = {}, const Tensor& beta = {}, double eps = 1e-5);
/// What rotary turns, and how.
struct RotaryOptions {
  double base = 10000.0;    ///< theta
  bool interleaved = false; ///< pairs (2i, 2i + 1) as GPT-J has them, instead of (i, i + dims/2) (NeoX, Llama)
  std::int64_t dims = 0;    ///< leading features that turn, an even number; 0 means all
  bool heads_first = false; ///< x is [..., heads, T, D] instead of [..., T, heads, D]
  /// Radians by which each pair turns from one position to the next, [dims / 2], in place of base^(-2i / dims).
  std::vector<double> frequencies = {};
};
/// Rotary position embedding: pair i of a token at position p turns by p base^(-2i / dims). x [..., T, heads, D],
/// positions i64 [T] or [..., T] (negative ones turn the other way). Angles are computed in f64.
Tensor rotary(const Tensor& x, const Tensor& positions, const RotaryOptions& options = {});
/// Gated linear units act(gate) up, gate and up of one shape. glu: sigmoid; reglu: relu; swiglu: silu; geglu: gelu, or
/// its tanh form. torch.nn.functional.glu(x, axis) is glu(second half, first half).
Tensor glu(const Tensor& gate, const Tensor& up);
Tensor reglu(const Tensor& gate, const Tensor& up);
Tensor swiglu(const Tensor& gate, const Tensor& up);
Tensor geglu(const Tensor& gate, const Tensor& up, bool approximate = false);
/// softmax(x + mask) over the last axis of x [..., rows, columns]. mask broadcasts to x: floating masks are added, of
/// boolean ones true means that the place is seen. causal: row i sees the columns j <= i + columns - rows. Rows that
/// see nothing are 0, and nothing flows back through them.
Tensor masked_softmax(const Tensor& x, const Tensor& mask = {}, bool causal = false);
/// What attention may see.
struct AttentionOptions {
  double scale = 0.0;  ///< factor of the products; 0 means 1/sqrt(D)
  Tensor mask = {};    ///< broadcast to the scores [..., Tq, Tk]: floating, added; or boolean, true where a key is seen
  bool causal = false; ///< query i sees the keys j <= i + Tk - Tq: the queries are the last of the keys' tokens
};
/// softmax(scale Q K^T) V per leading index: q [..., Tq, D], k [..., Tk, D], v [..., Tk, Dv]. scale 0 means 1/sqrt(D).
/// Tiled: the scores never reach memory.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale = 0.0);
/// The same with a mask, causal, or both; k and v may have fewer heads (axis -3) than q, which then share them in
/// groups of neighbours. A query that sees no key gives 0. Masked tiles stay in cache too; those above the diagonal are
/// skipped.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
/// The same for all heads of a packed projection: qkv [..., T, 3 heads D], for each token its queries, keys and values,
/// head by head -> [..., T, heads D]. Nothing is transposed or copied: the way for models.
Tensor attention_qkv(const Tensor& qkv, std::int64_t heads, double scale = 0.0);
/// The same with a mask against [..., heads, T, T], causal, or both.
Tensor attention_qkv(const Tensor& qkv, std::int64_t heads, const AttentionOptions& options);
/// The same through ops that can be seen, with S.
struct AttentionParts {
  Tensor scores; ///< S = softmax(scale Q K^T) [..., Tq, Tk]
  Tensor output; ///< A = S V [..., Tq, Dv]
};
AttentionParts attention_explicit(const Tensor& q, const Tensor& k, const Tensor& v, double scale = 0.0);
/// The same for masks, causal attention and shared heads.
AttentionParts attention_explicit(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);
/// x mask / (1 - p), mask from Philox (key, element index); p in [0, 1).
Tensor dropout(const Tensor& x, double p, RandomKey key);
/// Stochastic depth: sample b (slice of the first axis) times 1 / (1 - p), or 0 with probability p; the choice from
/// Philox (key, b); p in [0, 1).
Tensor drop_path(const Tensor& x, double p, RandomKey key);

// --- losses ---
/// Mean over rows with label != ignore_index of -sum_j t_j log softmax(logits)_j, t = (1-s) onehot + s/C.
/// logits [..., C], labels [...] i64. reduction "mean", "sum" or "none" ([...]). All ignored: 0 for "mean".
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing = 0.0,
                     std::int64_t ignore_index = -100, const char* reduction = "mean");

/// Mean over rows of -sum_j w_j t_j log softmax(logits)_j, t = (1-s) target + s/C: cross-entropy against probabilities,
/// logits and target [..., C], weight [C]. reduction "none": [...].
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& target, double label_smoothing = 0.0,
                          const Tensor& weight = {}, const char* reduction = "mean");
/// -w_label input_label of log-probabilities [..., C], labels [...] i64, weight [C]; the mean is over the weights of
/// the rows that count. All ignored: 0.
Tensor nll_loss(const Tensor& input, const Tensor& labels, const Tensor& weight = {}, std::int64_t ignore_index = -100,
                const char* reduction = "mean");
/// -w (p t log s(x) + (1 - t) log s(-x)), s the sigmoid, without overflow; weight w and pos_weight p broadcast to x.
Tensor bce_with_logits(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                       const Tensor& pos_weight = {}, const char* reduction = "mean");
/// What losses are made of. huber: x^2 / (2 beta) where |x| < beta, else |x| - beta/2; huber_slope is its derivative.
Tensor huber(const Tensor& x, double beta = 1.0);
Tensor huber_slope(const Tensor& x, double beta = 1.0);
/// x ln x, 0 for 0.
Tensor xlogx(const Tensor& x);
/// -(t log s(x) + (1 - t) log s(-x)), s the sigmoid: bce_with_logits without weights, element by element.
Tensor logit_loss(const Tensor& x, const Tensor& t);
/// Losses of two tensors of one shape, element by element. The mean of nothing is 0.
/// (x - t)^2
Tensor mse_loss(const Tensor& input, const Tensor& target, const char* reduction = "mean");
/// |x - t|
Tensor l1_loss(const Tensor& input, const Tensor& target, const char* reduction = "mean");
/// d^2 / (2 beta) where |d| < beta, else |d| - beta/2, d = x - t
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, double beta = 1.0, const char* reduction = "mean");
/// d^2 / 2 where |d| < delta, else delta (|d| - delta/2), d = x - t
Tensor huber_loss(const Tensor& input, const Tensor& target, double delta = 1.0, const char* reduction = "mean");
/// t (ln t - x), or e^t (t - x) for log targets; x are logarithms of probabilities. reduction also "batchmean": the sum
/// over the extent of the first axis.
Tensor kl_div(const Tensor& input, const Tensor& target, bool log_target = false, const char* reduction = "mean");
/// <a, b> / (max(|a|, eps) max(|b|, eps)) along one axis, which is removed; no square overflows.
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int axis = -1, double eps = 1e-8);
/// 1 - cos(x1, x2) for label 1, max(0, cos(x1, x2) - margin) for label -1; x1, x2 [..., C], labels [...] i64.
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& labels, double margin = 0.0,
                             const char* reduction = "mean");

// --- indexing; indices are i64, out of range throws IndexError ---
/// Rows of weight [V, C] by ids [...] -> [..., C]
Tensor embedding(const Tensor& weight, const Tensor& ids);
/// Slices of x along axis, in the order of index [K].
Tensor index_select(const Tensor& x, int axis, const Tensor& index);
/// y[.., i, ..] = x[.., index[.., i, ..], ..] along axis; index has x's rank.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// x with source added at index along axis (index order, deterministic); index and source have the same shape.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source);
/// Elements of source at index along axis joined to those of x: reduce "sum", "mean", "prod", "amax" or "amin"; without
/// include_self x counts only where no element goes. In index order, deterministic. index and source of one shape.
Tensor scatter_reduce(const Tensor& x, int axis, const Tensor& index, const Tensor& source, const char* reduce,
                      bool include_self = true);
/// (P_R X)[.., i, :] = X[.., r[.., i], :]; x [..., T, C], rows [T] or [..., T] (one permutation per sample).
Tensor permute_rows(const Tensor& x, const Tensor& rows);
/// (X P_C)[.., j] = X[.., c[j]]; x [..., C], columns [C].
Tensor permute_columns(const Tensor& x, const Tensor& columns);
/// r with r[p[i]] = i along the last axis. Throws ValueError when p is not a permutation.
Tensor invert_permutation(const Tensor& permutation);

/// How often each number occurs in x [N] i64 -> [max(minlength, max x + 1)] i64; with weights [N] their sums, of the
/// weights' type. Throws IndexError for a negative number.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, std::int64_t minlength = 0);
/// x [...] i64 -> [..., num_classes] with a 1 at each number's place. Throws IndexError outside [0, num_classes).
Tensor one_hot(const Tensor& x, std::int64_t num_classes, DType dtype = DType::i64);

// --- made from numbers ---
/// start, start + step, ... before stop. Throws ValueError when step is 0 or leads away from stop.
Tensor arange(double start, double stop, double step = 1.0, DType dtype = DType::i64);
/// `steps` numbers from start to stop, both included, in equal distances; symmetric to the last bit.
Tensor linspace(double start, double stop, std::int64_t steps, DType dtype = DType::f32);
/// [rows, columns] (columns -1: square) with 1 on the diagonal.
Tensor eye(std::int64_t rows, std::int64_t columns = -1, DType dtype = DType::f32);
Tensor full(const Shape& shape, double value, DType dtype = DType::f32);

// --- shape ---
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, int axis_a = -2, int axis_b = -1);
/// Op "permute"; the function has a longer name because eg::permute is a namespace.
Tensor permute_axes(const Tensor& x, const std::vector<std::int64_t>& axes);
Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1);
Tensor expand(const Tensor& x, const Shape& shape);
Tensor squeeze(const Tensor& x, int axis);
Tensor unsqueeze(const Tensor& x, int axis);
Tensor contiguous(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);
/// A packed copy on another device. The gradient goes back to x's.
Tensor to_device(const Tensor& x, Device device);
Tensor concat(const std::vector<Tensor>& xs, int axis);
Tensor stack(const std::vector<Tensor>& xs, int axis);
/// 0 above (tril) or below (triu) the diagonal of the last two axes; diagonal > 0: one further up and right.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
/// Elements move by shifts[i] places along axes[i], round the end; no axes: the flattened tensor by one shift.
Tensor roll(const Tensor& x, const std::vector<std::int64_t>& shifts, const std::vector<std::int64_t>& axes = {});
/// The other way round along the axes.
Tensor flip(const Tensor& x, const std::vector<std::int64_t>& axes);
/// x side by side repeats[i] times along axis i, counted from the last; further repeats make new leading axes.
Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& repeats);
/// Each element `repeats` times in a row along one axis.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, int axis);
/// Pieces along one axis, views of x. One size: pieces of that size, the last may be smaller; several: these extents.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis = 0);
/// At most `chunks` pieces of one size, the last may be smaller.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int axis = 0);
/// Adds before/after elements of `value` at the ends of one axis.
Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after, double value = 0.0);
/// Adds elements of x itself: "reflect" (the edge is not repeated), "symmetric" (it is), "replicate" (the edge alone),
/// "circular" (from the other end).
Tensor pad_mode(const Tensor& x, int axis, std::int64_t before, std::int64_t after, const char* mode = "reflect");
/// Matrices (vectors and scalars count as one row) along the diagonal, 0 elsewhere.
Tensor block_diag(const std::vector<Tensor>& xs);
/// Coordinates of a grid: ys[i] has the extents of all vectors and varies along axis i alone. indexing "xy": the first
/// two axes are exchanged, as NumPy has it.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& xs, const char* indexing = "ij");
/// Images [B, C, H, W] -> patches [B, (H/p)(W/p), C p p], each patch in (channel, row, column) order.
Tensor patchify(const Tensor& images, std::int64_t patch);
/// Inverse of patchify.
Tensor unpatchify(const Tensor& patches, std::int64_t channels, std::int64_t height, std::int64_t width,
                  std::int64_t patch);

} // namespace eg
