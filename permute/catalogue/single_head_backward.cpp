// Section 7's gradients (eq. 22-34) and section 10.2: how gradients move under P_R and P_C. Every gradient is the
// tape's; the formulas are evaluated from the tape's other gradients.

#include "permute/catalogue/single_head.h"
#include "permute/catalogue/symbol_rules.h"

#include "autograd/tape.h"

#include <cmath>

namespace eg::permute {
namespace {

/// A pass as the formulas write it: v("A2") a value, d("A2") the gradient to it.
struct Formula {
  const Pass& pass;
  const Tensor& v(const char* symbol) const { return pass.value.at(symbol); }
  const Tensor& d(const char* symbol) const { return pass.gradient.at(symbol); }
  double root_d() const { return std::sqrt(static_cast<double>(v("Q").size(1))); }
};

Tensor product(const Tensor& a, const Tensor& b) { return matmul(a, b); }
Tensor transposed_product(const Tensor& a, const Tensor& b) { return matmul(a, b, true, false); }

/// dE_i = (diag(s_i) - s_i^T s_i) dS_i for each row i.
Tensor score_gradient(const Formula& f) {
  const Tensor weighted = f.d("S") * f.v("S");
  return weighted - f.v("S") * sum(weighted, {-1}, true);
}

/// (diag(S) - S^T S)^T dS with one matrix for all rows, as eq. 31 and 32 print it.
Tensor printed_score_gradient(const Formula& f) {
  const Tensor& s = f.v("S");
  const std::int64_t n = s.size(0);
  Tensor eye = Tensor::zeros({n, n}, s.dtype());
  for (std::int64_t i = 0; i < n; ++i) eye.slice(0, i, i + 1).slice(1, i, i + 1).fill(1.0);
  return matmul(eye * s - transposed_product(s, s), f.d("S"), true, false);
}

Tensor activation_gradient(const Formula& f) {
  Tape tape;
  const Tensor h = gelu(f.v("A1"));
  return tape.gradient(h, {f.v("A1")}, Tensor::ones(h.shape(), h.dtype())).front();
}

struct GradientFormula {
  const char* id;
  const char* equation;
  const char* symbol;
  const char* tex;
  Tensor (*formula)(const Formula&);
  const char* statement = "";
  Tensor (*printed)(const Formula&) = nullptr; ///< a printed form that fails: the row is an erratum
};

/// The same pass with the tokens of every gradient in another order: what a formula gives for a wrong pairing of rows.
Pass mispaired(const Pass& pass, const Permutation& rows) {
  Pass wrong = pass;
  for (auto& [symbol, gradient] : wrong.gradient)
    if (gradient.size(0) == rows.size()) gradient = rows.apply(gradient, 0);
  return wrong;
}

Claim run(const GradientFormula& row, Case& c) {
  const Symbols inputs = draw_block(c, sizes_of(c));
  const Pass pass = run_block(inputs, c.normal({c.options.tokens, c.options.dim}));
  const Formula f{pass};
  Claim claim;
  claim.equal(row.symbol, row.formula(f), f.d(row.symbol));
  if (row.printed) {
    claim.differs("the printed form", row.printed(f), f.d(row.symbol));
  } else {
    const Pass wrong = mispaired(pass, c.permutation(c.options.tokens));
    claim.differs("gradients paired with other tokens", row.formula(Formula{wrong}), f.d(row.symbol));
  }
  return claim;
}

const std::vector<GradientFormula>& gradient_formulas() {
  static const std::vector<GradientFormula> rows = {
      {"eq22", "22", "H", R"(\frac{\partial l}{\partial H} = \frac{\partial l}{\partial A_2} W_2)",
       [](const Formula& f) { return product(f.d("A2"), f.v("W2")); }},
      {"eq23", "23", "W2", R"(\frac{\partial l}{\partial W_2} = \frac{\partial l}{\partial A_2}^\top H)",
       [](const Formula& f) { return transposed_product(f.d("A2"), f.v("H")); }},
      {"eq24", "24", "A1", R"(\frac{\partial l}{\partial A_1} = \frac{\partial l}{\partial A_2} W_2 \odot a'(A_1))",
       [](const Formula& f) { return product(f.d("A2"), f.v("W2")) * activation_gradient(f); }},
      {"eq25", "25", "A", R"(\frac{\partial l}{\partial A} = \frac{\partial l}{\partial A_1} W_1)",
       [](const Formula& f) { return product(f.d("A1"), f.v("W1")); }},
      {"eq26", "26", "W1", R"(\frac{\partial l}{\partial W_1} = \frac{\partial l}{\partial A_1}^\top A)",
       [](const Formula& f) { return transposed_product(f.d("A1"), f.v("A")); }},
      {"eq27", "27", "S", R"(\frac{\partial l}{\partial S} = \frac{\partial l}{\partial A} V^\top)",
       [](const Formula& f) { return matmul(f.d("A"), f.v("V"), false, true); }},
      {"eq28", "28", "V", R"(\frac{\partial l}{\partial V} = S^\top \frac{\partial l}{\partial A})",
       [](const Formula& f) { return transposed_product(f.v("S"), f.d("A")); }},
      {"eq29", "29", "Z",
       R"(\frac{\partial l}{\partial Z} = \frac{\partial l}{\partial Q} W_Q + \frac{\partial l}{\partial K} W_K + \frac{\partial l}{\partial V} W_V)",
       [](const Formula& f) {
         return product(f.d("Q"), f.v("WQ")) + product(f.d("K"), f.v("WK")) + product(f.d("V"), f.v("WV"));
       },
       "Z feeds Q, K and V; the printed equation has the path through V alone.",
       [](const Formula& f) { return product(f.d("V"), f.v("WV")); }},
      {"eq30", "30", "WV", R"(\frac{\partial l}{\partial W_V} = \frac{\partial l}{\partial V}^\top Z)",
       [](const Formula& f) { return transposed_product(f.d("V"), f.v("Z")); }},
      {"eq31", "31", "Q",
       R"(\frac{\partial l}{\partial Q} = \tfrac{1}{\sqrt d}\, E' K,\quad E'_i = (\mathrm{diag}(s_i) - s_i^\top s_i) \tfrac{\partial l}{\partial S_i})",
       [](const Formula& f) { return product(score_gradient(f), f.v("K")) / f.root_d(); },
       "Softmax has a Jacobian for each row of S; the printed equation uses one matrix for all rows.",
       [](const Formula& f) { return product(printed_score_gradient(f), f.v("K")) / f.root_d(); }},
      {"eq32", "32", "K",
       R"(\frac{\partial l}{\partial K} = \tfrac{1}{\sqrt d}\, E'^\top Q,\quad E' = S \odot (\tfrac{\partial l}{\partial S} - \mathrm{rowsum}(\tfrac{\partial l}{\partial S} \odot S)))",
       [](const Formula& f) { return transposed_product(score_gradient(f), f.v("Q")) / f.root_d(); },
       "As for Eq. 31: a Jacobian for each row.",
       [](const Formula& f) { return transposed_product(printed_score_gradient(f), f.v("Q")) / f.root_d(); }},
      {"eq33", "33", "WQ", R"(\frac{\partial l}{\partial W_Q} = \frac{\partial l}{\partial Q}^\top Z)",
       [](const Formula& f) { return transposed_product(f.d("Q"), f.v("Z")); }},
      {"eq34", "34", "WK", R"(\frac{\partial l}{\partial W_K} = \frac{\partial l}{\partial K}^\top Z)",
       [](const Formula& f) { return transposed_product(f.d("K"), f.v("Z")); }},
  };
  return rows;
}

Identity identity_of(const GradientFormula& row) {
  const std::string title = std::string("the gradient to ") + row.symbol;
  const std::string statement =
      row.statement[0] != '\0' ? row.statement : "The printed formula gives what the tape gives for " + title + ".";
  return {row.id,
          title,
          "CVPR",
          row.equation,
          row.printed ? ClaimKind::erratum : ClaimKind::identity,
          Gate::one_pass,
          statement,
          row.tex,
          [row](Case& c) { return run(row, c); }};
}

/// The wrong matrix of eq. 31 still moves as P_R X P_R^T, which is why section 10.2's conclusions hold.
Claim printed_jacobian_conjugates(Case& c) {
  const BlockTwins t = run_twins(c);
  const Tensor plain = printed_score_gradient({t.plain}), permuted = printed_score_gradient({t.permuted});
  Claim claim;
  claim.equal("the printed dE", permuted, t.rows.apply(t.rows.apply(plain, 0), 1));
  claim.differs("columns not permuted", permuted, t.rows.apply(plain, 0));
  return claim;
}

} // namespace

std::vector<Identity> single_head_backward_identities() {
  std::vector<Identity> rows;
  for (const GradientFormula& row : gradient_formulas()) rows.push_back(identity_of(row));
  using Of = SymbolRule::Of;
  for (const SymbolRule& rule : std::vector<SymbolRule>{
           {"eq65", "65", "A2", Of::gradient, 'R', 'C'},
           {"eq66", "66", "W2", Of::gradient, 'C', '-'},
           {"eq67", "67", "A1", Of::gradient, 'R', '-', "The text cites Eq. 66 where Eq. 65 is meant."},
           {"eq67-h", "", "H", Of::gradient, 'R', '-', "Not numbered in the paper."},
           {"eq68", "68", "W1", Of::gradient, '-', 'C'},
           {"eq69", "69", "A", Of::gradient, 'R', 'C'},
           {"eq70", "70", "S", Of::gradient, 'R', 'R'},
           {"eq71-q", "", "Q", Of::gradient, 'R', 'C', "Not numbered in the paper."},
           {"eq71", "71", "K", Of::gradient, 'R', 'C'},
           {"eq72", "72", "WQ", Of::gradient, 'C', 'C'},
           {"eq73", "73", "WK", Of::gradient, 'C', 'C'},
           {"eq74", "74", "V", Of::gradient, 'R', 'C', "The display writes S where S^T is meant."},
           {"eq75", "75", "WV", Of::gradient, 'C', 'C'},
       })
    rows.push_back(identity_of(rule));
  rows.push_back(
      {"eq31-conj", "the printed Jacobian conjugates too", "CVPR", "71", ClaimKind::law, Gate::one_pass,
       "The wrong matrix of Eq. 31 moves by P_R on both sides as the right one does, so Eq. 71 survives it.",
       R"((\mathrm{diag}(S_{(P)}) - S_{(P)}^\top S_{(P)})^\top \tfrac{\partial l}{\partial S_{(P)}} = P_R (\ldots) P_R^\top)",
       printed_jacobian_conjugates});
  return rows;
}

} // namespace eg::permute
