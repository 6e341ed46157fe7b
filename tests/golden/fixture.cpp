#include "golden/fixture.h"
#include "data/unpack.h"

#include "core/base/error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <string_view>

namespace eg::golden {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::string_view magic = "EGGOLD1\n";
constexpr std::size_t header = magic.size() + 8;
/// Most numbers of one tensor (a stream of the generator has so many) and of one file.
constexpr std::int64_t tensor_limit = std::int64_t{1} << 20U;
constexpr std::size_t file_limit = std::size_t{1} << 22U;

Words split(std::string_view text, char separator) {
  Words words;
  for (;;) {
    const std::size_t end = text.find(separator);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

/// The bytes one after the other; asking for more than there are is an error.
class Reader {
public:
  Reader(ByteView bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  template <std::size_t N> std::uint64_t word() {
    if (bytes_.size() - at_ < N) fail("the numbers end too early");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < N; ++i) value |= static_cast<std::uint64_t>(bytes_[at_++]) << (8 * i);
    return value;
  }
  /// For `count` numbers of at least `least_bytes` each, before room is made for them.
  std::vector<double> room(std::int64_t count, std::size_t least_bytes) {
    const auto n = static_cast<std::size_t>(count);
    if (n > file_limit - numbers_) fail("more numbers than a golden file may hold");
    if (n * least_bytes > bytes_.size() - at_) fail("the numbers end too early");
    numbers_ += n;
    std::vector<double> values;
    values.reserve(n);
    return values;
  }
  bool at_end() const { return at_ == bytes_.size(); }
  [[noreturn]] void fail(const std::string& what) const { throw FileError(fmt::format("{}: {}", source_, what)); }

private:
  ByteView bytes_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::size_t numbers_ = 0;
};

/// Codes n of the values n 2^exponent.
template <class Code> std::vector<double> read_codes(Reader& in, std::int64_t count) {
  const int exponent = static_cast<std::int16_t>(in.word<2>());
  std::vector<double> values = in.room(count, sizeof(Code));
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(std::ldexp(static_cast<double>(static_cast<Code>(in.word<sizeof(Code)>())), exponent));
  return values;
}

/// Zigzag numbers of seven bits a byte, lowest first.
double read_integer(Reader& in) {
  std::uint64_t code = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint64_t byte = in.word<1>();
    code |= (byte & 127U) << shift;
    if (byte < 128) break;
    if (shift == 63) in.fail("an integer of more than 64 bits");
  }
  const auto half = static_cast<std::int64_t>(code >> 1U);
  return static_cast<double>((code & 1U) != 0 ? -half - 1 : half);
}

std::vector<double> read_numbers(Reader& in, std::int64_t count) {
  std::vector<double> values;
  switch (in.word<1>()) {
  case 0:
    values = in.room(count, 0);
    values.resize(static_cast<std::size_t>(count), 0.0);
    return values;
  case 1:
    return read_codes<std::int32_t>(in, count);
  case 2:
    values = in.room(count, 8);
    for (std::int64_t i = 0; i < count; ++i) values.push_back(std::bit_cast<double>(in.word<8>()));
    return values;
  case 3:
    values = in.room(count, 1);
    for (std::int64_t i = 0; i < count; ++i) values.push_back(read_integer(in));
    return values;
  case 4:
    return read_codes<std::int16_t>(in, count);
  default:
    in.fail("an unknown kind of numbers");
  }
}

/// The lines of text.
class Parser {
public:
  explicit Parser(const std::string& source) : source_(source) {}

  [[noreturn]] void fail(std::string_view what, std::string_view where) const {
    throw FileError(fmt::format("{}: line {}: {}: '{}'", source_, line_, what, where));
  }
  void next_line() { ++line_; }

  template <class T> T number(std::string_view text) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail("not a number", text);
    return value;
  }

  Shape shape(std::string_view text) const {
    Shape shape;
    if (text.empty()) return shape;
    std::int64_t most = 1; // the product without extents of 0
    for (const std::string_view word : split(text, 'x')) {
      const auto extent = number<std::int64_t>(word);
      if (extent < 0 || extent > tensor_limit || shape.rank() == max_rank) fail("not the shape of a tensor", text);
      most *= std::max<std::int64_t>(extent, 1);
      if (most > tensor_limit) fail("more elements than a golden tensor may have", text);
      shape.push_back(extent);
    }
    return shape;
  }

  AttrValue attribute(char kind, std::string_view text) const {
    switch (kind) {
    case 'b':
      return text == "1";
    case 'i':
      return number<std::int64_t>(text);
    case 'r':
      return number<double>(text);
    case 't':
      return std::string(text);
    case 'l': {
      std::vector<std::int64_t> list;
      if (!text.empty())
        for (const std::string_view item : split(text, ',')) list.push_back(number<std::int64_t>(item));
      return list;
    }
    case 'v': {
      std::vector<double> list;
      for (const std::string_view item : split(text, ',')) list.push_back(number<double>(item));
      return list;
    }
    default:
      fail("an unknown kind of attribute", text);
    }
  }

  /// "axis:i=-1"
  void attribute(std::string_view word, Attrs& attrs) const {
    const std::size_t colon = word.find(':');
    if (colon == std::string_view::npos || word.size() < colon + 3 || word[colon + 2] != '=')
      fail("not an attribute", word);
    attrs.set(word.substr(0, colon), attribute(word[colon + 1], word.substr(colon + 3)));
  }

  /// "f:3x5:t:n", or "-"
  InputSpec input(std::string_view word) const {
    if (word == "-") return {};
    const Words parts = split(word, ':');
    if (parts.size() != 4 || parts[0].size() != 1 || parts[2].size() != 1 || parts[3].empty())
      fail("not an input", word);
    return {true, parts[0][0], shape(parts[1]), parts[2][0], std::string(parts[3])};
  }

  /// "f:3x5"
  OutputSpec output(std::string_view word) const {
    const Words parts = split(word, ':');
    if (parts.size() != 2 || parts[0].size() != 1) fail("not an output", word);
    return {parts[0][0], shape(parts[1])};
  }

  /// "case DEPTH SALT attributes... | inputs... | outputs..."
  Case parse_case(std::string_view line) const {
    const Words words = split(line, ' ');
    if (words.size() < 3 || words[0] != "case") fail("not a case", line);
    Case c;
    constexpr std::string_view depths = "vx12";
    const std::size_t depth = depths.find(words[1]);
    if (words[1].size() != 1 || depth == std::string_view::npos) fail("an unknown depth", words[1]);
    c.depth = static_cast<Depth>(depth);
    c.salt = number<std::uint64_t>(words[2]);
    int part = 0;
    for (std::size_t i = 3; i < words.size(); ++i) {
      if (words[i] == "|")
        ++part;
      else if (part == 0)
        attribute(words[i], c.attrs);
      else if (part == 1)
        c.inputs.push_back(input(words[i]));
      else
        c.outputs.push_back(output(words[i]));
    }
    if (part != 2) fail("not a case", line);
    return c;
  }

private:
  const std::string& source_;
  int line_ = 0;
};

void read_results(Reader& in, Case& c) {
  for (const OutputSpec& y : c.outputs) c.values.push_back(read_numbers(in, y.shape.numel()));
  const auto by_input = [&](std::vector<std::vector<double>>& list) {
    for (const InputSpec& x : c.inputs)
      if (x.given && x.type == 'f') list.push_back(read_numbers(in, x.shape.numel()));
  };
  if (c.depth == Depth::first || c.depth == Depth::second) by_input(c.gradients);
  if (c.depth != Depth::second) return;
  by_input(c.second);
  for (const OutputSpec& y : c.outputs)
    if (is_floating(y)) c.by_cotangent.push_back(read_numbers(in, y.shape.numel()));
}

std::string in_words(const AttrValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *i);
  if (const double* r = std::get_if<double>(&value)) return fmt::format("{}", *r);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  std::string list;
  if (const auto* all = std::get_if<std::vector<double>>(&value)) {
    for (const double r : *all) list += fmt::format(" {}", r);
    return "[" + list + " ]";
  }
  for (const std::int64_t i : std::get<std::vector<std::int64_t>>(value)) list += fmt::format(" {}", i);
  return "[" + list + " ]";
}

} // namespace

bool is_floating(const OutputSpec& y) { return y.type == 'f' || y.type == 's' || y.type == 'd'; }

std::string Case::name() const {
  std::string text = fmt::format("{}, case {} (", op, number);
  for (const auto& [key, value] : attrs.items()) text += fmt::format("{}={}; ", key, in_words(value));
  for (const InputSpec& x : inputs)
    text += x.given ? fmt::format("{}{} {}, ", x.type, x.shape.str(), x.layout) : std::string("none, ");
  if (text.ends_with(", ")) text.resize(text.size() - 2);
  return text + ")";
}

std::vector<Case> parse(ByteView bytes, const std::string& source) {
  Reader head(bytes, source);
  if (bytes.size() < header) head.fail("too short for a golden file");
  if (!std::equal(magic.begin(), magic.end(), bytes.begin())) head.fail("not a golden file of format 1");
  head.word<magic.size()>();
  const auto crc = static_cast<std::uint32_t>(head.word<4>());
  const std::uint64_t length = head.word<4>();
  const ByteView body = bytes.subspan(header);
  if (crc32(bytes.subspan(header - 4)) != crc)
    head.fail("the checksum does not match: the file is damaged; write it again by make.py");
  if (length > body.size()) head.fail("the text is longer than the file");

  std::string text(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(length));
  Reader numbers(body.subspan(length), source);
  Parser parser(source);
  std::vector<Case> cases;
  std::string op;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    parser.next_line();
    if (line.empty() || line.front() == '#') continue;
    if (line.starts_with("op ")) {
      op = line.substr(3);
      number = 0;
      continue;
    }
    Case c = parser.parse_case(line);
    if (op.empty()) parser.fail("a case before any operation", line);
    c.op = op;
    c.number = number++;
    read_results(numbers, c);
    cases.push_back(std::move(c));
  }
  if (!numbers.at_end()) numbers.fail("more numbers than the cases need");
  return cases;
}

std::vector<Case> read(const std::string& path) {
  constexpr std::uint64_t limit = 64U << 20U;
  return parse(data::read_unpacked(path, limit), path);
}

} // namespace eg::golden
