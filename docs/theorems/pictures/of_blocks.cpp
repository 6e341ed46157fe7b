// Theorems 4.1 to 4.7, 10.1 and the corollaries: whole blocks, their gradients, their training.

#include "picture.h"
#include "theorem.h"

namespace pictures {

using namespace theorem;

namespace {

const Permutation tokens({2, 0, 1}), features({1, 3, 0, 2});
const nn::BlockConfig small{.dim = 4, .heads = 2, .mlp = 3};
const std::string weight_name = "mlp.fc1.weight"; // [3, 4]

/// A matrix of tokens by features.
Matrix of_tokens(const Tensor& values) { return {values, numbers(values.size(0)), letters(values.size(1))}; }
Matrix of_units(const Tensor& values) { return {values, letters(values.size(0), 'p'), letters(values.size(1))}; }

/// Batches of one sample for modules.
Tensor one(const Tensor& z) { return z.reshape({1, z.size(0), z.size(1)}); }
Tensor encoded(const nn::Block& block, const Tensor& z) { return block(one(z)).reshape(z.shape()); }

Tensor named(const nn::StateDict& state, const std::string& name) {
  for (const auto& [key, value] : state)
    if (key == name) return value;
  throw ValueError("no parameter " + name);
}

/// features on the residual stream, inner axes plain.
permute::BlocksKey key_of_features() {
  permute::BlocksKey key = permute::BlocksKey::identity(small, 1);
  key.residual = features;
  return key;
}

Tensor gradient_of(const nn::Block& block, const std::function<Tensor()>& output) {
  return named(gradients(block, output), weight_name);
}

Picture rows_forward() {
  Picture picture("thm4.1", "Encode and then permute the tokens, or permute and then encode: the same");
  nn::Block encoder(small, {});
  randomize(encoder);
  const Matrix z = of_tokens(normal({3, 4})), y{encoded(encoder, z.values), z.rows, z.columns},
               z_p = permute_rows(z, tokens), y_p{encoded(encoder, z_p.values), z_p.rows, z_p.columns};
  picture.line("encode, then permute")
      .add("Z", z)
      .add("Enc(Z)", y, "Enc")
      .add("P_R Enc(Z)", permute_rows(y, tokens), "P_R");
  picture.line("permute, then encode").add("Z", z).add("P_R Z", z_p, "P_R").add("Enc(P_R Z)", y_p, "Enc");
  picture.equal("the last matrices of the two lines", y_p.values, tokens.apply(y.values, 0));
  return picture.differ("Enc(P_R Z) and Enc(Z)", y_p.values, y.values);
}

Picture rows_backward() {
  Picture picture("thm4.2", "The gradient of a weight is the same for permuted tokens");
  nn::Block encoder(small, {});
  randomize(encoder);
  const Matrix z = of_tokens(normal({3, 4})), z_p = permute_rows(z, tokens);
  const Permutation back = tokens.inverse();
  const Matrix plain = of_units(gradient_of(encoder, [&] { return encoder(one(z.values)); })),
               shuffled = of_units(gradient_of(encoder, [&] { return back.apply(encoder(one(z_p.values)), 1); })),
               left = of_units(gradient_of(encoder, [&] { return encoder(one(z_p.values)); }));
  picture.line("plain tokens").add("Z", z).add("∂l/∂W₁", plain, "Enc, loss, back", 1);
  picture.line("tokens 3 1 2, output restored before the loss")
      .add("P_R Z", z_p)
      .add("∂l/∂W₁", shuffled, "Enc, loss, back", 1);
  picture.line("tokens 3 1 2, output left as it comes").add("P_R Z", z_p).add("∂l/∂W₁", left, "Enc, loss, back", 1);
  picture.equal("the first two gradients", shuffled.values, plain.values);
  return picture.differ("the third gradient and the first", left.values, plain.values);
}

/// The weight after twenty steps of train(); `enter` and `leave` act on a batch of a step.
template <class Enter, class Leave> Tensor trained(nn::Block& block, Enter enter, Leave leave) {
  const auto optimizer = optim::sgd(block.parameters(), {.momentum = 0.9});
  for (std::uint64_t step = 0; step < 20; ++step) {
    Tape tape;
    const Tensor z = random_normal({4, 3, 4}, {.seed = 3, .stream = step}, 0.0, 1.0, DType::f64);
    optimizer->step(tape.gradient(mean(square(leave(block(enter(z, step)), step) - z)), block.parameters()), 0.05);
  }
  return named(block.state_dict(), weight_name);
}

Picture rows_training() {
  Picture picture("cor4.3", "A weight after twenty steps of training on plain and on permuted tokens");
  nn::Block plain(small, {}), permuted(small, {}), left(small, {});
  randomize(plain);
  for (nn::Block* other : {&permuted, &left}) {
    other->to(DType::f64);
    other->load_state_dict(plain.state_dict());
  }
  const Matrix start = of_units(named(plain.state_dict(), weight_name).clone());
  const auto same = [](const Tensor& z, std::uint64_t) { return z; };
  const auto order = [](std::uint64_t step) { return permute::row_permutations(4, 3, {.seed = 4, .stream = step}); };
  const auto shuffle = [&](const Tensor& z, std::uint64_t step) { return eg::permute_rows(z, order(step)); };
  const auto restore = [&](const Tensor& z, std::uint64_t step) {
    return eg::permute_rows(z, invert_permutation(order(step)));
  };
  const Matrix a = of_units(trained(plain, same, same)), b = of_units(trained(permuted, shuffle, restore)),
               c = of_units(trained(left, shuffle, same));
  picture.line("plain tokens").add("W₁ at step 0", start).add("W₁ at step 20", a, "train");
  picture.line("a fresh order of tokens in each step").add("W₁ at step 0", start).add("W₁ at step 20", b, "train");
  picture.line("the same, output not restored").add("W₁ at step 0", start).add("W₁ at step 20", c, "train");
  picture.equal("the first two results", b.values, a.values);
  return picture.differ("the third result and the first", c.values, a.values);
}

Picture columns_forward() {
  Picture picture("thm4.4", "Permuted features in an encoder with moved weights and with plain ones");
  nn::Block encoder(small, {});
  randomize(encoder);
  const auto moved = moved_by(key_of_features(), encoder);
  const Matrix z = of_tokens(normal({3, 4})), z_p = permute_columns(z, features),
               y{encoded(encoder, z.values), z.rows, z.columns},
               y_p{encoded(*moved, z_p.values), z_p.rows, z_p.columns},
               wrong{encoded(encoder, z_p.values), z_p.rows, z_p.columns};
  picture.line("plain").add("Z", z).add("Enc(Z)", y, "Enc");
  picture.line("features b d a c, weights moved").add("Z P_C", z_p).add("Enc_(C)(Z P_C)", y_p, "Enc_(C)");
  picture.line("features b d a c, weights plain").add("Z P_C", z_p).add("Enc(Z P_C)", wrong, "Enc");
  picture.equal("the second result and Enc(Z) P_C", y_p.values, features.apply(y.values, 1));
  return picture.differ("the third result and Enc(Z) P_C", wrong.values, y_p.values);
}

Picture columns_backward() {
  Picture picture("thm4.5", "A weight and its gradient, before and after their columns move together");
  nn::Block encoder(small, {});
  randomize(encoder);
  const permute::BlocksKey key = key_of_features();
  const auto moved = moved_by(key, encoder);
  const Tensor z = normal({1, 3, 4});
  const Matrix w = of_units(named(encoder.state_dict(), weight_name)), w_p = permute_columns(w, features);
  const Matrix g = of_units(gradient_of(encoder, [&] { return encoder(z); }));
  const Matrix g_p{gradient_of(*moved, [&] { return key.undo_columns((*moved)(key.apply_columns(z))); }), w_p.rows,
                   w_p.columns};
  picture.line("plain").add("W₁", w).add("∂l/∂W₁", g, "loss, back", 1);
  picture.line("features b d a c").add("W₁ P_C", w_p).add("its gradient", g_p, "loss, back", 1);
  picture.equal("the lower gradient and (∂l/∂W₁) P_C, which moves as the weight does", g_p.values,
                features.apply(g.values, 1));
  return picture.differ("the two gradients as they stand", g_p.values, g.values);
}

Picture columns_training() {
  Picture picture("cor4.6", "A weight after twenty steps on permuted features, from coupled and from equal weights");
  nn::Block plain(small, {});
  randomize(plain);
  const permute::BlocksKey key = key_of_features();
  const auto coupled = moved_by(key, plain), same = moved_by(permute::BlocksKey::identity(small, 1), plain);
  const Matrix start = of_units(named(plain.state_dict(), weight_name).clone()),
               start_p = permute_columns(start, features);
  const auto none = [](const Tensor& z, std::uint64_t) { return z; };
  const auto enter = [&](const Tensor& z, std::uint64_t) { return key.apply_columns(z); };
  const auto leave = [&](const Tensor& z, std::uint64_t) { return key.undo_columns(z); };
  const Matrix a = of_units(trained(plain, none, none)),
               b{trained(*coupled, enter, leave), start_p.rows, start_p.columns},
               c{trained(*same, enter, leave), start_p.rows, start_p.columns};
  picture.line("plain features").add("W₁ at step 0", start).add("W₁ at step 20", a, "train");
  picture.line("features b d a c, weights coupled at step 0")
      .add("W₁ P_C at step 0", start_p)
      .add("W₁_(C) at step 20", b, "train");
  picture.line("features b d a c, the same numbers at step 0")
      .add("W₁ at step 0", {start.values, start_p.rows, start_p.columns});
  picture.add("W₁_(C) at step 20", c, "train");
  picture.equal("the second result and the first, moved", b.values, features.apply(a.values, 1));
  return picture.differ("the third result and the first, moved", c.values, b.values);
}

Picture both() {
  Picture picture("thm4.7",
                  "The gradient with respect to the input, and to a weight, for permuted tokens and features");
  nn::Block encoder(small, {});
  randomize(encoder);
  const permute::BlocksKey key = key_of_features();
  const auto moved = moved_by(key, encoder);
  const Matrix z = of_tokens(normal({3, 4})), z_p = permute_columns(permute_rows(z, tokens), features);
  const Tensor g = normal({1, 3, 4});
  const auto leave = [&](const Tensor& y) { return tokens.inverse().apply(key.undo_columns(y), 1); };
  const auto to_input = [&](const nn::Block& block, const Tensor& x, const auto& out) {
    const Tensor in = one(x);
    Tape tape;
    return tape.gradient(sum(g * gelu(out(block(in)))), {in})[0].reshape(x.shape());
  };
  const Matrix dz{to_input(encoder, z.values, [](const Tensor&y) { return y; }), z.rows, z.columns},
      dz_p{to_input(*moved, z_p.values, leave), z_p.rows, z_p.columns};
  const Matrix w = of_units(gradient_of(encoder, [&] { return encoder(one(z.values)); })),
               w_p = permute_columns(w, features);
  const Tensor measured = gradient_of(*moved, [&] { return leave((*moved)(one(z_p.values))); });
  picture.line("plain").add("Z", z).add("∂l/∂Z", dz, "back", 1).add("∂l/∂W₁", w, {}, 1);
  picture.line("tokens 3 1 2, features b d a c").add("P_R Z P_C", z_p).add("∂l/∂Z_(P)", dz_p, "back", 1);
  picture.add("∂l/∂W₁_(P)", {measured, w_p.rows, w_p.columns}, {}, 1);
  picture.equal("∂l/∂Z_(P) and P_R (∂l/∂Z) P_C", dz_p.values, features.apply(tokens.apply(dz.values, 0), 1));
  picture.equal("∂l/∂W₁_(P) and (∂l/∂W₁) P_C, where tokens cancel", measured, w_p.values);
  return picture.differ("∂l/∂Z_(P) and ∂l/∂Z as they stand", dz_p.values, dz.values);
}

Picture outside() {
  Picture picture("thm10.1", "Gradients outside the encoder stay, those inside move");
  nn::Block encoder(small, {});
  randomize(encoder);
  const permute::BlocksKey key = key_of_features();
  const auto moved = moved_by(key, encoder);
  const Tensor data = normal({1, 3, 2}), embedding = normal({4, 2}), head = normal({3, 4});
  const auto gradients_of = [&](const nn::Block& block, const auto& enter, const auto& leave) {
    Tensor inner;
    for (const nn::Parameter& p : block.named_parameters())
      if (p.name == weight_name) inner = p.value;
    Tape tape;
    const Tensor logits = linear(leave(block(enter(linear(data, embedding)))), head);
    return tape.gradient(sum(gelu(logits)), {embedding, inner, head});
  };
  const auto stay = [](const Tensor& x) { return x; };
  const auto plain = gradients_of(encoder, stay, stay);
  const auto permuted = gradients_of(
      *moved, [&](const Tensor& z) { return tokens.apply(key.apply_columns(z), 1); },
      [&](const Tensor& z) { return tokens.inverse().apply(key.undo_columns(z), 1); });
  const auto show = [&](const std::vector<Tensor>& g, const Labels& names) {
    picture.add("embedding", {g[0], letters(4), {"x", "y"}}).add("W₁ of the encoder", {g[1], letters(3, 'p'), names});
    picture.add("head", {g[2], {"A", "B", "C"}, letters(4)});
  };
  picture.line("gradients of the plain model");
  show(plain, letters(4));
  picture.line("gradients of the permuted model: tokens 3 1 2, features b d a c");
  show(permuted, {"b", "d", "a", "c"});
  picture.equal("the two gradients of the embedding", permuted[0], plain[0])
      .equal("the two gradients of the head", permuted[2], plain[2]);
  return picture.differ("the two gradients of W₁, which moved as W₁ did", permuted[1], plain[1]);
}

Picture algorithm() {
  Picture picture("alg1", "What the owner of the data sends, what comes back, and what the owner makes of it");
  nn::Block encoder(small, {});
  randomize(encoder);
  const permute::BlocksKey key = key_of_features();
  const auto moved = moved_by(key, encoder);
  const Matrix z = of_tokens(normal({3, 4})), sent = permute_columns(permute_rows(z, tokens), features);
  const Matrix received{encoded(*moved, sent.values), sent.rows, sent.columns};
  const Matrix restored = permute_columns(permute_rows(received, tokens.inverse()), features.inverse());
  picture.line("the owner shuffles tokens and features").add("Z", z).add("P_R Z P_C", sent, "P_R, P_C");
  picture.line("another party runs the encoder with moved weights")
      .add("P_R Z P_C", sent)
      .add("its output", received, "Enc_(P)");
  picture.line("the owner restores the order").add("its output", received).add("Enc(Z)", restored, "undo both");
  picture.equal("the restored output and that of the plain encoder", restored.values, encoded(encoder, z.values));
  return picture.differ("the output before and after it is restored", received.values, restored.values);
}

Picture inference() {
  Picture picture("stip-thm1", "A causal block at a cloud that sees permuted features and moved weights");
  nn::BlockConfig config = small;
  config.causal = true;
  config.pre_norm = false;
  nn::Block decoder(config, {});
  randomize(decoder);
  permute::BlocksKey key = permute::BlocksKey::identity(config, 1);
  key.residual = features;
  const auto cloud = moved_by(key, decoder);
  const Matrix x = of_tokens(normal({3, 4})), x_p = permute_columns(x, features),
               y_p{encoded(*cloud, x_p.values), x_p.rows, x_p.columns};
  picture.line("the user permutes features").add("x", x).add("x π", x_p, "π");
  picture.line("the cloud computes").add("x π", x_p).add("f_θ'(x π)", y_p, "f_θ'");
  picture.line("the user permutes back")
      .add("f_θ'(x π)", y_p)
      .add("f_θ(x)", permute_columns(y_p, features.inverse()), "πᵀ");
  picture.equal("what the user gets and the plain block's output", features.inverse().apply(y_p.values, 1),
                encoded(decoder, x.values));
  return picture.differ("the output of the cloud's weights on x itself and f_θ(x)", encoded(*cloud, x.values),
                        encoded(decoder, x.values));
}

Picture pooling() {
  Picture picture("pma", "Pooling by attention: the output stays, the gradient of the input moves with its rows");
  nn::Pma pool({.dim = 4, .heads = 2, .hidden = 6}, 1, {});
  randomize(pool);
  const Matrix z = of_tokens(normal({3, 4})), z_p = permute_rows(z, tokens);
  const auto gradient = [&](const Tensor& x) {
    const Tensor in = one(x);
    Tape tape;
    return tape.gradient(sum(gelu(pool(in))), {in})[0].reshape(x.shape()) * 100.0;
  };
  const auto pooled = [&](const Tensor& x) { return Matrix{pool(one(x)).reshape({1, 4}), {}, letters(4)}; };
  const Matrix g{gradient(z.values), z.rows, z.columns}, g_p{gradient(z_p.values), z_p.rows, z_p.columns};
  picture.line("plain").add("Z", z).add("f(Z)", pooled(z.values), "pool").add("100 ∂l/∂Z", g, "back", 1);
  picture.line("tokens 3 1 2")
      .add("P_R Z", z_p)
      .add("f(P_R Z)", pooled(z_p.values), "pool")
      .add("100 ∂l/∂Z_(P)", g_p, "back", 1);
  picture.equal("f(P_R Z) and f(Z)", pool(one(z_p.values)), pool(one(z.values)));
  picture.equal("∂l/∂Z_(P) and P_R ∂l/∂Z", g_p.values, tokens.apply(g.values, 0));
  return picture.differ("∂l/∂Z_(P) and ∂l/∂Z, which the paper calls equal", g_p.values, g.values);
}

} // namespace

std::vector<Picture> of_blocks() {
  std::vector<Picture> pictures;
  for (const auto scene : {rows_forward, rows_backward, rows_training, columns_forward, columns_backward,
                           columns_training, both, outside, algorithm, inference, pooling}) {
    draws() = 0;
    pictures.push_back(scene());
  }
  return pictures;
}

} // namespace pictures
