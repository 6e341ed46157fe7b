// Section 7's block against plain loops, and section 10.1: how its values move under P_R and P_C.

#include "permute/catalogue/single_head.h"
#include "permute/catalogue/symbol_rules.h"

#include "core/exact/elementary.h"

#include <cmath>
#include <map>

namespace eg::permute {
namespace {

/// A dense row-major matrix of doubles for the plain loops.
struct Matrix {
  std::int64_t rows, cols;
  std::vector<double> at;
  double& operator()(std::int64_t i, std::int64_t j) { return at[static_cast<std::size_t>(i * cols + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return at[static_cast<std::size_t>(i * cols + j)]; }
};

Matrix zeros(std::int64_t rows, std::int64_t cols) {
  return {rows, cols, std::vector<double>(static_cast<std::size_t>(rows * cols), 0.0)};
}

Matrix matrix(const Tensor& x) { return {x.size(0), x.size(1), x.to(DType::f64).to_vector<double>()}; }

Tensor tensor(const Matrix& m, DType dtype) { return Tensor::from<double>(m.at, {m.rows, m.cols}).to(dtype); }

/// a b^T, or a b.
Matrix product(const Matrix& a, const Matrix& b, bool transpose_b) {
  Matrix y = zeros(a.rows, transpose_b ? b.rows : b.cols);
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.cols; ++j)
      for (std::int64_t k = 0; k < a.cols; ++k) y(i, j) += a(i, k) * (transpose_b ? b(j, k) : b(k, j));
  return y;
}

Matrix softmax_rows(Matrix e) {
  for (std::int64_t i = 0; i < e.rows; ++i) {
    double total = 0.0;
    for (std::int64_t j = 0; j < e.cols; ++j) total += e(i, j) = elementary::exp(e(i, j));
    for (std::int64_t j = 0; j < e.cols; ++j) e(i, j) /= total;
  }
  return e;
}

/// Eq. 14-21 in plain loops, and each with something else in it.
struct Loops {
  std::map<std::string, Matrix, std::less<>> right, wrong;

  explicit Loops(const Symbols& x) {
    const auto given = [&](const char* name) { return matrix(x.at(name)); };
    const auto times_transposed = [&](const Matrix& a, const char* w) { return product(a, given(w), true); };
    const Matrix z = given("Z");
    right["Q"] = wrong["V"] = times_transposed(z, "WQ");
    right["K"] = wrong["Q"] = times_transposed(z, "WK");
    right["V"] = wrong["K"] = times_transposed(z, "WV");
    Matrix e = product(right["Q"], right["K"], true);
    wrong["S"] = softmax_rows(e);
    for (double& value : e.at) value /= std::sqrt(static_cast<double>(z.cols));
    right["S"] = softmax_rows(e);
    right["A"] = product(right["S"], right["V"], false);
    wrong["A"] = product(wrong["S"], right["V"], false);
    right["A1"] = times_transposed(right["A"], "W1");
    wrong["A1"] = times_transposed(right["V"], "W1");
    right["H"] = wrong["H"] = right["A1"];
    for (double& value : right["H"].at) value = 0.5 * value * (1.0 + elementary::erf(value / std::sqrt(2.0)));
    right["A2"] = times_transposed(right["H"], "W2");
    wrong["A2"] = times_transposed(right["A1"], "W2");
  }
};

/// One of the definitions, or all of them.
Claim definitions(Case& c, std::initializer_list<const char*> symbols, const char* control) {
  const Symbols x = draw_block(c, sizes_of(c));
  const Pass pass = run_block(x, c.normal({c.options.tokens, c.options.dim}));
  const Loops loops(x);
  Claim claim;
  for (const char* symbol : symbols) {
    claim.equal(symbol, pass.value.at(symbol), tensor(loops.right.at(symbol), c.dtype));
    claim.differs(control, pass.value.at(symbol), tensor(loops.wrong.at(symbol), c.dtype));
  }
  return claim;
}

struct Definition {
  const char* id;
  const char* equation;
  const char* symbol;
  const char* tex;
  const char* control;
};

Identity identity_of(const Definition& row) {
  return {row.id,
          std::string("the definition of ") + row.symbol,
          "CVPR",
          row.equation,
          ClaimKind::identity,
          Gate::one_pass,
          std::string("The block's ") + row.symbol + " is the printed definition, computed in plain loops.",
          row.tex,
          [row](Case& c) { return definitions(c, {row.symbol}, row.control); }};
}

Claim unpermuting(Case& c) {
  const BlockTwins t = run_twins(c);
  const Tensor& a2 = t.permuted.value.at("A2");
  std::vector<double> rows(static_cast<std::size_t>(t.rows.size() * t.rows.size())),
      columns(static_cast<std::size_t>(t.columns.size() * t.columns.size()));
  for (std::int64_t i = 0; i < t.rows.size(); ++i) rows[static_cast<std::size_t>(i * t.rows.size() + t.rows[i])] = 1.0;
  for (std::int64_t j = 0; j < t.columns.size(); ++j)
    columns[static_cast<std::size_t>(t.columns[j] * t.columns.size() + j)] = 1.0;
  const Tensor p_r = Tensor::from<double>(rows, {t.rows.size(), t.rows.size()}).to(c.dtype);
  const Tensor p_c = Tensor::from<double>(columns, {t.columns.size(), t.columns.size()}).to(c.dtype);
  Claim claim;
  claim.equal("by gathers and by matrices", t.permuted.value.at("A3"),
              matmul(matmul(p_r, a2, true, false), p_c, false, true));
  claim.differs("P_R where P_R^T belongs", t.permuted.value.at("A3"), matmul(matmul(p_r, a2), p_c, false, true));
  return claim;
}

Claim unpermuted_output(Case& c) {
  const BlockTwins t = run_twins(c);
  Claim claim;
  claim.equal("A3_(P) = A2", t.permuted.value.at("A3"), t.plain.value.at("A2"));
  claim.differs("A2_(P), not permuted back", t.permuted.value.at("A2"), t.plain.value.at("A2"));
  return claim;
}

} // namespace

std::vector<Identity> single_head_forward_identities() {
  using enum ClaimKind;
  std::vector<Identity> rows = {
      {"fwd-defs", "the block of section 7", "CVPR", "14-21", identity, Gate::one_pass,
       "The block's operations are the printed definitions, computed in plain loops.",
       R"(S = \mathrm{Softmax}(QK^\top/\sqrt d),\ A = SV,\ A_1 = AW_1^\top,\ H = a(A_1),\ A_2 = HW_2^\top)",
       [](Case& c) {
         return definitions(c, {"Q", "K", "V", "S", "A", "A1", "H", "A2"}, "each definition with something else in it");
       }}};
  for (const Definition& definition : std::vector<Definition>{
           {"eq14", "14", "Q", R"(Q = Z W_Q^\top)", "W_K"},
           {"eq15", "15", "K", R"(K = Z W_K^\top)", "W_V"},
           {"eq16", "16", "V", R"(V = Z W_V^\top)", "W_Q"},
           {"eq17", "17", "S", R"(S = \mathrm{Softmax}(Q K^\top / \sqrt d))", "S without 1/sqrt(d)"},
           {"eq18", "18", "A", R"(A = S V)", "S without 1/sqrt(d)"},
           {"eq19", "19", "A1", R"(A_1 = A W_1^\top)", "V for A"},
           {"eq20", "20", "H", R"(H = a(A_1))", "A_1 itself"},
           {"eq21", "21", "A2", R"(A_2 = H W_2^\top)", "A_1 for H"},
       })
    rows.push_back(identity_of(definition));
  using Of = SymbolRule::Of;
  for (const SymbolRule& rule : std::vector<SymbolRule>{
           {"eq45", "45", "Q", Of::value, 'R', 'C'},
           {"eq46", "46", "K", Of::value, 'R', 'C'},
           {"eq47", "47", "V", Of::value, 'R', 'C'},
           {"eq52", "52", "S", Of::value, 'R', 'R'},
           {"eq56", "56", "A", Of::value, 'R', 'C'},
           {"eq60", "60", "A1", Of::value, 'R', '-', "Eq. 58-59 lack the transpose of W_1."},
           {"eq61", "61", "A2", Of::value, 'R', 'C'},
           {"eq62", "62", "H", Of::value, 'R', '-', "The text before Eq. 66 has P_C^T behind H, which does not fit."},
       })
    rows.push_back(identity_of(rule));
  rows.push_back({"eq63", "the output is permuted back", "CVPR", "63", identity, Gate::one_pass,
                  "What the head receives, by gathers as by matrices.", R"(A_{3(P)} = P_R^\top A_{2(P)} P_C^\top)",
                  unpermuting});
  rows.push_back({"eq64", "the head sees no difference", "CVPR", "64", identity, Gate::one_pass,
                  "Permuted back, the output is that of the plain block.", R"(A_{3(P)} = A_3 = A_2)",
                  unpermuted_output});
  return rows;
}

} // namespace eg::permute
