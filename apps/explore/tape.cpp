// The page "tape": the recorded operations of a program or of a block, and the cotangents that its backward pass makes.

#include "autograd/tape.h"

#include "apps/explore/expression.h"
#include "apps/explore/pages.h"
#include "apps/explore/small_block.h"

#include "core/call.h"
#include "core/ops.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <unordered_map>

namespace eg::explore {

using nlohmann::json;

namespace {

/// One recorded operation.
struct Entry {
  std::string op, math;
  std::vector<Tensor> in;
  Tensor out;
};

class Observer : private Recorder {
public:
  Observer() { open_recorder(this); }
  ~Observer() override { close_recorder(this); }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  std::vector<Entry> entries;

private:
  void record(const Event& event) override {
    entries.push_back({std::string(event.op != nullptr ? event.op->name : event.custom->name),
                       std::string(event.op != nullptr ? event.op->math : ""),
                       {event.in.begin(), event.in.end()},
                       event.out.front()});
  }
  bool observes() const override { return true; }
};

/// The loss's slope along directions d of standard normals.
struct Slope {
  double by_tape = 0.0;  ///< <gradients, d>
  double measured = 0.0; ///< (L(leaves + h d) - L(leaves - h d)) / 2h
  double doubt = 0.0;    ///< how far `measured` may be off: what another h gives, and the rounding of L
};

Slope slope_of(const std::function<Tensor(Variables&)>& loss, const Variables& leaves,
               const std::vector<Tensor>& gradients, RandomKey key) {
  Slope slope;
  std::vector<Tensor> directions;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    directions.push_back(random_normal(leaves[i].second.shape(), key.fold(200 + i), 0.0, 1.0, DType::f64));
    if (gradients[i].defined()) slope.by_tape += sum(gradients[i] * directions[i]).item();
  }
  double largest = 0.0;
  const auto measure = [&](double h) {
    Variables forth = leaves, back = leaves;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      forth[i].second = leaves[i].second + directions[i] * h;
      back[i].second = leaves[i].second - directions[i] * h;
    }
    const double a = loss(forth).item(), b = loss(back).item();
    largest = std::max({largest, std::abs(a), std::abs(b)});
    return (a - b) / (2 * h);
  };
  constexpr double h = 1e-5;
  slope.measured = measure(h);
  slope.doubt = std::abs(slope.measured - measure(2 * h)) + 1e-15 * largest / h;
  return slope;
}

constexpr std::size_t most_entries = 200;
constexpr std::int64_t most_numbers = 4096; // of one value

} // namespace

void ask_tape(Question& question, Reply& reply, Session&) {
  const std::string of = question.word("of", {"program", "block"});
  const std::string text = question.text("program", "y = sum(gelu(x @ w + b))", 4000);
  // The backward pass sets the cotangent of this recorded operation to zero; 0: of none.
  const auto lost = question.whole("lost", 0, 0, most_entries);
  const RandomKey key{.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000))};
  question.finish();

  const auto normal = [&](const Shape& shape, std::uint64_t tag) {
    return random_normal(shape, key.fold(tag), 0.0, 1.0, DType::f64);
  };
  Variables leaves, variables;
  nn::Block block({.dim = 4, .heads = 2, .mlp = 8}, key);
  if (of == "program") {
    leaves = {{"x", normal({3, 4}, 1)}, {"w", normal({4, 3}, 2)}, {"b", normal({3}, 3)}, {"v", normal({3, 3}, 4)}};
  } else {
    draw_generic(block, DType::f64, key);
    leaves = {{"Z", draw_tokens(3, 4, DType::f64, key.fold(101))}};
    for (const auto& [name, x] : block.state_dict()) leaves.emplace_back(name, x);
  }
  const auto loss = [&](Variables& at) {
    if (of == "program") return run_program(text, at);
    nn::StateDict weights(at.begin() + 1, at.end());
    if (&at != &variables) block.load_state_dict(weights);
    return sum(block(at[0].second) * draw_tokens(3, 4, DType::f64, key.fold(102)));
  };
  variables = leaves;
  Tape tape;
  Tensor y;
  std::vector<Entry> entries;
  {
    Observer observer;
    y = loss(variables);
    entries = std::move(observer.entries);
  }
  if (y.numel() != 1)
    throw ValueError(
        fmt::format("the last value has shape {}; a loss is one number: wrap it in sum( )", y.shape().str()));
  if (entries.size() > most_entries)
    throw ValueError(fmt::format("{} operations are more than the {} that are shown", entries.size(), most_entries));

  std::unordered_map<std::uint64_t, std::string> names;
  for (const Variables& list : {leaves, variables})
    for (const auto& [name, x] : list) names.emplace(x.id(), name);
  std::map<std::uint64_t, Tensor> cotangents;
  std::vector<std::uint64_t> order;
  std::vector<HookHandle> hooks;
  if (lost > static_cast<std::int64_t>(entries.size()))
    throw ValueError(fmt::format("lost is {}; there are {} operations", lost, entries.size()));
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (const Tensor& out = entries[i].out; flows(out) && tape.computed(out))
      hooks.push_back(tape.on_gradient(
          out, [&, id = out.id(), lose = static_cast<std::int64_t>(i) + 1 == lost](const Tensor& cotangent) {
            cotangents[id] = lose ? cotangent * 0.0 : cotangent;
            order.push_back(id);
            return lose ? cotangents[id] : Tensor{};
          }));
  std::vector<Tensor> wanted;
  for (const auto& [name, x] : leaves) wanted.push_back(x);
  const bool depends = tape.computed(y);
  const std::vector<Tensor> gradients = depends ? tape.gradient(y, wanted) : std::vector<Tensor>();
  tape.close();

  const auto shown = [&](const Tensor& x) -> json {
    if (!x.defined() || !is_floating(x.dtype()) || x.numel() > most_numbers) return nullptr;
    return reply.tensor(x);
  };
  json& body = reply.body;
  body["functions"] = program_functions();
  json& list = body["leaves"] = json::array();
  for (std::size_t i = 0; i < leaves.size(); ++i)
    list.push_back({{"name", leaves[i].first},
                    {"value", shown(leaves[i].second)},
                    {"gradient", depends ? shown(gradients[i]) : json(nullptr)}});
  json& steps = body["entries"] = json::array();
  const auto name_of = [&](const Tensor& x) -> std::string {
    if (!x.defined()) return "";
    const auto found = names.find(x.id());
    if (found != names.end()) return found->second;
    return x.numel() == 1 && is_floating(x.dtype()) ? fmt::format("{:.6g}", x.item()) : "constant";
  };
  std::size_t count = 0;
  for (const Entry& entry : entries) {
    names.emplace(entry.out.id(), fmt::format("t{}", ++count));
    json inputs = json::array();
    for (const Tensor& x : entry.in) inputs.push_back(name_of(x));
    const auto cotangent = cotangents.find(entry.out.id());
    const auto place = std::find(order.begin(), order.end(), entry.out.id());
    steps.push_back({{"op", entry.op},
                     {"math", entry.math},
                     {"inputs", std::move(inputs)},
                     {"output", name_of(entry.out)},
                     {"value", shown(entry.out)},
                     {"cotangent", cotangent == cotangents.end() ? json(nullptr) : shown(cotangent->second)},
                     {"backward", place == order.end() ? json(nullptr) : json(place - order.begin())}});
  }
  body["loss"] = finite(y.item());
  // The gradients against the loss itself, along a random direction of all leaves.
  body["slope"] = nullptr;
  if (!depends) return;
  const Slope slope = slope_of(loss, leaves, gradients, key);
  const double size = std::max(std::abs(slope.by_tape), std::abs(slope.measured)),
               apart = std::abs(slope.by_tape - slope.measured);
  // Differences can judge where they are known to a thousandth.
  const bool known = std::isfinite(size) && std::isfinite(slope.doubt) && slope.doubt <= 1e-3 * size;
  body["slope"] = {{"error", size > 0.0 ? finite(apart / size) : json(0.0)},
                   {"by_tape", finite(slope.by_tape)},
                   {"measured", finite(slope.measured)},
                   {"unknown", !known && !(size == 0.0)},
                   {"holds", (known || size == 0.0) && apart <= 1e-7 * size + 4.0 * slope.doubt}};
}

} // namespace eg::explore
