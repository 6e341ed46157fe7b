// equigrad generate, as a person calls it.

#include "program.h"

#include "data/json.h"
#include "hub/folder.h"
#include "nn/decoder.h"
#include "nn/generate.h"
#include "support/byte_tokenizer.h"

#include <doctest/doctest.h>

#include <csignal>

using namespace eg;
using nlohmann::json;
using test::Outcome;
using test::run_program;
using test::TemporaryFolder;

namespace {

/// A GPT-2 of bytes with random weights.
void write_model(const TemporaryFolder& folder, std::int64_t positions = 60) {
  const auto model = hub::make_model({{"model_type", "gpt2"},
                                      {"vocab_size", 257},
                                      {"n_embd", 24},
                                      {"n_layer", 2},
                                      {"n_head", 3},
                                      {"n_positions", positions},
                                      {"eos_token_id", 256}},
                                     {1, 0});
  hub::save_model(*model, folder.path("model"));
  test::write_byte_tokenizer(folder.path("model"));
}

Outcome generate(const TemporaryFolder& folder, std::vector<std::string> more) {
  more.insert(more.begin(), {"generate", "--model", "model"});
  return run_program(more, folder.path());
}

} // namespace

TEST_CASE("generate continues a text or ids with what the library says") {
  const TemporaryFolder folder;
  write_model(folder);
  const auto loaded = hub::load_model(folder.path("model"));
  const std::vector<std::int64_t> prompt = {'T', 'h', 'e'};
  const auto wanted = nn::generate(*loaded.model->decoder(), prompt, {.max_new_tokens = 12, .end_ids = {256}});
  for (const std::vector<std::string>& given : {std::vector<std::string>{"--prompt", "The"}, {"--ids", "84,104,101"}}) {
    std::vector<std::string> args = given;
    args.insert(args.end(), {"--max-new-tokens", "12", "--json", "-"});
    const Outcome outcome = generate(folder, args);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const json result = json::parse(outcome.out);
    CHECK(result["ids"] == json(wanted));
    CHECK(result["prompt_ids"] == json(prompt));
    CHECK(result["tokens_per_s"].get<double>() > 0.0);
  }
  const Outcome shown = generate(folder, {"--prompt", "The", "--max-new-tokens", "5"});
  CHECK(shown.out.starts_with("The"));
  CHECK(shown.err.find("tokens/s") != std::string::npos);
  CHECK(generate(folder, {"--prompt", "The", "--quiet"}).out.empty());
  const json whole = json::parse(generate(folder, {"--prompt", "The", "--json", "-", "--max-new-tokens", "12"}).out);
  const json cut =
      json::parse(generate(folder, {"--prompt", "The", "--json", "-", "--max-new-tokens", "12", "--stop",
                                    "no such text", "--stop", whole["text"].get<std::string>().substr(2, 1)})
                      .out);
  CHECK(cut["ended"] == "stop string");
  CHECK(cut["text"].get<std::string>().size() <= 2);
}

TEST_CASE("sampling follows the seed") {
  const TemporaryFolder folder;
  write_model(folder);
  const auto ids = [&](const char* seed) {
    return json::parse(generate(folder, {"--ids", "5,6", "--temperature", "1", "--seed", seed, "--json", "-",
                                         "--max-new-tokens", "20", "--ignore-end"})
                           .out)["ids"];
  };
  CHECK(ids("1") == ids("1"));
  CHECK(ids("1") != ids("2"));
}

TEST_CASE("without a length the text ends where the model's positions end; with one it is refused") {
  const TemporaryFolder folder;
  write_model(folder, 10);
  const json result = json::parse(generate(folder, {"--ids", "5,6", "--ignore-end", "--json", "-"}).out);
  CHECK(result["ids"].size() == 8);
  const Outcome refused = generate(folder, {"--ids", "5,6", "--max-new-tokens", "9"});
  CHECK(refused.code == 2);
  CHECK(refused.err ==
        "equigrad: generate: a prompt of 2 tokens and 9 new ones are more than the model's 10 positions\n");
}

TEST_CASE("what is wrong with a call is said in one line") {
  const TemporaryFolder folder;
  write_model(folder);
  const auto refused = [&](const std::vector<std::string>& args, const char* words) {
    const Outcome outcome = generate(folder, args);
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(outcome.err.find(words) != std::string::npos, outcome.err);
  };
  refused({}, "give either --prompt or --ids");
  refused({"--prompt", "a", "--ids", "1"}, "give either --prompt or --ids");
  refused({"--ids", "1,,2"}, "--ids: '1,,2' is not a list like 1,2,3");
  refused({"--ids", "300"}, "300 is not one of 257 ids");
  refused({"--ids", "1", "--top-k", "3", "--temperature", "0"}, "no effect at temperature 0");
  refused({"--ids", "1", "--top-p", "0"}, "top_p must be in (0, 1]");
  refused({"--ids", "1", "--stop", ""}, "--stop needs a value");
  CHECK(run_program({"generate", "--model", "nowhere", "--ids", "1"}, folder.path()).err.find("nowhere") !=
        std::string::npos);
}
