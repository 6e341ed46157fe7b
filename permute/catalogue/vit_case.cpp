#include "permute/catalogue/vit_case.h"

namespace eg::permute {

nn::VitConfig vit_config(const Case& c, nn::Pooling pooling) {
  nn::VitConfig config;
  std::int64_t side = 2;
  while ((side + 1) * (side + 1) <= c.options.tokens) ++side;
  config.patch = 4;
  config.image = side * config.patch;
  config.channels = 2;
  config.classes = 5;
  config.layers = c.options.layers;
  config.encoder = encoder_config(c);
  config.pooling = pooling;
  return config;
}

std::unique_ptr<nn::Vit> draw_vit(Case& c, const nn::VitConfig& config) {
  auto vit = std::make_unique<nn::Vit>(config, RandomKey{});
  vit->to(c.dtype);
  draw_parameters(*vit, c);
  return vit;
}

std::unique_ptr<nn::Vit> vit_copy(const nn::Vit& vit, const BlocksKey* key, KeyScope scope) {
  auto copy = std::make_unique<nn::Vit>(vit.config, RandomKey{});
  copy->to(vit.classifier->weight.dtype());
  nn::StateDict weights = vit.state_dict();
  if (key) weights = transform(weights, vit_axes(vit.config, scope), key->permutations(vit.config.encoder));
  copy->load_state_dict(weights);
  return copy;
}

VitBatch draw_batch(Case& c, const nn::VitConfig& config) {
  const std::int64_t samples = c.options.batch + 2, tokens = config.tokens();
  VitBatch batch;
  batch.images = c.normal({samples, config.channels, config.image, config.image});
  batch.labels = random_integers({samples}, c.key(), 0, config.classes);
  std::vector<std::int64_t> rows;
  while (static_cast<std::int64_t>(rows.size()) < samples * tokens) {
    const Permutation p = c.permutation(tokens);
    if (p[0] != 0) rows.insert(rows.end(), p.gather().begin(), p.gather().end());
  }
  batch.rows = Tensor::from<std::int64_t>(rows, {samples, tokens});
  return batch;
}

VitPass run_vit(const nn::Vit& vit, const VitBatch& batch, const Permuting& permuting) {
  VitPass pass;
  pass.z0 = vit.embed(batch.images);
  pass.z = permuting.enter(pass.z0);
  pass.output = permuting.leave(vit.encode(pass.z));
  pass.logits = vit.head(pass.output);
  pass.loss = cross_entropy(pass.logits, batch.labels);
  return pass;
}

} // namespace eg::permute
