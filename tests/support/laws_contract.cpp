#include "autograd/tape.h"
#include "core/registry.h"
#include "support/law_tools.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::laws {
namespace {

bool is_identifier(std::string_view name) {
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

/// The parts that a row must have; row() refuses the same when the program is compiled.
void check_parts(const OpDef& op, Verdict& verdict) {
  const auto need = [&](bool there, const char* what) {
    if (!there) verdict.fail(fmt::format("{}: {}", op.name, what));
  };
  need(is_identifier(op.name), "the name is not a lower-case identifier");
  need(!op.math.empty(), "no line of mathematics");
  need(op.inputs.size() > 0, "no inputs");
  need(op.outputs.size() > 0, "no outputs");
  need(!op.variadic || op.inputs.size() == 1, "a variadic row declares one input");
  need(op.infer != nullptr, "no shape rule");
  const int ways = (op.cpu != nullptr ? 1 : 0) + (op.view != nullptr ? 1 : 0) + (op.body != nullptr ? 1 : 0);
  need(ways == 1, "not just one of kernel, view and body");
  need(op.exact == nullptr || op.cpu != nullptr, "an exact kernel without an ordinary one");
  need(op.body != nullptr ? op.vjp == nullptr : (op.vjp != nullptr) == op.no_gradient.empty(),
       "neither rule nor reason, or both");
  need(!op.variadic_outputs || op.outputs.size() == 1, "a row with any number of outputs declares one");
  need(op.reference != nullptr, "no reference");
  need(op.samples != nullptr, "no samples");
  need(op.refuses != nullptr && !op.refuses().empty(), "no calls that must be refused");
  need((op.symmetries != nullptr) == op.no_symmetry.empty(), "neither symmetries nor reason, or both");
  need(op.work != nullptr, "no cost");
  const auto known_bits = [&] {
    std::uint32_t mask = 0;
    for (int i = 0; i < static_cast<int>(op.inputs.size()); ++i) mask |= saves::in(i);
    for (int o = 0; o < static_cast<int>(op.outputs.size()); ++o) mask |= saves::out(o);
    return mask;
  };
  need((op.saves & ~known_bits()) == 0, "saves names an input or output that is not there");
  need(op.vjp != nullptr || op.saves == saves::nothing, "saves values without having a rule");
  for (const InputSpec& input : op.inputs) need(is_identifier(input.name), "an input without a proper name");
  for (const AttrSpec& attr : op.attributes)
    need(is_identifier(attr.name) && !attr.doc.empty(), "an attribute without doc");
}

void check_outputs(const OpDef& op, const Sample& sample, DType dtype, Verdict& verdict) {
  const Sample before = packed_copy(sample);
  const Tensors out = outputs(op, sample);
  ++verdict.checked;
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (sample.in[i].defined() && !same_bits(sample.in[i], before.in[i]))
      verdict.fail(fmt::format("{}: the call wrote to input {}", where(op, sample, dtype), i));
  const Attrs attrs = completed(op, sample);
  const OpArgs args{op, sample.in, attrs};
  const std::vector<TensorSpec> specs = op.infer(args);
  if (specs.size() != out.size() || (!op.variadic_outputs && out.size() > op.outputs.size())) {
    verdict.fail(fmt::format("{}: {} outputs, {} inferred, {} declared", where(op, sample, dtype), out.size(),
                             specs.size(), op.outputs.size()));
    return;
  }
  for (std::size_t o = 0; o < out.size(); ++o)
    if (out[o].shape() != specs[o].shape || out[o].dtype() != specs[o].dtype)
      verdict.fail(fmt::format("{}: {} is {} {}, the shape rule says {} {}", where(op, sample, dtype),
                               output_name(op, o), name_of(out[o].dtype()), out[o].shape().str(),
                               name_of(specs[o].dtype), specs[o].shape.str()));
  const Work work = op.work(args, specs);
  if (!std::isfinite(work.flops) || !std::isfinite(work.bytes) || work.flops < 0 || work.bytes < 0)
    verdict.fail(fmt::format("{}: the cost is not a number", where(op, sample, dtype)));
  if (op.symmetries == nullptr) return;
  for (const Symmetry& symmetry : op.symmetries(sample))
    if (symmetry.name.empty() || symmetry.legs.empty())
      verdict.fail(fmt::format("{}: a symmetry without name or legs", where(op, sample, dtype)));
}

} // namespace

Verdict completeness_law(const OpDef& op) {
  Verdict verdict;
  check_parts(op, verdict);
  if (!verdict.pass()) return verdict; // the rest would call what is not there
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::vector<Sample> samples = op.samples(dtype);
    if (samples.empty()) verdict.fail(fmt::format("{}: no {} samples", op.name, name_of(dtype)));
    each_sample(op, dtype, verdict, [&](const Sample& sample) { check_outputs(op, sample, dtype, verdict); });
  }
  return verdict;
}

namespace {

/// Runs a bad call on an open tape; the message it got, or a failure.
std::string message_of(const OpDef& op, const Tensors& in, const Attrs& attrs, const std::string& what,
                       Verdict& verdict) {
  const Tensors there = moved_inputs(in); // before a tape hears of it
  Tape tape;
  ++verdict.checked;
  std::string message;
  try {
    call(op, there, attrs);
    verdict.fail(fmt::format("{}: {} was accepted", op.name, what));
    return {};
  } catch (const Error& e) {
    message = e.what();
  } catch (const std::exception& e) {
    verdict.fail(fmt::format("{}: {} threw something that is not eg::Error: {}", op.name, what, e.what()));
    return {};
  }
  if (tape.size() != 0) verdict.fail(fmt::format("{}: {} left a node on the tape", op.name, what));
  if (!message.starts_with(fmt::format("{}: ", op.name)))
    verdict.fail(fmt::format("{}: {}: the message does not begin with the operation: {}", op.name, what, message));
  if (message.find('\n') != std::string::npos)
    verdict.fail(fmt::format("{}: {}: the message has several lines", op.name, what));
  return message;
}

/// What every row refuses, whatever it computes.
void check_common_refusals(const OpDef& op, Verdict& verdict) {
  const Sample sample = op.samples(DType::f32).front();
  Attrs strange = sample.attrs;
  strange.set("no_such_attribute", std::int64_t{1});
  const auto says = [&](const std::string& message, const std::string& words, const std::string& what) {
    if (!message.empty() && message.find(words) == std::string::npos)
      verdict.fail(fmt::format("{}: {}: the message does not say '{}': {}", op.name, what, words, message));
  };
  says(message_of(op, sample.in, strange, "an unknown attribute", verdict), "no_such_attribute",
       "an unknown attribute");
  message_of(op, {}, sample.attrs, "a call without inputs", verdict);
  if (op.variadic) return;
  Tensors many = sample.in;
  many.resize(op.inputs.size(), Tensor{});
  many.push_back(sample.in[0]);
  says(message_of(op, many, sample.attrs, "one input too many", verdict), "inputs were given", "one input too many");
}

} // namespace

Verdict errors_law(const OpDef& op) {
  Verdict verdict;
  for (const Refusal& refusal : op.refuses()) {
    const std::string what = fmt::format("the call that must say '{}'", refusal.words);
    const std::string message = message_of(op, refusal.in, refusal.attrs, what, verdict);
    if (!message.empty() && message.find(refusal.words) == std::string::npos)
      verdict.fail(fmt::format("{}: the message does not say '{}': {}", op.name, refusal.words, message));
  }
  check_common_refusals(op, verdict);
  return verdict;
}

} // namespace eg::laws
