#include "golden/run.h"

#include "autograd/functional.h"
#include "autograd/tape.h"
#include "core/call.h"
#include "golden/draw.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <fmt/format.h>

namespace eg::golden {
namespace {

using Tensors = std::vector<Tensor>;

/// One tensor against its reference.
struct Comparison {
  double error = 0.0;
  std::string worst; ///< "element 3: 0.25 should be 0.5"
};

bool both_same_when_not_finite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(b) && a == b);
}

/// Of finite numbers and, where the reference has none, of what is not finite. `scale(b)` is what the difference from
/// entry b is divided by.
template <class Scale> Comparison compared(const Tensor& y, const std::vector<double>& reference, Scale scale) {
  const std::vector<double> values = y.to(DType::f64).to_vector<double>();
  Comparison found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double a = values[i];
    const double b = reference[i];
    if (both_same_when_not_finite(a, b)) continue;
    const bool finite = std::isfinite(a) && std::isfinite(b);
    const double error = finite ? std::abs(a - b) / scale(b) : HUGE_VAL;
    if (error > found.error) found = {error, fmt::format("element {}: {:.9g} should be {:.9g}", i, a, b)};
  }
  return found;
}

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double x : values)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

Comparison relative_to_largest(const Tensor& y, const std::vector<double>& reference) {
  const double scale = std::max(least, largest(reference));
  return compared(y, reference, [scale](double) { return scale; });
}

/// For extremes: each element by itself, rounded to the run's type first, so that what overflows there is infinite.
Comparison element_by_element(const Tensor& y, std::vector<double> reference) {
  if (y.dtype() == DType::f32)
    for (double& x : reference) x = static_cast<double>(static_cast<float>(x));
  return compared(y, reference, [](double b) { return std::max(std::abs(b), 1.0); });
}

DType dtype_of_output(char type, DType run) {
  switch (type) {
  case 's':
    return DType::f32;
  case 'd':
    return DType::f64;
  case 'i':
    return DType::i64;
  case 'u':
    return DType::u8;
  case 'b':
    return DType::boolean;
  default:
    return run;
  }
}

/// Collects comparisons and failures of one case.
class Judge {
public:
  Judge(const Case& c, DType dtype) : case_(c), dtype_(dtype), bounds_(bounds_for(c.op, dtype)) {}

  void fail(const std::string& what) {
    outcome.failures.push_back(fmt::format("{} in {}: {}", case_.name(), name_of(dtype_), what));
  }
  void outputs(const Tensors& y) {
    if (y.size() != case_.outputs.size())
      return fail(fmt::format("{} outputs, not {}", y.size(), case_.outputs.size()));
    for (std::size_t o = 0; o < y.size(); ++o) {
      const OutputSpec& spec = case_.outputs[o];
      const DType wanted = dtype_of_output(spec.type, dtype_);
      if (y[o].shape() != spec.shape || y[o].dtype() != wanted) {
        fail(fmt::format("output {} is {} {}, not {} {}", o, name_of(y[o].dtype()), y[o].shape().str(), name_of(wanted),
                         spec.shape.str()));
        continue;
      }
      const bool extremes = case_.depth == Depth::extremes;
      const Comparison c =
          extremes ? element_by_element(y[o], case_.values[o]) : relative_to_largest(y[o], case_.values[o]);
      note(c, outcome.errors.values, bounds_.values, fmt::format("output {}", o));
    }
  }
  void gradients(const Tensors& g) { all(g, case_.gradients, outcome.errors.gradients, bounds_.gradients, "gradient"); }
  void second(const Tensors& by_input, const Tensors& by_cotangent) {
    all(by_input, case_.second, outcome.errors.second, bounds_.second, "second derivative by input");
    all(by_cotangent, case_.by_cotangent, outcome.errors.second, bounds_.second, "second derivative by cotangent");
  }
  Outcome outcome;

private:
  void all(const Tensors& found, const std::vector<std::vector<double>>& reference, double& worst, double bound,
           const char* what) {
    if (found.size() != reference.size())
      return fail(fmt::format("{}: {} tensors, not {}", what, found.size(), reference.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].numel() != static_cast<std::int64_t>(reference[i].size())) {
        fail(fmt::format("{} {}: {} elements, not {}", what, i, found[i].numel(), reference[i].size()));
        continue;
      }
      note(relative_to_largest(found[i], reference[i]), worst, bound, fmt::format("{} {}", what, i));
    }
  }
  void note(const Comparison& c, double& worst, double bound, const std::string& what) {
    worst = std::max(worst, c.error);
    if (!(c.error <= bound))
      fail(fmt::format("{} is off by {:.2e} (allowed {:.0e}): {}", what, c.error, bound, c.worst));
  }

  const Case& case_;
  DType dtype_;
  Bounds bounds_;
};

Tensors defined(const Tensors& list) {
  Tensors found;
  std::copy_if(list.begin(), list.end(), std::back_inserter(found), [](const Tensor& t) { return t.defined(); });
  return found;
}

/// (x, v) -> J^T v for the floating inputs, as a function that can be differentiated again.
TensorFunction pullback(const TensorFunction& f, std::size_t inputs) {
  return [f, inputs](const Tensors& both) {
    const auto middle = both.begin() + static_cast<std::ptrdiff_t>(inputs);
    return defined(vjp(f, Tensors(both.begin(), middle), Tensors(middle, both.end())).gradients);
  };
}

void derivatives(const Case& c, const TensorFunction& f, const Tensors& x, const Tensors& y, Judge& judge) {
  Tensors both = x;
  for (std::size_t o = 0; o < y.size(); ++o) both.push_back(flows(y[o]) ? cotangent(c, o, y[o]) : Tensor());
  Tensors along;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (flows(x[i])) along.push_back(direction(c, i, x[i]));
  if (c.depth == Depth::first) return judge.gradients(pullback(f, x.size())(both));

  const Vjp result = vjp(pullback(f, x.size()), both, along);
  judge.gradients(result.outputs);
  const auto middle = result.gradients.begin() + static_cast<std::ptrdiff_t>(x.size());
  judge.second(defined({result.gradients.begin(), middle}), defined({middle, result.gradients.end()}));
}

} // namespace

Bounds bounds_for(const std::string& op, DType dtype) {
  if (dtype == DType::f64) return bounds_f64;
  for (const Exception& e : exceptions())
    if (op == e.op) return e.f32;
  return bounds_f32;
}

Outcome run(const Case& c, const OpDef& row, DType dtype) {
  Judge judge(c, dtype);
  try {
    Tensors x;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) x.push_back(input(c, i, dtype));
    const TensorFunction f = [&](const Tensors& in) { return call(row, in, c.attrs); };
    const Tensors y = f(x);
    judge.outputs(y);
    const bool differentiates = c.depth == Depth::first || c.depth == Depth::second;
    if (differentiates && judge.outcome.failures.empty()) derivatives(c, f, x, y, judge);
  } catch (const std::exception& e) {
    judge.fail(fmt::format("threw: {}", e.what()));
  }
  return std::move(judge.outcome);
}

} // namespace eg::golden
