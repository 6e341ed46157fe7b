#include "fuzz/inference/claims.h"

#include "autograd/functional.h"
#include "core/base/error.h"
#include "core/meta.h"
#include "core/reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace eg::fuzz {
namespace {

using permute::ModelSymmetries;
using permute::SymmetryElement;

constexpr double tolerance = 1e-7;
constexpr RandomKey key_of_reading{1, 1};                   // of a program that is read on values
constexpr double small_output = 1e-3, small_gradient = 1.0; // below these, errors are absolute

/// The larger of two errors, with its place.
void worse(CheckResult& result, double error, const std::string& what) {
  if (error <= result.error) return;
  result.error = error;
  result.what = what;
}

double largest_of(const std::vector<Tensor>& list) {
  double largest = 0.0;
  for (const Tensor& t : list)
    if (t.defined())
      for (const double v : t.contiguous().to_vector<double>()) largest = std::max(largest, std::abs(v));
  return largest;
}

/// A program at one point: its outputs, and its gradients along random cotangents where it has them.
class Subject {
public:
  Subject(const Program& program, RandomKey key)
      : program_(program), leaves_(leaf_values(program, key)), outputs_(run(program, leaves_)) {
    std::uint64_t tag = 100;
    for (const Tensor& y : outputs_)
      cotangents_.push_back(y.dtype() == DType::f64 ? random_normal(y.shape(), key.fold(tag++), 0.0, 1.0, DType::f64)
                                                    : Tensor());
    differentiate();
  }

  bool has_gradients() const { return !gradients_.empty(); }

  /// How far the program is from commuting with the element.
  CheckResult error_of(const ModelSymmetries& claims, const SymmetryElement& element,
                       std::optional<std::size_t> unmoved) const {
    std::vector<Tensor> leaves, cotangents;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      leaves.push_back(i == unmoved ? leaves_[i] : claims.moved(element, leaf_name(i), leaves_[i]));
    for (std::size_t o = 0; o < outputs_.size(); ++o)
      cotangents.push_back(cotangents_[o].defined() ? claims.moved(element, output_name_of(o), cotangents_[o])
                                                    : Tensor());
    CheckResult result;
    const Vjp found = has_gradients() ? vjp(function(), leaves, cotangents) : Vjp{run(program_, leaves), {}};
    for (std::size_t o = 0; o < outputs_.size(); ++o)
      worse(result, distance(found.outputs[o], claims.moved(element, output_name_of(o), outputs_[o]), small_output),
            output_name_of(o));
    const double scale = std::max(largest_of(gradients_), small_gradient);
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      if (gradients_[i].defined() && i != unmoved)
        worse(result, distance(found.gradients[i], claims.moved(element, leaf_name(i), gradients_[i]), scale),
              "gradient of " + leaf_name(i));
    return result;
  }

private:
  TensorFunction function() const {
    return [this](const std::vector<Tensor>& in) { return run(program_, in); };
  }
  void differentiate() {
    if (std::none_of(cotangents_.begin(), cotangents_.end(), [](const Tensor& t) { return t.defined(); })) return;
    try {
      gradients_ = vjp(function(), leaves_, cotangents_).gradients;
    } catch (const AutogradError&) {
      gradients_.clear(); // an operation without a rule, or all that is differentiable was paused
    }
  }

  const Program& program_;
  std::vector<Tensor> leaves_, outputs_, cotangents_, gradients_;
};

/// Generators of all groups, at most `most` of them.
std::vector<SymmetryElement> generators_of(const ModelSymmetries& claims, std::size_t most, RandomStream& random) {
  std::vector<SymmetryElement> all;
  for (const permute::SymmetryGroup& g : claims.groups())
    for (SymmetryElement& e : claims.generators(g.name)) all.push_back(std::move(e));
  while (all.size() > most) all.erase(all.begin() + static_cast<std::ptrdiff_t>(random.below(all.size())));
  return all;
}

SymmetryElement product_of(const std::vector<SymmetryElement>& generators, RandomStream& random) {
  constexpr int factors = 6;
  const auto drawn = [&]() -> const SymmetryElement& { return generators[random.below(generators.size())]; };
  SymmetryElement product = drawn().then(drawn());
  for (int i = 2; i < factors; ++i) product = product.then(drawn());
  return product;
}

/// Whether the difference stays where sums do not depend on the order of their terms.
bool is_rounding(const Program& program, const ModelSymmetries& claims, const SymmetryElement& element,
                 const CheckOptions& options) {
  const ReductionScope exact(Reduction::exact);
  return Subject(program, options.key).error_of(claims, element, options.unmoved_leaf).error <= tolerance;
}

/// Tries one element. False: it was found wrong.
bool try_element(const Program& program, const ModelSymmetries& claims, const Subject& subject,
                 const SymmetryElement& element, const CheckOptions& options, CheckResult& result) {
  const CheckResult own = subject.error_of(claims, element, options.unmoved_leaf);
  ++result.elements;
  worse(result, own.error, own.what);
  if (own.error <= tolerance) return true;
  const bool rounding = is_rounding(program, claims, element, options);
  result.finding = rounding ? Finding::rounding : Finding::unsound;
  return rounding;
}

} // namespace

double distance(const Tensor& a, const Tensor& b, double floor) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (!a.defined() || !b.defined() || a.shape() != b.shape()) return infinite;
  const std::vector<double> x = a.to(DType::f64).contiguous().to_vector<double>();
  const std::vector<double> y = b.to(DType::f64).contiguous().to_vector<double>();
  double difference = 0.0, largest = floor;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return infinite;
    if (std::isnan(x[i]) || x[i] == y[i]) continue; // infinities too
    difference = std::max(difference, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return difference / largest;
}

const char* name_of(Finding finding) {
  constexpr const char* names[] = {"sound", "unsound", "thrown", "rounding", "not run"};
  return names[static_cast<std::size_t>(finding)];
}

ModelSymmetries claims_of(const Program& program) {
  const MetaCallScope shapes_alone;
  const std::vector<Tensor> leaves =
      program.read_on_values ? leaf_values(program, key_of_reading) : leaf_shapes(program);
  permute::SymmetryQuery query;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const bool is_input = i % 2 == 1 || program.leaves[i].range > 0;
    (is_input ? query.inputs : query.parameters).emplace_back(leaf_name(i), leaves[i]);
  }
  query.run = [&] {
    nn::StateDict outputs;
    for (const Tensor& y : run(program, leaves)) outputs.emplace_back(output_name_of(outputs.size()), y);
    return outputs;
  };
  return ModelSymmetries(query);
}

namespace {

bool is_number_throughout(const Tensor& t) {
  if (!is_floating(t.dtype())) return true;
  const std::vector<double> values = t.to(DType::f64).contiguous().to_vector<double>();
  return std::none_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

/// A call may refuse other numbers than the program was drawn with, or have no result for them.
bool runs_on(const Program& program, RandomKey key) {
  try {
    for (const std::vector<Tensor>& outputs : run_steps(program, leaf_values(program, key)))
      if (!std::all_of(outputs.begin(), outputs.end(), is_number_throughout)) return false;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    return false;
  }
  return true;
}

} // namespace

CheckResult check_claims(const Program& program, const ModelSymmetries& claims, const CheckOptions& options) {
  RandomStream random(options.key.fold(7));
  if (!runs_on(program, options.key)) return {.finding = Finding::not_run};
  CheckResult result;
  try {
    const std::vector<SymmetryElement> generators =
        generators_of(claims, static_cast<std::size_t>(options.generators), random);
    if (generators.empty()) return result;
    const Subject subject(program, options.key);
    result.gradients = subject.has_gradients();
    for (const SymmetryElement& e : generators)
      if (!try_element(program, claims, subject, e, options, result)) return result;
    for (int i = 0; i < options.products && generators.size() > 1; ++i)
      if (!try_element(program, claims, subject, product_of(generators, random), options, result)) return result;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    result.finding = Finding::thrown;
    result.what = e.what();
  }
  return result;
}

CheckResult check_program(const Program& program, const CheckOptions& options) {
  if (program.read_on_values && !runs_on(program, key_of_reading)) return {.finding = Finding::not_run};
  try {
    return check_claims(program, claims_of(program), options);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    return {Finding::thrown, 0.0, e.what()};
  }
}

} // namespace eg::fuzz
