// Algorithm 1: a ViT that is trained on permuted tokens and features alone learns the plain model, moved.

#include "theorem.h"

using namespace theorem;

int main() {
  const nn::VitConfig config{
      .image = 8, .channels = 2, .patch = 4, .classes = 5, .layers = 2, .encoder = {.dim = 12, .heads = 3, .mlp = 20}};
  nn::Vit plain(config, {}), blind(config, {});
  randomize(plain);
  blind.to(DType::f64);
  const auto key = permute::BlocksKey::random(config.encoder, 2, permute::KeyForm::decoupled, {.seed = 5});
  const auto map = [&] {
    return permute::transform(plain.state_dict(), permute::vit_axes(config), key.permutations(config.encoder));
  };
  blind.load_state_dict(map());
  const auto step = [](nn::Vit& vit, const auto& logits, const Tensor& labels) {
    Tape tape;
    optim::sgd(vit.parameters())->step(tape.gradient(cross_entropy(logits(), labels), vit.parameters()), 0.05);
  };
  for (int i = 0; i < 10; ++i) {
    const Tensor images = normal({4, 2, 8, 8}), labels = random_integers({4}, next_key(), 0, 5);
    step(
        plain, [&] { return plain(images); }, labels);
    step(
        blind, [&] { return training::permuted_logits(blind, images, rows(4, config.tokens()), &key); }, labels);
  }
  holds("the blind model is the plain one, moved", blind.state_dict(), map());
  fails("the blind model is the plain one", blind.state_dict(), plain.state_dict());
  return verdict();
}
