// BLAKE2b digests against published values, in pieces too, and names that differ.

#include "permute/digest.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace eg;

namespace {

ByteView bytes_of(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

} // namespace

TEST_CASE("digest: BLAKE2b-256 has the published values") { // b2sum -l 256
  CHECK(permute::hexadecimal(permute::digest_of({}, "test")) ==
        "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  CHECK(permute::hexadecimal(permute::digest_of(bytes_of("abc"), "test")) ==
        "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST_CASE("digest: pieces give what the whole gives") {
  const std::string text(1000, 'x');
  for (const std::size_t cut : {0U, 1U, 127U, 128U, 129U, 999U}) {
    permute::Digest digest("test");
    digest.add(bytes_of(text.substr(0, cut)));
    digest.add(bytes_of(text.substr(cut)));
    CHECK(digest.finish() == permute::digest_of(bytes_of(text), "test"));
  }
  CHECK(permute::digest_of(bytes_of(text + "x"), "test") != permute::digest_of(bytes_of(text), "test"));
}

TEST_CASE("digest: fresh names differ") {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(permute::fresh_name("test"));
  CHECK(names.size() == 100);
  for (const std::string& name : names) CHECK(name.size() == 32);
}
