// What Hugging Face's tokenizers made of texts (tests/golden/tokenizer_fixture.py), and on the vocabularies of BERT and
// GPT-2 where they are there.

#include "core/base/json.h"
#include "data/text/tokenizer.h"
#include "data/unpack.h"

#include "data_fixtures.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg;
using namespace eg::data;
using namespace eg::test;
using nlohmann::json;

namespace {

using Ids = std::vector<std::int64_t>;

json fixture() {
  const Bytes bytes = read_unpacked(join_path(EQUIGRAD_SOURCE_DIR, "tests/golden/tokenizers.json.xz"));
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "tokenizers.json.xz");
}

Tokenizer tokenizer_of(const json& record) {
  return Tokenizer::parse_json(record.at("tokenizer").get_ref<const std::string&>(), record.at("name"));
}

Encoding encoded(const Tokenizer& tokenizer, const json& text, bool special) {
  EncodeOptions options;
  if (special) options.special_in_text = SpecialInText::recognise;
  if (text.is_string()) return tokenizer.encode(text.get_ref<const std::string&>(), options);
  return tokenizer.encode({text[0].get_ref<const std::string&>(), text[1].get_ref<const std::string&>()}, options);
}

std::vector<std::size_t> numbers(const std::vector<TextSpan>& spans) {
  std::vector<std::size_t> all;
  for (const TextSpan& span : spans) all.insert(all.end(), {span.begin, span.end});
  return all;
}

bool agrees(const Tokenizer& tokenizer, const json& one) {
  const Encoding got = encoded(tokenizer, one[0], one[1] == 1);
  return got.ids == one[2].get<Ids>() && numbers(got.offsets) == one[3].get<std::vector<std::size_t>>() &&
         got.tokens == one[4].get<std::vector<std::string>>() && got.type_ids == one[5].get<Ids>();
}

/// What the fixture has for a plane: ids and offsets of " aXb X" for all its code points X.
std::uint32_t plane_sum(const Tokenizer& tokenizer, char32_t plane) {
  std::uint32_t crc = 0;
  EncodeOptions options;
  options.add_special_tokens = false;
  for (char32_t begin = plane << 16U; begin < (plane + 1) << 16U; begin += 256) {
    std::string text;
    for (char32_t c = begin; c < begin + 256; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      text += " a";
      append_utf8(text, c);
      text += "b ";
      append_utf8(text, c);
    }
    const Encoding got = tokenizer.encode(text, options);
    Bytes packed;
    const auto put = [&](std::uint64_t number) {
      for (unsigned i = 0; i < 32; i += 8) packed.push_back(static_cast<std::uint8_t>(number >> i));
    };
    for (const std::int64_t id : got.ids) put(static_cast<std::uint64_t>(id));
    for (const std::size_t place : numbers(got.offsets)) put(place);
    crc = crc32(packed, crc);
  }
  return crc;
}

/// Offsets in bytes and in characters that say the same.
void check_spans(const std::string& text, const Encoding& got) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const TextSpan& bytes = got.byte_offsets[i];
    REQUIRE(bytes.begin <= bytes.end);
    REQUIRE(bytes.end <= text.size());
    const auto characters = [&](std::size_t end) {
      return std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end),
                           [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; });
    };
    CHECK(static_cast<std::size_t>(characters(bytes.begin)) == got.offsets[i].begin);
    CHECK(static_cast<std::size_t>(characters(bytes.end)) == got.offsets[i].end);
  }
}

} // namespace

TEST_CASE("tokenizer golden: ids, offsets, tokens and type ids of every kind of tokenizer") {
  const json records = fixture();
  REQUIRE(records.size() == 15);
  for (const json& record : records) {
    const std::string name = record.at("name");
    CAPTURE(name);
    const Tokenizer tokenizer = tokenizer_of(record);
    for (const json& one : record.at("cases")) {
      const std::string text = one[0].dump();
      CHECK_MESSAGE(agrees(tokenizer, one), text);
      if (one[0].is_string()) check_spans(one[0], encoded(tokenizer, one[0], one[1] == 1));
    }
  }
}

TEST_CASE("tokenizer golden: decoded text") {
  for (const json& record : fixture()) {
    const Tokenizer tokenizer = tokenizer_of(record);
    for (const json& one : record.at("decoded")) {
      const Ids ids = one[0].get<Ids>();
      CHECK(tokenizer.decode(ids) == one[1].get<std::string>());
      CHECK(tokenizer.decode(ids, {.skip_special_tokens = false, .clean_up_spaces = {}}) == one[2].get<std::string>());
    }
  }
}

TEST_CASE("tokenizer golden: every code point, alone and between letters") {
  const json records = fixture();
  for (std::size_t i = 0; i < 2; ++i) {
    const Tokenizer tokenizer = tokenizer_of(records[i]);
    const json& sums = records[i].at("planes");
    REQUIRE(sums.size() == 17);
    for (std::uint32_t plane = 0; plane < 17; ++plane) {
      CAPTURE(plane);
      CHECK(plane_sum(tokenizer, plane) == sums[plane].get<std::uint32_t>());
    }
  }
}

TEST_CASE("tokenizer golden: another tokenizer than the one that was asked is noticed") {
  const json records = fixture();
  for (std::size_t i = 0; i < records.size(); ++i) {
    // The cases of each are given to the next of its kind, which differs in one setting.
    const std::string name = records[i].at("name");
    const auto kind = [](const json& record) { return record.at("name").get<std::string>().substr(0, 4); };
    for (std::size_t j = i + 1; j < records.size(); ++j) {
      if (kind(records[i]) != kind(records[j])) continue;
      // GPT-2's pattern as a Split is the same tokenizer by another way, but for the offsets that it trims.
      if (name == "gpt2, tokenizer.json" && records[j].at("name") == "gpt2, Split") continue;
      if (name == "bert, added tokens" && records[j].at("name") == "bert, BertProcessing")
        continue; // the same template
      const Tokenizer other = tokenizer_of(records[j]);
      const json& cases = records[i].at("cases");
      const auto wrong =
          std::count_if(cases.begin(), cases.end(), [&](const json& one) { return !agrees(other, one); });
      CAPTURE(name);
      CHECK(wrong > 0);
      break;
    }
  }
  CHECK(plane_sum(tokenizer_of(records[2]), 0) != records[0].at("planes")[0].get<std::uint32_t>()); // cased
}

TEST_CASE("tokenizer golden: expected ids beside BERT's and GPT-2's vocabularies") {
  const auto folder =
      data_or_skip("tokenizer golden: expected ids beside BERT's and GPT-2's vocabularies", "tokenizers");
  if (folder.empty()) return;
  EncodeOptions options;
  options.add_special_tokens = false;
  for (const char* name : {"bert-base-uncased", "gpt2"}) {
    CAPTURE(name);
    const Tokenizer tokenizer = Tokenizer::open((folder / name).string());
    const Bytes bytes = read_file((folder / name / "fixture.inp").string());
    std::string texts(bytes.begin(), bytes.end());
    const std::string mark = "\n__ggml_vocab_test__\n";
    std::size_t compared = 0;
    for (const std::string& line : lines_of((folder / name / "fixture.out").string())) {
      if (compared == 47) break; // the empty line behind the last
      const std::size_t end = texts.find(mark);
      Ids expected;
      for (const std::string& id : split(line, ' '))
        if (!id.empty()) expected.push_back(std::stoll(id));
      CHECK(tokenizer.encode(texts.substr(0, end), options).ids == expected);
      ++compared;
      texts = end == std::string::npos ? "" : texts.substr(end + mark.size());
    }
    CHECK(compared == 47);
  }
  const Tokenizer gpt2 = Tokenizer::open((folder / "gpt2").string());
  std::size_t prompts = 0;
  for (const std::string& line : lines_of((folder / "gpt2/ggml_prompts_gpt-2.txt").string())) {
    const std::size_t arrow = line.rfind(" => ");
    if (arrow == std::string::npos) continue;
    Ids expected;
    for (const std::string& id : split(line.substr(arrow + 4), ',')) expected.push_back(std::stoll(id));
    const Ids ids = gpt2.encode(line.substr(0, arrow), options).ids;
    CHECK(gpt2.decode(ids) == line.substr(0, arrow));
    prompts += ids == expected ? 1U : 0U;
  }
  CHECK(prompts == 100);
}
