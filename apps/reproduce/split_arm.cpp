#include "apps/reproduce/split_arm.h"

#include "apps/attacks/inversion.h"
#include "autograd/accumulation.h"
#include "autograd/tape.h"
#include "core/ops.h"
#include "optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace eg::reproduce {
namespace {

using permute::BlocksKey;

/// Streams of a seed, so that all arms share what they have in common.
enum Draw : std::uint64_t { draw_model = 1, draw_key, draw_order, draw_leaving, draw_tests, draw_adversary, draw_dp };

constexpr std::int64_t test_batch = 100;

nn::VitConfig model_for(const Plan& plan, const data::ImageDataset& images) {
  nn::VitConfig config = plan.train.model;
  config.image = images.height();
  config.image_width = images.width();
  config.channels = images.channels();
  config.classes = images.classes();
  return config;
}

std::vector<std::int64_t> counted(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(last - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// The decoder that adversarial learning trains the edge against.
std::unique_ptr<attacks::InversionDecoder> adversary_of(const nn::VitConfig& c, DType dtype, RandomKey key) {
  auto decoder = std::make_unique<attacks::InversionDecoder>(attacks::DecoderConfig{.tokens = c.patches(),
                                                                                    .dim = c.encoder.dim,
                                                                                    .channels = c.channels,
                                                                                    .height = c.height(),
                                                                                    .width = c.width(),
                                                                                    .patch = c.patch},
                                                             key);
  decoder->to(dtype);
  return decoder;
}

} // namespace

Tensor pictures_of(const data::ImageDataset& images, std::span<const std::int64_t> numbers, DType dtype) {
  std::vector<double> pixels;
  pixels.reserve(numbers.size() * static_cast<std::size_t>(images.image_bytes()));
  for (const std::int64_t i : numbers)
    for (const std::uint8_t byte : images.pixels(i)) pixels.push_back(static_cast<double>(byte) / 127.5 - 1.0);
  const auto count = static_cast<std::int64_t>(numbers.size());
  return Tensor::from<double>(pixels, {count, images.channels(), images.height(), images.width()}).to(dtype);
}

SplitArm::SplitArm(const Plan& plan, const Arm& arm, const Images& images, std::uint64_t seed)
    : plan_(plan), arm_(arm), images_(images), root_{seed, 31},
      model_(std::make_unique<nn::Vit>(model_for(plan, images.first), root_.fold(draw_model))) {
  model_->to(plan.train.dtype);
  if (!arm.columns) return;
  const nn::VitConfig& c = model_->config;
  key_ = BlocksKey::random(c.encoder, c.layers, plan.train.key_form, root_.fold(draw_key));
  permute::transform_module(*model_, permute::vit_axes(c), key_->permutations(c.encoder));
}

attacks::Leaving SplitArm::leaving(const Tensor& pictures, RandomKey key, std::optional<std::size_t> round) const {
  std::optional<nn::ParameterScope> earlier;
  if (round) {
    const std::vector<Tensor> values{edges_.at(*round).first, edges_.at(*round).second};
    earlier.emplace(model_->patch_embedding, values);
  }
  const attacks::EdgeView view{.embed = [&](const Tensor& x) { return model_->embed(x); },
                               .protection = arm_.protection,
                               .rows = arm_.rows,
                               .columns = key_ ? std::optional(key_->residual) : std::nullopt,
                               .special = model_->config.special_tokens()};
  return view(pictures, key);
}

Tensor SplitArm::targets(std::span<const std::int64_t> numbers) const {
  const data::ImageDataset& images = images_.first;
  const auto count = static_cast<std::int64_t>(numbers.size());
  if (!images.has_attributes()) {
    std::vector<std::int64_t> labels;
    for (const std::int64_t i : numbers) labels.push_back(images.label(i));
    return Tensor::from<std::int64_t>(labels, {count});
  }
  std::vector<double> marks;
  for (const std::int64_t i : numbers)
    for (const std::uint8_t mark : images.attributes(i)) marks.push_back(mark);
  return Tensor::from<double>(marks, {count, images.classes()}).to(plan_.train.dtype);
}

Tensor SplitArm::loss(const Tensor& logits, const Tensor& wanted) const {
  return images_.first.has_attributes() ? bce_with_logits(logits, wanted) : cross_entropy(logits, wanted);
}

std::vector<Tensor> SplitArm::trained_parameters() const {
  std::vector<Tensor> trained;
  for (const nn::Parameter& p : model_->named_parameters())
    if (!arm_.fixed_edge || !p.name.starts_with("patch_embedding.")) trained.push_back(p.value);
  return trained;
}

namespace {

/// F2(Enc(M(F1(x)))) with what left the edge.
Tensor logits_of(const SplitArm& arm, const attacks::Leaving& out) {
  const permute::PermutedPass pass{.rows = out.rows, .columns = arm.key() != nullptr ? &arm.key()->residual : nullptr};
  return arm.model().head(pass.leave(arm.model().encode(out.features)));
}

} // namespace

void SplitArm::train_ordinarily(std::int64_t rounds, const std::function<void(double)>& on_progress) {
  const VitOptions& o = plan_.train;
  const std::vector<Tensor> parameters = trained_parameters();
  const auto optimizer = optim::make_optimizer(o.optimizer, parameters, o.weight_decay, o.eps);
  const optim::Schedule schedule = training::schedule_of(o, o.steps);
  const auto adversary = arm_.adversary > 0.0 ? adversary_of(model_->config, o.dtype, root_.fold(draw_adversary))
                                              : std::unique_ptr<attacks::InversionDecoder>();
  const std::vector<Tensor> against = adversary ? adversary->parameters() : std::vector<Tensor>();
  const auto opponent = adversary ? optim::make_optimizer("adam", against) : nullptr;
  const std::int64_t count = images_.first.size(), batch = std::min(o.batch, count), an_epoch = count / batch;
  std::vector<std::int64_t> order;
  for (std::int64_t step = 0; step < o.steps; ++step) {
    on_progress(static_cast<double>(step) / static_cast<double>(o.steps));
    if (step % an_epoch == 0)
      order = random_permutation(count, root_.fold(draw_order).fold(static_cast<std::uint64_t>(step / an_epoch)))
                  .to_vector<std::int64_t>();
    const std::span<const std::int64_t> numbers(order.data() + step % an_epoch * batch,
                                                static_cast<std::size_t>(batch));
    const Tensor pictures = pictures_of(images_.first, numbers, o.dtype);
    const RandomKey key = root_.fold(draw_leaving).fold(static_cast<std::uint64_t>(step));
    if (adversary) {
      const Tensor seen = without_tape([&] { return leaving(pictures, key).features; });
      Tape tape;
      const Tensor error = mse_loss((*adversary)(seen), pictures);
      opponent->step(tape.gradient(error, against), 2e-3);
    }
    Tape tape;
    const attacks::Leaving out = leaving(pictures, key);
    Tensor value = loss(logits_of(*this, out), targets(numbers));
    if (adversary) value = value - mse_loss((*adversary)(out.features), pictures) * arm_.adversary;
    optimizer->step(tape.gradient(value, parameters), schedule.at(step));
    if (rounds > 0 && (step + 1) * rounds / o.steps > step * rounds / o.steps)
      edges_.emplace_back(model_->patch_embedding.weight.clone(), model_->patch_embedding.bias.clone());
  }
}

void SplitArm::train_privately(const std::function<void(double)>& on_progress) {
  const VitOptions& o = plan_.train;
  const std::vector<Tensor> parameters = trained_parameters();
  const auto optimizer = optim::make_optimizer(o.optimizer, parameters, o.weight_decay, o.eps);
  const std::int64_t steps = plan_.count("dp_steps"), count = images_.first.size();
  const double batch = std::min(plan_.number("dp_batch"), static_cast<double>(count)),
               q = batch / static_cast<double>(count), sigma = plan_.number("dp_noise");
  const optim::Schedule schedule = training::schedule_of(o, steps);
  for (std::int64_t step = 0; step < steps; ++step) {
    on_progress(static_cast<double>(step) / static_cast<double>(steps));
    const RandomKey key = root_.fold(draw_dp).fold(static_cast<std::uint64_t>(step));
    std::vector<std::int64_t> drawn = attacks::poisson_sample(count, q, key.fold(1));
    const bool none = drawn.empty();
    if (none) drawn.push_back(0); // noise alone: its gradient counts with factor 0
    const ScalarFunction of_sample = [&](const std::vector<Tensor>& sample) {
      return loss(logits_of(*this, leaving(sample[0], key.fold(2))), sample[1]);
    };
    std::vector<Tensor> gradients =
        per_sample_gradients(of_sample, parameters, {pictures_of(images_.first, drawn, o.dtype), targets(drawn)});
    if (none)
      for (Tensor& g : gradients) g = g * 0.0;
    optimizer->step(attacks::private_gradient(gradients, plan_.number("dp_clip"), sigma, batch, key.fold(3)),
                    schedule.at(step));
  }
  attacks::RdpAccountant accountant;
  accountant.add(q, sigma, steps);
  epsilon_ = accountant.spent(1.0 / static_cast<double>(count)).epsilon;
}

void SplitArm::train(std::int64_t rounds, const std::function<void(double)>& on_progress) {
  model_->train();
  if (arm_.private_training)
    train_privately(on_progress);
  else
    train_ordinarily(rounds, on_progress);
  model_->eval();
}

Answers SplitArm::answers(const std::function<void(double)>& on_progress) const {
  const PauseRecording pause;
  const data::ImageDataset& tests = images_.second;
  std::vector<Tensor> logits;
  for (std::int64_t i = 0; i < tests.size(); i += test_batch) {
    on_progress(static_cast<double>(i) / static_cast<double>(tests.size()));
    const std::vector<std::int64_t> numbers = counted(i, std::min(i + test_batch, tests.size()));
    const Tensor pictures = pictures_of(tests, numbers, plan_.train.dtype);
    logits.push_back(logits_of(*this, leaving(pictures, root_.fold(draw_tests).fold(static_cast<std::uint64_t>(i)))));
  }
  std::vector<std::int64_t> labels;
  const bool attributes = tests.has_attributes();
  for (std::int64_t i = 0; i < tests.size(); ++i)
    if (attributes)
      for (const std::uint8_t mark : tests.attributes(i)) labels.push_back(mark);
    else
      labels.push_back(tests.label(i));
  const Shape shape = attributes ? Shape{tests.size(), tests.classes()} : Shape{tests.size()};
  return answers_from(concat(logits, 0), Tensor::from<std::int64_t>(labels, shape));
}

std::string SplitArm::about() const {
  const VitOptions& o = plan_.train;
  const nn::VitConfig& c = model_->config;
  return fmt::format("{}: {} training and {} test images of {} x {} pixels; ViT of {} blocks, width {}, {} heads, "
                     "patches of {} x {} ({} "
                     "tokens), {} parameters; {} steps of {} images, {}, {}",
                     images_.first.name(), images_.first.size(), images_.second.size(), c.height(), c.width(), c.layers,
                     c.encoder.dim, c.encoder.heads, c.patch, c.patch, c.tokens(), model_->parameter_count(), o.steps,
                     o.batch, o.optimizer, eg::name_of(o.dtype));
}

} // namespace eg::reproduce
