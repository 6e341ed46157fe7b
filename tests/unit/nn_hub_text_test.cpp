#include "nn/hub/generation/text.h"

#include "autograd/tape.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/ops.h"
#include "nn/decoder.h"
#include "nn/hub/folder.h"
#include "optim/optimizer.h"
#include "support/byte_tokenizer.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg;
using test::TemporaryFolder;

namespace {

std::string filtered(const std::vector<std::string>& stops, const std::vector<std::string>& pieces, bool& stopped) {
  hub::StopFilter filter(stops);
  std::string shown;
  for (const std::string& piece : pieces) shown += filter.push(piece);
  stopped = filter.stopped();
  return shown + filter.finish();
}

/// A byte-level Llama that knows one text by heart.
struct Parrot {
  std::unique_ptr<hub::Model> model;
  data::Tokenizer tokenizer;
  std::string text =
      "na\xc3\xafve \xe2\x86\x92 caf\xc3\xa9: \xf0\x9f\x8c\x8d!"; // naive with diaeresis, an arrow, cafe, a globe

  explicit Parrot(const TemporaryFolder& folder) : tokenizer(opened(folder)) {
    model = hub::make_model({{"model_type", "llama"},
                             {"vocab_size", 257},
                             {"hidden_size", 32},
                             {"intermediate_size", 32},
                             {"num_hidden_layers", 1},
                             {"num_attention_heads", 4},
                             {"num_key_value_heads", 2},
                             {"max_position_embeddings", 64}},
                            {1, 0});
    std::vector<std::int64_t> ids = tokenizer.encode(text).ids;
    ids.push_back(256);
    const Tensor all = Tensor::from<std::int64_t>(ids, {1, static_cast<std::int64_t>(ids.size())});
    const std::vector<Tensor> parameters = model->module().parameters();
    const auto adam = optim::make_optimizer("adam", parameters);
    for (int step = 0; step < 120; ++step) {
      Tape tape;
      const Tensor logits = model->forward({{"input_ids", slice(all, 1, 0, all.size(1) - 1)}})[0].second;
      adam->step(tape.gradient(cross_entropy(logits, slice(all, 1, 1, all.size(1))), parameters), 1e-2);
    }
    model->module().eval();
  }

  hub::GeneratedText say(const std::string& prompt, const std::vector<std::string>& stops,
                         std::vector<std::string>* pieces = nullptr) const {
    return hub::generate_text(*model, &tokenizer, tokenizer.encode(prompt).ids,
                              {.max_new_tokens = 40, .end_ids = {256}}, stops, [&](std::string_view piece) {
                                if (pieces != nullptr && !piece.empty()) pieces->emplace_back(piece);
                              });
  }

private:
  static data::Tokenizer opened(const TemporaryFolder& folder) {
    test::write_byte_tokenizer(folder.path());
    return data::Tokenizer::open(folder.path());
  }
};

} // namespace

TEST_CASE("text is cut before the first stop string, however it is cut into pieces") {
  bool stopped = false;
  CHECK(filtered({"STOP"}, {"go ST", "OP on"}, stopped) == "go ");
  CHECK(stopped);
  CHECK(filtered({"STOP"}, {"go ST", "AY"}, stopped) == "go STAY");
  CHECK(!stopped);
  CHECK(filtered({"aab"}, {"a", "a", "a", "b", "c"}, stopped) == "a");
  CHECK(stopped);
  CHECK(filtered({"xyz", "y"}, {"wx", "y", "z"}, stopped) == "wx"); // the earlier end, not the longer string
  CHECK(filtered({}, {"all", " of it"}, stopped) == "all of it");
  CHECK(filtered({"never"}, {"nev"}, stopped) == "nev"); // held back until the end
  CHECK_THROWS_WITH_AS(hub::StopFilter({""}), "a stop string must not be empty", ValueError);
}

TEST_CASE("a text is streamed in whole characters and ends at its token, at a stop string, or at its length") {
  const TemporaryFolder folder;
  const Parrot parrot(folder);
  std::vector<std::string> pieces;
  const hub::GeneratedText all = parrot.say("na", {}, &pieces);
  CHECK(all.text == parrot.text.substr(2));
  CHECK(all.ended == "end token");
  CHECK(all.ids.back() == 256);
  std::string joined;
  for (const std::string& piece : pieces) {
    CHECK((static_cast<unsigned char>(piece.front()) & 0xc0U) != 0x80); // no piece begins within a character
    joined += piece;
  }
  CHECK(joined == all.text);
  CHECK(pieces.size() > 10);

  const hub::GeneratedText cut = parrot.say("na", {"caf\xc3\xa9"});
  CHECK(cut.text == "\xc3\xafve \xe2\x86\x92 ");
  CHECK(cut.ended == "stop string");

  const hub::GeneratedText some = hub::generate_text(*parrot.model, nullptr, parrot.tokenizer.encode("na").ids,
                                                     {.max_new_tokens = 3}, {}, [](std::string_view) {});
  CHECK(some.ended == "length");
  CHECK(some.ids == std::vector<std::int64_t>(all.ids.begin(), all.ids.begin() + 3));
  CHECK(some.text.empty());
  CHECK_THROWS_AS(hub::generate_text(*parrot.model, nullptr, {{1}}, {}, {"x"}, [](std::string_view) {}), ValueError);
}
