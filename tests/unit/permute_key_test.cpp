#include "permute/key.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>

namespace {

using eg::permute::SecretKey;

template <class T>
concept printable = requires(std::ostream& out, const T& x) {
  out << x;
};

static_assert(!std::is_copy_constructible_v<SecretKey> && !std::is_copy_assignable_v<SecretKey>);
static_assert(std::is_nothrow_move_constructible_v<SecretKey>);
static_assert(!printable<SecretKey>);

struct KeyFile {
  eg::test::TemporaryFolder folder;
  std::filesystem::path path = folder.path("key");
  std::string read() const {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }
};

TEST_CASE("secret key: file is private, exclusive and gives the same key back") {
  const KeyFile file;
  const SecretKey key = SecretKey::generate();
  key.save(file.path);
  struct stat info {};
  REQUIRE(::stat(file.path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  const SecretKey again = SecretKey::load(file.path);
  CHECK(again.same_as(key));
  CHECK(again.fingerprint() == key.fingerprint());
  CHECK(again.permutation(33, {"m", "s", 1, 2}) == key.permutation(33, {"m", "s", 1, 2}));
  CHECK_THROWS_WITH_AS(key.save(file.path), doctest::Contains("never overwritten"), eg::FileError);
}

TEST_CASE("secret key: refuses files that others can read, damaged ones and strangers") {
  const KeyFile file;
  const SecretKey key = SecretKey::generate();
  key.save(file.path);
  const std::string good = file.read();
  for (const mode_t mode : {0640U, 0604U, 0620U, 0660U, 0644U}) {
    REQUIRE(::chmod(file.path.c_str(), mode) == 0);
    CHECK_THROWS_WITH_AS(SecretKey::load(file.path), doctest::Contains("open to others"), eg::FileError);
  }
  REQUIRE(::chmod(file.path.c_str(), 0600) == 0);
  const auto refuses = [&](const std::string& bytes, const char* words) {
    file.write(bytes);
    CHECK_THROWS_WITH_AS(SecretKey::load(file.path), doctest::Contains(words), eg::FileError);
  };
  for (std::size_t i = 16; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    refuses(bad, "damaged");
  }
  refuses(good.substr(0, good.size() - 1), "wrong size");
  refuses(good + "x", "checksum does not fit");
  std::string version = good;
  version[12] = 9;
  refuses(version, "version 9");
  refuses("", "not an equigrad key file");
  refuses("a text of some length, no key", "not an equigrad key file");
  file.write(good);
  CHECK(SecretKey::load(file.path).same_as(key));
  CHECK_THROWS_AS(SecretKey::load(file.path.parent_path()), eg::FileError);
  CHECK_THROWS_AS(SecretKey::load("/nonexistent/key"), eg::FileError);
}

TEST_CASE("secret key: sites are separate, sizes enter the derivation") {
  const SecretKey key = SecretKey::generate();
  const auto p = key.permutation(64, {"model", "residual", 0, 0});
  CHECK(p == key.permutation(64, {"model", "residual", 0, 0}));
  CHECK(p != key.permutation(64, {"other", "residual", 0, 0}));
  CHECK(p != key.permutation(64, {"model", "hidden", 0, 0}));
  CHECK(p != key.permutation(64, {"model", "residual", 1, 0}));
  CHECK(p != key.permutation(64, {"model", "residual", 0, 1}));
  // the border between two names matters
  CHECK(key.permutation(64, {"ab", "c", 0, 0}) != key.permutation(64, {"a", "bc", 0, 0}));
  CHECK(p != SecretKey::generate().permutation(64, {"model", "residual", 0, 0}));
  CHECK(key.fingerprint().size() == 16);
  CHECK(key.fingerprint() != SecretKey::generate().fingerprint());
}

TEST_CASE("secret key: every permutation of four is about equally likely") {
  const SecretKey key = SecretKey::generate();
  std::map<std::vector<std::int64_t>, int> count;
  constexpr int draws = 4800;
  for (int i = 0; i < draws; ++i) ++count[key.permutation(4, {"m", "rows", 0, static_cast<std::uint64_t>(i)}).gather()];
  REQUIRE(count.size() == 24);
  double chi2 = 0;
  for (const auto& [p, n] : count) chi2 += (n - draws / 24.0) * (n - draws / 24.0) / (draws / 24.0);
  CHECK(chi2 < 68.0); // 23 degrees of freedom: exceeded once in 400,000 runs
}

TEST_CASE("secret key: rows for a batch are numbered by sample and never the identity") {
  const SecretKey key = SecretKey::generate();
  const eg::Tensor all = key.row_permutations(8, 3, "m", 0);
  CHECK(all.shape() == eg::Shape{8, 3});
  CHECK(eg::same_bits(all.slice(0, 5, 8).contiguous(), key.row_permutations(3, 3, "m", 5)));
  for (std::int64_t s = 0; s < 8; ++s) CHECK_FALSE((all.at({s, 0}) == 0 && all.at({s, 1}) == 1 && all.at({s, 2}) == 2));
}

} // namespace
