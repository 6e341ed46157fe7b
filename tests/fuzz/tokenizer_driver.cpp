// The targets for tokenizers without libFuzzer, for any compiler and any sanitizer:
//   tokenizer_calls SECONDS [SEED]      rounds until the time is over
//   tokenizer_calls SEED round ROUND    one round again
// A finding, a crash or a round of more than 20 seconds of own processor time ends the program with the round's number.

#include "core/base/utf8.h"
#include "core/random.h"
#include "fuzz/tokenizer_samples.h"
#include "fuzz/tokenizer_targets.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <sys/time.h>

namespace {

using Clock = std::chrono::steady_clock;
using eg::RandomStream;

/// Text that readers of tokenizer.json look at.
constexpr std::array<std::string_view, 24> words{"null",
                                                 "true",
                                                 "false",
                                                 "-1",
                                                 "0",
                                                 "4294967295",
                                                 "18446744073709551615",
                                                 "1e308",
                                                 "\"\"",
                                                 "[]",
                                                 "{}",
                                                 "\"NFC\"",
                                                 "\"BPE\"",
                                                 "\"WordPiece\"",
                                                 "\"ByteLevel\"",
                                                 "\"Sequence\"",
                                                 "\"A\"",
                                                 "\"##\"",
                                                 "\"h e\"",
                                                 "\"\\u0000\"",
                                                 "\"\\ud83d\\ude00\"",
                                                 "\"normalized\":true",
                                                 "\"lstrip\":true",
                                                 "\"Left\""};

constexpr std::array<std::string_view, 20> pieces{
    "[SEP]",   "<|end|>", "<|en",         "'s",     "'LL",    "  ",     "\r\n",   "hello",      " world", "123",
    "e\u0301", "\u0130",  "\u1100\u1161", "\u0344", "\u4e2d", "\ufffd", "\u200d", "\U0001f600", "##ing",  "\xC3"};

std::string drawn_text(RandomStream& random) {
  std::string text;
  for (std::uint64_t n = random.below(40); n > 0; --n) {
    switch (random.below(5)) {
    case 0:
      text += pieces[random.below(pieces.size())];
      break;
    case 1:
      text += static_cast<char>(random.below(256));
      break;
    case 2:
      text.append(random.below(300), static_cast<char>('a' + random.below(3)));
      break;
    default: {
      const auto c = static_cast<char32_t>(random.below(random.below(2) == 0 ? 0x3000 : 0x110000));
      eg::append_utf8(text, c >= 0xD800 && c <= 0xDFFF ? U' ' : c);
    }
    }
  }
  return text;
}

/// A sample of a tokenizer.json with some values exchanged, and bytes changed.
std::string damaged_json(RandomStream& random) {
  std::string json = random.below(2) == 0 ? eg::test::word_piece_json() : eg::test::byte_pair_json();
  for (std::uint64_t n = 1 + random.below(3); n > 0 && !json.empty(); --n) {
    const std::size_t at = random.below(json.size());
    const std::size_t value = json.find(':', at);
    const std::size_t end = json.find_first_of(",}]", value == std::string::npos ? at : value);
    if (random.below(4) == 0 || value == std::string::npos || end == std::string::npos) {
      json.erase(at, random.below(30));
      continue;
    }
    json.replace(value + 1, end - value - 1, words[random.below(words.size())]);
  }
  return json;
}

void one_round(std::uint64_t seed, std::uint64_t round, bool loud) {
  RandomStream random({.seed = seed, .stream = round});
  const bool file = random.below(4) == 0;
  std::string bytes = file ? damaged_json(random) : static_cast<char>(random.below(256)) + drawn_text(random);
  if (loud) fmt::print("{}\n", bytes);
  const eg::ByteView view(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (file)
    eg::fuzz::tokenizer(view);
  else
    eg::fuzz::tokenizer_text(view);
}

/// Processor time outside the kernel, so that a busy machine is no finding.
void limit_round(int seconds) {
  const itimerval limit{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

} // namespace

int main(int count, char** arguments) {
  if (count == 4 && std::string_view(arguments[2]) == "round") {
    one_round(std::strtoull(arguments[1], nullptr, 10), std::strtoull(arguments[3], nullptr, 10), true);
    return 0;
  }
  const double seconds = count > 1 ? std::strtod(arguments[1], nullptr) : 5.0;
  const std::uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  const Clock::time_point begin = Clock::now();
  std::uint64_t round = 0;
  for (; std::chrono::duration<double>(Clock::now() - begin).count() < seconds; ++round) {
    limit_round(20);
    try {
      one_round(seed, round, false);
    } catch (const std::exception& error) {
      fmt::print("round {}: {}\n", round, error.what());
      return 1;
    }
  }
  fmt::print("{} rounds in {:.0f} s, no findings\n", round,
             std::chrono::duration<double>(Clock::now() - begin).count());
  return 0;
}
