// The page "two trainings".

#include "apps/explore/twins.h"

#include "apps/explore/pages.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "permute/catalogue/case.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::explore {

using nlohmann::json;

namespace {

constexpr std::int64_t test_images = 200, side = 16, classes = 10;

bool turns(TwinGroup group) { return group == TwinGroup::signs || group == TwinGroup::rotation; }

nn::VitConfig config_of(TwinGroup group) {
  nn::VitConfig config;
  config.image = side;
  config.patch = 4;
  config.layers = 2;
  config.encoder.dim = 32;
  config.encoder.heads = 4;
  config.encoder.mlp = 64;
  if (turns(group)) config.encoder.norm = nn::NormKind::rms;
  return config;
}

/// x Q along one axis.
Tensor turned(const Tensor& x, int axis, const Tensor& q) {
  if (x.rank() == 1) return matmul(x.unsqueeze(0), q).select(0, 0);
  return matmul(x.transpose(axis, -1).contiguous(), q).transpose(axis, -1).contiguous();
}

bool is_gain(const std::string& name) { return name.find("norm") != std::string::npos; }

/// max |x|
double largest_of(const Tensor& x) { return max(abs(x).reshape({-1}), 0).item(); }

/// b_K left out of the fused bias of queries, keys and values.
Tensor without_key_bias(const std::string& name, const Tensor& x) {
  if (!name.ends_with("qkv.bias")) return x;
  const std::int64_t third = x.numel() / 3;
  return concat({x.slice(0, 0, third), x.slice(0, 2 * third, 3 * third)}, 0);
}

/// max |a - b| / max |b| over all weights but b_K; NaN where an element is.
double distance(const nn::StateDict& a, const nn::StateDict& b) {
  double apart = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor wanted = without_key_bias(b[i].first, b[i].second),
                 difference = without_key_bias(a[i].first, a[i].second) - wanted;
    const double far = largest_of(difference);
    if (!std::isfinite(far)) return std::numeric_limits<double>::quiet_NaN();
    apart = std::max(apart, far);
    largest = std::max(largest, largest_of(wanted));
  }
  return apart / largest;
}

} // namespace

Twins::Twins(const TwinOptions& options)
    : options_(options), plain_(config_of(options.group), {.seed = options.seed}),
      twin_(config_of(options.group), {.seed = options.seed}),
      third_(config_of(options.group), {.seed = options.seed}) {
  const ReductionScope sums(options.precision.exact ? Reduction::exact : Reduction::fast);
  const RandomKey key{.seed = options.seed};
  const std::int64_t dim = plain_.config.encoder.dim;
  axes_ = permute::vit_axes(plain_.config);
  const TwinGroup group = options.group;
  if (group == TwinGroup::features || group == TwinGroup::both || group == TwinGroup::uncoupled) {
    const auto moves = permute::BlocksKey::random(plain_.config.encoder, plain_.config.layers,
                                                  permute::KeyForm::decoupled, key.fold(1));
    columns_ = moves.residual;
    if (group != TwinGroup::uncoupled) permutations_ = moves.permutations(plain_.config.encoder);
  }
  if (group == TwinGroup::signs) {
    std::vector<double> entries(static_cast<std::size_t>(dim * dim));
    for (std::int64_t i = 0; i < dim; ++i)
      entries[static_cast<std::size_t>(i * dim + i)] =
          uniform_at(key.fold(2), static_cast<std::uint64_t>(i)) < 0.5 ? -1.0 : 1.0;
    basis_ = Tensor::from<double>(entries, {dim, dim});
  }
  if (group == TwinGroup::rotation)
    basis_ = permute::orthonormal(random_normal({dim, dim}, key.fold(3), 0.0, 1.0, DType::f64));
  if (group == TwinGroup::scaling) scales_ = random_uniform({dim}, key.fold(4), 0.5, 2.0, DType::f64);
  const DType dtype = options.precision.dtype;
  plain_.to(dtype);
  twin_.to(dtype);
  third_.to(dtype);
  patterns_ = random_normal({classes, 3, side, side}, key.fold(5), 0.0, 1.0, dtype);
  if (basis_.defined()) basis_ = basis_.to(dtype);
  if (scales_.defined()) scales_ = scales_.to(dtype);
  twin_.load_state_dict(moved(plain_.state_dict()));
  // One rounding away: every weight times 1 + eps or 1 - eps.
  nn::StateDict begun;
  const double eps = dtype == DType::f64 ? 2.3e-16 : 1.2e-7;
  std::uint64_t draw = 100;
  for (const auto& [name, x] : plain_.state_dict()) {
    const Tensor signs = sign(random_uniform(x.shape(), key.fold(draw++), -1.0, 1.0, dtype));
    begun.emplace_back(name, x + x * signs * eps);
  }
  third_.load_state_dict(begun);
  const bool leaves_vectors = group == TwinGroup::rotation && options.optimizer == "muon" && !options.vectors;
  const auto is_vector_of_features = [&](const std::string& of) {
    const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const auto& a) { return a.parameter == of; });
    return found != axes_.end() && found->groups == std::vector<std::string>{"residual"};
  };
  for (auto& [model, optimizer] : {std::pair(&plain_, &plain_optimizer_), std::pair(&twin_, &twin_optimizer_),
                                   std::pair(&third_, &third_optimizer_)}) {
    *optimizer = optim::make_optimizer(options.optimizer, model->parameters(), 0.0);
    std::vector<optim::ParameterSettings> settings;
    for (const std::string& name : nn::parameter_names(*model)) {
      const bool block = name.starts_with("blocks.");
      const bool fixed = (turns(group) && is_gain(name)) || (leaves_vectors && is_vector_of_features(name));
      settings.push_back({.learning_rate = block && fixed ? 0.0 : 1.0, .hidden = block});
    }
    (*optimizer)->set_settings(std::move(settings));
  }
}

nn::StateDict Twins::moved(const nn::StateDict& weights) const {
  if (!permutations_.empty()) return permute::transform(weights, axes_, permutations_);
  nn::StateDict result;
  for (const auto& [name, x] : weights) {
    Tensor y = x.clone();
    const auto found =
        std::find_if(axes_.begin(), axes_.end(), [&, of = name](const auto& a) { return a.parameter == of; });
    if (basis_.defined() && found != axes_.end() && !is_gain(name))
      for (std::size_t axis = 0; axis < found->groups.size(); ++axis)
        if (found->groups[axis] == "residual") y = turned(y, static_cast<int>(axis), basis_);
    if (scales_.defined() && name.find(".attention.") != std::string::npos) {
      const std::int64_t inner = scales_.size(0);
      const Tensor d = scales_.reshape({inner, 1});
      if (name.ends_with("qkv.weight"))
        y = concat({y.slice(0, 0, 2 * inner), y.slice(0, 2 * inner, 3 * inner) * d}, 0);
      else if (name.ends_with("qkv.bias"))
        y = concat({y.slice(0, 0, 2 * inner), y.slice(0, 2 * inner, 3 * inner) * scales_}, 0);
      else if (name.ends_with("proj.weight"))
        y = y / scales_;
    }
    result.emplace_back(name, y);
  }
  return result;
}

/// Pictures [count, 3, 16, 16], each one of the patterns under noise of twice its size, and their classes.
std::pair<Tensor, Tensor> Twins::pictures(std::int64_t count, std::uint64_t draw) const {
  const RandomKey key{.seed = options_.seed, .stream = draw};
  RandomStream stream(key.fold(1));
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i)
    labels.push_back(static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(classes))));
  const Tensor of = Tensor::from<std::int64_t>(labels, {count});
  const Tensor noise = random_normal({count, 3, side, side}, key.fold(2), 0.0, 2.0, options_.precision.dtype);
  return {index_select(patterns_, 0, of) + noise, of};
}

Tensor Twins::classify(const nn::Vit& model, const Tensor& images, bool twin, std::uint64_t draw) const {
  Tensor z = model.embed(images);
  if (!twin) return model.head(model.encode(z));
  permute::PermutedPass pass;
  if (options_.group == TwinGroup::tokens || options_.group == TwinGroup::both)
    pass.rows = permute::row_permutations(z.size(0), z.size(1), {.seed = options_.seed, .stream = 1000 + draw});
  if (columns_.size() > 0) pass.columns = &columns_;
  if (basis_.defined()) return model.head(matmul(model.encode(matmul(z, basis_)), basis_, false, true));
  return model.head(pass.through(z, [&](const Tensor& x) { return model.encode(x); }));
}

double Twins::train(nn::Vit& model, optim::Optimizer& optimizer, const Tensor& images, const Tensor& labels,
                    bool twin) const {
  Tape tape;
  const Tensor loss = cross_entropy(classify(model, images, twin, static_cast<std::uint64_t>(steps_)), labels);
  const std::vector<Tensor> gradients = tape.gradient(loss, model.parameters());
  tape.close();
  optimizer.step(gradients, options_.learning_rate);
  return loss.item();
}

void Twins::compare(TwinStep& step) const {
  const nn::StateDict expected = moved(plain_.state_dict()), found = twin_.state_dict();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Tensor wanted = without_key_bias(found[i].first, expected[i].second),
                 is = without_key_bias(found[i].first, found[i].second);
    step.differing += differing_bits(is, wanted);
    step.of += is.numel();
  }
  step.drift = distance(found, expected);
  step.rounding = distance(third_.state_dict(), plain_.state_dict());
}

Twins::Verdict Twins::judge(const TwinStep& step) const {
  if (!std::isfinite(step.drift)) return Verdict::apart;
  const bool elements = options_.group != TwinGroup::rotation && options_.group != TwinGroup::scaling;
  if (options_.precision.exact && elements) return step.drift == 0.0 ? Verdict::twins : Verdict::apart;
  const double floor = options_.precision.dtype == DType::f64 ? 1e-13 : 1e-5;
  if (step.drift <= std::max(floor, 100.0 * step.rounding) && step.rounding <= 1e-3) return Verdict::twins;
  return step.rounding <= 1e-3 ? Verdict::apart : Verdict::unknown;
}

TwinStep Twins::step() {
  const ReductionScope sums(options_.precision.exact ? Reduction::exact : Reduction::fast);
  const auto [images, labels] = pictures(options_.batch, 2000 + static_cast<std::uint64_t>(steps_));
  TwinStep result;
  result.loss = train(plain_, *plain_optimizer_, images, labels, false);
  result.twin_loss = train(twin_, *twin_optimizer_, images, labels, true);
  (void)train(third_, *third_optimizer_, images, labels, false);
  compare(result);
  ++steps_;
  return result;
}

std::pair<double, double> Twins::accuracies() const {
  const ReductionScope sums(options_.precision.exact ? Reduction::exact : Reduction::fast);
  const auto [images, labels] = pictures(test_images, 1);
  const std::vector<std::int64_t> wanted = labels.to_vector<std::int64_t>();
  const auto share = [&, of = images](const nn::Vit& model, bool twin) {
    const std::vector<std::int64_t> found =
        argmax(classify(model, of, twin, 0), -1).reshape({test_images}).to_vector<std::int64_t>();
    std::int64_t right = 0;
    for (std::size_t i = 0; i < found.size(); ++i) right += found[i] == wanted[i] ? 1 : 0;
    return static_cast<double>(right) / static_cast<double>(test_images);
  };
  return {share(plain_, false), share(twin_, true)};
}

namespace {

TwinGroup twin_group_named(const std::string& name) {
  static constexpr std::pair<std::string_view, TwinGroup> groups[] = {
      {"features", TwinGroup::features},  {"tokens", TwinGroup::tokens},     {"both", TwinGroup::both},
      {"signs", TwinGroup::signs},        {"rotation", TwinGroup::rotation}, {"scaling", TwinGroup::scaling},
      {"uncoupled", TwinGroup::uncoupled}};
  const auto found = std::find_if(std::begin(groups), std::end(groups), [&](const auto& g) { return g.first == name; });
  return found->second;
}

} // namespace

void start_twins(Question& question, Reply& reply, Session& session) {
  const std::string group =
      question.word("group", {"features", "tokens", "both", "signs", "rotation", "scaling", "uncoupled"});
  TwinOptions options;
  options.group = twin_group_named(group);
  options.optimizer = question.word(
      "optimizer", {"adamw", "sgd", "momentum", "nesterov", "adam", "rmsprop", "lion", "adafactor", "muon"});
  options.precision = question.precision();
  options.learning_rate = question.number("learning_rate", 1e-3, 1e-6, 1.0);
  options.vectors = question.flag("vectors");
  options.batch = question.whole("batch", 16, 1, 64);
  options.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000));
  question.finish();
  session.twins = std::make_unique<Twins>(options);
  reply.body["parameters"] = session.twins->parameter_count();
}

void step_twins(Question& question, Reply& reply, Session& session) {
  const auto steps = question.whole("steps", 1, 1, 100);
  const bool accuracy = question.flag("accuracy");
  question.finish();
  if (session.twins == nullptr) throw ValueError("no training has begun: ask \"twins.start\" first");
  json& body = reply.body;
  for (const char* name : {"loss", "twin_loss", "drift", "rounding"}) body[name] = json::array();
  for (std::int64_t i = 0; i < steps; ++i) {
    const TwinStep step = session.twins->step();
    body["loss"].push_back(finite(step.loss));
    body["twin_loss"].push_back(finite(step.twin_loss));
    body["drift"].push_back(finite(step.drift));
    body["rounding"].push_back(finite(step.rounding));
    const Twins::Verdict verdict = session.twins->judge(step);
    body["apart"] = {{"error", finite(step.drift)},
                     {"differing", step.differing},
                     {"of", step.of},
                     {"holds", verdict == Twins::Verdict::twins},
                     {"unknown", verdict == Twins::Verdict::unknown}};
  }
  body["steps"] = session.twins->steps();
  if (accuracy) {
    const auto [plain, twin] = session.twins->accuracies();
    body["accuracy"] = plain;
    body["twin_accuracy"] = twin;
  }
}

} // namespace eg::explore
