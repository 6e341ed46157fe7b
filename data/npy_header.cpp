#include "data/npy.h"

#include "core/base/error.h"
#include "data/npy_checks.h"

#include <array>
#include <fmt/format.h>
#include <limits>

namespace eg::data {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t max_header = 64 << 10;
constexpr std::size_t most_axes = 64; // NumPy's own limit

[[noreturn]] void fail(const std::string& source, const std::string& reason) {
  throw FileError(fmt::format("{}: {}", source, reason));
}

/// Python's dictionary display, as far as headers use it: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}.
class NpyHeaderParser {
public:
  NpyHeaderParser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      pair();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) malformed("something follows the dictionary");
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (!seen_[i]) fail(source_, fmt::format("the header has no '{}'", keys[i]));
    return std::move(header_);
  }

private:
  static constexpr std::array<std::string_view, 3> keys{"descr", "fortran_order", "shape"};

  [[noreturn]] void malformed(std::string_view what) const {
    fail(source_, fmt::format("malformed header at byte {}: {}", at_, what));
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) malformed(fmt::format("no '{}'", wanted));
  }
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  /// A string of ordinary characters in single or double quotes.
  std::string_view quoted() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') malformed("no string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) malformed("a string does not end");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.find_first_of("\\\n") != std::string_view::npos) malformed("a string with escapes");
    at_ = end + 1;
    return inside;
  }

  void pair() {
    const std::string_view key = quoted();
    std::size_t which = 0;
    while (which < keys.size() && keys[which] != key) ++which;
    if (which == keys.size()) fail(source_, fmt::format("the header has a key '{}', which npy files do not have", key));
    if (seen_[which]) fail(source_, fmt::format("the header gives '{}' twice", key));
    seen_[which] = true;
    expect(':');
    if (which == 0)
      dtype();
    else if (which == 1)
      order();
    else
      shape();
  }

  void dtype() {
    if (accept('[')) fail(source_, "arrays of records (structured dtypes) are not read");
    const std::string_view word = quoted();
    std::string_view rest = word;
    char order = '=';
    if (!rest.empty() && std::string_view("<>=|").find(rest.front()) != std::string_view::npos) {
      order = rest.front();
      rest.remove_prefix(1);
    }
    struct Row {
      std::string_view word;
      ElementType type;
    };
    static constexpr std::array rows{
        Row{"b1", ElementType::boolean}, Row{"?", ElementType::boolean}, Row{"u1", ElementType::u8},
        Row{"i1", ElementType::i8},      Row{"u2", ElementType::u16},    Row{"i2", ElementType::i16},
        Row{"u4", ElementType::u32},     Row{"i4", ElementType::i32},    Row{"u8", ElementType::u64},
        Row{"i8", ElementType::i64},     Row{"f2", ElementType::f16},    Row{"f4", ElementType::f32},
        Row{"f8", ElementType::f64}};
    for (const Row& row : rows)
      if (row.word == rest) {
        header_.type = row.type;
        header_.big_endian = order == '>' && bits_of(row.type) > 8;
        return;
      }
    if (rest.starts_with('O')) fail(source_, "dtype '|O' holds pickled objects, which can run any program: not read");
    fail(source_,
         fmt::format("dtype '{}' is not read; bool, whole numbers and floats of 16, 32 and 64 bits are", word));
  }

  void order() {
    if (accept_word("True"))
      header_.fortran_order = true;
    else if (!accept_word("False"))
      malformed("'fortran_order' is neither True nor False");
  }

  void shape() {
    if (!accept('(')) malformed("'shape' is not a tuple");
    while (!accept(')')) {
      header_.dims.push_back(extent());
      if (header_.dims.size() > most_axes) fail(source_, fmt::format("more than {} axes", most_axes));
      if (accept(',')) continue;
      // One number in brackets is a number, not a tuple.
      if (header_.dims.size() == 1) malformed("'shape' is not a tuple");
      expect(')');
      return;
    }
  }

  std::int64_t extent() {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '-') fail(source_, "the shape has a negative extent");
    const std::size_t first = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
        fail(source_, "its size overflows 64 bits");
    if (at_ == first) malformed("no number in 'shape'");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_; // Python 2 wrote 3L
    return value;
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  NpyHeader header_;
  std::array<bool, 3> seen_{};
};

/// Bytes before the dictionary, and its length.
struct Front {
  std::uint64_t begin;
  std::uint64_t length;
};

Front read_front(ByteView bytes, const std::string& source) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(magic)) fail(source, "not an npy file");
  if (bytes.size() < 10) fail(source, "truncated in the npy header");
  if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
    fail(source, fmt::format("npy version {}.{} is not known; 1.0, 2.0 and 3.0 are", bytes[6], bytes[7]));
  const std::size_t digits = bytes[6] == 1 ? 2 : 4;
  if (bytes.size() < 8 + digits) fail(source, "truncated in the npy header");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < digits; ++i) length |= std::uint64_t{bytes[8 + i]} << (8 * i);
  if (length > max_header)
    fail(source, fmt::format("npy header of {} bytes, at most {} are allowed", length, max_header));
  return {8 + digits, length};
}

} // namespace

std::uint64_t npy_header_bytes(ByteView front, const std::string& source) {
  const auto [begin, length] = read_front(front, source);
  return begin + length;
}

NpyHeader parse_npy_header(ByteView header, const std::string& source) {
  const auto [begin, length] = read_front(header, source);
  if (header.size() < begin + length) fail(source, "truncated in the npy header");
  const ByteView text = header.subspan(begin, length);
  NpyHeader parsed = NpyHeaderParser({reinterpret_cast<const char*>(text.data()), text.size()}, source).parse();
  const std::string whole;
  const TensorPlace place{source, whole};
  std::uint64_t bytes = bits_of(parsed.type) / 8;
  for (const std::int64_t extent : parsed.dims)
    bytes = checked_product(bytes, static_cast<std::uint64_t>(extent), place);
  parsed.data_begin = begin + length;
  parsed.data_bytes = bytes;
  return parsed;
}

} // namespace eg::data
