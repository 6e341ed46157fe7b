// What is printed wrongly and has a number: the printed form is the control of its row. Most are steps of section 10 of
// [P] and appendix B of paper 001; a misprinted product has a shape only where the matrices are square, so here they
// are.

#include "permute/catalogue/single_head.h"

#include "autograd/tape.h"

#include <cmath>

namespace eg::permute {
namespace {

/// Both passes with every matrix square, written as the papers write them: v and d of the plain block, v_p and d_p of
/// the permuted one.
struct Symbolic {
  BlockTwins t;
  const Tensor& v(const char* symbol) const { return t.plain.value.at(symbol); }
  const Tensor& d(const char* symbol) const { return t.plain.gradient.at(symbol); }
  const Tensor& v_p(const char* symbol) const { return t.permuted.value.at(symbol); }
  const Tensor& d_p(const char* symbol) const { return t.permuted.gradient.at(symbol); }
  Tensor rows(const Tensor& x) const { return t.rows.apply(x, 0); }                             ///< P_R X
  Tensor columns(const Tensor& x) const { return t.columns.apply(x, 1); }                       ///< X P_C
  Tensor columns_t(const Tensor& x) const { return t.columns.inverse().apply(x, 1); }           ///< X P_C^T
  Tensor around(const Tensor& x) const { return t.rows.apply(t.rows.apply(x, 0), 1); }          ///< P_R X P_R^T
  Tensor conjugate(const Tensor& x) const { return t.columns.apply(t.columns.apply(x, 0), 1); } ///< P_C^T X P_C
  double root_d() const { return std::sqrt(static_cast<double>(v("Q").size(1))); }
};

Tensor nn(const Tensor& a, const Tensor& b) { return matmul(a, b); }
Tensor nt(const Tensor& a, const Tensor& b) { return matmul(a, b, false, true); }
Tensor tn(const Tensor& a, const Tensor& b) { return matmul(a, b, true, false); }

/// dE = S o (dS - rowsum(dS o S)): a Jacobian for each row.
Tensor scores(const Symbolic& s) {
  const Tensor weighted = s.d("S") * s.v("S");
  return weighted - s.v("S") * sum(weighted, {-1}, true);
}

/// (diag(S) - S^T S)^T dS, one matrix for all rows.
Tensor printed_scores(const Symbolic& s) {
  const Tensor& v = s.v("S");
  const Tensor diagonal = eye(v.size(0), -1, v.dtype()) * v;
  return tn(diagonal - tn(v, v), s.d("S"));
}

/// dH o a'(x).
Tensor through_activation(const Tensor& gradient, const Tensor& x) {
  Tape tape;
  return tape.gradient(gelu(x), {x}, gradient).front();
}

enum class Form { cvpr, paper001 };

/// A printed formula: what it should give, the right form, the printed one.
struct Misprint {
  const char* id;
  const char* title;
  const char* equation;
  Form form;
  const char* statement;
  const char* tex;
  Tensor (*value)(const Symbolic&);
  Tensor (*right)(const Symbolic&);
  Tensor (*printed)(const Symbolic&);
};

Identity identity_of(const Misprint& row) {
  return {row.id,
          row.title,
          row.form == Form::cvpr ? "CVPR" : "001",
          row.equation,
          ClaimKind::erratum,
          Gate::one_pass,
          row.statement,
          row.tex,
          [row](Case& c) {
            const Symbolic s{row.form == Form::cvpr ? run_twins(c, all_square(c))
                                                    : run_conjugated_twins(c, all_square(c))};
            Claim claim;
            claim.sizes = {{"tokens", c.options.dim}, {"hidden", c.options.dim}};
            claim.equal("the right form", row.right(s), row.value(s));
            claim.differs("the printed form", row.printed(s), row.value(s));
            return claim;
          }};
}

#define FORM(expression) [](const Symbolic& s) -> Tensor { return expression; }

std::vector<Misprint> section_10() {
  return {
      {"eq58", "A1 from the permuted A and W_1", "58", Form::cvpr,
       "W_1 is transposed; the printed step has W_1 itself.", R"(A_{1(P)} = P_R A P_C \cdot P_C^\top W_1^\top)",
       FORM(s.v_p("A1")), FORM(nt(s.columns(s.rows(s.v("A"))), s.v_p("W1"))),
       FORM(nn(s.columns(s.rows(s.v("A"))), s.t.columns.apply(s.v("W1"), 0)))},
      {"eq59", "A1 with P_C cancelled", "59", Form::cvpr, "As Eq. 58: W_1 is transposed.",
       R"(A_{1(P)} = P_R A W_1^\top)", FORM(s.v_p("A1")), FORM(nt(s.rows(s.v("A")), s.v("W1"))),
       FORM(nn(s.rows(s.v("A")), s.v("W1")))},
      {"eq66-text", "H in the text before Eq. 66", "66", Form::cvpr,
       "The hidden axis is not permuted (Eq. 62); the text has P_C^T behind H, a rest of paper 001.",
       R"(H_{(P)} = P_R H)", FORM(s.v_p("H")), FORM(s.rows(s.v("H"))), FORM(s.columns_t(s.rows(s.v("H"))))},
      {"eq67-text", "what gives Eq. 67", "67", Form::cvpr,
       "The gradient to A1 comes from Eq. 24 and 65; Eq. 66, which the text cites, is a gradient to a weight.",
       R"(\frac{\partial l}{\partial A_{1(P)}} = \frac{\partial l}{\partial A_{2(P)}} W_{2(P)} \odot a'(A_{1(P)}))",
       FORM(s.d_p("A1")), FORM(through_activation(nn(s.d_p("A2"), s.v_p("W2")), s.v_p("A1"))),
       FORM(through_activation(nn(s.d_p("W2"), s.v_p("W2")), s.v_p("A1")))},
      {"eq71-dq", "K in the derivation of the gradient to Q", "71", Form::cvpr,
       "K moves as P_R K P_C; two lines of the derivation have P_C^T.",
       R"(\frac{\partial l}{\partial Q_{(P)}} = \tfrac{1}{\sqrt d}\, P_R E' P_R^\top \cdot P_R K P_C)",
       FORM(s.d_p("Q")), FORM(nn(s.around(scores(s)), s.columns(s.rows(s.v("K")))) / s.root_d()),
       FORM(nn(s.around(scores(s)), s.columns_t(s.rows(s.v("K")))) / s.root_d())},
      {"eq74-text", "S in the derivation of Eq. 74", "74", Form::cvpr,
       "The gradient to V has S transposed; the display loses the transpose in its second line.",
       R"(\frac{\partial l}{\partial V_{(P)}} = P_R S^\top P_R^\top \cdot P_R \frac{\partial l}{\partial A} P_C)",
       FORM(s.d_p("V")), FORM(tn(s.around(s.v("S")), s.columns(s.rows(s.d("A"))))),
       FORM(nn(s.around(s.v("S")), s.columns(s.rows(s.d("A")))))},
      {"sec10.2", "the title of section 10.2", "76", Form::cvpr,
       "Gradients to weights are invariant under rows and equivariant under columns; the title has \"invariant\".",
       R"(\frac{\partial l}{\partial W_{Q(P)}} = P_C^\top \frac{\partial l}{\partial W_Q} P_C)", FORM(s.d_p("WQ")),
       FORM(s.conjugate(s.d("WQ"))), FORM(s.d("WQ"))},
      {"eq22-copy", "the gradient to H without a transpose", "22", Form::cvpr,
       "Copies of the text have the gradient to A_2 transposed; the paper has it plain.",
       R"(\frac{\partial l}{\partial H} = \frac{\partial l}{\partial A_2} W_2)", FORM(s.d("H")),
       FORM(nn(s.d("A2"), s.v("W2"))), FORM(tn(s.d("A2"), s.v("W2")))},
      {"eq66-copy", "the display before Eq. 66", "66", Form::cvpr,
       "Copies of the text lose the transpose of the gradient to A_2.",
       R"(\frac{\partial l}{\partial W_{2(P)}} = \frac{\partial l}{\partial A_{2(P)}}^\top H_{(P)})", FORM(s.d_p("W2")),
       FORM(tn(s.d_p("A2"), s.v_p("H"))), FORM(nn(s.d_p("A2"), s.v_p("H")))},
      {"eq68-copy", "the display before Eq. 68", "68", Form::cvpr,
       "Copies of the text lose the transpose of the gradient to A_1.",
       R"(\frac{\partial l}{\partial W_{1(P)}} = \frac{\partial l}{\partial A_{1(P)}}^\top A_{(P)})", FORM(s.d_p("W1")),
       FORM(tn(s.d_p("A1"), s.v_p("A"))), FORM(nn(s.d_p("A1"), s.v_p("A")))},
  };
}

std::vector<Misprint> appendix_b() {
  return {
      {"s1-eq27", "the gradient to W_2", "27", Form::paper001, "The gradient to A_2 is transposed.",
       R"(\frac{\partial l}{\partial W_2} = \frac{\partial l}{\partial A_2}^\top H)", FORM(s.d("W2")),
       FORM(tn(s.d("A2"), s.v("H"))), FORM(nn(s.d("A2"), s.v("H")))},
      {"s1-eq30", "the gradient to W_1", "30", Form::paper001, "The gradient to A_1 is transposed.",
       R"(\frac{\partial l}{\partial W_1} = \frac{\partial l}{\partial A_1}^\top A)", FORM(s.d("W1")),
       FORM(tn(s.d("A1"), s.v("A"))), FORM(nn(s.d("A1"), s.v("A")))},
      {"s1-eq33", "the gradient to Z", "33", Form::paper001,
       "Z feeds Q, K and V; the printed equation has the path through V alone.",
       R"(\frac{\partial l}{\partial Z} = \frac{\partial l}{\partial Q} W_Q + \frac{\partial l}{\partial K} W_K + \frac{\partial l}{\partial V} W_V)",
       FORM(s.d("Z")), FORM(nn(s.d("Q"), s.v("WQ")) + nn(s.d("K"), s.v("WK")) + nn(s.d("V"), s.v("WV"))),
       FORM(nn(s.d("V"), s.v("WV")))},
      {"s1-eq35", "the gradient to Q", "35", Form::paper001,
       "Softmax has a Jacobian for each row, as in Eq. 31 of [P].",
       R"(\frac{\partial l}{\partial Q} = \tfrac{1}{\sqrt d}\, E' K)", FORM(s.d("Q")),
       FORM(nn(scores(s), s.v("K")) / s.root_d()), FORM(nn(printed_scores(s), s.v("K")) / s.root_d())},
      {"s1-eq36", "the gradient to K", "36", Form::paper001,
       "Softmax has a Jacobian for each row, as in Eq. 32 of [P].",
       R"(\frac{\partial l}{\partial K} = \tfrac{1}{\sqrt d}\, E'^\top Q)", FORM(s.d("K")),
       FORM(tn(scores(s), s.v("Q")) / s.root_d()), FORM(tn(printed_scores(s), s.v("Q")) / s.root_d())},
      {"s1-eq42", "the gradient to W_2 under row shuffle", "42-44", Form::paper001,
       "As Eq. 27: without the transpose P_R does not cancel.",
       R"(\frac{\partial l}{\partial W_{2(P)}} = \frac{\partial l}{\partial A_{2(P)}}^\top H_{(P)})", FORM(s.d_p("W2")),
       FORM(tn(s.d_p("A2"), s.v_p("H"))), FORM(nn(s.d_p("A2"), s.v_p("H")))},
      {"s1-eq60", "the gradient to W_V under row shuffle", "60-61", Form::paper001,
       "The gradient to V is transposed and multiplied by Z, for which the equation writes X.",
       R"(\frac{\partial l}{\partial W_{V(P)}} = \frac{\partial l}{\partial V_{(P)}}^\top Z_{(P)})", FORM(s.d_p("WV")),
       FORM(tn(s.d_p("V"), s.v_p("Z"))), FORM(nn(s.d_p("V"), s.v_p("Z")))},
      {"s1-eq79", "A1 from the permuted A and W_1", "79", Form::paper001, "W_1 is transposed.",
       R"(A_{1(P)} = P_R A P_C^\top \cdot P_C W_1^\top P_C^\top)", FORM(s.v_p("A1")),
       FORM(nn(s.columns(s.rows(s.v("A"))), s.conjugate(s.v("W1").transpose().contiguous()))),
       FORM(nn(s.columns(s.rows(s.v("A"))), s.conjugate(s.v("W1"))))},
      {"s1-eq80", "A1 with P_C cancelled", "80", Form::paper001, "W_1 is transposed.",
       R"(A_{1(P)} = P_R A W_1^\top P_C^\top)", FORM(s.v_p("A1")), FORM(s.columns(nt(s.rows(s.v("A")), s.v("W1")))),
       FORM(s.columns(nn(s.rows(s.v("A")), s.v("W1"))))},
      {"s1-eq95-text", "S in the derivation of Eq. 95", "95", Form::paper001,
       "The gradient to V has S transposed; the display loses the transpose in its second line.",
       R"(\frac{\partial l}{\partial V_{(P)}} = P_R S^\top P_R^\top \cdot P_R \frac{\partial l}{\partial A} P_C^\top)",
       FORM(s.d_p("V")), FORM(tn(s.around(s.v("S")), s.columns(s.rows(s.d("A"))))),
       FORM(nn(s.around(s.v("S")), s.columns(s.rows(s.d("A")))))},
  };
}

#undef FORM

} // namespace

std::vector<Identity> errata_identities() {
  std::vector<Identity> rows;
  for (const Misprint& misprint : section_10()) rows.push_back(identity_of(misprint));
  for (const Misprint& misprint : appendix_b()) rows.push_back(identity_of(misprint));
  return rows;
}

} // namespace eg::permute
