#include "nn/difm.h"

#include "core/device/device.h"

#include "nn/attention_recorder.h"
#include "nn/config_checks.h"
#include "nn/init.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace eg::nn {
namespace {

constexpr std::int64_t most_ids = std::int64_t{1} << 40; // of all fields

void check_table(const char* what, const Tensor& x, std::int64_t columns, const char* fields) {
  if (!x.defined() || x.rank() != 2 || x.size(1) != columns)
    throw ShapeError(fmt::format("difm: {} must be [batch, {}], one column for each {} field, not {}", what, columns,
                                 fields, x.defined() ? x.shape().str() : "undefined"));
}

} // namespace

void check(const DifmConfig& c) {
  const ConfigChecks field("difm");
  std::int64_t ids = 0;
  for (std::size_t f = 0; f < c.vocabularies.size(); ++f) {
    field.extent(fmt::format("vocabularies[{}]", f), c.vocabularies[f], most_ids);
    ids += c.vocabularies[f];
    field.extent("the sum of vocabularies", ids, most_ids);
  }
  field.count("numeric", c.numeric, limits::width);
  if (c.fields() < 2)
    throw ValueError(
        fmt::format("difm: {}; interactions need two at least", c.fields() == 1 ? "one field" : "no field"));
  field.count("number of fields", c.fields(), limits::width);
  field.extent("dim", c.dim);
  field.extent("heads", c.heads, limits::heads);
  field.extent("head_dim", c.head_dim);
  if (c.hidden.empty()) throw ValueError("difm: hidden is empty; the bit-wise part needs a layer");
  for (std::size_t i = 0; i < c.hidden.size(); ++i) field.extent(fmt::format("hidden[{}]", i), c.hidden[i]);
  field.share("dropout", c.dropout);
}

FieldEmbedding::FieldEmbedding(const DifmConfig& c, std::int64_t width, RandomKey key) : vocabularies_(c.vocabularies) {
  const auto table = [&](const char* name, Tensor& to, std::int64_t rows, RandomKey own) {
    if (rows == 0) return;
    to = Tensor::empty({rows, width});
    init::normal(to, 0.05, own);
    register_parameter(name, to);
  };
  const std::int64_t ids = std::accumulate(vocabularies_.begin(), vocabularies_.end(), std::int64_t{0});
  table("weight", weight, ids, key.fold(0));
  table("numeric_weight", numeric_weight, c.numeric, key.fold(1));
}

/// Rows of the table, which holds one field's vocabulary behind the other's. An id that is too large for its field
/// would be a row of the next one, so each is checked against its own.
Tensor FieldEmbedding::rows_of(const Tensor& ids) const {
  const auto fields = static_cast<std::int64_t>(vocabularies_.size());
  check_table("ids", ids, fields, "categorical");
  if (ids.dtype() != DType::i64)
    throw DTypeError(fmt::format("difm: ids must be i64, they are {}", eg::name_of(ids.dtype())));
  std::vector<std::int64_t> rows = ids.to_vector<std::int64_t>();
  for (std::int64_t row = 0, at = 0; row < ids.size(0); ++row)
    for (std::int64_t f = 0, offset = 0; f < fields; ++f, ++at) {
      const std::int64_t count = vocabularies_[static_cast<std::size_t>(f)];
      std::int64_t& id = rows[static_cast<std::size_t>(at)];
      if (id < 0 || id >= count)
        throw IndexError(fmt::format("difm: id {} of field {} in row {} is outside [0, {})", id, f, row, count));
      id += offset;
      offset += count;
    }
  const DeviceScope there(ids.device());
  return Tensor::from(rows, ids.shape());
}

Tensor FieldEmbedding::operator()(const Tensor& ids, const Tensor& values) const {
  const Scope scope(*this);
  Tensor of_ids, of_values;
  if (weight.defined())
    of_ids = embedding(weight, rows_of(ids));
  else if (ids.defined())
    throw ValueError("difm: ids were given and the model has no categorical fields");
  if (numeric_weight.defined()) {
    check_table("values", values, numeric_weight.size(0), "numeric");
    of_values = values.unsqueeze(-1) * numeric_weight;
  } else if (values.defined()) {
    throw ValueError("difm: values were given and the model has no numeric fields");
  }
  if (!of_values.defined()) return called({&ids, &values}, of_ids);
  if (!of_ids.defined()) return called({&ids, &values}, of_values);
  if (ids.size(0) != values.size(0))
    throw ShapeError(fmt::format("difm: ids and values differ in their number of rows: ids is {}, values is {}",
                                 ids.shape().str(), values.shape().str()));
  return called({&ids, &values}, concat({of_ids, of_values}, 1));
}

Difm::Difm(const DifmConfig& c, RandomKey key)
    : config(checked(c)), embedding(c, c.dim, key.fold(0)), first_order(c, 1, key.fold(1)), bias(Tensor::zeros({1})),
      qkv(c.dim, 3 * c.heads * c.head_dim, key.fold(2), false),
      residual(c.dim, c.heads * c.head_dim, key.fold(3), false),
      vector_factor(c.fields() * c.heads * c.head_dim, c.fields(), key.fold(4), false),
      bit_factor(c.hidden.back(), c.fields(), key.fold(5), false) {
  register_module("embedding", embedding);
  register_module("first_order", first_order);
  register_parameter("bias", bias);
  register_module("qkv", qkv);
  register_module("residual", residual);
  std::int64_t in = c.fields() * c.dim;
  for (std::size_t i = 0; i < c.hidden.size(); ++i) {
    layers.push_back(std::make_unique<Linear>(in, c.hidden[i], key.fold(6 + i)));
    register_module(fmt::format("layers.{}", i), *layers.back());
    in = c.hidden[i];
  }
  register_module("vector_factor", vector_factor);
  register_module("bit_factor", bit_factor);
}

Tensor Difm::embed(const Tensor& ids, const Tensor& values) const {
  const Scope scope(*this);
  return embedding(ids, values);
}

Tensor Difm::vector_wise(const Tensor& e) const {
  const Scope scope(*this);
  const double scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  const Tensor all = qkv(e);
  const Tensor attended = attention_qkv(all, config.heads, scale);
  if (AttentionRecorder* recorder = AttentionRecorder::current()) {
    const Tensor parts = all.reshape({e.size(0), e.size(1), 3, config.heads, config.head_dim}).permute({2, 0, 3, 1, 4});
    const Tensor q = parts.select(0, 0), k = parts.select(0, 1), v = parts.select(0, 2);
    const AttentionParts attention = attention_explicit(q, k, v, scale);
    recorder->add(
        {{.q = q, .k = k, .v = v, .scores = attention.scores, .a = attention.output, .output = attended}, scale});
  }
  return activate(residual(e, attended), config.activation);
}

Tensor Difm::bit_wise(const Tensor& e, RandomKey key) const {
  const Scope scope(*this);
  Tensor x = e.reshape({e.size(0), e.size(1) * e.size(2)});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    x = activate((*layers[i])(x), config.activation);
    if (training() && config.dropout > 0.0) x = dropout(x, config.dropout, key.fold(i));
  }
  return x;
}

Tensor Difm::factors(const Tensor& vector_wise, const Tensor& bit_wise) const {
  const Scope scope(*this);
  const Tensor flat = vector_wise.reshape({vector_wise.size(0), vector_wise.size(1) * vector_wise.size(2)});
  return vector_factor(flat, bit_factor(bit_wise));
}

Tensor Difm::machine(const Tensor& ids, const Tensor& values, const Tensor& e, const Tensor& m) const {
  const Scope scope(*this);
  const Tensor linear_part = sum(first_order(ids, values).squeeze(-1) * m, {1});
  const Tensor v = e * m.unsqueeze(-1);
  // sum_{i<j} <v_i, v_j> = (|sum_i v_i|^2 - sum_i |v_i|^2) / 2, feature by feature (Rendle, ICDM 2010)
  const Tensor pairs = sum(square(sum(v, {1})) - sum(square(v), {1}), {1}) * 0.5;
  return linear_part + pairs + bias;
}

Tensor Difm::operator()(const Tensor& ids, const Tensor& values, RandomKey key) const {
  const Tensor e = embed(ids, values);
  return called({&ids, &values}, machine(ids, values, e, factors(vector_wise(e), bit_wise(e, key))));
}

} // namespace eg::nn
