// Lemmas 9.1 to 9.6, the linear map of a gradient, RMSNorm and convolution.

#include "picture.h"
#include "theorem.h"

namespace pictures {

using namespace theorem;

namespace {

const Permutation tokens({2, 0, 1}), features({1, 3, 0, 2}), hidden({2, 0, 1});

Matrix matrix(const Tensor& values) { return {values, numbers(values.size(0)), letters(values.size(1))}; }
Matrix moved(const Matrix& x) { return permute_columns(permute_rows(x, tokens), features); }

Picture elementwise() {
  Picture picture("lem9.1", "Two matrices are multiplied element by element, before and after a permutation of both");
  const Matrix a = matrix(normal({3, 4})), b = matrix(normal({3, 4}));
  const Matrix product{a.values * b.values, a.rows, a.columns}, a_p = moved(a), b_p = moved(b);
  const Matrix product_p{a_p.values * b_p.values, a_p.rows, a_p.columns};
  picture.line("plain").add("A", a).add("B", b).add("A ⊙ B", product, "⊙");
  picture.line("rows 3 1 2, columns b d a c").add("P_R A P_C", a_p).add("P_R B P_C", b_p);
  picture.add("their product", product_p, "⊙");
  picture.equal("the lower product and P_R (A ⊙ B) P_C", product_p.values, moved(product).values);
  return picture.differ("the lower product and that of A permuted with B plain", a_p.values * b.values,
                        product_p.values);
}

Picture of_softmax() {
  Picture picture("lem9.2", "Softmax of a matrix, before and after a permutation of its rows and columns");
  const Matrix a = matrix(normal({3, 4})), a_p = moved(a);
  const Matrix s{softmax(a.values), a.rows, a.columns}, s_p{softmax(a_p.values), a_p.rows, a_p.columns};
  picture.line("plain").add("A", a).add("Softmax(A)", s, "softmax", 1);
  picture.line("rows 3 1 2, columns b d a c").add("P_R A P_C", a_p).add("Softmax(P_R A P_C)", s_p, "softmax", 1);
  picture.equal("the lower result and the upper one, permuted", s_p.values, moved(s).values);
  return picture.differ("the two results as they stand", s_p.values, s.values);
}

Picture of_linear() {
  Picture picture("lem9.3", "A linear layer before and after its input, its weight and its output are permuted");
  const Permutation out({1, 2, 0});
  const Matrix x = matrix(normal({2, 4})), w{normal({3, 4}), letters(3, 'p'), letters(4)};
  const Matrix y{linear(x.values, w.values), x.rows, w.rows}, x_p = permute_columns(x, features),
                                                              w_p = permute_columns(permute_rows(w, out), features),
                                                              y_p{linear(x_p.values, w_p.values), x.rows, w_p.rows};
  picture.line("plain").add("X", x).add("W", w).add("X Wᵀ", y, "multiply");
  picture.line("inputs b d a c, outputs q r p")
      .add("X P_in", x_p)
      .add("P_outᵀ W P_in", w_p)
      .add("their product", y_p, "multiply");
  picture.equal("the lower output and X Wᵀ P_out", y_p.values, out.apply(y.values, 1));
  return picture.differ("the output with the weight left plain, and X Wᵀ", linear(x_p.values, w.values), y.values);
}

Picture of_mlp() {
  Picture picture("lem9.4", "An MLP whose hidden units are put in another order");
  const Matrix x = matrix(normal({2, 4})), w1{normal({3, 4}), letters(3, 'p'), letters(4)},
               w2{normal({4, 3}), letters(4), letters(3, 'p')};
  const auto output = [&](const Matrix& in, const Matrix& out) {
    return Matrix{linear(gelu(linear(x.values, in.values)), out.values), x.rows, out.rows};
  };
  const Matrix w1_p = permute_rows(w1, hidden), w2_p = permute_columns(w2, hidden), y = output(w1, w2),
               y_p = output(w1_p, w2_p);
  picture.line("plain").add("W₁", w1).add("W₂", w2).add("MLP(X)", y, "on X");
  picture.line("hidden units r p q").add("P_tᵀ W₁", w1_p).add("W₂ P_t", w2_p).add("MLP(X)", y_p, "on X");
  picture.equal("the two outputs", y_p.values, y.values);
  return picture.differ("the output with W₁ permuted and W₂ plain, and the first", output(w1_p, w2).values, y.values);
}

Picture of_layer_norm() {
  Picture picture("lem9.5", "Layer norm of permuted features, with a gain that moves and with one that does not");
  const Matrix x = matrix(normal({2, 4})), gamma{normal({4}, 0.4, 1.0), {}, letters(4)},
               x_p = permute_columns(x, features), gamma_p = permute_columns(gamma, features);
  const Tensor beta = normal({4}), beta_p = features.apply(beta, 0);
  const Matrix y{layer_norm(x.values, gamma.values, beta), x.rows, x.columns},
      y_p{layer_norm(x_p.values, gamma_p.values, beta_p), x_p.rows, x_p.columns},
      left{layer_norm(x_p.values, gamma.values, beta), x_p.rows, x_p.columns};
  picture.line("plain").add("X", x).add("γ", gamma).add("LN(X; γ)", y, "norm");
  picture.line("features b d a c, γ with them")
      .add("X P_C", x_p)
      .add("γ P_C", gamma_p)
      .add("LN(X P_C; γ P_C)", y_p, "norm");
  picture.line("features b d a c, γ left").add("X P_C", x_p).add("γ", gamma).add("LN(X P_C; γ)", left, "norm");
  picture.equal("the second result and the first, permuted", y_p.values, features.apply(y.values, 1));
  return picture.differ("the third result and the second", left.values, y_p.values);
}

Picture of_attention() {
  Picture picture("lem9.6", "Attention with queries in one order, keys and values in another");
  const Permutation queries({1, 0}), keys({2, 0, 1});
  const Matrix q{normal({2, 3}), numbers(2), letters(3)}, k{normal({3, 3}), {"x", "y", "z"}, letters(3)},
      v{normal({3, 2}), {"x", "y", "z"}, letters(2, 'u')};
  const auto att = [](const Matrix& a, const Matrix& b, const Matrix& c) {
    return Matrix{attention_explicit(a.values, b.values, c.values).output, a.rows, c.columns};
  };
  const Matrix q_p = permute_rows(q, queries), k_p = permute_rows(k, keys), v_p = permute_rows(v, keys),
               y = att(q, k, v), y_p = att(q_p, k_p, v_p);
  picture.line("plain").add("Q", q).add("K", k).add("V", v).add("Att(Q, K, V)", y, "attend");
  picture.line("queries 2 1, keys and values z x y")
      .add("π Q", q_p)
      .add("σ K", k_p)
      .add("σ V", v_p)
      .add("Att(πQ, σK, σV)", y_p, "attend");
  picture.equal("the lower result and π Att(Q, K, V)", y_p.values, queries.apply(y.values, 0));
  return picture.differ("the result with K in the order σ and V left, and the lower one", att(q_p, k_p, v).values,
                        y_p.values);
}

Picture of_covector() {
  Picture picture("grad-covector", "A weight whose rows are scaled, and its gradient, whose rows are scaled back");
  const Tensor x = normal({5, 3}), g = normal({5, 3}), gate = normal({3, 3}), down = normal({3, 3});
  const Tensor scales = Tensor::from<double>({2.0, 0.5, 3.0}, {3, 1});
  const Matrix up{normal({3, 3}), letters(3, 'p'), letters(3)}, up_s{up.values * scales, up.rows, up.columns};
  const auto gradient = [&](const Tensor& w, const Tensor& out) {
    Tape tape;
    return tape.gradient(sum(g * gelu(linear(swiglu(linear(x, gate), linear(x, w)), out))), {w})[0];
  };
  const Tensor plain = gradient(up.values, down), scaled = gradient(up_s.values, down / scales.reshape({3}));
  picture.line("SwiGLU's up projection, and its gradient")
      .add("W₃", up)
      .add("∂l/∂W₃", {plain, up.rows, up.columns}, "gradient", 1);
  picture.line("rows times 2, 0.5, 3; the down projection undoes it").add("diag(s) W₃", up_s);
  picture.add("its gradient", {scaled, up.rows, up.columns}, "gradient", 1);
  picture.equal("the lower gradient and diag(s)⁻¹ ∂l/∂W₃", scaled, plain / scales);
  return picture.differ("the lower gradient and diag(s) ∂l/∂W₃", scaled, plain * scales);
}

Picture of_rms() {
  Picture picture("stip-rms", "RMSNorm of permuted features");
  const Matrix x = matrix(normal({2, 4})), gamma{normal({4}, 0.4, 1.0), {}, letters(4)},
               x_p = permute_columns(x, features), gamma_p = permute_columns(gamma, features);
  const Matrix y{rms_norm(x.values, gamma.values), x.rows, x.columns},
      y_p{rms_norm(x_p.values, gamma_p.values), x_p.rows, x_p.columns};
  picture.line("plain").add("x", x).add("γ", gamma).add("RMS(x; γ)", y, "norm");
  picture.line("features b d a c, γ with them")
      .add("x P_C", x_p)
      .add("γ P_C", gamma_p)
      .add("RMS(x P_C; γ P_C)", y_p, "norm");
  picture.equal("the lower result and the upper one, permuted", y_p.values, features.apply(y.values, 1));
  return picture.differ("the upper result and that of a mean over tokens, as printed",
                        x.values * rsqrt(sum(x.values * x.values, {1}, true) / 2.0 + 1e-6) * gamma.values, y.values);
}

Picture of_convolution() {
  Picture picture("stip-scope", "A convolution of one line of pixels, with permuted channels and with permuted pixels");
  const Permutation in({2, 0, 1}), pixels({3, 0, 4, 1, 2});
  const Tensor weight = normal({2, 3, 1, 3});
  const Matrix x{normal({3, 5}), letters(3), numbers(5)};
  const auto f = [&](const Matrix& image, const Tensor& w) {
    return Matrix{conv2d(image.values.reshape({1, 3, 1, 5}), w, Tensor{}, {.padding = Size2{0, 1}}).reshape({2, 5}),
                  letters(2, 'p'), image.columns};
  };
  const Matrix y = f(x, weight), x_c = permute_rows(x, in), y_c = f(x_c, in.apply(weight, 1)),
               x_p = permute_columns(x, pixels), y_p = f(x_p, weight);
  picture.line("channels a b c, pixels 1 to 5").add("x", x).add("conv(x)", y, "convolve");
  picture.line("channels c a b, and the weight's with them").add("x, channels moved", x_c).add("conv", y_c, "convolve");
  picture.line("pixels 4 1 5 2 3").add("x, pixels moved", x_p).add("conv", y_p, "convolve");
  picture.equal("the second result and the first", y_c.values, y.values);
  return picture.differ("the third result and the first with its pixels moved", y_p.values, pixels.apply(y.values, 1));
}

} // namespace

std::vector<Picture> of_parts() {
  std::vector<Picture> pictures;
  for (const auto scene :
       {elementwise, of_softmax, of_linear, of_mlp, of_layer_norm, of_attention, of_covector, of_rms, of_convolution}) {
    draws() = 0;
    pictures.push_back(scene());
  }
  return pictures;
}

} // namespace pictures
