#include "permute/catalogue/single_head.h"

#include "autograd/tape.h"

#include <cmath>

namespace eg::permute {

BlockSizes sizes_of(const Case& c) { return {c.options.tokens, c.options.dim, c.options.hidden}; }
BlockSizes square_weights(const Case& c) { return {c.options.tokens, c.options.dim, c.options.dim}; }
BlockSizes all_square(const Case& c) { return {c.options.dim, c.options.dim, c.options.dim}; }

Symbols draw_block(Case& c, const BlockSizes& sizes) {
  const auto [n, d, t] = sizes;
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  Symbols x;
  x["Z"] = c.normal({n, d});
  for (const char* name : {"WQ", "WK", "WV"}) x[name] = c.normal({d, d}, scale);
  x["W1"] = c.normal({t, d}, scale);
  x["W2"] = c.normal({d, t}, 1.0 / std::sqrt(static_cast<double>(t)));
  return x;
}

Pass run_block(const Symbols& inputs, const Tensor& g, const Permutation* rows, const Permutation* columns) {
  Pass pass{inputs, {}};
  Symbols& x = pass.value;
  Tape tape;
  x["Q"] = linear(x["Z"], x["WQ"]);
  x["K"] = linear(x["Z"], x["WK"]);
  x["V"] = linear(x["Z"], x["WV"]);
  x["E"] = matmul(x["Q"], x["K"], false, true) / std::sqrt(static_cast<double>(x["Q"].size(-1)));
  x["S"] = softmax(x["E"]);
  x["A"] = matmul(x["S"], x["V"]);
  x["A1"] = linear(x["A"], x["W1"]);
  x["H"] = gelu(x["A1"]);
  x["A2"] = linear(x["H"], x["W2"]);
  const Tensor back = rows ? permute_rows(x["A2"], rows->inverse().tensor()) : x["A2"];
  x["A3"] = columns ? permute_columns(back, columns->inverse().tensor()) : back;
  const Tensor loss = sum(g * gelu(x["A3"]));
  std::vector<Tensor> symbols;
  for (const auto& [name, value] : x) symbols.push_back(value);
  const std::vector<Tensor> gradients = tape.gradient(loss, symbols);
  std::size_t i = 0;
  for (const auto& [name, value] : x) pass.gradient[name] = gradients[i++];
  return pass;
}

Symbols permuted_inputs(const Symbols& inputs, const Permutation& rows, const Permutation& columns) {
  Symbols x = inputs;
  x["Z"] = columns.apply(rows.apply(x["Z"], 0), 1);
  for (const char* name : {"WQ", "WK", "WV"}) x[name] = columns.apply(columns.apply(x[name], 0), 1);
  x["W1"] = columns.apply(x["W1"], 1);
  x["W2"] = columns.apply(x["W2"], 0);
  return x;
}

Symbols conjugated_inputs(const Symbols& inputs, const Permutation& rows, const Permutation& columns) {
  Symbols x = permuted_inputs(inputs, rows, columns);
  x["W1"] = columns.apply(x["W1"], 0);
  x["W2"] = columns.apply(x["W2"], 1);
  return x;
}

namespace {

BlockTwins twins_of(Case& c, const BlockSizes& sizes,
                    Symbols (*moved)(const Symbols&, const Permutation&, const Permutation&)) {
  const Symbols inputs = draw_block(c, sizes);
  const Tensor g = c.normal({sizes.tokens, sizes.dim});
  BlockTwins twins{c.directed_permutation(sizes.tokens), c.directed_permutation(sizes.dim), g, {}, {}};
  twins.plain = run_block(inputs, g);
  twins.permuted = run_block(moved(inputs, twins.rows, twins.columns), g, &twins.rows, &twins.columns);
  return twins;
}

} // namespace

BlockTwins run_twins(Case& c, const BlockSizes& sizes) { return twins_of(c, sizes, permuted_inputs); }
BlockTwins run_twins(Case& c) { return run_twins(c, sizes_of(c)); }
BlockTwins run_conjugated_twins(Case& c, const BlockSizes& sizes) { return twins_of(c, sizes, conjugated_inputs); }
BlockTwins run_conjugated_twins(Case& c) { return run_conjugated_twins(c, square_weights(c)); }

} // namespace eg::permute
