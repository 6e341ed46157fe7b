// Which permutations does a model of your own commute with? Read off its tape, then used: the model's weights are
// permuted, and its function is the same.

#include <equigrad/equigrad.h>

#include <cstdio>

using namespace eg;

/// A hidden layer beside a residual stream.
class Mixer : public nn::Module {
public:
  explicit Mixer(RandomKey key)
      : in(6, 8, key.fold(0)), first(8, 5, key.fold(1)), second(5, 8, key.fold(2)), out(8, 3, key.fold(3)) {
    register_module("in", in);
    register_module("first", first);
    register_module("second", second);
    register_module("out", out);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor z = in(x);
    return out(z + second(gelu(first(z))));
  }
  nn::Linear in, first, second, out;
};

int main() {
  Mixer model({1, 0});
  model.to(DType::f64);
  const Tensor x = random_normal({4, 6}, {2, 0}, 0.0, 1.0, DType::f64);

  permute::SymmetryQuery query;
  for (const nn::Parameter& p : model.named_parameters()) query.parameters.emplace_back(p.name, p.value);
  query.inputs = {{"x", x}};
  query.run = [&] { return nn::StateDict{{"y", model(x)}}; };
  const permute::ModelSymmetries symmetries(query);

  for (const permute::SymmetryGroup& g : symmetries.groups()) {
    std::printf("%-14s S_%d, 2^%.1f permutations:", g.name.c_str(), static_cast<int>(g.size), g.log2_count);
    for (const permute::AxisUse& use : g.axes) std::printf(" %s:%d", use.tensor.c_str(), use.axis);
    std::printf("\n");
  }

  // The stream between the layers and the hidden layer move; input and output stay.
  const auto groups = permute::choose_groups(symmetries, "inner");
  const permute::SymmetryElement element = symmetries.element(groups, permute::public_source({3, 0}));
  const auto [axes, permutations] = symmetries.axis_map(element);
  const Tensor before = model(x);
  const Tensor weight = model.first.weight.clone();
  permute::transform_module(model, axes, permutations);
  std::printf("the weights changed: %s; the function did not: %s\n",
              same_bits(weight, model.first.weight) ? "no" : "yes",
              relative_error(model(x), before) < 1e-12 ? "yes" : "no");
  return relative_error(model(x), before) < 1e-12 ? 0 : 1;
}
