// gzip files: deflate blocks of every kind, members one behind the other, headers with all their parts, damage.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/inflate.h"
#include "data/unpack.h"
#include "data_fixtures.h"
#include "data_jpegs.h"
#include "data_samples.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <string_view>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// What zlib makes of skewed() with codes of up to 14 bits, of verse() with copies, and of question() with fixed codes.
constexpr std::string_view long_codes =
    "05c1418203310cc3b0b76edb99c496c8ff1f17f8fb7cbfbfdfef799ee779dff77ddff73de79c73ce39e79c73efbdf7de7befbdf7de7b"
    "efbd77666666666666666666666666666666666677777777777777777777777777777777777777777777777777777793244992244992"
    "2449922449922449922449922449922449922449922449922449d2b66ddbb66ddbb66ddbb66ddbb66ddbb66ddbb66ddbb66ddbb66ddb"
    "b66ddbb66ddbb66ddbb66ddbb66ddbb66ddbb66ddbb66ddbb66d0b000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000080aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaff";
constexpr std::string_view copies =
    "e58ddb0d80300c0357f16a41a4250212290f757dd239f8b3ec3b795d9c173b52026ac7d351145de1153d9186a83136d0553ca233403d"
    "90bbad800d58a5d364abc030cf5286f916936e6eee6d6192682408c1b49d74abfe0aac5fdf7f";
constexpr std::string_view fixed_codes =
    "2bc957484ad551c82f52c8cb2f512881f04a32124b14328b8174aa4261696a7149667e9e954279462a50a04821132207520a55091600"
    "ea473507a80122599e08550e00";

/// 'a' once, 'b' once, 'c' twice, 'd' three times, ...: the counts of Fibonacci.
Bytes skewed() {
  Bytes out;
  std::size_t now = 1, next = 1;
  for (std::uint8_t letter = 'a'; letter < 'a' + 14; ++letter) {
    out.insert(out.end(), now, letter);
    next += now;
    now = next - now;
  }
  return out;
}

Bytes verse() {
  const Bytes line =
      text("whether tis nobler in the mind to suffer the slings and arrows of outrageous fortune or to take "
           "arms against a sea of troubles ");
  Bytes out;
  for (int i = 0; i < 3; ++i) out.insert(out.end(), line.begin(), line.end());
  return out;
}

Bytes question() {
  return text("to be, or not to be, that is the question: whether it is to be that it is not, or not to be what it was "
              "to be");
}

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string refusal(const Bytes& bytes, std::uint64_t limit = default_byte_limit) {
  return message_of<FileError>([&] { unpack(bytes, "a.gz", limit); });
}

/// 32768 stored bytes, then one copy of 258 bytes from as far back as is possible.
Bytes farthest_copy(const Bytes& front) {
  Bytes out = stored(front);
  out[0] = 0; // not the last block
  // A last block of fixed codes: length 258 (code 11000101), distance 24577 (code 11101) + 8191, end (code 0000000).
  const std::string_view bits = "1"
                                "10"
                                "11000101"
                                "11101"
                                "1111111111111"
                                "0000000";
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (i % 8 == 0) out.push_back(0);
    if (bits[i] == '1') out.back() |= static_cast<std::uint8_t>(1U << (i % 8));
  }
  return out;
}

/// The same, unpacked by reads of `step` bytes from pieces of `piece` bytes.
Bytes in_steps(const Bytes& packed, std::size_t step, std::size_t piece) {
  std::size_t at = 0;
  Inflater in(
      [&] {
        const ByteView next = ByteView(packed).subspan(at, std::min(piece, packed.size() - at));
        at += next.size();
        return next;
      },
      "it");
  Bytes out;
  for (std::size_t got = step; got == step;) {
    out.resize(out.size() + step);
    got = in.read(out.data() + out.size() - step, step);
    out.resize(out.size() - step + got);
  }
  CHECK(in.taken() == packed.size());
  return out;
}

} // namespace

TEST_CASE("gzip: fixed codes, codes of a block's own, copies") {
  CHECK(unpack(gzip_of(bytes_of(long_codes), skewed()), "a.gz") == skewed());
  CHECK(unpack(gzip_of(bytes_of(copies), verse()), "a.gz") == verse());
  CHECK(unpack(gzip_of(bytes_of(fixed_codes), question()), "a.gz") == question());
}

TEST_CASE("gzip: every cut and every flipped bit of packed data is refused") {
  for (const auto& [packed, content] :
       {std::pair(bytes_of(long_codes), skewed()), {bytes_of(copies), verse()}, {bytes_of(fixed_codes), question()}}) {
    const Bytes good = gzip_of(packed, content);
    for (std::size_t size = 2; size < good.size(); ++size)
      CHECK_THROWS_AS(unpack(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), "a.gz"), FileError);
    for (std::size_t bit = 80; bit < 8 * good.size(); ++bit) {
      Bytes bad = good;
      bad[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
      Bytes got; // the bits that fill up the last byte mean nothing
      try {
        got = unpack(bad, "a.gz");
      } catch (const FileError&) {
        continue;
      }
      CAPTURE(bit);
      CHECK(got == content);
      CHECK(bit / 8 == good.size() - 9);
    }
  }
}

TEST_CASE("gzip: members one behind the other are one file") {
  const Bytes one = gzip_of(bytes_of(copies), verse()), two = gzip_of(bytes_of(fixed_codes), question());
  CHECK(unpack(joined(one, two), "a.gz") == joined(verse(), question()));
  CHECK(unpack(joined(joined(gzip({}), two), gzip({})), "a.gz") == question());
  CHECK(refusal(joined(one, two), verse().size() + 10) == "a.gz: unpacks to more than 391 bytes");
  Bytes bad = joined(one, two);
  bad.back() ^= 1; // the second member's length
  CHECK(refusal(bad) == "a.gz: gzip checksum does not match: the file is corrupt");
  bad = joined(one, two);
  bad.resize(one.size() + 12);
  CHECK(refusal(bad) == "a.gz: its packed data end early");
  CHECK(refusal(joined(one, text("rest"))) == "a.gz: corrupt gzip file: 4 bytes behind its last member");
  CHECK(refusal(joined(one, {0x1F})) == "a.gz: corrupt gzip file: 1 byte behind its last member");
}

TEST_CASE("gzip: zero bytes behind the last member are padding, anything else is not") {
  const Bytes one = gzip_of(bytes_of(copies), verse());
  for (const std::size_t zeros : {1U, 10U, 512U}) {
    CAPTURE(zeros);
    const Bytes padded = joined(one, Bytes(zeros));
    CHECK(unpack(padded, "a.gz") == verse());
    const std::string behind = " behind its last member";
    CHECK(refusal(joined(padded, {1})) == "a.gz: corrupt gzip file: " + std::to_string(zeros + 1) + " bytes" + behind);
    CHECK(refusal(joined(padded, one)).ends_with(behind)); // a member may not follow padding
  }
  CHECK(unpack(joined(joined(one, one), Bytes(3)), "a.gz") == joined(verse(), verse()));
}

TEST_CASE("gzip: a header with extra field, name, comment and checksum") {
  Bytes front{0x1F, 0x8B, 8, 2 | 4 | 8 | 16, 1, 2, 3, 4, 0, 3, 3, 0, 'x', 'y', 'z'};
  front = joined(front, text(std::string("name\0comment\0", 13)));
  put_little_endian(front, crc32(front) & 0xFFFFU, 2);
  const Bytes plain = gzip_of(bytes_of(copies), verse());
  const Bytes tail(plain.begin() + 10, plain.end());
  CHECK(unpack(joined(front, tail), "a.gz") == verse());
  for (std::size_t size = 2; size < front.size(); ++size)
    CHECK(refusal({front.begin(), front.begin() + static_cast<std::ptrdiff_t>(size)}) == "a.gz: truncated gzip file");
  front[12] ^= 1;
  CHECK(refusal(joined(front, tail)) == "a.gz: corrupt gzip file: checksum of its header");
  front[3] |= 0x20;
  CHECK(refusal(joined(front, tail)) == "a.gz: corrupt gzip file: its header has unknown flags");
  front[2] = 7;
  CHECK(refusal(joined(front, tail)) == "a.gz: corrupt gzip file: packed by a method other than deflate");
}

TEST_CASE("deflate: any pieces and any steps give the same bytes") {
  Bytes front(32768);
  for (std::size_t i = 0; i < front.size(); ++i) front[i] = static_cast<std::uint8_t>(i * 7919 >> 5);
  const Bytes far = joined(front, Bytes(front.begin(), front.begin() + 258));
  for (const std::size_t step : {1U, 3U, 100U, 40000U})
    for (const std::size_t piece : {1U, 2U, 7U, 9U, 4096U}) {
      CAPTURE(step);
      CAPTURE(piece);
      CHECK(in_steps(bytes_of(long_codes), step, piece) == skewed());
      CHECK(in_steps(bytes_of(copies), step, piece) == verse());
      CHECK(in_steps(farthest_copy(front), step, piece) == far);
    }
  Bytes short_by_one = front;
  short_by_one.pop_back();
  CHECK(refusal(gzip_of(farthest_copy(short_by_one), far)) ==
        "a.gz: its packed data are corrupt: invalid distance too far back");
}
