// Heads, masks and positions, and the maps beyond permutations.

#include "picture.h"
#include "theorem.h"

#include <limits>

namespace pictures {

using namespace theorem;

namespace {

const Permutation tokens({2, 0, 1}), features({1, 3, 0, 2});
const nn::BlockConfig two_heads{.dim = 4, .heads = 2, .mlp = 3};
const Labels of_heads = {"A1", "A2", "B1", "B2"}; ///< two features of head A, two of head B

Matrix of_tokens(const Tensor& values, const Labels& columns) { return {values, numbers(values.size(0)), columns}; }
Tensor encoded(const nn::Block& block, const Tensor& z) {
  return block(z.reshape({1, z.size(0), z.size(1)})).reshape(z.shape());
}

/// W_Q, the first rows of the fused projection.
Tensor queries_of(const nn::Block& block) {
  for (const nn::Parameter& p : block.named_parameters())
    if (p.name.ends_with("qkv.weight")) return p.value.slice(0, 0, 4);
  throw ValueError("no qkv.weight");
}

Picture tied_heads() {
  Picture picture("mh-valid",
                  "Tied weights: a permutation that keeps heads together passes, one that splits a head does not");
  nn::Block encoder(two_heads, {});
  randomize(encoder);
  const Matrix z = of_tokens(normal({2, 4}), of_heads), y = of_tokens(encoded(encoder, z.values), of_heads);
  const auto run = [&](const Permutation& p) {
    permute::BlocksKey key = permute::BlocksKey::identity(two_heads, 1);
    key.residual = key.blocks[0].qk = key.blocks[0].v = p;
    const Matrix in = permute_columns(z, p);
    return std::pair{in, Matrix{encoded(*moved_by(key, encoder), in.values), in.rows, in.columns}};
  };
  const Permutation keeps({3, 2, 0, 1}), splits({1, 2, 3, 0});
  const auto [z_k, y_k] = run(keeps);
  const auto [z_s, y_s] = run(splits);
  picture.line("plain").add("Z", z).add("Enc(Z)", y, "Enc");
  picture.line("head B first, each head in an order of its own").add("Z P", z_k).add("with Pᵀ W P", y_k, "Enc_(C)");
  picture.line("every feature one further: heads are split").add("Z P", z_s).add("with Pᵀ W P", y_s, "Enc_(C)");
  picture.equal("the second result and Enc(Z) P", y_k.values, keeps.apply(y.values, 1));
  return picture.differ("the third result and Enc(Z) P", y_s.values, splits.apply(y.values, 1));
}

Picture free_heads() {
  Picture picture("mh-decoupled", "Decoupled weights: columns of W_Q move with the features, rows with the heads");
  nn::Block encoder(two_heads, {});
  randomize(encoder);
  permute::BlocksKey key = permute::BlocksKey::identity(two_heads, 1);
  const Permutation splits({1, 2, 3, 0}), heads({3, 2, 0, 1});
  key.residual = splits;
  key.blocks[0].qk = heads;
  key.blocks[0].v = Permutation({2, 3, 1, 0});
  const auto moved = moved_by(key, encoder);
  const Matrix w{queries_of(encoder), of_heads, letters(4)}, w_p = permute_columns(permute_rows(w, heads), splits);
  const Matrix z = of_tokens(normal({2, 4}), letters(4)), z_p = permute_columns(z, splits),
               y = of_tokens(encoded(encoder, z.values), letters(4)),
               y_p{encoded(*moved, z_p.values), z_p.rows, z_p.columns};
  picture.line("plain").add("W_Q", w, {}, 1).add("Z", z).add("Enc(Z)", y, "Enc");
  picture.line("features b c d a; head B before head A")
      .add("Π₁ᵀ W_Q P_C", w_p, {}, 1)
      .add("Z P_C", z_p)
      .add("Enc_(C)(Z P_C)", y_p, "Enc_(C)");
  picture.equal("Π₁ᵀ W_Q P_C and what the moved block holds", queries_of(*moved), w_p.values);
  picture.equal("its output and Enc(Z) P_C, though P_C splits heads", y_p.values, splits.apply(y.values, 1));
  key.blocks[0].v = Permutation({0, 1, 2, 3});
  return picture.differ("the same with V's heads left where they were", encoded(*moved_by(key, encoder), z_p.values),
                        y_p.values);
}

Picture masks() {
  Picture picture("mask-aut", "A padding mask permuted on both sides: one permutation keeps it, another changes it");
  constexpr double closed = -std::numeric_limits<double>::infinity();
  std::vector<double> entries;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) entries.push_back(j < 3 ? 0.0 : closed);
  const Matrix mask{Tensor::from<double>(entries, {4, 4}), numbers(4), numbers(4)},
      x = of_tokens(normal({4, 3}), letters(3));
  const auto f = [&](const Tensor& z) { return attention_explicit(z, z, z, {.mask = mask.values}).output; };
  const Permutation inside({1, 2, 0, 3}), across({0, 1, 3, 2});
  const Matrix y{f(x.values), x.rows, x.columns};
  const auto show = [&](const char* heading, const Permutation& p) {
    picture.line(heading).add("P M Pᵀ", permute_columns(permute_rows(mask, p), p));
    const Matrix in = permute_rows(x, p);
    picture.add("P X", in).add("f(P X)", {f(in.values), in.rows, in.columns}, "attend");
  };
  picture.line("token 4 is padding, closed to all").add("M", mask).add("X", x).add("f(X)", y, "attend");
  show("tokens 2 3 1 4: the mask is the same", inside);
  show("tokens 1 2 4 3: the mask is another", across);
  picture.equal("f(P X) and P f(X) in the second line", f(inside.apply(x.values, 0)), inside.apply(y.values, 0));
  return picture.differ("f(P X) and P f(X) in the third line", f(across.apply(x.values, 0)), across.apply(y.values, 0));
}

Picture causal_scores() {
  Picture picture("thm10.2", "Causal attention weights of plain and of permuted features");
  const Matrix q = of_tokens(normal({3, 4}), letters(4)), k = of_tokens(normal({3, 4}), letters(4)),
               q_p = permute_columns(q, features), k_p = permute_columns(k, features);
  const auto scores = [](const Matrix& a, const Matrix& b) {
    return Matrix{masked_softmax(matmul(a.values, b.values, false, true) / 2.0, {}, true), numbers(3), numbers(3)};
  };
  const Matrix s = scores(q, k), s_p = scores(q_p, k_p), wrong = scores(q_p, k);
  picture.line("plain").add("Q", q).add("K", k).add("MS", s, "mask, softmax", 1);
  picture.line("features b d a c in both").add("Q P_C", q_p).add("K P_C", k_p).add("MS_(P)", s_p, "mask, softmax", 1);
  picture.line("features b d a c in Q").add("Q P_C", q_p).add("K", k).add("other weights", wrong, "mask, softmax", 1);
  picture.equal("the first two results, where no entry moves", s_p.values, s.values);
  return picture.differ("the third result and the first", wrong.values, s.values);
}

Tensor turned(const Tensor& x, const Tensor& at) {
  return rotary(x.reshape({1, x.size(0), 1, x.size(1)}), at, {.base = 4.0}).reshape(x.shape());
}

Picture rotary_scores() {
  Picture picture("rope", "Scores of rotary attention when tokens move with and without their positions");
  const Matrix q = of_tokens(normal({3, 4}), letters(4)), k = of_tokens(normal({3, 4}), letters(4));
  const Tensor positions = Tensor::arange(3);
  const auto scores = [](const Matrix& a, const Matrix& b, const Tensor& at) {
    return Matrix{matmul(turned(a.values, at), turned(b.values, at), false, true), a.rows, b.rows};
  };
  const Matrix q_p = permute_rows(q, tokens), k_p = permute_rows(k, tokens), s = scores(q, k, positions),
               s_p = scores(q_p, k_p, tokens.tensor()), wrong = scores(q_p, k_p, positions);
  picture.line("tokens at positions 0 1 2").add("Q", q).add("K", k).add("scores", s, "rotate, multiply", 1);
  picture.line("tokens 3 1 2 at positions 2 0 1")
      .add("P_R Q", q_p)
      .add("P_R K", k_p)
      .add("scores", s_p, "rotate, multiply", 1);
  picture.line("tokens 3 1 2 at positions 0 1 2")
      .add("P_R Q", q_p)
      .add("P_R K", k_p)
      .add("scores", wrong, "rotate, multiply", 1);
  picture.equal("the second scores and the first ones with rows and columns moved", s_p.values,
                permute_columns(permute_rows(s, tokens), tokens).values);
  return picture.differ("the third scores and the second ones", wrong.values, s_p.values);
}

Picture bias_of_keys() {
  Picture picture("bk-rotary", "The gradient of the keys' bias without positions and with rotary ones");
  const Tensor q = normal({3, 4}), k = normal({3, 4}), v = normal({3, 4}), b = normal({4}), g = normal({3, 4}),
               at = Tensor::arange(3);
  const auto gradient = [&](bool rotates) {
    const auto turn = [&](const Tensor& x) { return rotates ? turned(x, at) : x; };
    Tape tape;
    const Tensor keys = turn(k + b);
    const auto found = tape.gradient(scaled_dot_product_attention(turn(q), keys, v), {b, keys}, g);
    return std::pair{found[0], found[1]};
  };
  const auto [plain, to_keys] = gradient(false);
  const auto [rotated, to_turned] = gradient(true);
  picture.line("without positions")
      .add("∂l/∂K", of_tokens(to_keys, letters(4)))
      .add("∂l/∂b_K", {round(plain * 1e9) / 1e9, {}, letters(4)}, "sum of rows");
  const Tensor back = turned(to_turned, Tensor::from<std::int64_t>({0, -1, -2}, {3}));
  picture.line("rotary positions")
      .add("R_jᵀ ∂l/∂(R_j k_j)", of_tokens(back, letters(4)))
      .add("∂l/∂b_K", {rotated, {}, letters(4)}, "sum of rows");
  picture.equal("the upper gradient of b_K and zero", plain + 1.0, Tensor::ones({4}, DType::f64));
  picture.equal("the lower gradient of b_K and the sum of the rows before it", rotated, sum(back, {0}));
  return picture.differ("the lower gradient and zero", rotated + 1.0, Tensor::ones({4}, DType::f64));
}

Picture cache() {
  Picture picture("kv-cache", "A key-value cache in another order of its entries");
  const Matrix q{normal({1, 3}), {}, letters(3)}, k = of_tokens(normal({3, 3}), letters(3)),
                                                  v = of_tokens(normal({3, 3}), letters(3));
  const auto attend = [&](const Matrix& keys, const Matrix& values) {
    return Matrix{scaled_dot_product_attention(q.values, keys.values, values.values), {}, letters(3)};
  };
  const Matrix k_p = permute_rows(k, tokens), v_p = permute_rows(v, tokens), y = attend(k, v), y_p = attend(k_p, v_p),
               wrong = attend(k_p, v);
  picture.line("entries as they came").add("K", k).add("V", v).add("Att(q, K, V)", y, "q attends");
  picture.line("entries 3 1 2").add("σ K", k_p).add("σ V", v_p).add("Att(q, σK, σV)", y_p, "q attends");
  picture.line("keys 3 1 2, values as they came").add("σ K", k_p).add("V", v).add("Att(q, σK, V)", wrong, "q attends");
  picture.equal("the first two results", y_p.values, y.values);
  return picture.differ("the third result and the first", wrong.values, y.values);
}

Picture grouped() {
  Picture picture("gqa", "Four query heads that share two key heads");
  const Labels heads = {"A1", "A2", "B1", "B2"};
  const Matrix q{normal({4, 3}), heads, letters(3)};
  const Tensor k = normal({2, 5, 3}), v = normal({2, 5, 3});
  const auto attend = [&](const Matrix& queries, const Permutation& groups) {
    return Matrix{scaled_dot_product_attention(queries.values.reshape({4, 1, 3}), groups.apply(k, 0),
                                               groups.apply(v, 0), AttentionOptions{})
                      .reshape({4, 3}),
                  queries.rows, queries.columns};
  };
  const Permutation none = Permutation::identity(2), swapped({1, 0}), with_them({2, 3, 0, 1}), across({2, 1, 0, 3});
  const Matrix y = attend(q, none), q_g = permute_rows(q, with_them), y_g = attend(q_g, swapped),
               q_a = permute_rows(q, across), y_a = attend(q_a, none);
  picture.line("query heads A1, A2 read key head A; B1, B2 read B").add("queries", q).add("outputs", y, "attend");
  picture.line("groups exchanged, key heads too").add("queries", q_g).add("outputs", y_g, "attend");
  picture.line("A1 and B1 exchanged").add("queries", q_a).add("outputs", y_a, "attend");
  picture.equal("the second outputs and the first ones with heads moved", y_g.values, with_them.apply(y.values, 0));
  return picture.differ("the third outputs and the first ones with heads moved", y_a.values, across.apply(y.values, 0));
}

Picture signs() {
  Picture picture("ln-sign", "LayerNorm of features whose signs are turned, all of them or one");
  const Tensor gamma = normal({4}, 0.4, 1.0), beta = normal({4}, 0.5);
  Tensor first = Tensor::ones({4}, DType::f64);
  first.slice(0, 0, 1).fill(-1.0);
  const Matrix x = of_tokens(normal({2, 4}), letters(4));
  const auto norm = [&](const Tensor& signs) {
    return std::pair{Matrix{x.values * signs, x.rows, x.columns},
                     Matrix{layer_norm(x.values * signs, gamma, beta * signs), x.rows, x.columns}};
  };
  const Tensor all_signs = -Tensor::ones({4}, DType::f64);
  const auto [in, y] = norm(Tensor::ones({4}, DType::f64));
  const auto [in_all, y_all] = norm(all_signs);
  const auto [in_one, y_one] = norm(first);
  picture.line("plain").add("x", in).add("LN(x; γ, β)", y, "norm");
  picture.line("all signs turned, β too").add("−x", in_all).add("LN(−x; γ, −β)", y_all, "norm");
  picture.line("the sign of a turned, in β too").add("x D", in_one).add("LN(x D; γ, β D)", y_one, "norm");
  picture.equal("the second result and −LN(x; γ, β)", y_all.values, -y.values);
  return picture.differ("the third result and LN(x; γ, β) D", y_one.values, y.values * first);
}

Picture bases() {
  Picture picture("train-orth", "A weight trained in another basis and turned back, by SGD and by Adam");
  const Matrix w{normal({3, 4}), letters(3, 'p'), letters(4)};
  const Tensor v = normal({4, 1}), none = eye(4, 4, DType::f64),
               r = none - matmul(v, v, false, true) * (2.0 / sum(v * v).item());
  const auto trained = [&](const std::string& rule, const Tensor& basis, double rate) {
    const Tensor weight = matmul(w.values, basis);
    const auto optimizer = optim::make_optimizer(rule, {weight});
    for (std::uint64_t step = 0; step < 20; ++step) {
      Tape tape;
      const Tensor x = random_normal({7, 4}, {.seed = 3, .stream = step}, 0.0, 1.0, DType::f64);
      optimizer->step(tape.gradient(mean(square(gelu(linear(matmul(x, basis), weight)) - 1.0)), {weight}), rate);
    }
    return Matrix{matmul(weight, basis, false, true), w.rows, w.columns};
  };
  const Matrix sgd = trained("sgd", none, 0.3), sgd_r = trained("sgd", r, 0.3), adam = trained("adam", none, 0.1),
               adam_r = trained("adam", r, 0.1);
  picture.line("SGD, 20 steps from one W₀").add("in the plain basis", sgd).add("in the basis R, turned back", sgd_r);
  picture.line("Adam, 20 steps from one W₀").add("in the plain basis", adam).add("in the basis R, turned back", adam_r);
  picture.equal("the two weights of SGD", sgd_r.values, sgd.values);
  return picture.differ("the two weights of Adam", adam_r.values, adam.values);
}

} // namespace

std::vector<Picture> of_groups() {
  std::vector<Picture> pictures;
  for (const auto scene :
       {tied_heads, free_heads, masks, causal_scores, rotary_scores, bias_of_keys, cache, grouped, signs, bases}) {
    draws() = 0;
    pictures.push_back(scene());
  }
  return pictures;
}

} // namespace pictures
