#include "permute/catalogue/symbol_rules.h"

#include "permute/catalogue/single_head.h"

#include <fmt/format.h>

namespace eg::permute {
namespace {

Tensor moved(Tensor x, int axis, char which, const Permutation& r, const Permutation& c) {
  if (which == '-') return x;
  return (which == 'R' ? r : c).apply(x, axis);
}

Claim run(const SymbolRule& rule, Case& c) {
  const BlockTwins t = run_twins(c);
  const bool gradient = rule.of == SymbolRule::Of::gradient;
  const Tensor& value = (gradient ? t.permuted.gradient : t.permuted.value).at(rule.symbol);
  const Tensor& plain = (gradient ? t.plain.gradient : t.plain.value).at(rule.symbol);
  const auto expected = [&](const Permutation& r, const Permutation& p) {
    return moved(moved(plain, 0, rule.rows, r, p), 1, rule.columns, r, p);
  };
  Claim claim;
  claim.equal(rule.symbol, value, expected(t.rows, t.columns));
  const bool by_rows = rule.rows == 'R';
  claim.differs(by_rows ? "another P_R on the expected side" : "another P_C on the expected side", value,
                expected(by_rows ? c.another(t.rows) : t.rows, by_rows ? t.columns : c.another(t.columns)));
  return claim;
}

std::string tex_symbol(std::string_view symbol) {
  if (symbol.size() == 1) return std::string(symbol);
  return fmt::format("{}_{}", symbol.substr(0, 1), symbol.substr(1));
}

/// "\frac{\partial l}{\partial W_{Q(P)}}" or "Q_{(P)}".
std::string tex_of(const SymbolRule& rule, bool permuted) {
  const std::string plain = tex_symbol(rule.symbol);
  std::string name = plain;
  if (permuted) name = plain.size() == 1 ? plain + "_{(P)}" : fmt::format("{}_{{{}(P)}}", plain[0], plain.substr(2));
  return rule.of == SymbolRule::Of::gradient ? fmt::format("\\frac{{\\partial l}}{{\\partial {}}}", name) : name;
}

std::string tex(const SymbolRule& rule) {
  const char* left = rule.rows == 'R' ? "P_R\\, " : rule.rows == 'C' ? "P_C^\\top " : "";
  const char* right = rule.columns == 'R' ? "\\, P_R^\\top" : rule.columns == 'C' ? "\\, P_C" : "";
  return fmt::format("{} = {}{}{}", tex_of(rule, true), left, tex_of(rule, false), right);
}

std::string words(char which, const char* axis) {
  if (which == '-') return fmt::format("its {} stay", axis);
  return fmt::format("its {} move with P_{}", axis, which);
}

} // namespace

Identity identity_of(const SymbolRule& rule) {
  const bool gradient = rule.of == SymbolRule::Of::gradient;
  const std::string what = gradient ? fmt::format("the gradient to {}", rule.symbol) : std::string(rule.symbol);
  std::string statement =
      fmt::format("Of {}, {} and {}.", what, words(rule.rows, "rows"), words(rule.columns, "columns"));
  if (rule.note[0] != '\0') statement += std::string(" ") + rule.note;
  return {rule.id,
          fmt::format("{} under P_R and P_C", what),
          "CVPR",
          rule.equation,
          ClaimKind::identity,
          Gate::one_pass,
          statement,
          tex(rule),
          [rule](Case& c) { return run(rule, c); }};
}

} // namespace eg::permute
