#include "permute/catalogue/case.h"

#include <fmt/format.h>

namespace eg::permute {
namespace {

RandomKey key_for(std::uint64_t seed, std::string_view id, std::int64_t attempt) {
  RandomKey key{seed, 0};
  for (const char c : id) key = key.fold(static_cast<unsigned char>(c));
  return attempt == 0 ? key : key.fold(256 + static_cast<std::uint64_t>(attempt)); // no byte of an id
}

} // namespace

Case::Case(const VerifyOptions& options_, std::string_view id, DType dtype_, bool round, std::int64_t attempt)
    : options(options_), dtype(dtype_), base_(key_for(options_.seed, id, attempt)), round_(round) {}

RandomKey Case::key() { return base_.fold(draws_++); }

Tensor Case::normal(const Shape& shape, double stddev, double mean) {
  const PauseRecording pause;
  const Tensor drawn = random_normal(shape, key(), mean, stddev, round_ ? DType::f32 : DType::f64);
  return drawn.to(dtype);
}

Permutation Case::permutation(std::int64_t size) { return Permutation::random_nonidentity(size, key()); }

Permutation Case::directed_permutation(std::int64_t size) {
  if (size == 2) return permutation(size);
  return permutation_that(size, [](const Permutation& p) { return p != p.inverse(); });
}

Permutation Case::another(const Permutation& other) {
  if (other.size() == 2 && !other.is_identity()) return Permutation::identity(2);
  return permutation_that(other.size(), [&](const Permutation& p) { return p != other; });
}

Permutation Case::permutation_that(std::int64_t size, const std::function<bool(const Permutation&)>& fits) {
  for (int draw = 0; draw < 1000; ++draw) {
    Permutation p = permutation(size);
    if (fits(p)) return p;
  }
  throw ValueError(fmt::format("verify: no permutation of {} elements is as the row needs it", size));
}

Tensor Case::rows() { return row_permutations(options.batch, options.tokens, key()); }

Tensor both(const Tensor& x, const Permutation& rows, const Permutation& columns) {
  return columns.apply(rows.apply(x, -2), -1);
}

Tensor orthonormal(const Tensor& x) {
  const std::int64_t d = x.size(1);
  std::vector<Tensor> columns;
  for (std::int64_t j = 0; j < d; ++j) {
    Tensor column = x.to(DType::f64).select(1, j);
    for (int pass = 0; pass < 2; ++pass)
      for (const Tensor& other : columns) column = column - other * sum(column * other);
    columns.push_back(column / sqrt(sum(column * column)));
  }
  return stack(columns, 1);
}

const Tensor& named(const nn::StateDict& tensors, std::string_view name) {
  for (const auto& [key, value] : tensors)
    if (key == name) return value;
  throw ValueError(fmt::format("verify: there is no tensor named \"{}\"", name));
}

} // namespace eg::permute
