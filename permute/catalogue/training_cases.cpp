// Which parts of a training recipe commute with permutations: rules, clipping, schedules, averages, dropout, batch
// norm, accumulation; and which do not unless something moves along, or not at all. docs/training-equivalence.md.

#include "permute/catalogue/training_rules.h"

#include "autograd/tape.h"
#include "core/reduction.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace eg::permute {
namespace {

/// One line of the table: a recipe, and what its control does otherwise.
struct TrainingCase {
  const char* id;
  const char* title;
  const char* statement;
  const char* tex;
  Recipe recipe;
  const char* control;
  void (*spoil)(Recipe&);
};

void leave_in_place(Recipe& r) { r.moves = false; }
void no_clipping(Recipe& r) { r.clip = {}; }
void plain_sgd(Recipe& r) { r.make = {}, r.optimizer = "sgd", r.rate = 0.02; }

/// Without its clipping and its relative steps, which would let b_K's rounding noise into the scale of a fused bias.
std::unique_ptr<optim::Optimizer> adafactor(std::vector<Tensor> parameters) {
  return optim::adafactor(std::move(parameters), {.clip = 0.0, .scale_parameter = false});
}

void clip_values(std::vector<Tensor>& gradients) {
  for (Tensor& g : gradients) g = clamp(g, -0.01, 0.01);
}

void clip_joint_norm(std::vector<Tensor>& gradients) { optim::clip_gradients(gradients, 0.1); }

void clip_each_norm(std::vector<Tensor>& gradients) {
  for (Tensor& g : gradients) g = g * minimum(full({1}, 1.0, g.dtype()), 0.02 * rsqrt(sum(g * g) + 1e-20)).reshape({1});
}

Recipe with(const std::function<void(Recipe&)>& change) {
  Recipe recipe;
  change(recipe);
  return recipe;
}

constexpr const char* coupled = R"(W_{(C),t} = P_{out}^\top W_t P_{in})";

std::vector<TrainingCase> moving_alike() {
  return {
      {"train-decay", "weight decay", "Decay shrinks every element alike.",
       R"(W \leftarrow W - \eta (\partial l/\partial W + \lambda W))", with([](Recipe& r) { r.weight_decay = 0.1; }),
       "a twin without decay", [](Recipe& r) { r.weight_decay = 0.0; }},
      {"train-schedule", "a schedule with warm-up",
       "The rate of a step is one number for all elements: warm-up and half a cosine.", R"(\eta_t = \eta(t))",
       with([](Recipe& r) {
         const optim::Schedule schedule{optim::Schedule::Kind::cosine, 0.03, 10, 60, 0.1};
         r.rate_at = [schedule](std::int64_t step) { return schedule.at(step); };
       }),
       "a twin at a constant rate", [](Recipe& r) { r.rate_at = {}; }},
      {"train-clip-norm", "clipping by the joint norm", "The norm of all gradients does not see an order.",
       R"(g \leftarrow g \min(1, c / \lVert g \rVert))", with([](Recipe& r) { r.clip = clip_joint_norm; }),
       "a twin without clipping", no_clipping},
      {"train-clip-tensor", "clipping each tensor by its norm", "Nor does the norm of one tensor.",
       R"(g_i \leftarrow g_i \min(1, c / \lVert g_i \rVert))", with([](Recipe& r) { r.clip = clip_each_norm; }),
       "a twin without clipping", no_clipping},
      {"train-clip-value", "clipping each element", "Elements are clipped one by one.",
       R"(g \leftarrow \min(\max(g, -c), c))", with([](Recipe& r) { r.clip = clip_values; }), "a twin without clipping",
       no_clipping},
      {"train-accumulate", "accumulated gradients", "Averages over parts of a batch move as their terms do.",
       R"(g = \tfrac{1}{k} \sum_i g_i)", with([](Recipe& r) { r.parts = r.parts_used = 3; }),
       "a twin that leaves the last part out", [](Recipe& r) { r.parts_used = 2; }},
      {"train-ema", "averaged weights", "Averages over steps move as the weights do.",
       R"(\bar W_t = \beta \bar W_{t-1} + (1 - \beta) W_t)", with([](Recipe& r) { r.ema = 0.95; }),
       "a twin that averages over fewer steps", [](Recipe& r) { r.ema = 0.5; }},
      {"train-drop-path", "dropped paths",
       "A path is dropped for all tokens of a sample, so the same draw serves both.", R"(Y_s = X_s + m_s f(X_s))",
       with([](Recipe& r) { r.drop_path = 0.5; }), "a twin with a draw of its own",
       [](Recipe& r) { r.other_paths = true; }},
      {"train-rmsprop", "RMSprop", "Element by element.", R"(W \leftarrow W - \eta\, g / (\sqrt{v} + \varepsilon))",
       // A gradient that is rounding alone is scaled up to a full step, so that f32 twins part by the steps' size.
       with([](Recipe& r) { r.optimizer = "rmsprop", r.rate = 1e-4; }), "a twin under SGD", plain_sgd},
      {"train-lion", "Lion", "Signs are taken element by element.",
       R"(W \leftarrow W - \eta\, \mathrm{sign}(\beta_1 m + (1 - \beta_1) g))",
       with([](Recipe& r) { r.optimizer = "lion"; }), "a twin under SGD", plain_sgd},
      {"train-adafactor", "Adafactor", "Moments of rows and columns move with rows and columns.",
       R"(V = r c^\top / \mathrm{mean}(r))", with([](Recipe& r) { r.make = adafactor, r.rate = 3e-4; }),
       "a twin under SGD", plain_sgd},
      {"train-muon", "Muon", "A polynomial in the momentum, M (M^T M)^k, moves as M does.",
       R"(p(P^\top M P') = P^\top p(M) P')", with([](Recipe& r) { r.optimizer = "muon", r.rate = 2e-3; }),
       "a twin under SGD", plain_sgd},
  };
}

std::vector<TrainingCase> moving_along() {
  return {
      {"train-dropout", "dropout", "The mask of a draw has to move with the features; the same draw again does not.",
       R"(M_{(P)} = P_R M P_C)", with([](Recipe& r) { r.dropout = 0.2; }), "the same masks, not moved", leave_in_place},
      {"train-index-rate", "a rate for each element",
       "Rates that belong to elements have to move with them; left at their indices they fit other weights.",
       R"(W \leftarrow W - \eta \odot g,\quad \eta_{(P)} = P_{out}^\top \eta P_{in})",
       with([](Recipe& r) { r.rule = rate_of_element, r.along = Along::rate_of_element; }),
       "rates left at their indices", leave_in_place},
      {"train-projection", "projected gradients",
       "A fixed projection of gradients has to move with the inputs; the same one again does not.",
       R"(W \leftarrow W - \eta\, g M,\quad M_{(P)} = P_{in}^\top M P_{in})",
       with([](Recipe& r) { r.rule = projected, r.along = Along::matrix_of_columns; }),
       "the same projection, not moved", leave_in_place},
  };
}

Identity identity_of(const TrainingCase& line) {
  return {line.id,
          "training with " + std::string(line.title),
          "",
          "",
          ClaimKind::law,
          Gate::training,
          line.statement,
          line.tex,
          [line](Case& c) {
            Recipe recipe = line.recipe;
            // In f32 an element near zero may take another sign: its step has to stay below the gate.
            if (std::string_view(line.id) == "train-lion") recipe.rate = c.dtype == DType::f64 ? 3e-4 : 1e-5;
            return claim_of(train_twins(c, recipe, line.spoil), line.control);
          }};
}

Claim batch_norm_training(Case& c) {
  const TwinRun run = train_twins(c, with([](Recipe& r) { r.batch_norm = true; }), [](Recipe&) {});
  Claim claim = claim_of(run, "");
  claim.fails.clear();
  claim.differs("running statistics in the plain order", run.moved->norm->running_mean, run.plain->norm->running_mean);
  return claim;
}

/// With Lion a gradient of zero that rounding fills takes whole steps: b_K diverges, and nothing else does.
Claim lion_ties(Case& c) {
  const Recipe recipe = with([&](Recipe& r) { r.optimizer = "lion", r.rate = c.dtype == DType::f64 ? 3e-4 : 1e-5; });
  const TwinRun run = train_twins(c, recipe, plain_sgd);
  Claim claim = claim_of(run, "");
  claim.fails.clear();
  const ReductionScope ordinary(Reduction::fast); // exact sums leave both sides the same noise
  const TwinRun fast = train_twins(c, recipe, plain_sgd);
  claim.control = "b_K, in steps of the rate";
  for (std::size_t i = 0; i < fast.image.size(); ++i) {
    const auto& [name, expected] = fast.image[i];
    if (!name.ends_with("qkv.bias")) continue;
    const std::int64_t inner = expected.size(0) / 3;
    const auto of_k = [&](const Tensor& x) { return x.slice(0, inner, 2 * inner).contiguous(); };
    const Tensor apart = of_k(fast.moved->state_dict()[i].second) - of_k(expected);
    claim.fails.push_back({claim.control, apart, Tensor::zeros(apart.shape(), c.dtype), recipe.rate, false});
  }
  return claim;
}

/// A linear layer under momentum with blockwise state; exact sums, so that rounding decides no level.
struct Regression {
  std::int64_t in, out;
  Tensor w0;
  std::vector<Tensor> x, y;

  explicit Regression(Case& c) : in(4 * std::max<std::int64_t>(2, c.options.dim / 4)), out(c.options.hidden) {
    w0 = c.normal({out, in}, 0.4);
    for (std::int64_t step = 0; step < c.options.steps; ++step) {
      x.push_back(c.normal({c.options.tokens, in}));
      y.push_back(c.normal({c.options.tokens, out}));
    }
  }

  Tensor trained(const Permutation& p_in, const Permutation& p_out) const {
    Tensor w = p_out.apply(p_in.apply(w0, 1), 0);
    RuleState state;
    for (std::size_t step = 0; step < x.size(); ++step) {
      Tape tape;
      const Tensor difference = linear(p_in.apply(x[step], 1), w) - p_out.apply(y[step], 1);
      const Tensor gradient = tape.gradient(mean(difference * difference), {w}).front();
      tape.close();
      w = blockwise_momentum(state, {w, gradient, {}, 0.02, static_cast<std::int64_t>(step) + 1});
    }
    return w;
  }
};

Claim blockwise_state(Case& c) {
  const ReductionScope exact(Reduction::exact);
  const Regression task(c);
  std::vector<Permutation> within;
  for (std::int64_t i = 0; i < task.in / 4; ++i) within.push_back(c.permutation(4));
  const Permutation keeping = block_permutation(c.permutation(task.in / 4), within), p_out = c.permutation(task.out);
  const Permutation splitting =
      c.permutation_that(task.in, [](const Permutation& p) { return !is_block_permutation(p, 4); });
  const Tensor plain = task.trained(Permutation::identity(task.in), Permutation::identity(task.out));
  const auto image = [&](const Permutation& p) { return p_out.apply(p.apply(plain, 1), 0); };
  Claim claim;
  claim.sizes = {{"inputs", task.in}, {"outputs", task.out}, {"block", 4}};
  claim.equal("inputs that keep their blocks of four", task.trained(keeping, p_out), image(keeping));
  claim.differs("inputs that leave their blocks", task.trained(splitting, p_out), image(splitting));
  return claim;
}

} // namespace

std::vector<Identity> training_case_identities() {
  using enum ClaimKind;
  std::vector<Identity> rows;
  for (const TrainingCase& line : moving_alike()) rows.push_back(identity_of(line));
  for (const TrainingCase& line : moving_along()) rows.push_back(identity_of(line));
  rows.push_back({"train-bn", "training with batch norm", "", "", law, Gate::training,
                  "Batch norm over samples and tokens: weights and running statistics move with the features.",
                  R"(\mu_{(P),t} = \mu_t P_C,\quad \sigma^2_{(P),t} = \sigma^2_t P_C)", batch_norm_training});
  rows.push_back({"train-lion-ties", "training with Lion, and b_K", "", "", law, Gate::training,
                  "Without rotary positions b_K's gradient is zero but for rounding, whose sign Lion takes: b_K goes "
                  "elsewhere, the other weights do not.",
                  R"(\mathrm{sign}(0 + \varepsilon) = \pm 1)", lion_ties});
  rows.push_back({"train-blockwise", "training with blockwise-quantised state", "", "", law, Gate::training,
                  "State with one scale for a block of neighbours commutes with the permutations that keep blocks "
                  "together, not with others.",
                  coupled, blockwise_state});
  rows.back().exact_sums = true;
  return rows;
}

} // namespace eg::permute
