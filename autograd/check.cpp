#include "autograd/check.h"

#include "autograd/tape.h"
#include "autograd/tensor_list.h"
#include "core/ops.h"
#include "core/ops/views/strided_copy.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <string>

namespace eg {
namespace {

using autograd::floating;
using Tensors = std::vector<Tensor>;

double dot(const Tensor& a, const Tensor& b) {
  const std::vector<double> u = a.to(DType::f64).to_vector<double>();
  const std::vector<double> v = b.to(DType::f64).to_vector<double>();
  double total = 0.0;
  for (std::size_t i = 0; i < u.size(); ++i) total += u[i] * v[i];
  return total;
}

double dot(const Tensors& a, const Tensors& b) {
  double total = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) total += dot(a[i], b[i]);
  return total;
}

/// max |x|; a NaN counts as infinity.
double largest(const Tensors& list) {
  double most = 0.0;
  for (const Tensor& t : list)
    for (const double x : t.to(DType::f64).to_vector<double>())
      most = std::max(most, std::isnan(x) ? INFINITY : std::abs(x));
  return most;
}

/// `list` with its floating tensors replaced, in order, by `values`.
Tensors with_floating(Tensors list, const Tensors& values) {
  std::size_t next = 0;
  for (Tensor& t : list)
    if (flows(t)) t = values[next++];
  return list;
}

Tensors random_like(const Tensors& list, RandomKey key) {
  Tensors drawn;
  for (std::size_t i = 0; i < list.size(); ++i)
    drawn.push_back(random_normal(list[i].shape(), key.fold(i), 0.0, 1.0, list[i].dtype()));
  return drawn;
}

/// x + h u, element by element in f64.
Tensors moved(const Tensors& x, double h, const Tensors& u) {
  Tensors result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Tensor there = packed_copy(x[i]);
    const std::vector<double> direction = u[i].to_vector<double>();
    double* to = there.mutable_data<double>();
    for (std::size_t k = 0; k < direction.size(); ++k) to[k] += h * direction[k];
    result.push_back(std::move(there));
  }
  return result;
}

/// J(x)^T v through a tape, for the floating inputs. An output that is the same whatever the inputs (a gradient that is
/// zero everywhere) adds nothing.
Tensors vjp_of(const TensorFunction& f, const Tensors& inputs, const Tensors& v) {
  Tape tape;
  const Tensors x = floating(inputs);
  const Tensors all = floating(f(inputs));
  Tensors y;
  Tensors cotangents;
  for (std::size_t o = 0; o < all.size(); ++o) {
    const bool is_x = std::any_of(x.begin(), x.end(), [&](const Tensor& t) { return t.id() == all[o].id(); });
    if (!is_x && !tape.computed(all[o])) continue;
    y.push_back(all[o]);
    cotangents.push_back(v[o]);
  }
  return tape.gradient(y, x, cotangents);
}

/// The gradient as a function of the inputs and the cotangents: its own gradient is the second derivative.
TensorFunction gradient_of(const TensorFunction& f, std::size_t input_count) {
  return [f, input_count](const Tensors& all) {
    const auto split = all.begin() + static_cast<std::ptrdiff_t>(input_count);
    return vjp_of(f, Tensors(all.begin(), split), Tensors(split, all.end()));
  };
}

/// sum |a_k b_k|
double dot_of_sizes(const Tensors& a, const Tensors& b) {
  double total = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) total += dot(abs(a[i]), abs(b[i]));
  return total;
}

/// Differences of the loss <v, f> along u[i] in input i alone, against the tape's gradient of that input.
struct Directions {
  std::function<Tensors(const Tensors&)> value;
  const Tensors& x;
  const Tensors& u;
  const Tensors& v;
  const Tensors& gradient;

  /// The relative error of input i; `words` says what was compared.
  double error_of(std::size_t i, const GradcheckOptions& options, std::string& words) const {
    const double h = options.step * std::max(1.0, largest({x[i]}));
    const auto loss = [&](double by) {
      Tensors there = x;
      there[i] = moved({x[i]}, by, {u[i]}).front();
      return value(there);
    };
    const Tensors ahead = loss(h), behind = loss(-h);
    const double numeric = (dot(ahead, v) - dot(behind, v)) / (2.0 * h), taped = dot(gradient[i], u[i]);
    // What rounding the loss does to a difference: a gradient that is zero in theory is not zero in it.
    const double noise = 32.0 * std::numeric_limits<double>::epsilon() * dot_of_sizes(ahead, v) / h;
    const double size =
        std::max({std::abs(numeric), std::abs(taped), std::sqrt(dot(gradient[i], gradient[i]) * dot(u[i], u[i]))});
    const bool finite = std::isfinite(numeric) && std::isfinite(taped) && std::isfinite(size);
    const double allowed = size + noise / options.tolerance; // a difference of tolerance * size + noise passes
    const double error = !finite ? INFINITY : allowed == 0.0 ? 0.0 : std::abs(numeric - taped) / allowed;
    words = fmt::format("differences give {:.12g}, the tape gives {:.12g} (relative {:.2e})", numeric, taped, error);
    return error;
  }
};

CheckResult check_first(const TensorFunction& f, const Tensors& inputs, const GradcheckOptions& options) {
  const Tensors x = floating(inputs);
  const auto value = [&](const Tensors& at) { return floating(f(with_floating(inputs, at))); };
  CheckResult result{true, 0.0, options.tolerance, {}};
  for (int direction = 0; direction < options.directions; ++direction) {
    const RandomKey key = options.key.fold(static_cast<std::uint64_t>(direction));
    const Tensors u = random_like(x, key.fold(1));
    const Tensors v = random_like(value(x), key.fold(2));
    const Tensors gradient = vjp_of(f, inputs, v);
    const Directions along{value, x, u, v, gradient};
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::string words;
      const double error = along.error_of(i, options, words);
      if (error > result.error || result.detail.empty()) {
        result.error = error;
        result.detail = fmt::format("direction {}, input {}: {}", direction, i, words);
      }
    }
  }
  result.pass = result.error <= options.tolerance;
  return result;
}

} // namespace

CheckResult gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  if (options.directions < 1)
    throw ValueError(fmt::format("gradcheck: {} directions check nothing; give at least 1", options.directions));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (flows(inputs[i]) && inputs[i].dtype() != DType::f64)
      throw DTypeError(fmt::format("gradcheck: input {} is {}; differences need f64", i, name_of(inputs[i].dtype())));
  return without_tape([&] {
    if (!options.second) return check_first(f, inputs, options);
    Tensors all = inputs;
    for (Tensor& v : random_like(floating(f(inputs)), options.key.fold(3))) all.push_back(std::move(v));
    return check_first(gradient_of(f, inputs.size()), all, options);
  });
}

SymmetryAction::SymmetryAction(const Symmetry& symmetry, Tensor gather)
    : symmetry_(&symmetry), gather_(std::move(gather)), inverse_(invert_permutation(gather_)) {}

Tensors SymmetryAction::on_inputs(Tensors list) const {
  list = on(Leg::Side::in, std::move(list));
  for (const int i : symmetry_->values)
    if (const auto at = static_cast<std::size_t>(i); at < list.size() && list[at].defined())
      list[at] = relabelled(list[at]);
  return list;
}

Tensors SymmetryAction::on(Leg::Side side, Tensors list) const {
  for (const Leg& leg : symmetry_->legs)
    if (const auto at = static_cast<std::size_t>(leg.index); leg.side == side && at < list.size() && list[at].defined())
      list[at] = index_select(list[at], leg.axis, gather_);
  return list;
}

Tensor SymmetryAction::relabelled(const Tensor& labels) const {
  const std::vector<std::int64_t> inverse = inverse_.to_vector<std::int64_t>();
  std::vector<std::int64_t> values = labels.to_vector<std::int64_t>();
  for (std::int64_t& v : values)
    if (v >= 0 && v < static_cast<std::int64_t>(inverse.size())) v = inverse[static_cast<std::size_t>(v)];
  return Tensor::from(values, labels.shape());
}

namespace {

/// The common extent of the legs. Throws ShapeError when there is none to speak of.
std::int64_t extent_of(const Symmetry& symmetry, const Tensors& inputs, const Tensors& outputs) {
  std::int64_t extent = -1;
  for (const Leg& leg : symmetry.legs) {
    const Tensors& list = leg.side == Leg::Side::in ? inputs : outputs;
    const auto at = static_cast<std::size_t>(leg.index);
    if (at >= list.size() || !list[at].defined()) continue;
    const int axis = normalize_axis("symmetry_check", leg.axis, list[at].rank());
    const std::int64_t here = list[at].shape()[axis];
    if (here < 2)
      throw ShapeError(fmt::format("symmetry_check: '{}': axis {} of {} is shorter than 2, so nothing would be checked",
                                   symmetry.name, leg.axis, list[at].shape().str()));
    if (extent >= 0 && here != extent)
      throw ShapeError(
          fmt::format("symmetry_check: '{}': its axes have different extents: {} and {}", symmetry.name, extent, here));
    extent = here;
  }
  if (extent < 0)
    throw ShapeError(fmt::format("symmetry_check: '{}' has no axis among the given tensors", symmetry.name));
  return extent;
}

/// Collects the worst difference of named tensors.
struct Comparison {
  CheckResult result;
  bool bits = false; // any other bit counts as an infinite difference

  /// Relative to the largest entry of the reference, but to no less than `floor`.
  void compare(const std::string& what, const Tensor& left, const Tensor& right, double floor = 0.0) {
    double error = 0.0;
    if (left.shape() != right.shape() || left.dtype() != right.dtype()) {
      error = INFINITY;
    } else if (bits || !is_floating(left.dtype())) {
      error = same_bits(left, right) ? 0.0 : INFINITY;
    } else {
      // NaN equal to NaN, or infinity to infinity, says nothing. The floor matters only for tiny references.
      const double size = largest({right});
      if (!std::isfinite(size) || !std::isfinite(largest({left})))
        error = INFINITY;
      else if (size < floor)
        error = largest({sub(left.to(DType::f64), right.to(DType::f64))}) / floor;
      else
        error = relative_error(left, right);
    }
    if (error > result.error || result.detail.empty()) {
      result.error = error;
      result.detail = fmt::format("{}: relative difference {:.2e}, largest entry {:.6g} against {:.6g}", what, error,
                                  largest({left}), largest({right}));
    }
  }
};

/// vjp for every input, undefined where it has no gradient.
Tensors vjp_by_input(const TensorFunction& f, const Tensors& inputs, const Tensors& v) {
  const Tensors gradients = vjp_of(f, inputs, v);
  Tensors by_input(inputs.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (flows(inputs[i])) by_input[i] = gradients[next++];
  return by_input;
}

void compare_gradients(const TensorFunction& f, const Tensors& inputs, const Tensors& outputs,
                       const SymmetryAction& rho, RandomKey key, const std::string& name, Comparison& worst) {
  Tensors cotangents(outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (flows(outputs[o])) cotangents[o] = random_normal(outputs[o].shape(), key.fold(o), 0.0, 1.0, outputs[o].dtype());
  const Tensors left = vjp_by_input(f, rho.on_inputs(inputs), floating(rho.on(Leg::Side::out, cotangents)));
  const Tensors plain = vjp_by_input(f, inputs, floating(cotangents));
  const Tensors right = rho.on(Leg::Side::in, plain);
  // A gradient that is zero in exact arithmetic is all rounding: it is measured against its neighbours.
  const double floor = 1e-3 * largest(floating(plain));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (flows(inputs[i])) worst.compare(fmt::format("'{}': gradient of input {}", name, i), left[i], right[i], floor);
}

} // namespace

CheckResult symmetry_check(const TensorFunction& f, const std::vector<Tensor>& inputs, const Symmetry& symmetry,
                           const SymmetryCheckOptions& options) {
  if (options.draws < 1)
    throw ValueError(fmt::format("symmetry_check: {} draws check nothing; give at least 1", options.draws));
  return without_tape([&] {
    const Tensors outputs = f(inputs);
    const std::int64_t extent = extent_of(symmetry, inputs, outputs);
    Comparison worst;
    worst.result.tolerance = options.tolerance;
    worst.bits = options.bits;
    for (int draw = 0; draw < options.draws; ++draw) {
      const RandomKey key = options.key.fold(static_cast<std::uint64_t>(draw));
      const SymmetryAction rho(symmetry, random_nonidentity_permutation(extent, key.fold(1)));
      const Tensors left = f(rho.on_inputs(inputs));
      const Tensors right = rho.on(Leg::Side::out, outputs);
      for (std::size_t o = 0; o < right.size(); ++o)
        worst.compare(fmt::format("'{}': output {}", symmetry.name, o), left[o], right[o]);
      if (options.backward && !floating(outputs).empty() && !floating(inputs).empty())
        compare_gradients(f, inputs, outputs, rho, key.fold(2), symmetry.name, worst);
    }
    worst.result.pass = worst.result.error <= options.tolerance;
    return worst.result;
  });
}

} // namespace eg
