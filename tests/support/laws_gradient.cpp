#include "autograd/tape.h"
#include "core/ops.h"
#include "support/law_tools.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::laws {
namespace {

bool all_zero(const Tensor& t) {
  for (const double x : t.to(DType::f64).to_vector<double>())
    if (x != 0.0) return false;
  return true;
}

Verdict check_gradients(const OpDef& op, const GradcheckOptions& options) {
  Verdict verdict;
  if (!has_gradient(op)) return verdict;
  each_sample(op, DType::f64, verdict, [&](const Sample& sample) {
    if (!differentiable(op, sample)) return;
    ++verdict.checked;
    const CheckResult result = gradcheck(function_of(op, sample.attrs), sample.in, options);
    verdict.see(result.error);
    if (!result.pass) verdict.fail(fmt::format("{}: {}", where(op, sample), result.detail));
  });
  return verdict;
}

} // namespace

Verdict second_derivative_law(const OpDef& op) {
  GradcheckOptions options;
  options.second = true;
  return check_gradients(op, options);
}

namespace {

/// A call on whose rule the laws put questions directly.
struct Rule {
  const OpDef& op;
  Tensors in;
  Tensors out;
  Attrs attrs;
  Tensors cotangents;

  Rule(const OpDef& row, const Sample& sample)
      : op(row), in(sample.in), out(outputs(row, sample)), attrs(completed(row, sample)),
        cotangents(cotangents_for(out)) {
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i].defined() && !keeps_in(i)) in[i] = Tensor::meta(in[i].shape(), in[i].dtype());
    for (std::size_t o = 0; o < out.size(); ++o)
      if (!keeps_out(o)) out[o] = Tensor::meta(out[o].shape(), out[o].dtype());
  }
  bool keeps_in(std::size_t i) const { return (op.saves & saves::in(op.variadic ? 0 : static_cast<int>(i))) != 0; }
  bool keeps_out(std::size_t o) const { return (op.saves & saves::out(static_cast<int>(o))) != 0; }
  std::uint32_t everything() const {
    std::uint32_t mask = 0;
    for (std::size_t i = 0; i < in.size() && i < 32; ++i)
      if (flows(in[i])) mask |= 1U << i;
    return mask;
  }
  Gradients operator()(std::uint32_t wanted) const { return (*this)(wanted, cotangents); }
  Gradients operator()(std::uint32_t wanted, const Tensors& grad) const {
    const PauseRecording pause;
    const OpArgs args{op, in, attrs};
    Gradients g = op.vjp(VjpArgs{args, out, grad, wanted});
    g.resize(std::max(g.size(), in.size()));
    for (std::size_t i = 0; i < in.size(); ++i) // as the engine does
      if (g[i].defined() && in[i].defined() && g[i].shape() != in[i].shape()) g[i] = sum_to(g[i], in[i].shape());
    return g;
  }
};

bool close(const Tensor& a, const Tensor& b) {
  constexpr double tolerance = 1e-12; // a rule may take another path when less is asked
  if (!a.defined()) return !b.defined() || all_zero(b);
  if (!b.defined()) return all_zero(a);
  return a.shape() == b.shape() && (all_zero(a) == all_zero(b)) && (all_zero(b) || relative_error(a, b) <= tolerance);
}

void check_each_alone(const Rule& rule, const std::string& place, Verdict& verdict) {
  const Gradients all = rule(rule.everything());
  for (std::size_t i = 0; i < rule.in.size() && i < 32; ++i) {
    if (!flows(rule.in[i])) {
      if (all[i].defined()) verdict.fail(fmt::format("{}: a gradient for the integers of input {}", place, i));
      continue;
    }
    const Gradients alone = rule(1U << i);
    ++verdict.checked;
    for (std::size_t j = 0; j < alone.size(); ++j)
      if (j != i && alone[j].defined())
        verdict.fail(fmt::format("{}: {} alone was wanted, but the rule gave {} too", place, input_name(rule.op, i),
                                 input_name(rule.op, j)));
    if (!close(alone[i], all[i]))
      verdict.fail(fmt::format("{}: the gradient of {} depends on what else is wanted", place, input_name(rule.op, i)));
  }
}

void check_missing_cotangents(const Rule& rule, const std::string& place, Verdict& verdict) {
  for (std::size_t o = 0; o < rule.out.size(); ++o) {
    if (!rule.cotangents[o].defined()) continue;
    Tensors alone(rule.out.size());
    Tensors zeros(rule.out.size());
    for (std::size_t k = 0; k < rule.out.size(); ++k) {
      if (k == o)
        alone[k] = zeros[k] = rule.cotangents[k];
      else if (rule.cotangents[k].defined())
        zeros[k] = Tensor::zeros(rule.out[k].shape(), rule.out[k].dtype());
    }
    const Gradients a = rule(rule.everything(), alone);
    const Gradients b = rule(rule.everything(), zeros);
    ++verdict.checked;
    for (std::size_t i = 0; i < rule.in.size(); ++i)
      if (!close(a[i], b[i]))
        verdict.fail(fmt::format("{}: only {} has a cotangent: the gradient of {} differs from that with zeros", place,
                                 output_name(rule.op, o), input_name(rule.op, i)));
  }
}

/// By the row's rule or, for a row with a body, through a tape.
Gradients all_gradients(const OpDef& op, const Sample& sample) {
  if (op.body != nullptr) return gradients(op, sample, cotangents_for(outputs(op, sample)));
  const Rule rule(op, sample);
  return rule(rule.everything());
}

} // namespace

Verdict gradient_law(const OpDef& op) {
  Verdict verdict = check_gradients(op, {});
  if (!has_gradient(op)) return verdict;
  // A gradient that is zero in every sample would agree with differences of a constant: nothing was tested.
  std::vector<bool> given;
  std::vector<bool> moved;
  each_sample(op, DType::f64, verdict, [&](const Sample& sample) {
    if (!differentiable(op, sample)) return;
    const Gradients g = all_gradients(op, sample);
    given.resize(std::max(given.size(), g.size()));
    moved.resize(given.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (!g[i].defined()) continue;
      given[i] = true;
      moved[i] = moved[i] || !all_zero(g[i]);
    }
  });
  const bool somewhere = std::find(moved.begin(), moved.end(), true) != moved.end();
  if (!op.zero_gradient.empty()) {
    if (somewhere) verdict.fail(fmt::format("{}: its gradient is not zero everywhere", op.name));
    return verdict;
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i] && !moved[i])
      verdict.fail(fmt::format("{}: the gradient of {} is zero in every sample", op.name, input_name(op, i)));
  if (!somewhere) verdict.fail(fmt::format("{}: every gradient is zero in every sample", op.name));
  return verdict;
}

Verdict wants_law(const OpDef& op) {
  Verdict verdict;
  if (op.vjp == nullptr) return verdict;
  each_sample(op, DType::f64, verdict, [&](const Sample& sample) {
    if (!differentiable(op, sample)) return;
    const Rule rule(op, sample);
    check_each_alone(rule, where(op, sample), verdict);
    if (rule.out.size() > 1) check_missing_cotangents(rule, where(op, sample), verdict);
  });
  return verdict;
}

Verdict adding_law(const OpDef& op) {
  Verdict verdict;
  if (op.adding_vjp == nullptr) return verdict;
  const auto without_negative_zero = [](const Tensor& t) { return add(t, Tensor::zeros({}, t.dtype())); };
  for (const DType dtype : {DType::f64, DType::f32})
    each_sample(op, dtype, verdict, [&](const Sample& sample) {
      if (!differentiable(op, sample)) return;
      const Rule rule(op, sample);
      const Tensor before = random_normal(rule.in[0].shape(), {11, 0}, 0.0, 1.0, dtype);
      const Gradients g = rule(1U);
      Tensors sums(rule.in.size());
      sums[0] = before.clone();
      std::vector<bool> wanted(rule.in.size(), false);
      wanted[0] = true;
      {
        const PauseRecording pause;
        op.adding_vjp({rule.in, rule.out, rule.attrs, rule.cotangents, wanted, sums});
      }
      ++verdict.checked;
      const Tensor expected = without_negative_zero(g[0].defined() ? add(before, g[0]) : before);
      if (!same_bits(without_negative_zero(sums[0]), expected))
        verdict.fail(fmt::format("{}: adding to a sum gives {} from adding the gradient", where(op, sample, dtype),
                                 relative_error(sums[0], expected)));
    });
  return verdict;
}

Verdict saves_only_what_is_read(const OpDef& op) {
  Verdict verdict;
  if (op.vjp == nullptr || op.saves == saves::nothing) return verdict;
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    const std::uint32_t mask = 1U << bit;
    if ((op.saves & mask) == 0) continue;
    OpDef poorer = op;
    poorer.saves &= ~mask;
    bool read = false;
    for (const Sample& sample : op.samples(DType::f64)) {
      if (!differentiable(op, sample)) continue;
      const Rule full(op, sample);
      const Rule rule(poorer, sample);
      try {
        const Gradients g = rule(rule.everything());
        read = read || !difference_in_bits(g, full(full.everything())).empty();
      } catch (const std::exception&) {
        read = true;
      }
    }
    ++verdict.checked;
    if (!read)
      verdict.fail(
          fmt::format("{}: the tape keeps {} {} that no rule reads", op.name, bit < 16 ? "input" : "output", bit % 16));
  }
  return verdict;
}

Verdict no_gradient_law(const OpDef& op) {
  Verdict verdict;
  if (has_gradient(op)) return verdict;
  each_sample(op, DType::f64, verdict, [&](const Sample& sample) {
    const Tensors x = floating(sample.in);
    if (x.empty()) {
      ++verdict.checked; // integers alone: there is nothing to ask for
      return;
    }
    Tape tape;
    const Tensors y = call_row(op, sample.in, sample.attrs);
    ++verdict.checked;
    try {
      const Tensor cotangent = flows(y[0]) ? Tensor::ones(y[0].shape(), y[0].dtype()) : Tensor{};
      tape.gradient(y[0], x, cotangent);
      verdict.fail(fmt::format("{}: it has no rule, but a gradient was given", where(op, sample)));
    } catch (const AutogradError& e) {
      const std::string words = flows(y[0]) ? std::string(op.no_gradient) : "only f32 and f64 have gradients";
      if (std::string(e.what()).find(words) == std::string::npos)
        verdict.fail(fmt::format("{}: the refusal does not say '{}': {}", where(op, sample), words, e.what()));
    }
  });
  return verdict;
}

} // namespace eg::laws
