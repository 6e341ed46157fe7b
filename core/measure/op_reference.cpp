#include "core/measure/op_reference.h"

#include "core/call.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace eg {
namespace {

std::string_view word_of(AttrKind kind) {
  switch (kind) {
  case AttrKind::boolean:
    return "bool";
  case AttrKind::integer:
    return "integer";
  case AttrKind::real:
    return "real";
  case AttrKind::integers:
    return "integers";
  case AttrKind::reals:
    return "reals";
  case AttrKind::text:
    return "text";
  }
  return "";
}

std::string default_of(const AttrSpec& spec) {
  if (spec.required) return "required";
  switch (spec.kind) {
  case AttrKind::boolean:
    return spec.number != 0.0 ? "true" : "false";
  case AttrKind::integer:
    return fmt::format("{}", static_cast<std::int64_t>(spec.number));
  case AttrKind::real:
    return fmt::format("{:g}", spec.number);
  case AttrKind::integers:
  case AttrKind::reals:
    return "[]";
  case AttrKind::text:
    return fmt::format("\"{}\"", spec.text);
  }
  return "";
}

class Writer {
public:
  template <class... Args> void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

private:
  std::string text_;
};

std::string joined(const std::vector<std::string>& words, std::string_view none) {
  if (words.empty()) return std::string(none);
  std::string text = words[0];
  for (std::size_t i = 1; i < words.size(); ++i) text += ", " + words[i];
  return text;
}

std::string inputs_of(const OpDef& op) {
  std::vector<std::string> words;
  for (const InputSpec& input : op.inputs)
    words.push_back(fmt::format("`{}`{}", input.name,
                                op.variadic      ? " (one or more)"
                                : input.optional ? " (optional)"
                                                 : ""));
  return joined(words, "none");
}

std::string outputs_of(const OpDef& op) {
  std::vector<std::string> words;
  for (std::size_t o = 0; o < op.outputs.size(); ++o)
    words.push_back(fmt::format("`{}`{}", op.outputs[o],
                                op.variadic_outputs                     ? " (any number)"
                                : o + op.auxiliary >= op.outputs.size() ? " (for the gradient)"
                                                                        : ""));
  return joined(words, "none");
}

std::string saved_by(const OpDef& op) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if ((op.saves & saves::in(static_cast<int>(i))) != 0) words.push_back(fmt::format("`{}`", op.inputs[i].name));
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    if ((op.saves & saves::out(static_cast<int>(i))) != 0) words.push_back(fmt::format("`{}`", op.outputs[i]));
  return joined(words, "nothing but shapes");
}

std::string leg_text(const OpDef& op, const Leg& leg) {
  const bool input = leg.side == Leg::Side::in;
  const auto i = static_cast<std::size_t>(leg.index);
  return fmt::format("{} axis {}", input ? input_name(op, i) : output_name(op, i), leg.axis);
}

std::string symmetry_text(const OpDef& op, const Symmetry& symmetry) {
  std::vector<std::string> words;
  for (const Leg& leg : symmetry.legs) words.push_back(leg_text(op, leg));
  for (const int input : symmetry.values)
    words.push_back(fmt::format("values of {} relabelled", op.inputs[static_cast<std::size_t>(input)].name));
  return joined(words, "");
}

/// The symmetries of the sample that shows the most of them, with its shapes.
void write_symmetries(Writer& out, const OpDef& op) {
  if (op.symmetries == nullptr) return out.line("- Symmetries: none: {}", op.no_symmetry);
  std::vector<Symmetry> best;
  std::string shapes;
  for (const Sample& sample : op.samples(DType::f64)) {
    std::vector<Symmetry> list = op.symmetries(sample);
    if (list.size() <= best.size()) continue;
    best = std::move(list);
    std::vector<std::string> words;
    for (std::size_t i = 0; i < sample.in.size(); ++i)
      if (sample.in[i].defined())
        words.push_back(fmt::format("{} {}", op.inputs[op.variadic ? 0 : i].name, sample.in[i].shape().str()));
    shapes = joined(words, "");
  }
  out.line("- Symmetries, for {}:", shapes);
  for (const Symmetry& symmetry : best) out.line("  - {}: {}", symmetry.name, symmetry_text(op, symmetry));
  for (const LeastExtent& e : op.least_extents)
    out.line("- Least extent of \"{}\": {}: {}", e.symmetry, e.least, e.reason);
}

std::string shape_list(const std::vector<std::string>& names, const std::vector<Shape>& shapes) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < shapes.size(); ++i) words.push_back(fmt::format("{} {}", names[i], shapes[i].str()));
  return joined(words, "nothing");
}

/// What goes in and what comes out in one call: "x [2, 3], weight [4, 3] -> y [2, 4]".
std::string shapes_of(const OpDef& op, const Sample& sample) {
  std::vector<std::string> in_names, out_names;
  std::vector<Shape> in, out;
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (sample.in[i].defined()) {
      in_names.push_back(input_name(op, i));
      in.push_back(sample.in[i].shape());
    }
  const Attrs attrs = completed_attributes(op, sample.attrs);
  for (const TensorSpec& spec : op.infer({op, sample.in, attrs})) {
    out_names.push_back(output_name(op, out.size()));
    out.push_back(spec.shape);
  }
  return shape_list(in_names, in) + " -> " + shape_list(out_names, out);
}

/// Of up to three samples that differ in the number of axes.
void write_shapes(Writer& out, const OpDef& op) {
  std::vector<std::string> seen;
  std::vector<int> ranks;
  for (const Sample& sample : op.samples(DType::f32)) {
    const auto first = std::find_if(sample.in.begin(), sample.in.end(), [](const Tensor& x) { return x.defined(); });
    const int rank = first == sample.in.end() ? -1 : first->rank();
    if (seen.size() == 3 || std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) continue;
    ranks.push_back(rank);
    seen.push_back(shapes_of(op, sample));
  }
  out.line("- Shapes, for example: {}", fmt::join(seen, "; "));
}

/// The cost of the row's largest sample.
void write_cost(Writer& out, const OpDef& op) {
  const auto elements = [](const Sample& sample) {
    std::int64_t count = 0;
    for (const Tensor& x : sample.in) count += x.defined() ? x.numel() : 0;
    return count;
  };
  const std::vector<Sample> samples = op.samples(DType::f32);
  const Sample& sample = *std::max_element(samples.begin(), samples.end(),
                                           [&](const Sample& a, const Sample& b) { return elements(a) < elements(b); });
  const Attrs attrs = completed_attributes(op, sample.attrs);
  const OpArgs args{op, sample.in, attrs};
  const Work work = op.work(args, op.infer(args));
  std::vector<std::string> words;
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (sample.in[i].defined()) words.push_back(fmt::format("{} {}", input_name(op, i), sample.in[i].shape().str()));
  out.line("- Cost, for {} of f32: {:.0f} operations, {:.0f} bytes moved{}", joined(words, ""), work.flops, work.bytes,
           op.exact != nullptr    ? "; has an exact kernel"
           : !op.no_exact.empty() ? fmt::format("; exact mode refuses it: {}", op.no_exact)
                                  : "");
}

void write_attributes(Writer& out, const OpDef& op) {
  if (op.attributes.size() == 0) return;
  out.line("- Attributes:");
  for (const AttrSpec& spec : op.attributes)
    out.line("  - `{}` ({}, {}): {}", spec.name, word_of(spec.kind),
             spec.required ? "required" : "default " + default_of(spec), spec.doc);
}

std::string gradient_of(const OpDef& op) {
  if (!op.zero_gradient.empty()) return fmt::format("zero: {}", op.zero_gradient);
  if (!op.no_gradient.empty()) return fmt::format("none: {}", op.no_gradient);
  return op.body != nullptr ? "that of these operations" : "yes; the tape keeps " + saved_by(op);
}

/// Whether an output shares storage with the input in one of the row's samples.
bool gives_views(const OpDef& op) {
  if (op.view == nullptr) return false;
  const std::vector<Sample> samples = op.samples(DType::f64);
  return std::any_of(samples.begin(), samples.end(), [&](const Sample& s) {
    const Attrs attrs = completed_attributes(op, s.attrs);
    return op.view({op, s.in, attrs}).storage() == s.in.front().storage();
  });
}

void write_row(Writer& out, const OpDef& op) {
  out.line("    {}\n", op.math);
  out.line("- Inputs: {}", inputs_of(op));
  out.line("- Outputs: {}{}", outputs_of(op), gives_views(op) ? " (a view where strides allow)" : "");
  write_attributes(out, op);
  write_shapes(out, op);
  if (op.body != nullptr) out.line("- Made of other operations, which the tape records");
  out.line("- Gradient: {}", gradient_of(op));
  write_symmetries(out, op);
  write_cost(out, op);
}

} // namespace

std::string op_reference_markdown(const OpDef& op) {
  const PauseRecording pause;
  Writer out;
  write_row(out, op);
  return out.take();
}

} // namespace eg
