#include "core/ops.h"
#include "permute/permutation.h"
#include "permute/permutation_file.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

namespace {

using eg::permute::Permutation;

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("equigrad-" + std::to_string(::getpid()) + "-" + name);
}

TEST_CASE("a wiped permutation leaves no entries behind") {
  Permutation p({3, 1, 2, 0});
  const std::int64_t* entries = p.gather().data(); // the vector keeps its block
  CHECK(entries[0] == 3);
  p.wipe();
  CHECK(p.size() == 0);
  CHECK(std::all_of(entries, entries + 4, [](std::int64_t entry) { return entry == 0; }));
  p = Permutation({1, 0});
  CHECK(p.gather() == std::vector<std::int64_t>{1, 0});
}

TEST_CASE("permutation: gathers rows and columns as docs/theory.md says") {
  const eg::Tensor z = eg::Tensor::from<double>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {3, 4});
  const Permutation r({1, 2, 0});
  CHECK(r.apply(z, 0).to_vector<double>() == std::vector<double>{5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4});
  const Permutation c({3, 0, 1, 2});
  CHECK(c.apply(z, -1).to_vector<double>() == std::vector<double>{4, 1, 2, 3, 8, 5, 6, 7, 12, 9, 10, 11});
  CHECK(eg::same_bits(r.apply(z, 0), eg::permute_rows(z, r.tensor())));
  CHECK(eg::same_bits(c.apply(z, 1), eg::permute_columns(z, c.tensor())));
}

TEST_CASE("permutation: inverse and composition") {
  const Permutation p = Permutation::random_nonidentity(17, {3, 1});
  const Permutation q = Permutation::random_nonidentity(17, {3, 2});
  CHECK(p.then(p.inverse()).is_identity());
  CHECK(p.inverse().then(p).is_identity());
  const eg::Tensor x = eg::random_normal({17, 2}, {4, 0}, 0, 1, eg::DType::f64);
  CHECK(eg::same_bits(q.apply(p.apply(x, 0), 0), p.then(q).apply(x, 0)));
  CHECK(p.then(q).inverse() == q.inverse().then(p.inverse()));
}

TEST_CASE("permutation: drawn without the identity, all others reached") {
  std::set<std::vector<std::int64_t>> seen;
  for (std::uint64_t i = 0; i < 200; ++i) seen.insert(Permutation::random_nonidentity(3, {i, 0}).gather());
  CHECK(seen.size() == 5);
  CHECK_THROWS_WITH_AS(Permutation::random_nonidentity(1, {}),
                       "permutation: only the identity permutes 1 element(s); size must be at least 2", eg::ValueError);
}

TEST_CASE("permutation: refuses what is not one") {
  CHECK_THROWS_WITH_AS(Permutation({0, 3, 1}), "permutation: entry 1 is 3, which is outside 0..2", eg::ValueError);
  CHECK_THROWS_WITH_AS(Permutation({0, 1, 1}),
                       "permutation: 1 stands twice, second at entry 2; every index must occur once", eg::ValueError);
  CHECK_THROWS_AS(Permutation({0, 1}).then(Permutation({0})), eg::ShapeError);
  CHECK_THROWS_WITH_AS(Permutation({1, 0}).apply(eg::Tensor::zeros({3}), 0),
                       "permutation: size 2 does not fit axis 0 of [3]", eg::ShapeError);
}

TEST_CASE("permutation: paper 001 writes Z P^-1 and P W P^-1") {
  const std::int64_t d = 6;
  const Permutation paper = Permutation::random_nonidentity(d, {5, 1}); // (X P)[:, j] = X[:, paper[j]]
  const Permutation ours = eg::permute::from_paper001(paper);
  // their matrix P, applied as they do
  eg::Tensor p = eg::Tensor::zeros({d, d}, eg::DType::f64);
  for (std::int64_t j = 0; j < d; ++j) p.mutable_data<double>()[paper[j] * d + j] = 1.0;
  const eg::Tensor z = eg::random_normal({4, d}, {5, 2}, 0, 1, eg::DType::f64);
  const eg::Tensor w = eg::random_normal({d, d}, {5, 3}, 0, 1, eg::DType::f64);
  CHECK(eg::same_bits(eg::matmul(z, p, false, true), ours.apply(z, 1)));
  CHECK(eg::same_bits(eg::matmul(eg::matmul(p, w), p, false, true), ours.apply(ours.apply(w, 0), 1)));
}

TEST_CASE("permutation file: round trip and refusals") {
  const auto path = scratch("permutations.json");
  const eg::permute::PermutationSet set{{"residual", Permutation({2, 0, 1})}, {"blocks.0.v", Permutation({1, 0})}};
  save_permutations(path, set);
  CHECK(eg::permute::load_permutations(path) == set);
  const auto refuses = [&](const char* text, const char* words) {
    std::ofstream(path) << text;
    CHECK_THROWS_WITH_AS(eg::permute::load_permutations(path), doctest::Contains(words), eg::FileError);
    CHECK_THROWS_WITH_AS(eg::permute::load_permutations(path), doctest::Contains(path.c_str()), eg::FileError);
  };
  refuses("{", "not a file of permutations");
  refuses("[]", "not a file of permutations");
  refuses(R"({"format":"other","version":1,"groups":{}})", "not a file of permutations");
  refuses(R"({"format":"equigrad-permutations","version":7,"groups":{}})", "version 7");
  refuses(R"({"format":"equigrad-permutations","version":1,"groups":{"a":[0,0]}})", "stands twice");
  refuses(R"({"format":"equigrad-permutations","version":1,"groups":{"a":["x"]}})", "not a file of permutations");
  std::filesystem::remove(path);
  CHECK_THROWS_AS(eg::permute::load_permutations(path), eg::FileError);
}

} // namespace
