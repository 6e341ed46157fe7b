// How columns become numbers and ids, and batches of them.

#include "core/base/error.h"
#include "core/base/named_values.h"
#include "core/exact/elementary.h"
#include "data/text/tabular.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

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

constexpr NamedValues<NumberScale, 3> scales{
    {{"none", NumberScale::none}, {"standard", NumberScale::standard}, {"log", NumberScale::log}}};

} // namespace

NumberScale number_scale_named(std::string_view name) { return value_named(scales, "scale", name); }

std::string_view name_of(NumberScale scale) { return name_in(scales, scale); }

double TabularCode::number(std::size_t field, double value) const {
  if (scale == NumberScale::log) value = std::copysign(exact::log1p(std::abs(value)), value);
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

namespace {

TabularCode code_in(const nlohmann::json& json) {
  TabularCode code{.label = json.at("label").get<std::string>(),
                   .negative = json.at("negative").is_null() ? "" : json.at("negative").get<std::string>(),
                   .positive = json.at("positive").get<std::string>(),
                   .scale = number_scale_named(json.at("scale").get<std::string>()),
                   .buckets = json.at("buckets").get<std::int64_t>(),
                   .dense = {},
                   .categorical = {}};
  for (const nlohmann::json& field : json.at("dense"))
    code.dense.push_back({.column = field.at("column").get<std::string>(),
                          .mean = field.at("mean").get<double>(),
                          .deviation = field.at("deviation").get<double>()});
  for (const nlohmann::json& field : json.at("categorical"))
    code.categorical.push_back({.column = field.at("column").get<std::string>(),
                                .values = field.at("values").get<std::vector<std::string>>()});
  return code;
}

/// Why a code cannot be used; "" when it can.
std::string fault_of(const TabularCode& code) {
  if (code.buckets < 0 || code.buckets == 1 || code.buckets > std::int64_t{1} << 28)
    return "buckets is no number of ids";
  if (code.dense.empty() && code.categorical.empty()) return "no columns";
  for (const TabularCode::Numbers& field : code.dense)
    if (!std::isfinite(field.mean) || !(field.deviation > 0.0) || !std::isfinite(field.deviation))
      return fmt::format("column '{}' has no mean or no deviation", field.column);
  for (const TabularCode::Categories& field : code.categorical)
    if (std::adjacent_find(field.values.begin(), field.values.end(), std::greater_equal<>()) != field.values.end())
      return fmt::format("the values of column '{}' are not sorted", field.column);
  return {};
}

} // namespace

TabularCode tabular_code_of(const nlohmann::json& json, const std::string& source) {
  try {
    TabularCode code = code_in(json);
    const std::string fault = fault_of(code);
    if (!fault.empty()) throw FileError(fmt::format("{}: {}", source, fault));
    return code;
  } catch (const nlohmann::json::exception& e) {
    throw FileError(fmt::format("{}: is no description of a table: {}", source, e.what()));
  } catch (const ValueError& e) {
    throw FileError(fmt::format("{}: {}", source, e.what()));
  }
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
