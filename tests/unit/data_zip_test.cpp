// Zip archives behind npz files: damaged, made up, large in what they claim.

#include "data/npy.h"

#include "core/random.h"
#include "data/zip.h"
#include "data_fixtures.h"
#include "data_samples.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// What a made-up archive says about its only member.
struct Claim {
  Bytes packed, unpacked;
  std::uint32_t method = 0, flags = 0;
  std::uint64_t size = unpacked.size(); ///< as claimed
  std::uint32_t crc = crc32(unpacked);
  std::string name = "a.npy", local_name = "a.npy";
  bool zip64 = false;
};

void put64(Bytes& out, std::uint64_t value) {
  put_little_endian(out, static_cast<std::uint32_t>(value), 4);
  put_little_endian(out, static_cast<std::uint32_t>(value >> 32), 4);
}

Bytes archive(const Claim& c) {
  Bytes out;
  const auto sizes = [&](std::uint64_t packed, std::uint64_t size) {
    put_little_endian(out, c.crc, 4);
    put_little_endian(out, c.zip64 ? 0xFFFFFFFFU : static_cast<std::uint32_t>(packed), 4);
    put_little_endian(out, c.zip64 ? 0xFFFFFFFFU : static_cast<std::uint32_t>(size), 4);
  };
  const auto add = [&](const std::string& name) { out.insert(out.end(), name.begin(), name.end()); };
  put_little_endian(out, 0x04034B50, 4);
  put_little_endian(out, 20, 2);
  put_little_endian(out, c.flags, 2);
  put_little_endian(out, c.method, 2);
  put_little_endian(out, 0, 4);
  sizes(c.packed.size(), c.size);
  put_little_endian(out, static_cast<std::uint32_t>(c.local_name.size()), 2);
  put_little_endian(out, 0, 2);
  add(c.local_name);
  out.insert(out.end(), c.packed.begin(), c.packed.end());
  const auto directory = static_cast<std::uint32_t>(out.size());
  put_little_endian(out, 0x02014B50, 4);
  put_little_endian(out, 20, 4);
  put_little_endian(out, c.flags, 2);
  put_little_endian(out, c.method, 2);
  put_little_endian(out, 0, 4);
  sizes(c.packed.size(), c.size);
  put_little_endian(out, static_cast<std::uint32_t>(c.name.size()), 2);
  put_little_endian(out, c.zip64 ? 20 : 0, 2);
  put_little_endian(out, 0, 4);
  put_little_endian(out, 0, 4);
  put_little_endian(out, 0, 2);
  put_little_endian(out, 0, 4);
  add(c.name);
  if (c.zip64) {
    put_little_endian(out, 1, 2);
    put_little_endian(out, 16, 2);
    put64(out, c.size);
    put64(out, c.packed.size());
  }
  const auto end = static_cast<std::uint32_t>(out.size());
  if (c.zip64) {
    put_little_endian(out, 0x06064B50, 4);
    put64(out, 44);
    put_little_endian(out, 45, 2);
    put_little_endian(out, 45, 2);
    put64(out, 0);
    put64(out, 1);
    put64(out, 1);
    put64(out, end - directory);
    put64(out, directory);
    put_little_endian(out, 0x07064B50, 4);
    put_little_endian(out, 0, 4);
    put64(out, end);
    put_little_endian(out, 1, 4);
  }
  put_little_endian(out, 0x06054B50, 4);
  put_little_endian(out, 0, 4);
  put_little_endian(out, c.zip64 ? 0xFFFF : 1, 2);
  put_little_endian(out, c.zip64 ? 0xFFFF : 1, 2);
  put_little_endian(out, c.zip64 ? 0xFFFFFFFFU : end - directory, 4);
  put_little_endian(out, c.zip64 ? 0xFFFFFFFFU : directory, 4);
  put_little_endian(out, 0, 2);
  return out;
}

Bytes sample_npy() {
  const TemporaryFolder folder;
  save_npy(folder.path("a"), Tensor::arange(3));
  return read_file(folder.path("a"));
}

struct Place {
  TemporaryFolder folder;
  std::string path = folder.path("a.npz");
  std::string front = path + ": member 'a.npy': ";
  Bytes content = sample_npy();

  std::string refusal(const Claim& claim) const { return refusal_of(archive(claim)); }
  std::string refusal_of(ByteView bytes) const {
    write_quickly(path, bytes);
    return message_of<FileError>([&] { load_npz(path); });
  }
};

} // namespace

TEST_CASE("zip: stored and deflated members, zip64") {
  const Place p;
  for (const bool zip64 : {false, true}) {
    CAPTURE(zip64);
    CHECK(p.refusal({.packed = p.content, .unpacked = p.content, .zip64 = zip64}).empty());
    CHECK(load_npz(p.path)[0].second.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2});
    CHECK(p.refusal({.packed = stored(p.content), .unpacked = p.content, .method = 8, .zip64 = zip64}).empty());
    CHECK(load_npz(p.path)[0].second.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2});
  }
}

TEST_CASE("zip: what a member claims is compared with what is there") {
  const Place p;
  Bytes damaged = p.content;
  damaged.back() ^= 1U;
  Bytes longer = p.content;
  longer.push_back(0);
  Bytes shorter = p.content;
  shorter.pop_back();
  const std::uint32_t crc = crc32(p.content);
  const std::size_t n = p.content.size();
  CHECK(p.refusal({.packed = damaged, .unpacked = p.content}) == p.front + "checksum does not match: it is corrupt");
  CHECK(p.refusal({.packed = stored(damaged), .unpacked = p.content, .method = 8}) ==
        p.front + "checksum does not match: it is corrupt");
  CHECK(p.refusal({.packed = stored(longer), .unpacked = p.content, .method = 8}) ==
        p.front + "its packed data are corrupt: they unpack to more than it says");
  CHECK(p.refusal({.packed = stored(shorter), .unpacked = p.content, .method = 8}) ==
        p.front + "its packed data end after " + std::to_string(n - 1) + " of " + std::to_string(n) + " bytes");
  CHECK(p.refusal({.packed = longer, .unpacked = longer}).find("the values take 24 bytes, the member has 25") !=
        std::string::npos);
  CHECK(p.refusal({.packed = p.content, .unpacked = p.content, .size = 7}) ==
        p.front + "stored, but of 152 bytes and 7 unpacked");
  CHECK(p.refusal({.packed = Bytes(5), .unpacked = {}, .method = 8, .size = 1 << 20}) ==
        p.front + "5 bytes cannot unpack to 1048576");
  CHECK(p.refusal({.packed = Bytes(64, 0x55), .unpacked = {}, .method = 8, .size = 40, .crc = crc}) ==
        p.front + "its packed data are corrupt: invalid code lengths set");
  CHECK(p.refusal({.packed = {}, .unpacked = {}}) == p.front + "not an npy file");
  CHECK(p.refusal({.packed = p.content, .unpacked = p.content, .method = 14}) ==
        p.front + "packed by method 14; stored and deflated (8) are read");
  CHECK(p.refusal({.packed = p.content, .unpacked = p.content, .flags = 1}) == p.front + "encrypted");
  CHECK(p.refusal({.packed = p.content, .unpacked = p.content, .local_name = "b.npy"}) ==
        p.front + "its header contradicts the directory");
  CHECK(p.refusal({.packed = p.content, .unpacked = p.content, .name = "a.txt", .local_name = "a.txt"}) ==
        p.path + ": member 'a.txt': not an npy file by its name");
  CHECK(p.refusal({.packed = p.content, .unpacked = p.content, .name = "m/data.pkl", .local_name = "m/data.pkl"})
            .starts_with(p.path + ": member 'm/data.pkl': a pickle"));
}

TEST_CASE("zip: what surrounds the members") {
  const Place p;
  const Bytes good = archive({.packed = p.content, .unpacked = p.content});
  const std::size_t end = good.size() - 22;
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    Bytes bytes = good;
    bytes[at] = value;
    return p.refusal_of(bytes);
  };
  CHECK(p.refusal_of(good).empty());
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK(p.refusal_of(ByteView(good).first(size)).starts_with(p.path + ": "));
  }
  Bytes prefixed = good;
  prefixed.insert(prefixed.begin(), 0);
  CHECK(p.refusal_of(prefixed) == p.path + ": corrupt zip archive: its directory does not lie where it should");
  CHECK(changed(end + 8, 2) == p.path + ": zip archives of several parts are not read");
  CHECK(changed(end + 16, 0) == p.path + ": corrupt zip archive: its directory does not lie where it should");
  Bytes commented = good;
  commented[end + 20] = 3;
  commented.insert(commented.end(), {'P', 'K', 5});
  CHECK(p.refusal_of(commented).empty()); // a comment is allowed
  Bytes two = good;
  two[end + 8] = 2;
  two[end + 10] = 2;
  CHECK(p.refusal_of(two) == p.path + ": corrupt zip archive: more members than its directory has");
}

TEST_CASE("zip: members that share bytes, or a name, are refused") {
  const Place p;
  save_npz(p.path, {{"a", Tensor::arange(3)}, {"b", Tensor::arange(3)}});
  Bytes bytes = read_file(p.path);
  const auto find = [&](const std::string& mark, std::size_t from) {
    return static_cast<std::size_t>(
        std::search(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(), mark.begin(), mark.end()) -
        bytes.begin());
  };
  const std::size_t first = find("PK\x01\x02", 0);
  const std::size_t second = find("PK\x01\x02", first + 1);
  REQUIRE(second < bytes.size());
  Bytes shared = bytes;
  for (std::size_t i = 0; i < 4; ++i) shared[second + 42 + i] = shared[first + 42 + i];
  CHECK(p.refusal_of(shared) == p.path + ": member 'b.npy': its bytes overlap those of another member");
  Bytes twice = bytes;
  twice[second + 46] = 'a';
  CHECK(p.refusal_of(twice) == p.path + ": member 'a.npy': given twice");
}
