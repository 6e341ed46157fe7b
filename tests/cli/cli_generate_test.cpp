// equigrad generate, as a person calls it.

#include "program.h"

#include "core/base/json.h"
#include "data/safetensors.h"
#include "nn/decoder.h"
#include "nn/generate.h"
#include "nn/hub/folder.h"
#include "support/byte_tokenizer.h"

#include <doctest/doctest.h>

#include <cmath>
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
  const json whole = json::parse(generate(folder, {"--prompt", "The", "--json", "-", "--max-new-tokens", "12"}).out);
  const json cut =
      json::parse(generate(folder, {"--prompt", "The", "--json", "-", "--max-new-tokens", "12", "--stop",
                                    "no such text", "--stop", whole["text"].get<std::string>().substr(2, 1)})
                      .out);
  CHECK(cut["ended"] == "stop string");
  CHECK(cut["text"].get<std::string>().size() <= 2);
}

TEST_CASE("with --quiet the new text is all there is, unless --json takes it") {
  const TemporaryFolder folder;
  write_model(folder);
  const std::vector<std::string> args = {"--prompt", "The", "--max-new-tokens", "12", "--quiet"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), args.begin(), args.end());
    return generate(folder, more);
  };
  const json result = json::parse(with({"--json", "-"}).out);
  const Outcome quiet = with({});
  CHECK(quiet.out == result["text"].get<std::string>() + "\n");
  CHECK(quiet.err.empty());
  CHECK(with({"--json", "r.json"}).out.empty());
}

TEST_CASE("nothing is printed before the model accepts the prompt") {
  const TemporaryFolder folder;
  write_model(folder, 10);
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--prompt", "a prompt that is too long"},
                                               {"--prompt", "a", "--top-p", "0"},
                                               {"--prompt", "a", "--max-new-tokens", "10"}}) {
    const Outcome outcome = generate(folder, args);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
  }
  hub::save_model(*hub::make_model({{"model_type", "bert"},
                                    {"vocab_size", 257},
                                    {"hidden_size", 8},
                                    {"num_hidden_layers", 1},
                                    {"num_attention_heads", 2},
                                    {"intermediate_size", 8}},
                                   {1, 0}),
                  folder.path("model"));
  const Outcome none = generate(folder, {"--prompt", "a"});
  CHECK(none.out.empty());
  CHECK(none.err.find("is no language model") != std::string::npos);
}

TEST_CASE("work ends when nobody receives the text") {
  const TemporaryFolder folder;
  write_model(folder, 100'000);
  const Outcome lost = test::run_program_into("/dev/full", {"generate", "--model", folder.path("model"), "--prompt",
                                                            "a", "--max-new-tokens", "99999", "--ignore-end"});
  CHECK(lost.code == 2);
  // and no count of tokens follows: generation stopped there
  CHECK(lost.err == "equigrad: standard output: cannot be written: No space left on device\n");
}

TEST_CASE("a terminal obeys neither prompt nor text") {
  const TemporaryFolder folder;
  write_model(folder);
  const std::vector<std::string> args = {
      "generate",         "--model", folder.path("model"), "--prompt", "a\x1b[2J\xC2\x9B\xC3\xA9\tb\x7f",
      "--max-new-tokens", "0"};
  CHECK(test::run_program_on_terminal(args, 80, test::OnTerminal::out) == "a\\x1b[2J\\xc2\\x9b\xC3\xA9\tb\\x7f\r\n");
  CHECK(run_program(args).out == args[4] + "\n"); // a file gets the text itself
}

TEST_CASE("a folder by one of its files, and a llama2.c checkpoint") {
  const TemporaryFolder folder;
  write_model(folder);
  for (const char* file : {"model/config.json", "model/model.safetensors"})
    CHECK(run_program({"generate", "--model", file, "--prompt", "a", "--max-new-tokens", "1"}, folder.path()).code ==
          0);
  // 560 weights of 0 behind dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
  std::string bytes;
  for (const char* n : {"\x08", "\x08", "\x01", "\x02", "\x02", "\x09", "\x04"}) bytes += n + std::string(3, '\0');
  test::write_text(folder.path("m.bin"), bytes + std::string(4 * 560, '\0'));
  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"generate", "--model", "m.bin"});
    return run_program(args, folder.path());
  };
  CHECK(run({"--ids", "1 2", "--max-new-tokens", "2", "--quiet"}).out == "0,0\n");
  CHECK(run({"--ids", "1, 2", "--max-new-tokens", "2", "--quiet"}).out == "0,0\n");
  CHECK(run({"--prompt", "a"}).err.find("m.bin: a llama2.c checkpoint holds no tokenizer") != std::string::npos);
  CHECK(run({"--prompt", "a", "--tokenizer", "m.bin"})
            .err.find("m.bin: tokenizers of llama2.c (.bin) are not supported") != std::string::npos);
  const Outcome shown = run_program({"inspect", "m.bin"}, folder.path());
  CHECK(shown.out.find("llama2.c checkpoint  model_type llama") == 0);
  CHECK(shown.out.find("(equigrad generate reads it)\n  vocab_size 9\n  hidden_size 8\n") != std::string::npos);
  CHECK(run_program({"inspect", "m.bin", "--stats"}, folder.path()).code == 2);
  data::save_safetensors(folder.path("ids.safetensors"),
                         {{"input_ids", Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3})}});
  const auto infer = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"infer", "--model", "m.bin", "--inputs", "ids.safetensors", "--outputs", "o.safetensors",
                               "--dtype", "f64"});
    return run_program(more, folder.path());
  };
  const Outcome inferred = infer({});
  REQUIRE_MESSAGE(inferred.code == 0, inferred.err);
  const data::TensorFile out = data::load_safetensors(folder.path("o.safetensors"));
  CHECK(out.find("logits")->shape() == Shape{1, 3, 9});
  CHECK(out.find("logits")->dtype() == DType::f64);
  CHECK(infer({"--image-size", "8x8"}).err.find("m.bin: takes no images") != std::string::npos);
}

TEST_CASE("weights in 8 bits and in bf16 continue texts, with what the library says") {
  const TemporaryFolder folder;
  write_model(folder);
  for (const char* weights : {"f32", "bf16", "int8"}) {
    const auto loaded = hub::load_model(folder.path("model"));
    loaded.model->decoder()->narrow_weights(nn::weight_storage_named(weights));
    const std::vector<std::int64_t> prompt = {'T', 'h', 'e'};
    const auto wanted = nn::generate(*loaded.model->decoder(), prompt, {.max_new_tokens = 12, .end_ids = {256}});
    const Outcome outcome =
        generate(folder, {"--prompt", "The", "--max-new-tokens", "12", "--weights", weights, "--json", "-"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const json result = json::parse(outcome.out);
    CHECK(result["ids"] == json(wanted));
    CHECK(result["weights"] == weights);
  }
  const TemporaryFolder traces;
  const std::string trace = traces.path("trace.json");
  const Outcome profiled =
      generate(folder, {"--prompt", "The", "--max-new-tokens", "12", "--weights", "int8", "--profile", trace});
  CHECK_MESSAGE(profiled.out.find("linear_int8") != std::string::npos, profiled.out);
}

TEST_CASE("weights that cannot lie in 8 bits are refused, and named") {
  const TemporaryFolder folder;
  write_model(folder);
  const auto refused = [&](const std::vector<std::string>& args, const char* words) {
    const Outcome outcome = generate(folder, args);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK_MESSAGE(outcome.err.find(words) != std::string::npos, outcome.err);
  };
  refused({"--ids", "1", "--weights", "int8", "--dtype", "f64"}, "--weights int8 makes no sense with --dtype f64");
  refused({"--ids", "1", "--weights", "int4"}, "int4");
  const auto loaded = hub::load_model(folder.path("model"));
  loaded.model->decoder()->blocks[1]->mlp.fc1.weight.mutable_data<float>()[25] = INFINITY;
  hub::save_model(*loaded.model, folder.path("model"));
  refused({"--ids", "1", "--weights", "int8"}, "weight is inf at [1, 1] (at blocks.1.mlp.fc1)");
  refused({"--ids", "1", "--weights", "bf16"}, "weight is inf at [1, 1] (at blocks.1.mlp.fc1)");
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
  for (const char* list : {"1,,2", "1,", "1 x", "-1", "1;2", " "})
    refused({std::string("--ids=") + list}, "is not a list like 1,2,3 or '1 2 3'");
  refused({"--ids", "300"}, "300 is not one of 257 ids");
  refused({"--ids", "1", "--top-k", "3", "--temperature", "0"}, "no effect at temperature 0");
  refused({"--ids", "1", "--top-p", "0"}, "--top-p: '0' is not a number above 0 and at most 1");
  refused({"--ids", "1", "--stop", ""}, "--stop needs a value");
  CHECK(run_program({"generate", "--model", "nowhere", "--ids", "1"}, folder.path()).err.find("nowhere") !=
        std::string::npos);
}
