// The permuted pass P_R^T Enc(P_R Z P_C) P_C^T stands in one place: no other file undoes a permutation of hidden
// states.

#include "core/base/bytes.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// What undoes one of its two permutations.
constexpr std::array<std::string_view, 2> undoings = {"invert_permutation(", "undo_columns("};

bool undoes(std::string_view text) {
  return std::ranges::any_of(undoings, [&](std::string_view undoing) { return text.find(undoing) != text.npos; });
}

/// Files of trainers and applications that undo a permutation themselves.
std::vector<std::string> places(const std::string& root) {
  std::vector<std::string> found;
  for (const char* room : {"training", "apps", "permute"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root + "/" + room)) {
      if (!entry.is_regular_file()) continue;
      const std::string path = std::filesystem::relative(entry.path(), root).string();
      if (path.starts_with("permute/catalogue/") || path.starts_with("permute/inference/")) continue; // theorems on it
      const eg::Bytes bytes = eg::read_file(entry.path().string());
      if (undoes({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) found.push_back(path);
    }
  std::ranges::sort(found);
  return found;
}

} // namespace

TEST_CASE("the permuted pass stands in one place") {
  CHECK(places(EQUIGRAD_SOURCE_DIR) ==
        std::vector<std::string>{"permute/blocks_key.cpp", "permute/blocks_key.h", "permute/permuted_pass.cpp"});
  CHECK(undoes("z = permute_rows(z, invert_permutation(rows));"));
  CHECK(undoes("z = key->undo_columns(z);"));
  CHECK_FALSE(undoes("z = pass.leave(encode(pass.enter(z)));"));
}
