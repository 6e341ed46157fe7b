#include "permute/catalogue/symbol_rules.h"

#include "permute/catalogue/single_head.h"

#include <fmt/format.h>

namespace eg::permute {
namespace {

Tensor moved(Tensor x, int axis, char which, const Permutation& r, const Permutation& c) {
  if (which == '-') return x;
  return (which == 'R' ? r : c).apply(x, axis);
}

Claim run(const SymbolRule& rule, Convention convention, Case& c) {
  const BlockTwins t = convention == Convention::cvpr ? run_twins(c) : run_conjugated_twins(c);
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

/// "\frac{\partial l}{\partial W_{Q(P)}}" or "Q_{(P)}"; `mark` is the letter in brackets.
std::string tex_of(const SymbolRule& rule, const char* mark) {
  const std::string plain = tex_symbol(rule.symbol);
  std::string name = plain;
  if (mark[0] != '\0')
    name = plain.size() == 1 ? fmt::format("{}_{{({})}}", plain, mark)
                             : fmt::format("{}_{{{}({})}}", plain[0], plain.substr(2), mark);
  return rule.of == SymbolRule::Of::gradient ? fmt::format("\\frac{{\\partial l}}{{\\partial {}}}", name) : name;
}

std::string tex(const SymbolRule& rule, Convention convention, const char* mark = "P") {
  const bool cvpr = convention == Convention::cvpr;
  const char* left = rule.rows == 'R' ? "P_R\\, " : rule.rows == 'C' ? (cvpr ? "P_C^\\top " : "P_C ") : "";
  const char* right = rule.columns == 'R'   ? "\\, P_R^\\top"
                      : rule.columns == 'C' ? (cvpr ? "\\, P_C" : "\\, P_C^\\top")
                                            : "";
  return fmt::format("{} = {}{}{}", tex_of(rule, mark), left, tex_of(rule, ""), right);
}

std::string words(char which, const char* axis) {
  if (which == '-') return fmt::format("its {} stay", axis);
  return fmt::format("its {} move with P_{}", axis, which);
}

std::string named(const SymbolRule& rule) {
  return rule.of == SymbolRule::Of::gradient ? fmt::format("the gradient to {}", rule.symbol)
                                             : std::string(rule.symbol);
}

std::string statement(const SymbolRule& rule) {
  const std::string text =
      fmt::format("Of {}, {} and {}.", named(rule), words(rule.rows, "rows"), words(rule.columns, "columns"));
  return rule.note[0] == '\0' ? text : text + " " + rule.note;
}

/// The plain block on P_R Z, its output permuted back or left as it is.
Claim run_row_shuffle(const SymbolRule& rule, Case& c) {
  const Symbols inputs = draw_block(c, square_weights(c));
  const Tensor g = c.normal(inputs.at("Z").shape());
  const Permutation rows = c.directed_permutation(g.size(0));
  Symbols shuffled = inputs;
  shuffled["Z"] = rows.apply(inputs.at("Z"), 0);
  const Pass plain = run_block(inputs, g), moved_pass = run_block(shuffled, g, &rows), left = run_block(shuffled, g);
  const bool gradient = rule.of == SymbolRule::Of::gradient;
  const auto symbol = [&](const Pass& pass) { return (gradient ? pass.gradient : pass.value).at(rule.symbol); };
  const Permutation unused = Permutation::identity(1);
  const auto expected = [&](const Permutation& r) {
    return moved(moved(symbol(plain), 0, rule.rows, r, unused), 1, rule.columns, r, unused);
  };
  Claim claim;
  claim.equal(rule.symbol, symbol(moved_pass), expected(rows));
  if (rule.rows == 'R')
    claim.differs("another P_R on the expected side", symbol(moved_pass), expected(c.another(rows)));
  else
    claim.differs("outputs not permuted back before the loss", symbol(left), expected(rows));
  return claim;
}

} // namespace

Identity identity_of(const SymbolRule& rule, Convention convention) {
  const bool cvpr = convention == Convention::cvpr;
  return {rule.id,
          named(rule) + (cvpr ? " under P_R and P_C" : " under row and column shuffle"),
          cvpr ? "CVPR" : "001",
          rule.equation,
          ClaimKind::identity,
          Gate::one_pass,
          statement(rule),
          tex(rule, convention),
          [rule, convention](Case& c) { return run(rule, convention, c); }};
}

Identity row_shuffle_identity(const SymbolRule& rule) {
  return {rule.id,
          named(rule) + " under row shuffle",
          "001",
          rule.equation,
          ClaimKind::identity,
          Gate::one_pass,
          statement(rule),
          tex(rule, Convention::paper001, "R"),
          [rule](Case& c) { return run_row_shuffle(rule, c); }};
}

} // namespace eg::permute
