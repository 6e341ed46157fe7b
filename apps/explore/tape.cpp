// The page "tape": the recorded operations of a program or of a block, and the cotangents that its backward pass makes.

#include "autograd/tape.h"

#include "apps/explore/expression.h"
#include "apps/explore/pages.h"
#include "apps/explore/small_block.h"

#include "core/call.h"
#include "core/ops.h"

#include <fmt/format.h>
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

constexpr std::size_t most_entries = 200;
constexpr std::int64_t most_numbers = 4096; // of one value

} // namespace

void ask_tape(Question& question, Reply& reply, Session&) {
  const std::string of = question.word("of", {"program", "block"});
  const std::string text = question.text("program", "y = sum(gelu(x @ w + b))", 4000);
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
  variables = leaves;
  Tape tape;
  Tensor y;
  std::vector<Entry> entries;
  {
    Observer observer;
    if (of == "program") {
      y = run_program(text, variables);
    } else {
      const Tensor output = block(leaves[0].second);
      y = sum(output * draw_tokens(3, 4, DType::f64, key.fold(102)));
    }
    entries = std::move(observer.entries);
  }
  if (y.numel() != 1)
    throw ValueError(
        fmt::format("the last value has shape {}; a loss is one number: wrap it in sum( )", y.shape().str()));
  if (entries.size() > most_entries)
    throw ValueError(fmt::format("{} operations are more than the {} that are shown", entries.size(), most_entries));

  std::unordered_map<std::uint64_t, std::string> names;
  for (const auto& [name, x] : variables) names.emplace(x.id(), name);
  std::map<std::uint64_t, Tensor> cotangents;
  std::vector<std::uint64_t> order;
  std::vector<HookHandle> hooks;
  for (const Entry& entry : entries)
    if (flows(entry.out) && tape.computed(entry.out))
      hooks.push_back(tape.on_gradient(entry.out, [&, id = entry.out.id()](const Tensor& cotangent) {
        cotangents[id] = cotangent;
        order.push_back(id);
        return Tensor{};
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
}

} // namespace eg::explore
