// Training twins: corollaries 4.3 and 4.6 and Algorithm 1. The plain and the permuted model take the same batches and
// every step draws a fresh P_R for every sample; afterwards the weights must still be each other's images.

#include "permute/catalogue/training_twins.h"
#include "permute/catalogue/vit_case.h"

#include "autograd/tape.h"
#include "optim/optimizer.h"

#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

double rate_of(const std::string& optimizer) {
  if (optimizer == "sgd") return 0.02;
  return optimizer == "momentum" || optimizer == "nesterov" ? 0.005 : 3e-4;
}

Trained train(nn::Module& module, const std::string& optimizer_name, double rate, std::int64_t steps,
              const std::function<Tensor(std::int64_t step)>& loss_at) {
  const auto optimizer =
      optim::make_optimizer(optimizer_name, module.parameters(), optimizer_name == "adamw" ? 0.01 : 0.0);
  const nn::StateDict weights = module.state_dict();
  Trained result;
  std::vector<Tensor> losses;
  for (std::int64_t step = 0; step < steps; ++step) {
    Tape tape;
    const Tensor loss = loss_at(step);
    const std::vector<Tensor> gradients = tape.gradient(loss, module.parameters());
    tape.close();
    optimizer->step(gradients, rate);
    losses.push_back(loss.reshape({1}).clone());
    if (step + 1 < steps) continue;
    for (std::size_t i = 0; i < weights.size(); ++i) result.last_gradients.emplace_back(weights[i].first, gradients[i]);
  }
  result.losses = concat(losses, 0);
  return result;
}

/// Regression of a stack's output on random targets, the batches and row permutations of each step drawn beforehand.
struct Task {
  std::vector<Tensor> z, target, rows;

  Task(Case& c, std::int64_t steps) {
    const Shape shape{c.options.batch, c.options.tokens, c.options.dim};
    for (std::int64_t step = 0; step < steps; ++step) {
      z.push_back(c.normal(shape));
      target.push_back(c.normal(shape));
      rows.push_back(c.rows());
    }
  }

  Trained run(BlockStack& stack, const std::string& optimizer, bool permute_rows, const Permutation* columns,
              bool undo = true) const {
    return train(stack, optimizer, rate_of(optimizer), static_cast<std::int64_t>(z.size()), [&](std::int64_t step) {
      const auto at = static_cast<std::size_t>(step);
      const Permuting permuting{permute_rows ? rows[at] : Tensor{}, columns, undo};
      const Tensor difference = permuting.leave(stack(permuting.enter(z[at]))) - target[at];
      return mean(difference * difference);
    });
  }
};

Claim row_training(Case& c, const std::string& optimizer) {
  const auto plain = draw_stack(c, encoder_config(c));
  const BlocksKey none = BlocksKey::identity(plain->config, c.options.layers);
  const auto rows = permuted_copy(*plain, none), left = permuted_copy(*plain, none);
  const Task task(c, c.options.steps);
  const Trained a = task.run(*plain, optimizer, false, nullptr), b = task.run(*rows, optimizer, true, nullptr);
  task.run(*left, optimizer, true, nullptr, false);
  Claim claim;
  claim.equal("loss of every step", b.losses, a.losses);
  compare_weights(claim, rows->state_dict(), plain->state_dict());
  check_bk(claim, b.last_gradients);
  compare_weights(claim, left->state_dict(), plain->state_dict(), "outputs not permuted back before the loss");
  return claim;
}

/// Coupled: W0_(C) is the image of W0. The control starts both from the very same W0, as the corollary reads.
Claim column_training(Case& c, const std::string& optimizer) {
  const nn::BlockConfig config = encoder_config(c);
  const auto plain = draw_stack(c, config);
  const BlocksKey key = BlocksKey::random(config, c.options.layers, KeyForm::tied, c.key());
  const auto moved = permuted_copy(*plain, key);
  const auto same = permuted_copy(*plain, BlocksKey::identity(config, c.options.layers));
  const Task task(c, c.options.steps);
  const Trained a = task.run(*plain, optimizer, false, nullptr), b = task.run(*moved, optimizer, true, &key.residual);
  task.run(*same, optimizer, true, &key.residual);
  const nn::StateDict image = transform(plain->state_dict(), stack_axes(c.options.layers), key.permutations(config));
  Claim claim;
  claim.equal("loss of every step", b.losses, a.losses);
  compare_weights(claim, moved->state_dict(), image);
  check_bk(claim, b.last_gradients);
  compare_weights(claim, same->state_dict(), image, "the same W_0 on both sides, as printed");
  return claim;
}

Claim algorithm_1(Case& c) {
  const nn::VitConfig config = vit_config(c);
  const auto plain = draw_vit(c, config);
  const BlocksKey key = BlocksKey::random(config.encoder, config.layers, KeyForm::decoupled, c.key());
  const auto moved = vit_copy(*plain, &key), left = vit_copy(*plain, &key);
  std::vector<VitBatch> batches;
  for (std::int64_t step = 0; step < c.options.steps; ++step) batches.push_back(draw_batch(c, config));
  const VitBatch test = draw_batch(c, config);
  const auto run = [&](nn::Vit& vit, bool permuted, bool undo) {
    return train(vit, "sgd", 0.002, c.options.steps, [&, permuted, undo](std::int64_t step) {
      const VitBatch& batch = batches[static_cast<std::size_t>(step)];
      return run_vit(vit, batch, permuted ? Permuting{batch.rows, &key.residual, undo} : Permuting{}).loss;
    });
  };
  const Trained a = run(*plain, false, true), b = run(*moved, true, true), wrong = run(*left, true, false);
  Claim claim;
  claim.equal("loss of every step", b.losses, a.losses);
  compare_weights(claim, moved->state_dict(),
                  transform(plain->state_dict(), vit_axes(config), key.permutations(config.encoder)));
  claim.equal("logits of images not trained on", run_vit(*moved, test, {test.rows, &key.residual, true}).logits,
              run_vit(*plain, test).logits);
  check_bk(claim, b.last_gradients);
  claim.differs("lines 15-20 left out", wrong.losses, a.losses);
  return claim;
}

} // namespace

std::vector<Identity> training_identities() {
  using enum ClaimKind;
  std::vector<Identity> rows;
  const auto suffix = [](const std::string& optimizer) { return optimizer == "sgd" ? "" : "-" + optimizer; };
  for (const std::string optimizer : {"sgd", "momentum", "nesterov", "adam", "adamw"})
    rows.push_back({"cor4.3" + suffix(optimizer), "training with permuted rows, " + optimizer, "CVPR", "4", identity,
                    Gate::training,
                    "From one W_0 and the same batches, training with fresh row permutations gives the same weights.",
                    R"(W_{(R),t} = W_t \text{ for all } t)",
                    [optimizer](Case& c) { return row_training(c, optimizer); }});
  for (const std::string optimizer : {"sgd", "momentum", "nesterov", "adam", "adamw"})
    rows.push_back(
        {"cor4.6" + suffix(optimizer), "training with permuted rows and columns, " + optimizer, "CVPR", "", erratum,
         Gate::training,
         "From coupled initial weights, the weights stay coupled; \"the same initial weights\" must be read so.",
         R"(W_{(C),0} = P_C^{-1} W_0 P_C \Rightarrow W_{(C),t} = P_C^{-1} W_t P_C)",
         [optimizer](Case& c) { return column_training(c, optimizer); }});
  rows.push_back({"cor4.6-literal", "corollary 4.6 as printed", "CVPR", "", counterexample, Gate::training,
                  "From the very same W_0 the permuted training goes elsewhere: the literal reading is false.",
                  R"(W_{(C),0} = W_0 \not\Rightarrow W_{(C),t} = P_C^{-1} W_t P_C)",
                  [](Case& c) { return column_training(c, "sgd"); }});
  rows.push_back(
      {"alg1", "permuted training of a ViT", "CVPR", "", identity, Gate::training,
       "Algorithm 1 on a ViT: losses, weights after mapping back and predictions are those of plain training.",
       R"(Z \leftarrow P_R Z P_C,\ \hat Y \leftarrow P_R^{-1} \hat Y P_C^{-1})", algorithm_1});
  return rows;
}

} // namespace eg::permute
