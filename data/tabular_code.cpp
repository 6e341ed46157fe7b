// How columns become numbers and ids, and batches of them.

#include "core/error.h"
#include "data/tabular.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace eg::data {
namespace {

/// Fowler, Noll, Vo: FNV-1a, 64 bits.
std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

template <class T> Tensor rows_of(const std::vector<T>& all, std::span<const std::int64_t> places, std::int64_t width) {
  if (width == 0) return {};
  std::vector<T> rows;
  rows.reserve(places.size() * static_cast<std::size_t>(width));
  for (const std::int64_t place : places) {
    const auto from = all.begin() + place * width;
    rows.insert(rows.end(), from, from + width);
  }
  return Tensor::from(rows, {static_cast<std::int64_t>(places.size()), width});
}

} // namespace

NumberScale number_scale_named(std::string_view name) {
  for (const NumberScale scale : {NumberScale::none, NumberScale::standard, NumberScale::log})
    if (name_of(scale) == name) return scale;
  throw ValueError(fmt::format("scale: '{}' is not one of none, standard, log", name));
}

std::string_view name_of(NumberScale scale) {
  switch (scale) {
  case NumberScale::none:
    return "none";
  case NumberScale::standard:
    return "standard";
  case NumberScale::log:
    return "log";
  }
  return "?";
}

double TabularCode::number(std::size_t field, double value) const {
  if (scale == NumberScale::log) value = std::copysign(std::log1p(std::abs(value)), value);
  return (value - dense[field].mean) / dense[field].deviation;
}

std::int64_t TabularCode::id(std::size_t field, std::string_view value) const {
  if (buckets > 0) return static_cast<std::int64_t>(fnv1a(value) % static_cast<std::uint64_t>(buckets));
  const std::vector<std::string>& known = categorical[field].values;
  const auto found = std::lower_bound(known.begin(), known.end(), value);
  return found == known.end() || *found != value ? 0 : found - known.begin() + 1;
}

std::vector<std::int64_t> TabularCode::vocabularies() const {
  std::vector<std::int64_t> sizes;
  for (const Categories& field : categorical)
    sizes.push_back(buckets > 0 ? buckets : static_cast<std::int64_t>(field.values.size()) + 1);
  return sizes;
}

nlohmann::ordered_json TabularCode::json() const {
  nlohmann::ordered_json out{
      {"label", label},
      {"negative", negative.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(negative)},
      {"positive", positive},
      {"scale", name_of(scale)},
      {"buckets", buckets},
      {"dense", nlohmann::ordered_json::array()},
      {"categorical", nlohmann::ordered_json::array()}};
  for (const Numbers& field : dense)
    out["dense"].push_back({{"column", field.column}, {"mean", field.mean}, {"deviation", field.deviation}});
  for (const Categories& field : categorical)
    out["categorical"].push_back({{"column", field.column}, {"values", field.values}});
  return out;
}

TabularRows::Batch TabularRows::batch(std::span<const std::int64_t> places, DType dtype) const {
  std::vector<double> wanted;
  for (const std::int64_t place : places) wanted.push_back(labels[static_cast<std::size_t>(place)]);
  const Tensor values = rows_of(numbers, places, dense);
  return {.numbers = values.defined() ? values.to(dtype) : values,
          .ids = rows_of(ids, places, categorical),
          .labels = Tensor::from(wanted, {static_cast<std::int64_t>(wanted.size())}).to(dtype)};
}

} // namespace eg::data
