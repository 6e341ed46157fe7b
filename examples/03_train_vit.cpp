// Trains a small vision transformer on generated pictures of ten shapes: dataset, loader, model, optimiser, schedule.

#include <equigrad/equigrad.h>

#include <cstdio>
#include <vector>

namespace {

eg::nn::VitConfig small_vit() {
  eg::nn::VitConfig config;
  config.image = 16;
  config.layers = 2;
  config.encoder.dim = 48;
  config.encoder.heads = 4;
  config.encoder.mlp = 96;
  return config;
}

/// Share of the batch that the model names correctly.
double accuracy(const eg::nn::Vit& model, const eg::data::Batch& batch) {
  const std::vector<std::int64_t> guess = eg::argmax(model(batch.images), -1).to_vector<std::int64_t>();
  const std::vector<std::int64_t> truth = batch.labels.to_vector<std::int64_t>();
  std::size_t right = 0;
  for (std::size_t i = 0; i < guess.size(); ++i) right += guess[i] == truth[i] ? 1U : 0U;
  return static_cast<double>(right) / static_cast<double>(guess.size());
}

} // namespace

int main() {
  constexpr std::int64_t steps = 600;
  eg::data::Loader train(eg::data::generate_shapes(8000, eg::data::Split::train, 1, 16), {.batch_size = 64, .seed = 1});
  const eg::data::Loader test(eg::data::generate_shapes(400, eg::data::Split::test, 1, 16),
                              {.batch_size = 400, .shuffle = false, .workers = 0});

  eg::nn::Vit model(small_vit(), {.seed = 7});
  const std::vector<eg::Tensor> parameters = model.parameters();
  const auto optimizer = eg::optim::adamw(parameters, {.weight_decay = 0.01});
  const eg::optim::Schedule rate{
      .kind = eg::optim::Schedule::Kind::cosine, .base = 1e-3, .warmup = 20, .total_steps = steps};
  std::printf("a ViT with %lld parameters\n", static_cast<long long>(model.parameter_count()));

  for (std::int64_t step = 0; step < steps; ++step) {
    const eg::data::Batch batch = train.next();
    eg::Tape tape;
    const eg::Tensor loss = eg::cross_entropy(model(batch.images), batch.labels);
    std::vector<eg::Tensor> gradients = tape.gradient(loss, parameters);
    eg::optim::clip_gradients(gradients, 1.0);
    optimizer->step(gradients, rate.at(step));
    if (step % 100 == 0) std::printf("step %3lld  loss %.3f\n", static_cast<long long>(step), loss.item());
  }

  model.eval();
  const double right = accuracy(model, test.batch(0, 0));
  std::printf("test accuracy %.1f %% (guessing gives 10 %%)\n", 100.0 * right);
  return right > 0.15 ? 0 : 1;
}
