#include "permute/catalogue/catalogue.h"

#include "core/base/named_values.h"
#include "core/base/words.h"
#include "core/device/device.h"
#include "core/reduction.h"
#include "permute/catalogue/case.h"
#include "permute/catalogue/equations.h"
#include "permute/catalogue/explain.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace eg::permute {
namespace {

template <class T> void append(std::vector<T>& to, std::vector<T> more) {
  for (T& item : more) to.push_back(std::move(item));
}

constexpr std::int64_t most_draws = 5;
constexpr std::int64_t least_candidates = 720; // of a sharp statement: S_6

bool all_finite(const Tensor& x) {
  if (!is_floating(x.dtype())) return true;
  const std::vector<double> v = x.to(DType::f64).to_vector<double>();
  return std::all_of(v.begin(), v.end(), [](double e) { return std::isfinite(e); });
}

/// Throws DeviceError for a side that was computed elsewhere than on the device that is to be checked.
void require_here(const Comparison& c, const Tensor& expected) {
  for (const Tensor* side : {&c.value, &expected})
    if (side->device() != current_device())
      throw DeviceError(fmt::format("verify: {}: a side was computed on {}, not on {}", c.what, side->device().str(),
                                    current_device().str()));
}

/// max |value - expected| over `scale`, or over the largest |expected| when scale is 0.
double error_of(const Comparison& c, const Tensor& expected) {
  require_here(c, expected);
  if (c.value.shape() != expected.shape())
    throw ShapeError(
        fmt::format("verify: {}: one side is {}, the other {}", c.what, c.value.shape().str(), expected.shape().str()));
  if (!all_finite(expected)) return std::numeric_limits<double>::infinity(); // NaN equal to NaN proves nothing
  if (c.exact) return same_bits(c.value, expected) ? 0.0 : std::max(relative_error(c.value, expected), 1e-300);
  if (c.scale == 0.0) return relative_error(c.value, expected);
  return relative_error(concat({c.value.reshape({-1}), Tensor::full({1}, c.scale, c.value.dtype())}, 0),
                        concat({expected.reshape({-1}), Tensor::full({1}, c.scale, c.value.dtype())}, 0));
}

struct Worst {
  double error = 0.0;
  std::string what;

  void see(double e, std::string_view name) {
    if (std::isnan(e)) e = std::numeric_limits<double>::infinity();
    if (e < error || (e == error && !what.empty())) return;
    error = e;
    what = name;
  }
};

/// Fills in the errors.
Worst measured(std::vector<Comparison>& comparisons) {
  Worst worst;
  for (Comparison& c : comparisons) {
    c.error = error_of(c, c.expected);
    worst.see(c.error, c.what);
  }
  return worst;
}

/// In f32 both sides could share a mistake of the f32 kernels: the expected side also comes from f64.
std::vector<Comparison> against_f64(const Identity& identity, const VerifyOptions& options, std::int64_t attempt,
                                    const Claim& claim) {
  Case reference(options, identity.id, DType::f64, true, attempt);
  const Claim wide = identity.run(reference);
  std::vector<Comparison> comparisons = claim.holds;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    Comparison& c = comparisons[i];
    c.what += " (against f64)";
    c.exact = false;
    c.value = c.value.to(DType::f64);
    c.expected = wide.holds[i].expected.to(DType::f64);
  }
  return comparisons;
}

/// A number that is to be 0 has no other side that rounds alike.
bool has_two_sides(const Comparison& c) { return c.scale == 0.0; }

/// Elements whose bytes differ.
std::int64_t differing_elements(const Comparison& c) {
  const Tensor a = c.value.contiguous().to(Device::cpu()), b = c.expected.contiguous().to(Device::cpu());
  const std::size_t width = size_of(a.dtype());
  std::int64_t differing = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * width;
    differing += std::memcmp(a.bytes() + at, b.bytes() + at, width) != 0 ? 1 : 0;
  }
  return differing;
}

std::int64_t count_differing(const Claim& claim) {
  std::int64_t differing = 0;
  for (const Comparison& c : claim.holds) differing += has_two_sides(c) ? differing_elements(c) : 0;
  return differing;
}

std::int64_t differing_without_exact(const Identity& identity, const VerifyOptions& options, std::int64_t attempt) {
  const ReductionScope fast(Reduction::fast);
  Case again(options, identity.id, options.dtype, options.dtype == DType::f32, attempt);
  return count_differing(identity.run(again));
}

/// One draw: what the row compares with it, and the largest errors. Whether the control differs as it must.
bool measure_draw(const Identity& identity, const VerifyOptions& options, std::int64_t attempt,
                  Explanation& explanation) {
  VerifyResult& result = explanation.result;
  Case run(options, identity.id, options.dtype, options.dtype == DType::f32, attempt);
  Claim claim = identity.run(run);
  Worst worst = measured(claim.holds);
  const Worst control = measured(claim.fails);
  explanation.holds = claim.holds;
  explanation.control = claim.fails;
  const bool passes = identity.gate == Gate::one_pass || identity.gate == Gate::whole_model;
  if (options.dtype == DType::f32 && claim.compare_f64 && passes) {
    std::vector<Comparison> wide = against_f64(identity, options, attempt, claim);
    const Worst worst_wide = measured(wide);
    worst.see(worst_wide.error, worst_wide.what);
    append(explanation.holds, std::move(wide));
  }
  for (const auto& [name, value] : claim.sizes) result.sizes[name] = value;
  if (attempt == 0 || worst.error > result.error) {
    result.error = worst.error;
    result.detail = worst.what;
  }
  result.control.what = claim.control;
  result.control.error = control.error;
  const std::int64_t differing = count_differing(claim);
  if (identity.kind != ClaimKind::counterexample) result.bitwise = result.bitwise.value_or(true) && differing == 0;
  if (options.exact) result.differing_exact = result.differing_exact.value_or(0) + differing;
  for (const Comparison& c : claim.holds) result.compared += has_two_sides(c) ? c.value.numel() : 0;
  result.differing += options.exact ? differing_without_exact(identity, options, attempt) : differing;
  result.candidates += claim.candidates;
  const bool searched = !identity.sharp || claim.candidates >= least_candidates;
  const bool bits_promised = options.exact && !identity.two_formulas;
  // Not a number in a control would pass for a difference.
  const bool sound = std::all_of(claim.fails.begin(), claim.fails.end(),
                                 [](const Comparison& c) { return all_finite(c.expected) && all_finite(c.value); });
  const bool differs = control.error > result.control.must_exceed;
  result.pass = sound && searched && !claim.holds.empty() && result.error <= result.tolerance && differs &&
                (!bits_promised || result.differing_exact == 0);
  return differs;
}

/// Of few elements both sides of a control may nearly agree by chance: then other numbers are drawn. The statement must
/// hold with all of them.
void measure(const Identity& identity, const VerifyOptions& options, Explanation& explanation) {
  while (explanation.result.draws < most_draws)
    if (measure_draw(identity, options, explanation.result.draws++, explanation)) return;
}

int number(std::string_view digits) {
  int value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  return value;
}

} // namespace

VerifyOptions small_sizes(const Identity& identity) {
  const Needs& n = identity.needs;
  VerifyOptions o;
  o.batch = std::max<std::int64_t>(1, n.batch);
  o.tokens = std::max<std::int64_t>(3, n.tokens);
  o.heads = std::max<std::int64_t>(2, n.heads);
  o.dim = o.heads * std::max((std::max<std::int64_t>(4, n.dim) + o.heads - 1) / o.heads, n.head_dim);
  o.hidden = std::max<std::int64_t>(4, n.hidden);
  o.layers = n.layers;
  o.steps = 3;
  return o;
}

std::string_view name_of(ClaimKind kind) {
  constexpr NamedValues<ClaimKind, 4> kinds{{{"identity", ClaimKind::identity},
                                             {"counterexample", ClaimKind::counterexample},
                                             {"erratum", ClaimKind::erratum},
                                             {"law", ClaimKind::law}}};
  return name_in(kinds, kind);
}

double tolerance(Gate gate, DType dtype) {
  const bool wide = dtype == DType::f64;
  switch (gate) {
  case Gate::bits:
    return 0.0;
  case Gate::one_pass:
    return wide ? 1e-11 : 5e-6;
  case Gate::whole_model:
  case Gate::training:
    return wide ? 1e-10 : 1e-4;
  }
  return 0.0;
}

void check(const VerifyOptions& o) {
  if (!is_floating(o.dtype)) throw DTypeError(fmt::format("verify: dtype must be f32 or f64: {}", name_of(o.dtype)));
  for (const auto& [field, value] : {std::pair{"batch", o.batch},
                                     {"tokens", o.tokens},
                                     {"dim", o.dim},
                                     {"heads", o.heads},
                                     {"hidden", o.hidden},
                                     {"layers", o.layers},
                                     {"steps", o.steps}})
    if (value < 1 || value > 4096)
      throw ValueError(fmt::format("verify: {} must be between 1 and 4096: {}", field, value));
  device::require_device(o.device);
  if (o.exact && !o.device.is_cpu())
    throw ValueError(
        fmt::format("verify: exact needs the CPU: matrix products have no exact kernel for {}", o.device.str()));
  if (o.dim % o.heads != 0)
    throw ValueError(fmt::format("verify: dim {} must be a multiple of heads {}", o.dim, o.heads));
}

std::string what_is_missing(const Identity& identity, const VerifyOptions& o) {
  struct Size {
    std::int64_t given, needed;
    std::string_view name, names;
  };
  const Needs& n = identity.needs;
  const bool narrow = o.dtype == DType::f32;
  const Size sizes[] = {{o.batch, n.batch, "sample", "samples"},
                        {o.tokens, n.tokens, "token", "tokens"},
                        {o.dim, n.dim, "feature", "features"},
                        {o.heads, n.heads, "head", "heads"},
                        {o.dim / o.heads, n.head_dim, "feature a head", "features a head"},
                        {o.hidden, n.hidden, "hidden feature", "hidden features"},
                        {o.layers, n.layers, "block", "blocks"},
                        {narrow ? o.tokens : n.f32_tokens, n.f32_tokens, "", "tokens in f32"},
                        {narrow ? o.dim : n.f32_dim, n.f32_dim, "", "features in f32"}};
  std::vector<std::string> missing;
  for (const Size& size : sizes)
    if (size.given < size.needed)
      missing.push_back(fmt::format("{} {}", size.needed, size.needed == 1 ? size.name : size.names));
  return missing.empty() ? "" : fmt::format("needs at least {}", fmt::join(missing, " and "));
}

const std::vector<Identity>& catalogue() {
  static const std::vector<Identity> rows = [] {
    std::vector<Identity> all;
    append(all, operator_identities());
    append(all, batch_norm_identities());
    append(all, single_head_forward_identities());
    append(all, single_head_backward_identities());
    append(all, multi_head_identities());
    append(all, head_map_identities());
    append(all, model_identities());
    append(all, training_identities());
    append(all, training_case_identities());
    append(all, mask_identities());
    append(all, mask_automorphism_identities());
    append(all, paper001_identities());
    append(all, privacy_identities());
    append(all, note_identities());
    append(all, stip_identities());
    append(all, stip_security_identities());
    append(all, structure_identities());
    append(all, norm_identities());
    append(all, covector_identities());
    append(all, routing_identities());
    append(all, quantisation_identities());
    append(all, errata_identities());
    append(all, errata_number_identities());
    for (const std::string_view id :
         {"lem9.5-eps",   "eq14",       "eq15",      "eq16",     "eq17",      "eq18",          "eq19",
          "eq20",         "eq21",       "fwd-defs",  "eq29",     "eq31",      "eq32",          "eq83",
          "eq84",         "eq85",       "s1-eq33",   "s1-eq35",  "s1-eq36",   "s2-list",       "s2-pe",
          "swiglu-scale", "rope-scale", "rms-orth",  "ln-orth",  "bk-rotary", "grad-covector", "train-orth",
          "eq71-dq",      "eq22-text",  "eq65-text", "key-space"})
      std::find_if(all.begin(), all.end(), [&](const Identity& row) { return row.id == id; })->two_formulas = true;
    set_needs(all);
    return all;
  }();
  return rows;
}

std::string why_not_on(const Identity& identity, Device device) {
  if (device.is_cpu() || !identity.exact_sums) return {};
  return fmt::format("{} takes exact sums, and matrix products have no exact kernel for {}", identity.id, device.str());
}

VerifyResult verify(const Identity& identity, const VerifyOptions& options) {
  return explain(identity, options).result;
}

Explanation explain(const Identity& identity, const VerifyOptions& options) {
  Explanation explanation{
      .result = {}, .statement = identity.statement, .tex = identity.tex, .holds = {}, .control = {}};
  VerifyResult& result = explanation.result;
  result.id = identity.id;
  result.title = identity.title;
  result.paper = identity.paper;
  result.equation = identity.equation;
  result.kind = identity.kind;
  result.sharp = identity.sharp;
  result.dtype = options.dtype;
  result.device = options.device;
  result.sizes = {{"batch", options.batch}, {"tokens", options.tokens}, {"dim", options.dim},
                  {"heads", options.heads}, {"hidden", options.hidden}, {"layers", options.layers}};
  if (identity.gate == Gate::training) result.sizes["steps"] = options.steps;
  result.seed = options.seed;
  result.tolerance = tolerance(identity.gate, options.dtype);
  const auto start = std::chrono::steady_clock::now();
  try {
    const ReductionScope scope(options.exact ? Reduction::exact : Reduction::fast);
    if (const std::string why = why_not_on(identity, options.device); !why.empty()) throw DeviceError("verify: " + why);
    result.skipped = result.detail = what_is_missing(identity, options);
    if (!result.skipped.empty()) return explanation;
    const DeviceScope there(options.device); // where a row makes its tensors
    measure(identity, options, explanation);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    result.error = std::numeric_limits<double>::infinity();
    result.detail = error.what();
  }
  result.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return explanation;
}

std::vector<VerifyResult> run_catalogue(const VerifyOptions& options,
                                        const std::function<void(const VerifyResult&)>& progress) {
  check(options);
  std::vector<VerifyResult> results;
  std::string why;
  for (const Identity& identity : catalogue()) {
    if (!matches(identity, options.filter)) continue;
    why = why_not_on(identity, options.device);
    if (!why.empty()) continue;
    results.push_back(verify(identity, options));
    if (progress) progress(results.back());
  }
  if (results.empty()) throw ValueError("verify: " + (why.empty() ? why_nothing_fits(options.filter) : why));
  return results;
}

std::string why_nothing_fits(const std::string& filter) {
  const NumberedEquation* equation = numbered_equation(filter);
  if (equation == nullptr) return fmt::format("no identity fits the filter \"{}\"", filter);
  return fmt::format("{}: no identity, because {}", filter, equation->reason);
}

bool matches(const Identity& identity, std::string_view filter) {
  if (is_numbered(identity, filter)) return true;
  const NumberedEquation* equation = numbered_equation(filter);
  return equation && std::find(equation->ids.begin(), equation->ids.end(), identity.id) != equation->ids.end();
}

bool is_numbered(const Identity& identity, std::string_view filter) {
  if (glob_match(filter, identity.id)) return true;
  if (identity.paper != "CVPR") return false; // equations of paper 001 are ids, s1-eq35
  const std::string_view equation = identity.equation;
  const std::size_t dash = equation.find('-');
  if (dash == std::string_view::npos) return !equation.empty() && glob_match(filter, "eq" + identity.equation);
  const int last = number(equation.substr(dash + 1));
  for (int n = number(equation.substr(0, dash)); n <= last; ++n)
    if (glob_match(filter, fmt::format("eq{}", n))) return true;
  return false;
}

} // namespace eg::permute
