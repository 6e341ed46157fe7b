#include "apps/explore/door.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

namespace {

using nlohmann::json;

class Page {
public:
  json ask(const json& question) { return json::parse(door_.ask(question.dump()).json); }
  eg::explore::Answer answer(const json& question) { return door_.ask(question.dump()); }
  json text(std::string_view question) { return json::parse(door_.ask(question).json); }

private:
  eg::test::TemporaryFolder folder_;
  eg::explore::Door door_{folder_.path("model")};
};

std::vector<int> shuffled(int size, std::mt19937& random) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const std::vector<int> identity = order;
  while (order == identity) std::shuffle(order.begin(), order.end(), random);
  return order;
}

TEST_CASE("explorer, tokens: every order holds, forward and backward; each way to break it does") {
  Page page;
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    const int tokens = 2 + i % 7;
    json question{{"ask", "tokens"}, {"tokens", tokens}, {"seed", i}, {"order", shuffled(tokens, random)}};
    question["precision"] = std::vector<std::string>{"f64", "f32", "exact"}[static_cast<std::size_t>(i) % 3];
    CAPTURE(question.dump());
    const json good = page.ask(question);
    CHECK(good["forward"]["holds"] == true);
    CHECK(good["backward"]["holds"] == true);
    CHECK(good["weights"]["holds"] == true);
    CHECK(good["broken_at"].is_null());
    if (question["precision"] == "exact") CHECK(good["forward"]["differing"] == 0);
    for (const char* broken : {"positions", "causal", "rotary", "scaled"}) {
      // One place is scaled: an order that keeps it scales the same token.
      if (broken == std::string("scaled") && question["order"][1] == 1) continue;
      json other = question;
      other[broken] = true;
      const json answer = page.ask(other);
      CAPTURE(broken);
      CHECK(answer["forward"]["holds"] == false);
      CHECK(answer["broken_at"].is_string());
    }
  }
}

TEST_CASE(
    "explorer, features: tied weights work for the orders that keep heads together and for no other (4! and random)") {
  Page page;
  std::vector<int> order{0, 1, 2, 3};
  int kept = 0;
  do {
    const json answer =
        page.ask({{"ask", "features"}, {"dim", 4}, {"heads", 2}, {"order", order}, {"weights", "tied"}});
    CAPTURE(json(order).dump());
    CHECK(answer["forward"]["holds"] == answer["keeps_heads"]);
    kept += answer["keeps_heads"] == true ? 1 : 0;
    for (const char* form : {"residual", "decoupled"})
      CHECK(page.ask({{"ask", "features"}, {"dim", 4}, {"heads", 2}, {"order", order}, {"weights", form}})["forward"]
                                                                                                          ["holds"] ==
            true);
    const json plain =
        page.ask({{"ask", "features"}, {"dim", 4}, {"heads", 2}, {"order", order}, {"weights", "plain"}});
    CHECK(plain["forward"]["holds"] == std::is_sorted(order.begin(), order.end()));
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(kept == 8); // S_2 wr S_2
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    const json answer =
        page.ask({{"ask", "features"}, {"seed", i}, {"order", shuffled(8, random)}, {"weights", "decoupled"}});
    for (const json& weight : answer["weights"]) CHECK_MESSAGE(weight["backward"]["holds"] == true, weight["name"]);
  }
}

TEST_CASE("explorer, gradients: the covector rule always holds; the weight's rule unless something is stretched") {
  Page page;
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    json question{{"ask", "gradients"}, {"seed", i}, {"left", shuffled(6, random)}, {"right", shuffled(8, random)}};
    question["turn"] = 0.1 * (i % 8);
    for (const double stretch : {0.0, 0.3, 2.0}) {
      question["stretch"] = stretch;
      const json answer = page.ask(question);
      CHECK(answer["as_covector"]["holds"] == true);
      CHECK(answer["as_weight"]["holds"] == (stretch == 0.0));
    }
  }
}

TEST_CASE("explorer, masks: attention commutes with the mask's automorphisms and with no other order (random masks)") {
  Page page;
  std::mt19937 random(4);
  for (int i = 0; i < 30; ++i) {
    const int n = 3 + i % 3;
    json mask = json::array();
    for (int r = 0; r < n; ++r) {
      mask.push_back(json::array());
      for (int c = 0; c < n; ++c) mask.back().push_back(r == c || random() % 2 == 0 ? json(0) : json(nullptr));
    }
    std::vector<int> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::int64_t allowed = 0;
    json last;
    do {
      last = page.ask({{"ask", "mask"}, {"mask", mask}, {"order", order}});
      CHECK(last["allowed"] == last["forward"]["holds"]);
      allowed += last["allowed"] == true ? 1 : 0;
    } while (std::next_permutation(order.begin(), order.end()));
    CHECK(last["group_order"] == allowed);
    CHECK(last["searched"] == allowed);
  }
}

TEST_CASE("explorer, masks: groups have their names") {
  Page page;
  const auto group = [&](int n, auto&& sees) {
    json mask = json::array();
    for (int i = 0; i < n; ++i) {
      mask.push_back(json::array());
      for (int j = 0; j < n; ++j) mask.back().push_back(sees(i, j) ? json(0) : json(nullptr));
    }
    return page.ask({{"ask", "mask"}, {"mask", mask}})["group_name"].get<std::string>();
  };
  CHECK(group(5, [](int, int) { return true; }) == "S_5");
  CHECK(group(5, [](int i, int j) { return j <= i; }) == "trivial");
  CHECK(group(6, [](int i, int j) { return i == j || (i + 1) % 6 == j || (j + 1) % 6 == i; }) == "D_6");
  CHECK(group(6, [](int i, int j) { return i == j || (i + 1) % 6 == j; }) == "C_6");
  CHECK(group(5, [](int, int j) { return j < 3; }) == "S_3 x S_2");
}

TEST_CASE("explorer, thief: finds the key from whatever is public, and nothing where all is secret") {
  Page page;
  for (int seed = 0; seed < 8; ++seed)
    for (const char* sees : {"weights", "gain", "pair", "tokens"}) {
      CAPTURE(sees);
      const json open = page.ask({{"ask", "thief"}, {"sees", sees}, {"seed", seed}}),
                 closed = page.ask({{"ask", "thief"}, {"sees", sees}, {"seed", seed}, {"secret", true}});
      CHECK(open["right"] == open["of"]);
      CHECK(closed["right"] < closed["of"]);
    }
}

TEST_CASE("explorer, thief: an order that is dragged fits what is known exactly where it undoes the key") {
  Page page;
  for (int seed = 0; seed < 8; ++seed)
    for (const char* sees : {"weights", "gain", "pair", "tokens"}) {
      CAPTURE(sees);
      json question{{"ask", "thief"}, {"sees", sees}, {"seed", seed}};
      const json begun = page.ask(question);
      CHECK(begun["misfit"] > 0.1); // keys are never the identity
      CHECK(begun["least_misfit"] < 1e-12);
      std::vector<int> order = begun["undoing"];
      question["guess"] = order;
      const json solved = page.ask(question);
      CHECK(solved["misfit"] < 1e-12);
      CHECK(solved["places"] == order.size());
      std::swap(order.front(), order.back());
      question["guess"] = order;
      const json spoiled = page.ask(question);
      CHECK(spoiled["misfit"] > 1e-3);
      CHECK(spoiled["places"] == order.size() - 2);
      question["guess"] = {0, 0};
      CHECK(page.ask(question)["error"].is_string());
    }
}

TEST_CASE("explorer, two trainings: twins stay twins where group and optimiser commute, and part elsewhere") {
  Page page;
  const auto drift = [&](json question) {
    question["ask"] = "twins.start";
    question["batch"] = 4;
    CHECK(page.ask(question)["parameters"] > 10'000);
    return page.ask({{"ask", "twins.step"}, {"steps", 3}})["apart"];
  };
  for (const char* group : {"features", "tokens", "both", "signs"}) {
    CHECK(drift({{"group", group}, {"optimizer", "adamw"}})["holds"] == true);
    const json exact = drift({{"group", group}, {"optimizer", "adamw"}, {"precision", "exact"}});
    CHECK(exact["differing"] == 0);
  }
  CHECK(drift({{"group", "rotation"}, {"optimizer", "sgd"}})["holds"] == true);
  CHECK(drift({{"group", "rotation"}, {"optimizer", "adam"}})["holds"] == false);
  // Row train-orth: Muon follows rotations of matrices. It leaves vectors to Adam, which does not.
  for (const char* rule : {"momentum", "nesterov", "muon"})
    CHECK(drift({{"group", "rotation"}, {"optimizer", rule}})["holds"] == true);
  CHECK(drift({{"group", "rotation"}, {"optimizer", "muon"}, {"vectors", true}})["holds"] == false);
  CHECK(drift({{"group", "signs"}, {"optimizer", "muon"}, {"vectors", true}})["holds"] == true);
  CHECK(drift({{"group", "scaling"}, {"optimizer", "sgd"}})["holds"] == false);
  CHECK(drift({{"group", "uncoupled"}, {"optimizer", "sgd"}})["holds"] == false);
  CHECK(Page().ask({{"ask", "twins.step"}})["error"].is_string());
}

TEST_CASE("explorer, two trainings: a twin that is no number is apart; where rounding has taken over nothing is said") {
  Page page;
  page.ask({{"ask", "twins.start"},
            {"group", "uncoupled"},
            {"optimizer", "nesterov"},
            {"precision", "f32"},
            {"learning_rate", 1.0},
            {"batch", 4},
            {"seed", 3}});
  bool diverged = false;
  for (int i = 0; i < 30 && !diverged; ++i) {
    const nlohmann::json step = page.ask({{"ask", "twins.step"}});
    diverged = step["apart"]["error"].is_null();
    CHECK(step["apart"]["holds"] == false);
  }
  CHECK(diverged);
  page.ask(
      {{"ask", "twins.start"}, {"optimizer", "adamw"}, {"learning_rate", 0.1}, {"batch", 4}, {"precision", "f32"}});
  bool judged = false, silent = false;
  for (int i = 0; i < 60; ++i) {
    const nlohmann::json apart = page.ask({{"ask", "twins.step"}, {"steps", 2}})["apart"];
    CHECK((apart["holds"] == true || apart["unknown"] == true)); // true twins are never called apart
    judged = judged || apart["holds"] == true;
    silent = silent || apart["unknown"] == true;
  }
  CHECK(judged);
  CHECK(silent);
}

TEST_CASE("explorer, tape: gradients are the loss's slope; a lost cotangent is noticed") {
  Page page;
  for (const char* program : {"y = sum(gelu(x @ w + b))", "h = tanh(x @ w)\ny = sum(h * h / (1 + exp(h)))",
                              "y = sum(x * x)", "y = sum((x @ w - b) @ v)", "sum(sin(x)) - 3e-1 * sum(w)"}) {
    const json answer = page.ask({{"ask", "tape"}, {"program", program}});
    CAPTURE(answer.dump());
    REQUIRE(answer.contains("slope"));
    CHECK(answer["slope"]["holds"] == true);
    for (std::size_t i = 0; i < answer["entries"].size(); ++i) {
      if (answer["entries"][i]["cotangent"].is_null()) continue;
      CHECK(page.ask({{"ask", "tape"}, {"program", program}, {"lost", i + 1}})["slope"]["holds"] == false);
    }
  }
  const json block = page.ask({{"ask", "tape"}, {"of", "block"}});
  CHECK(block["slope"]["holds"] == true);
  CHECK(block["entries"].size() > 5);
  CHECK(page.ask({{"ask", "tape"}, {"of", "block"}, {"lost", block["entries"].size()}})["slope"]["holds"] == false);
}

TEST_CASE("explorer, tape: differences that cannot judge say so; small losses are judged") {
  Page page;
  const auto slope = [&](const char* program, int lost) {
    return page.ask({{"ask", "tape"}, {"program", program}, {"lost", lost}})["slope"];
  };
  for (const char* program : {"y = 1e14 + sum(x)", "y = sum(sin(100000 * x))", "y = sum(log(x))", "y = sum(x / 0)"}) {
    CAPTURE(program);
    CHECK(slope(program, 0)["unknown"] == true);
    CHECK(slope(program, 0)["holds"] == false);
  }
  CHECK(slope("y = sum(x * x) * 1e-10", 0)["holds"] == true);
  CHECK(slope("y = sum(x * x) * 1e-10", 1)["holds"] == false);
  CHECK(slope("y = sum(x * x) * 1e-10", 1)["unknown"] == false);
}

TEST_CASE("explorer, tape: programs that are wrong are refused with line and column") {
  Page page;
  const auto refusal = [&](std::string program) {
    const json answer = page.ask({{"ask", "tape"}, {"program", std::move(program)}});
    CAPTURE(answer.dump());
    REQUIRE(answer.contains("error"));
    return answer["error"].get<std::string>();
  };
  CHECK(refusal("").find("no expression") != std::string::npos);
  CHECK(refusal("y = sum(x").find("line 1, column 10: ')' is missing") != std::string::npos);
  CHECK(refusal("h = x\ny = q").find("line 2, column 5: there is no 'q'") != std::string::npos);
  CHECK(refusal("y = gelo(x)").find("did you mean gelu") != std::string::npos);
  CHECK(refusal("y = x").find("wrap it in sum( )") != std::string::npos);
  CHECK(refusal("y = 1.2.3").find("not a number") != std::string::npos);
  CHECK(refusal("y = sum(x) sum(x)").find("not expected here") != std::string::npos);
  CHECK(refusal(std::string(200, '(')).find("deeper than 50") != std::string::npos);
  CHECK(refusal("y = sum(x @ x)") != "");
}

TEST_CASE("explorer, yours: a small model of each family opens, holds, and is permuted") {
  for (const char* family : {"vit", "bert", "gpt2", "llama"}) {
    CAPTURE(family);
    Page page;
    CHECK(page.ask({{"ask", "yours.open"}})["error"].is_string()); // nothing is there
    REQUIRE(page.ask({{"ask", "yours.sample"}, {"family", family}})["files"].size() >= 2);
    const json open = page.ask({{"ask", "yours.open"}});
    REQUIRE_MESSAGE(open.contains("rows"), open.dump());
    CHECK(open["parameters"] > 1000);
    for (const json& row : open["rows"]) {
      const json answer = page.ask({{"ask", "yours.check"}, {"row", row}});
      CHECK_MESSAGE(answer["status"] == "pass", answer.dump());
    }
    CHECK(page.ask({{"ask", "yours.attention"}})["heads"] >= 3);
    // A sample's tokens attend to their like: the most that one gives to another is far from an equal share.
    const eg::explore::Answer seen = page.answer({{"ask", "yours.attention"}});
    const json scores = json::parse(seen.json)["scores"];
    const std::size_t length = scores["shape"][3], first = scores["at"];
    const auto begin = seen.numbers.begin() + static_cast<std::ptrdiff_t>(first);
    CHECK(*std::max_element(begin + static_cast<std::ptrdiff_t>(length * (length - 1)),
                            begin + static_cast<std::ptrdiff_t>(length * length)) > 2.0 / static_cast<double>(length));
    const json inner = page.ask({{"ask", "yours.permute"}, {"groups", "inner"}});
    REQUIRE_MESSAGE(inner.contains("same_function"), inner.dump());
    CHECK_MESSAGE(inner["same_function"]["holds"] == true, inner.dump());
    CHECK(inner["changed_tensors"] > 0);
    CHECK(page.ask({{"ask", "yours.permute"}, {"groups", "all"}})["same_function"]["holds"] == false);
  }
}

TEST_CASE("explorer, catalogue: lists every row and runs them; unknown rows and sizes are refused") {
  Page page;
  const json rows = page.ask({{"ask", "catalogue.list"}})["rows"];
  CHECK(rows.size() > 200);
  for (std::size_t i = 0; i < rows.size(); i += 12)
    CHECK(page.ask({{"ask", "catalogue.run"}, {"id", rows[i]["id"]}})["status"] == "pass");
  CHECK(page.ask({{"ask", "catalogue.run"}, {"id", "thm99"}})["error"].is_string());
  CHECK(page.ask({{"ask", "catalogue.run"}, {"id", "thm4.1"}, {"dim", 100}})["error"].is_string());
}

TEST_CASE("explorer: a question that is malformed gets a sentence, whatever it is") {
  Page page;
  for (const char* text : {"",
                           "{",
                           "[]",
                           "7",
                           "\"tokens\"",
                           "{}",
                           R"({"ask": 3})",
                           R"({"ask": "nothing"})",
                           R"({"ask": "tokens", "tokens": 1})",
                           R"({"ask": "tokens", "tokens": 2.5})",
                           R"({"ask": "tokens", "order": [0, 0, 1, 2, 3, 4]})",
                           R"({"ask": "tokens", "order": [0, 1]})",
                           R"({"ask": "tokens", "dim": 9, "heads": 2})",
                           R"({"ask": "tokens", "typo": 1})",
                           R"({"ask": "tokens", "precision": "f16"})",
                           R"({"ask": "tokens", "causal": 1})",
                           R"({"ask": "mask"})",
                           R"({"ask": "mask", "mask": [[0, 0]]})",
                           R"({"ask": "mask", "mask": [[0], [0, 0]]})",
                           R"({"ask": "mask", "mask": [["a"]]})",
                           R"({"ask": "gradients", "turn": 1e9})",
                           R"({"ask": "yours.attention", "picture": "../../etc/passwd"})",
                           "\xff\xfe{"}) {
    const json answer = page.text(text);
    CAPTURE(text);
    REQUIRE(answer.size() == 1);
    CHECK(answer["error"].get<std::string>().size() > 10);
  }
}

TEST_CASE("explorer: thousands of mutated questions are answered or refused") {
  Page page;
  std::mt19937 random(5);
  const std::vector<std::string> seeds{
      R"({"ask": "tokens", "tokens": 3, "order": [2, 0, 1], "causal": true, "precision": "f32"})",
      R"({"ask": "features", "dim": 4, "heads": 2, "order": [1, 0, 3, 2], "weights": "tied"})",
      R"({"ask": "gradients", "rows": 2, "columns": 3, "left": [1, 0], "turn": 0.5, "stretch": 1.5})",
      R"({"ask": "mask", "mask": [[0, null], [0, 0]], "order": [1, 0]})",
      R"~({"ask": "tape", "program": "y = sum(gelu(x @ w + b) / 2.0 )", "lost": 1})~",
      R"({"ask": "catalogue.run", "id": "eq4.1", "tokens": 3, "dim": 4, "heads": 2})"};
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = seeds[random() % seeds.size()];
    for (unsigned k = 0; k <= random() % 4; ++k) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
      case 0:
        text[at] = static_cast<char>(32 + random() % 95);
        break;
      case 1:
        text.erase(at, 1 + random() % 5);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 6));
      }
      if (text.empty()) text = "{";
    }
    const json answer = page.text(text);
    REQUIRE(answer.is_object());
    refused += answer.contains("error") && answer["error"].is_string() ? 1 : 0;
  }
  CHECK(refused > 500);
  CHECK(refused < 2990);
}

} // namespace
