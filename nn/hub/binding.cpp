#include "nn/hub/binding.h"

#include "core/base/error.h"
#include "core/call.h"

#include <fmt/format.h>

namespace eg::hub {
namespace {

struct Rows {
  std::int64_t begin, end;
};

Rows rows_of(Part part, std::int64_t total, const FusedRows& f) {
  const std::int64_t q = f.heads * f.head_dim, kv = f.kv_heads * f.head_dim;
  switch (part) {
  case Part::all:
    break;
  case Part::q:
    return {0, q};
  case Part::k:
    return {q, q + kv};
  case Part::v:
    return {q + kv, q + 2 * kv};
  case Part::gate:
    return {0, total / 2};
  case Part::up:
    return {total / 2, total};
  }
  return {0, total};
}

std::string filled(std::string_view pattern, std::string_view number) {
  const std::size_t at = pattern.find("{}");
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), number, pattern.substr(at + 2));
}

/// The layer's number in `name` where it is `pattern` with a number for "{}"; "" for a pattern without one. False when
/// the name is another one.
bool matches(std::string_view pattern, std::string_view name, std::string& number) {
  number.clear();
  const std::size_t at = pattern.find("{}");
  if (at == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, at))) return false;
  std::size_t end = at;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
  if (end == at || name.substr(end) != pattern.substr(at + 2)) return false;
  number = name.substr(at, end - at);
  return true;
}

Shape shape_in_file(const Tensor& parameter, const Rows& rows, bool transposed) {
  Shape shape = parameter.shape();
  if (shape.rank() > 0) shape[0] = rows.end - rows.begin;
  return transposed && shape.rank() == 2 ? Shape{shape[1], shape[0]} : shape;
}

/// The bound rows as the file has them, a view.
Tensor bound_view(const Tensor& parameter, const Binding& b) {
  if (parameter.rank() == 0) return parameter;
  const Tensor rows = parameter.slice(0, b.begin, b.end);
  return b.transposed && rows.rank() == 2 ? rows.transpose(0, 1) : rows;
}

} // namespace

std::vector<Binding> bindings_of(std::span<const NameRule> rules, const nn::StateDict& state, const FusedRows& fused,
                                 std::string_view prefix) {
  std::vector<Binding> all;
  std::string number;
  for (const auto& [name, tensor] : state)
    for (const NameRule& rule : rules)
      for (const std::string_view end : {"", ".weight", ".bias"}) {
        if (!matches(fmt::format("{}{}", rule.model, end), name, number)) continue;
        const Rows rows = rows_of(rule.part, tensor.rank() > 0 ? tensor.size(0) : 0, fused);
        all.push_back({.file = fmt::format("{}{}{}", prefix, filled(rule.file, number), end),
                       .parameter = name,
                       .begin = rows.begin,
                       .end = rows.end,
                       .transposed = rule.transposed,
                       .shape = shape_in_file(tensor, rows, rule.transposed)});
      }
  return all;
}

Tensor bound(const Tensor& parameter, const Binding& b) { return bound_view(parameter, b).reshape(b.shape); }

Tensor extract(const Tensor& parameter, const Binding& b) {
  const PauseRecording pause;
  return bound_view(parameter, b).contiguous().clone().reshape(b.shape);
}

void insert(Tensor& parameter, const Binding& b, const Tensor& from_file) {
  const PauseRecording pause;
  Tensor to = bound_view(parameter, b);
  to.copy_from(from_file.reshape(to.shape()).to(parameter.dtype()));
}

} // namespace eg::hub
