// Checks which signed permutations and which orthogonal maps of the features RMSNorm and LayerNorm pass.

#include "permute/catalogue/case.h"

#include <algorithm>
#include <numeric>

namespace eg::permute {
namespace {

Tensor plain_rms(const Tensor& x) { return rms_norm(x, {}, 1e-6); }
Tensor plain_layer(const Tensor& x) { return layer_norm(x, {}, {}); }

/// All of B_d: gathers i64 [count, d], signs [count, d, 1], and whether all signs of an element are alike.
struct SignedMaps {
  Tensor gathers, signs;
  std::vector<bool> alike;

  SignedMaps(std::int64_t d, DType dtype) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(d)), all;
    std::vector<double> all_signs;
    std::iota(order.begin(), order.end(), std::int64_t{0});
    const std::int64_t patterns = std::int64_t{1} << d;
    do
      for (std::int64_t pattern = 0; pattern < patterns; ++pattern) {
        all.insert(all.end(), order.begin(), order.end());
        for (std::int64_t j = 0; j < d; ++j) all_signs.push_back((pattern >> j) % 2 == 0 ? 1.0 : -1.0);
        alike.push_back(pattern == 0 || pattern == patterns - 1);
      }
    while (std::next_permutation(order.begin(), order.end()));
    const auto count = static_cast<std::int64_t>(alike.size());
    gathers = Tensor::from<std::int64_t>(all, {count, d});
    signs = Tensor::from<double>(all_signs, {count, d, 1}).to(dtype);
  }
  std::int64_t count() const { return gathers.size(0); }
  /// x P D for each element: [d, n] -> [count, n, d].
  Tensor moved(const Tensor& features_first, bool with_signs = true) const {
    const Shape shape{count(), features_first.size(0), features_first.size(1)};
    const Tensor y = permute_rows(features_first.expand(shape).contiguous(), gathers);
    return transpose(with_signs ? y * signs : y, 1, 2).contiguous();
  }
};

/// What a search over B_3, B_4 and B_5 found, with gains and shifts drawn anew for each group.
struct SignSearch {
  std::vector<double> passing, wanted;
  double worst_inside = 0.0, least_outside = 1.0;
  std::int64_t candidates = 0;

  /// inside: whether an element whose signs are (or are not) alike is to pass.
  void run(Case& c, Tensor (*norm)(const Tensor&), bool shift, const std::function<bool(bool alike)>& inside) {
    constexpr int draws = 50;
    for (int draw = 0; draw < draws; ++draw) {
      const std::int64_t d = draw == 0 ? 5 : 3 + draw % 2, n = 6;
      const SignedMaps maps(d, c.dtype);
      const Tensor x = c.normal({d, n}), gain = c.normal({d, 1}, 0.3, 1.0);
      const Tensor beta = shift ? c.normal({d, 1}) : Tensor::zeros({d, 1}, c.dtype);
      const Tensor y = transpose(norm(transpose(x, 0, 1).contiguous()), 0, 1).contiguous() * gain + beta;
      const Tensor value = norm(maps.moved(x)) * maps.moved(gain, false) + maps.moved(beta);
      add(maps, value, maps.moved(y), inside);
    }
  }

private:
  void add(const SignedMaps& maps, const Tensor& value, const Tensor& expected,
           const std::function<bool(bool alike)>& inside) {
    const std::vector<double> apart =
        amax(abs(value - expected), {1, 2}).to(DType::f64).contiguous().to_vector<double>();
    const double scale = max(abs(expected.reshape({-1})), 0).to(DType::f64).item();
    double pass = 0.0, want = 0.0;
    for (std::size_t i = 0; i < apart.size(); ++i) {
      const double error = apart[i] / scale;
      const bool in = inside(maps.alike[i]);
      pass += error < 1e-4 ? 1.0 : 0.0;
      want += in ? 1.0 : 0.0;
      double& bound = in ? worst_inside : least_outside;
      bound = in ? std::max(bound, error) : std::min(bound, error);
    }
    passing.push_back(pass);
    wanted.push_back(want);
    candidates += maps.count();
  }
};

void report(Claim& claim, const SignSearch& search) {
  const auto count = static_cast<std::int64_t>(search.passing.size());
  claim.equal_bits("signed permutations that pass, group by group", Tensor::from<double>(search.passing, {count}),
                   Tensor::from<double>(search.wanted, {count}));
  claim.zero("largest error of one that is to pass", Tensor::full({1}, search.worst_inside, DType::f64), 1.0);
  claim.compare_f64 = false;
  claim.candidates = search.candidates;
}

/// RMSNorm squares: signs pass, with any permutation.
Claim rms_signs(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), gamma = c.normal({d}, 0.3, 1.0), signs = sign(c.normal({d}));
  const Permutation p = c.permutation(d);
  const auto moved = [&](const Tensor& z) { return p.apply(z, 1) * signs; };
  Tensor flipped = Tensor::ones({d}, c.dtype);
  flipped.slice(0, 0, 1).fill(-1.0);
  Claim claim;
  claim.equal("a signed permutation", rms_norm(moved(x), p.apply(gamma, 0)), moved(rms_norm(x, gamma)));
  claim.differs("one sign under LayerNorm", layer_norm(x * flipped, gamma, {}), layer_norm(x, gamma, {}) * flipped);
  SignSearch search;
  search.run(c, plain_rms, false, [](bool) { return true; });
  report(claim, search);
  return claim;
}

/// LayerNorm subtracts a mean, which all signs turn together or not at all.
Claim layer_norm_signs(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), gamma = c.normal({d}, 0.3, 1.0), beta = c.normal({d});
  const Permutation p = c.permutation(d);
  Claim claim;
  claim.equal("all signs, and a permutation", layer_norm(-p.apply(x, 1), p.apply(gamma, 0), -p.apply(beta, 0)),
              -p.apply(layer_norm(x, gamma, beta), 1));
  SignSearch search;
  search.run(c, plain_layer, true, [](bool alike) { return alike; });
  report(claim, search);
  claim.control = "smallest error of an element whose signs differ";
  claim.fails.push_back(
      {claim.control, Tensor::full({1}, search.least_outside, DType::f64), Tensor::zeros({1}, DType::f64), 1.0, false});
  return claim;
}

Claim rms_orthogonal(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), q = orthonormal(c.normal({d, d})).to(c.dtype);
  Claim claim;
  claim.equal("any orthogonal map, the gain folded away", plain_rms(matmul(x, q)), matmul(plain_rms(x), q));
  claim.differs("the same under LayerNorm", plain_layer(matmul(x, q)), matmul(plain_layer(x), q));
  return claim;
}

/// An orthogonal map that keeps (1, ..., 1): an orthonormal basis that begins with it, turned among the others.
Tensor mean_keeping_map(Case& c, std::int64_t d) {
  Tensor basis = c.normal({d, d}).to(DType::f64);
  basis = orthonormal(concat({Tensor::ones({d, 1}, DType::f64), basis.slice(1, 1, d)}, 1));
  const Tensor inner = orthonormal(c.normal({d - 1, d - 1})), rest = basis.slice(1, 1, d);
  return (matmul(matmul(rest, inner), rest, false, true) +
          Tensor::full({d, d}, 1.0 / static_cast<double>(d), DType::f64))
      .to(c.dtype);
}

Claim layer_norm_orthogonal(Case& c) {
  const std::int64_t n = c.options.tokens, d = c.options.dim;
  const Tensor x = c.normal({n, d}), map = mean_keeping_map(c, d), y = plain_layer(x);
  Tensor flipped = Tensor::ones({d}, c.dtype);
  flipped.slice(0, 0, 1).fill(-1.0);
  const Tensor other = orthonormal(c.normal({d, d})).to(c.dtype);
  Claim claim;
  claim.equal("an orthogonal map with 1 Q = 1", plain_layer(matmul(x, map)), matmul(y, map));
  claim.equal("an orthogonal map with 1 Q = -1", plain_layer(matmul(x, -map)), matmul(y, -map));
  claim.control = "the smaller error of one flipped sign and of a drawn orthogonal map";
  const double error = std::min(relative_error(plain_layer(x * flipped), y * flipped),
                                relative_error(plain_layer(matmul(x, other)), matmul(y, other)));
  claim.fails.push_back(
      {claim.control, Tensor::full({1}, error, DType::f64), Tensor::zeros({1}, DType::f64), 1.0, false});
  return claim;
}

} // namespace

std::vector<Identity> norm_identities() {
  using enum ClaimKind;
  return {
      {.id = "rms-sign",
       .title = "RMSNorm and signs",
       .kind = law,
       .statement = "RMSNorm passes every signed permutation, whose gain moves without signs; LayerNorm does not pass "
                    "a single sign.",
       .tex = R"(\mathrm{RMS}(x P D; \gamma P) = \mathrm{RMS}(x; \gamma) P D,\quad D = \mathrm{diag}(\pm 1))",
       .run = rms_signs,
       .sharp = true},
      {.id = "ln-sign",
       .title = "LayerNorm and signs",
       .kind = law,
       .statement = "Of the signed permutations LayerNorm passes exactly those whose signs are all alike, with beta "
                    "turned as the features are.",
       .tex = R"(\mathrm{LN}(-xP; \gamma P, -\beta P) = -\mathrm{LN}(x; \gamma, \beta) P)",
       .run = layer_norm_signs,
       .sharp = true},
      {"rms-orth", "RMSNorm and orthogonal maps", "", "", law, Gate::one_pass,
       "Without its gain RMSNorm commutes with every orthogonal map; LayerNorm does not.",
       R"(\mathrm{RMS}(xQ) = \mathrm{RMS}(x)Q,\ Q^\top Q = I)", rms_orthogonal},
      {"ln-orth", "LayerNorm and orthogonal maps", "", "", law, Gate::one_pass,
       "Without gain and bias LayerNorm commutes with the orthogonal maps that keep (1, ..., 1) or turn it round; one "
       "flipped sign does not pass.",
       R"(\mathrm{LN}(xQ) = \mathrm{LN}(x)Q,\ Q^\top Q = I,\ \mathbf 1 Q = \pm \mathbf 1)", layer_norm_orthogonal},
  };
}

} // namespace eg::permute
