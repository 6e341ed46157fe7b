#include "nn/kv_cache.h"

#include "core/base/error.h"
#include "core/call.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::nn {
namespace {

Tensor room(const Shape& leading, std::int64_t capacity, std::int64_t columns, DType dtype) {
  if (capacity < 0 || columns < 0)
    throw ValueError(
        fmt::format("KvCache: sizes must not be negative: capacity is {}, an axis is {}", capacity, columns));
  Shape shape = leading;
  shape.push_back(capacity);
  shape.push_back(columns);
  return Tensor::zeros(shape, dtype);
}

void check(const char* name, const Tensor& x, const Tensor& room) {
  if (x.dtype() != room.dtype())
    throw DTypeError(
        fmt::format("KvCache: {} is {}, the cache holds {}", name, name_of(x.dtype()), name_of(room.dtype())));
  bool fits = x.rank() == room.rank();
  for (int axis = 0; fits && axis < x.rank(); ++axis)
    fits = axis == x.rank() - 2 || x.shape()[axis] == room.shape()[axis];
  if (!fits)
    throw ShapeError(
        fmt::format("KvCache: {} does not fit beside what is stored (axis -2 counts the tokens): {} is {}, "
                    "the cache is {}",
                    name, name, x.shape().str(), room.shape().str()));
}

} // namespace

KvCache::KvCache(const Shape& leading, std::int64_t capacity, std::int64_t head_dim, std::int64_t value_dim,
                 DType dtype)
    : keys_(room(leading, capacity, head_dim, dtype)),
      values_(room(leading, capacity, value_dim == 0 ? head_dim : value_dim, dtype)) {}

void KvCache::append(const Tensor& k, const Tensor& v) {
  check("k", k, keys_);
  check("v", v, values_);
  const std::int64_t tokens = k.shape()[-2];
  if (v.shape()[-2] != tokens)
    throw ShapeError(fmt::format("KvCache: k and v differ in their number of tokens: k is {}, v is {}", k.shape().str(),
                                 v.shape().str()));
  if (tokens > capacity() - length_)
    throw ValueError(
        fmt::format("KvCache: there is no room for {} more tokens: {} of {} are stored", tokens, length_, capacity()));
  const PauseRecording pause;
  keys_.slice(-2, length_, length_ + tokens).copy_from(k);
  values_.slice(-2, length_, length_ + tokens).copy_from(v);
  length_ += tokens;
}

Tensor KvCache::attend(const Tensor& q, double scale, const Tensor& mask) const {
  return scaled_dot_product_attention(q, keys(), values(),
                                      AttentionOptions{.scale = scale, .mask = mask, .causal = true});
}

void KvCache::truncate(std::int64_t length) {
  if (length < 0 || length > length_)
    throw ValueError(fmt::format("KvCache: cannot go back to {} tokens: {} are stored", length, length_));
  length_ = length;
}

} // namespace eg::nn
