// Theorem 10.1: what lies outside the encoder gets the same gradients.

#include "theorem.h"

using namespace theorem;

int main() {
  const nn::VitConfig config{
      .image = 8, .channels = 2, .patch = 4, .classes = 5, .layers = 2, .encoder = {.dim = 12, .heads = 3, .mlp = 20}};
  nn::Vit plain(config, {}), moved(config, {});
  randomize(plain);
  moved.to(DType::f64);
  const auto key = permute::BlocksKey::random(config.encoder, 2, permute::KeyForm::decoupled, {.seed = 5});
  moved.load_state_dict(
      permute::transform(plain.state_dict(), permute::vit_axes(config), key.permutations(config.encoder)));
  const Tensor images = normal({3, 2, 8, 8}), p = rows(3, config.tokens());
  auto expected = gradients(plain, [&] { return plain(images); });
  auto permuted = gradients(moved, [&] { return training::permuted_logits(moved, images, p, &key); });
  fails("every gradient is the plain one", permuted, expected);
  const auto inside = [](const auto& entry) { return entry.first.starts_with("blocks."); };
  std::erase_if(expected, inside);
  std::erase_if(permuted, inside);
  holds("embedding, class token, positions, final norm, classifier", permuted, expected);
  return verdict();
}
