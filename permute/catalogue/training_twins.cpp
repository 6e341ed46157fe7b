#include "permute/catalogue/training_twins.h"

#include "autograd/tape.h"
#include "optim/optimizer.h"

#include <cmath>

namespace eg::permute {
namespace {

/// Batches, targets and draws of every step.
struct TwinTask {
  std::vector<Tensor> z, target, rows;
  std::vector<std::vector<Tensor>> masks, paths, other_paths; ///< of each block: [B, T, D] and [B, 1, 1]
  std::map<std::string, Tensor> along;

  TwinTask(Case& c, const Recipe& recipe) {
    const std::int64_t samples = c.options.batch * recipe.parts;
    const Shape shape{samples, c.options.tokens, c.options.dim};
    const auto factors = [&](const Shape& of, double p) {
      std::vector<Tensor> drawn;
      for (std::int64_t layer = 0; p > 0.0 && layer < c.options.layers; ++layer)
        drawn.push_back(dropout(Tensor::ones(of, c.dtype), p, c.key()));
      return drawn;
    };
    for (std::int64_t step = 0; step < c.options.steps; ++step) {
      z.push_back(c.normal(shape));
      target.push_back(c.normal(shape));
      rows.push_back(row_permutations(samples, c.options.tokens, c.key()));
      masks.push_back(factors(shape, recipe.dropout));
      paths.push_back(factors({samples, 1, 1}, recipe.drop_path));
      other_paths.push_back(factors({samples, 1, 1}, recipe.drop_path));
    }
  }
};

/// One net in training.
class Trainer {
public:
  Trainer(TwinNet& net, const Recipe& recipe, const TwinTask& task, const Permutation* columns)
      : net_(net), recipe_(recipe), task_(task), columns_(columns), parameters_(net.parameters()),
        states_(parameters_.size()) {
    if (recipe.make)
      optimizer_ = recipe.make(parameters_);
    else if (!recipe.rule)
      optimizer_ = optim::make_optimizer(recipe.optimizer, parameters_, recipe.weight_decay);
  }

  Trained run(const std::map<std::string, Tensor>& along) {
    Trained result;
    std::vector<Tensor> losses, averaged;
    if (recipe_.ema > 0.0)
      for (const Tensor& p : parameters_) averaged.push_back(p.clone());
    for (std::int64_t step = 0; step < static_cast<std::int64_t>(task_.z.size()); ++step) {
      std::vector<Tensor> gradients;
      losses.push_back(differentiate(static_cast<std::size_t>(step), gradients));
      if (recipe_.clip) recipe_.clip(gradients);
      update(gradients, step, along);
      for (std::size_t i = 0; i < averaged.size(); ++i)
        averaged[i] = averaged[i] * recipe_.ema + parameters_[i] * (1.0 - recipe_.ema);
      last_ = std::move(gradients);
    }
    const std::vector<nn::Parameter> named = net_.named_parameters();
    for (std::size_t i = 0; i < named.size(); ++i) {
      result.last_gradients.emplace_back(named[i].name, last_[i]);
      if (!averaged.empty()) result.averaged.emplace_back(named[i].name, averaged[i]);
    }
    result.losses = concat(losses, 0);
    return result;
  }

private:
  /// Gradients averaged over the parts of a batch; returns the mean loss [1].
  Tensor differentiate(std::size_t step, std::vector<Tensor>& gradients) {
    Tensor total = Tensor::zeros({1}, parameters_.front().dtype());
    for (std::int64_t part = 0; part < recipe_.parts_used; ++part) {
      Tape tape;
      const Tensor loss = loss_of(step, part);
      const std::vector<Tensor> some = tape.gradient(loss, parameters_);
      tape.close();
      total = total + loss.reshape({1}) / static_cast<double>(recipe_.parts);
      for (std::size_t i = 0; i < some.size(); ++i) {
        const Tensor share = some[i] / static_cast<double>(recipe_.parts);
        if (part == 0)
          gradients.push_back(share);
        else
          gradients[i] = gradients[i] + share;
      }
    }
    return total;
  }

  Tensor loss_of(std::size_t step, std::int64_t part) {
    const std::int64_t size = task_.z[step].size(0) / recipe_.parts;
    const auto of_part = [&](const Tensor& x) { return x.slice(0, part * size, (part + 1) * size).contiguous(); };
    const Permuting permuting{columns_ ? of_part(task_.rows[step]) : Tensor{}, columns_, true};
    Tensor y = permuting.enter(of_part(task_.z[step]));
    for (std::size_t layer = 0; layer < net_.blocks.size(); ++layer) {
      const Tensor change = (*net_.blocks[layer])(y)-y;
      y = recipe_.drop_path > 0.0 ? y + change * of_part(paths(step)[layer]) : y + change;
      if (recipe_.dropout > 0.0) {
        const Tensor mask = of_part(task_.masks[step][layer]);
        y = y * (recipe_.moves ? permuting.enter(mask) : mask);
      }
    }
    if (net_.norm) y = (*net_.norm)(y.reshape({-1, y.size(2)})).reshape(y.shape());
    const Tensor difference = permuting.leave(y) - of_part(task_.target[step]);
    return mean(difference * difference);
  }

  const std::vector<Tensor>& paths(std::size_t step) const {
    return recipe_.other_paths ? task_.other_paths[step] : task_.paths[step];
  }

  void update(const std::vector<Tensor>& gradients, std::int64_t step, const std::map<std::string, Tensor>& along) {
    const double rate = recipe_.rate_at ? recipe_.rate_at(step) : recipe_.rate;
    if (optimizer_) {
      optimizer_->step(gradients, rate);
      return;
    }
    const std::vector<nn::Parameter> named = net_.named_parameters();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto found = along.find(named[i].name);
      const Tensor beside = found == along.end() ? Tensor{} : found->second;
      parameters_[i].copy_from(recipe_.rule(states_[i], {parameters_[i], gradients[i], beside, rate, step + 1}));
    }
  }

  TwinNet& net_;
  const Recipe& recipe_;
  const TwinTask& task_;
  const Permutation* columns_;
  std::vector<Tensor> parameters_;
  std::vector<RuleState> states_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<Tensor> last_;
};

AxisMap axes_of(const TwinNet& net) {
  AxisMap axes = stack_axes(static_cast<std::int64_t>(net.blocks.size()));
  if (net.norm)
    for (const auto& [name, value] : net.norm->state_dict()) axes.push_back({"norm." + name, {"residual"}});
  return axes;
}

AxisMap without_statistics(AxisMap axes) {
  std::erase_if(axes, [](const ParameterAxes& a) { return a.parameter.starts_with("norm.running"); });
  return axes;
}

/// Draws what belongs to each parameter, and permutes it as the twin's parameter is permuted.
struct Beside {
  std::map<std::string, Tensor> plain, moved;

  Beside(Case& c, const TwinNet& net, const AxisMap& axes, const PermutationSet& permutations, Along along) {
    if (along == Along::nothing) return;
    for (const nn::Parameter& p : net.named_parameters()) {
      const auto groups = std::find_if(axes.begin(), axes.end(), [&](const auto& a) { return a.parameter == p.name; });
      std::vector<std::string> moves = groups->groups;
      if (along == Along::rate_of_element) {
        plain[p.name] = exp(c.normal(p.value.shape(), 0.5));
      } else {
        if (p.value.rank() != 2) continue;
        const std::int64_t in = p.value.size(1);
        plain[p.name] = c.normal({in, in}, 1.0 / std::sqrt(static_cast<double>(in)));
        moves = {moves[1], moves[1]};
      }
      moved[p.name] = transform(plain[p.name], ParameterAxes{p.name, moves}, permutations);
    }
  }
};

/// Rows of the fused projection's bias, or weight, without K's.
Tensor without_k(const Tensor& qkv) {
  const std::int64_t inner = qkv.size(0) / 3;
  return concat({qkv.slice(0, 0, inner), qkv.slice(0, 2 * inner, 3 * inner)}, 0);
}

} // namespace

TwinNet::TwinNet(const nn::BlockConfig& config_, std::int64_t layers, DType dtype, bool batch_norm)
    : BlockStack(config_, layers, dtype) {
  if (!batch_norm) return;
  norm = std::make_unique<nn::BatchNorm>(config_.dim);
  register_module("norm", *norm);
  to(dtype);
}

TwinRun train_twins(Case& c, const Recipe& recipe, const std::function<void(Recipe&)>& spoil) {
  const nn::BlockConfig config = encoder_config(c);
  TwinRun run;
  for (auto* net : {&run.plain, &run.moved, &run.spoiled})
    *net = std::make_unique<TwinNet>(config, c.options.layers, c.dtype, recipe.batch_norm);
  draw_parameters(*run.plain, c);
  if (run.plain->norm) run.plain->norm->running_var.copy_from(exp(c.normal({config.dim}, 0.3)));
  const BlocksKey key = BlocksKey::random(config, c.options.layers, KeyForm::decoupled, c.key());
  const PermutationSet permutations = key.permutations(config);
  const AxisMap axes = axes_of(*run.plain);
  run.columns = key.residual;
  for (TwinNet* net : {run.moved.get(), run.spoiled.get()})
    net->load_state_dict(transform(run.plain->state_dict(), axes, permutations));
  const TwinTask task(c, recipe);
  const Beside beside(c, *run.plain, axes, permutations, recipe.along);
  Recipe wrong = recipe;
  spoil(wrong);
  run.a = Trainer(*run.plain, recipe, task, nullptr).run(beside.plain);
  run.b = Trainer(*run.moved, recipe, task, &run.columns).run(beside.moved);
  run.wrong = Trainer(*run.spoiled, wrong, task, &run.columns).run(wrong.moves ? beside.moved : beside.plain);
  run.image = transform(run.plain->state_dict(), axes, permutations);
  if (recipe.ema > 0.0) run.image_averaged = transform(run.a.averaged, without_statistics(axes), permutations);
  return run;
}

Claim claim_of(const TwinRun& run, const char* control) {
  Claim claim;
  claim.equal("loss of every step", run.b.losses, run.a.losses);
  compare_weights(claim, run.moved->state_dict(), run.image);
  check_bk(claim, run.b.last_gradients);
  if (run.image_averaged.empty()) {
    compare_weights(claim, run.spoiled->state_dict(), run.image, control);
  } else {
    compare_weights(claim, run.b.averaged, run.image_averaged);
    compare_weights(claim, run.wrong.averaged, run.image_averaged, control);
  }
  return claim;
}

void compare_weights(Claim& claim, const nn::StateDict& value, const nn::StateDict& expected, const char* control) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, tensor] = expected[i];
    const bool holds_bk = name.ends_with("qkv.bias");
    const Tensor a = holds_bk ? without_k(value[i].second) : value[i].second.clone();
    const Tensor b = holds_bk ? without_k(tensor) : tensor.clone();
    if (control)
      claim.differs(control, a, b);
    else
      claim.equal(holds_bk ? name + " without b_K" : name, a, b);
  }
}

void check_bk(Claim& claim, const nn::StateDict& gradients) {
  for (const auto& [name, gradient] : gradients) {
    if (!name.ends_with("qkv.bias")) continue;
    const std::int64_t inner = gradient.size(0) / 3;
    double scale = 0.0;
    for (const double v : gradient.to(DType::f64).to_vector<double>()) scale = std::max(scale, std::abs(v));
    claim.zero("dl/db_K in " + name, gradient.slice(0, inner, 2 * inner).contiguous(), scale);
  }
}

} // namespace eg::permute
