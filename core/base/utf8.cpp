#include "core/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace eg {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD"; // U+FFFD

/// The front of a character: bytes that fit, and bytes that the whole would have. Neither is known of a wrong lead.
struct Front {
  std::size_t fits = 0;
  std::size_t whole = 0;
};

Front front_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, 1};
  const std::size_t whole = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (whole == 0) return {0, 0};
  // The second byte's range shuts out overlong forms, surrogates and code points beyond U+10FFFF.
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::size_t fits = 1;
  while (fits < whole && fits < text.size() && byte(fits) >= (fits == 1 ? least : 0x80) &&
         byte(fits) <= (fits == 1 ? most : 0xBF))
    ++fits;
  return {fits, whole};
}

/// Bytes below 0x80 at the front, counted eight at a time.
std::size_t ascii_front(std::string_view text) {
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

} // namespace

std::size_t utf8_size(std::string_view text) {
  if (text.empty()) return 0;
  const Front front = front_of(text);
  return front.fits == front.whole ? front.whole : 0;
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0;;) {
    at += ascii_front(text.substr(at));
    if (at == text.size()) return std::string_view::npos;
    const std::size_t size = utf8_size(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
}

char32_t next_utf8(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  char32_t c = 0;
  if (lead < 0xE0) {
    c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    at += 2;
  } else if (lead < 0xF0) {
    c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    at += 3;
  } else {
    c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    at += 4;
  }
  return c;
}

std::size_t previous_utf8(std::string_view text, std::size_t at) {
  --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80) --at;
  return at;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const std::size_t ascii = ascii_front(rest);
    out += rest.substr(0, ascii);
    rest.remove_prefix(ascii);
    if (rest.empty()) break;
    const Front front = front_of(rest);
    if (front.fits < front.whole && front.fits == rest.size()) break; // the rest may still come
    const bool good = front.whole > 0 && front.fits == front.whole;
    const std::size_t taken = front.fits > 0 ? front.fits : 1;
    out += good ? rest.substr(0, taken) : replacement;
    rest.remove_prefix(taken);
  }
  held_ = std::string(rest);
  return out;
}

std::string Utf8Stream::finish() {
  const bool cut = !held_.empty();
  held_.clear();
  return cut ? std::string(replacement) : std::string();
}

} // namespace eg
