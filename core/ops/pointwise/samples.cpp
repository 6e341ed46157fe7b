#include "core/ops/pointwise/samples.h"

namespace eg::pointwise {

Tensor anywhere(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_normal(shape, dtype, tag, 1.3); }
Tensor positive(const Shape& shape, DType dtype, std::uint64_t tag) {
  return sample_uniform(shape, dtype, tag, 0.3, 3.0);
}
Tensor spread(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_normal(shape, dtype, tag, 4.0); }
Tensor off_zero(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_off_zero(shape, dtype, tag); }

namespace {

std::vector<Sample> real_samples(DType dtype, DomainFn domain, const Attrs& attrs) {
  return {{{domain({3, 5}, dtype, 1)}, attrs, "matrix"},
          {{scattered(domain({7, 4}, dtype, 2))}, attrs, "strided"},
          {{domain({2, 65}, dtype, 3)}, attrs, "longer than a vector, with a tail"},
          {{domain({2, 1, 33}, dtype, 4).expand({2, 3, 33})}, attrs, "expanded"},
          {{domain({1}, dtype, 5)}, attrs, "one element"},
          {{domain({}, dtype, 6)}, attrs, "scalar"},
          {{domain({0, 3}, dtype, 7)}, attrs, "empty"}};
}

/// Whole numbers in the place of real attributes, different ones for different ones.
Attrs whole_attributes(const Attrs& attrs) {
  Attrs whole;
  for (const auto& [name, value] : attrs.items())
    whole.set(name, std::holds_alternative<double>(value) ? std::floor(4.0 * std::get<double>(value)) : value);
  return whole;
}

} // namespace

std::vector<Sample> unary_samples(DType dtype, DomainFn domain, const Attrs& attrs, bool whole) {
  std::vector<Sample> list = real_samples(dtype, domain, attrs);
  if (!whole) return list;
  const Attrs same_kind = whole_attributes(attrs);
  list.push_back({{sample_whole({3, 5}, 8, -9, 10)}, same_kind, "whole numbers"});
  list.push_back({{scattered(sample_whole({7, 4}, 9, 0, 2).to(DType::boolean))}, same_kind, "truth values, strided"});
  list.push_back({{sample_whole({33}, 10, 0, 200).to(DType::u8)}, same_kind, "bytes"});
  return list;
}

std::vector<Refusal> unary_refusals(const Attrs& attrs, bool whole) {
  Attrs strange = attrs;
  strange.set("speed", 2.0);
  if (whole) {
    std::vector<Refusal> list = {
        {{Tensor::zeros({2, 3}, DType::bf16)}, attrs, "x must be f32, f64, i64, u8 or bool, it is bf16"},
        {{Tensor::zeros({3})}, strange, "there is no attribute 'speed'"}};
    if (attrs.items().empty())
      list.push_back({{Tensor()}, attrs, "must be given"});
    else
      list.push_back({{Tensor::zeros({3}, DType::i64)}, attrs, "beside whole numbers it must be whole"});
    return list;
  }
  return {{{Tensor::zeros({2, 3}, DType::i64)}, attrs, "x must be f32 or f64, it is i64"},
          {{Tensor::zeros({3}, DType::boolean)}, attrs, "x must be f32 or f64, it is bool"},
          {{Tensor::zeros({3})}, strange, "there is no attribute 'speed'"}};
}

namespace {

bool takes_whole(InferFn rule) { return rule == arithmetic_of_both || rule == quotient_of_both; }

std::vector<Sample> same_shape_samples(DType dtype, DomainFn first, DomainFn second) {
  return {{{first({3, 5}, dtype, 11), second({3, 5}, dtype, 21)}, {}, "matrices"},
          {{scattered(first({7, 4}, dtype, 12)), second({7, 4}, dtype, 22)}, {}, "first strided"},
          {{first({5, 3}, dtype, 13), scattered(second({5, 3}, dtype, 23))}, {}, "second strided"},
          {{first({2, 65}, dtype, 14), second({2, 1}, dtype, 24).expand({2, 65})}, {}, "second expanded"},
          {{first({2, 1}, dtype, 15).expand({2, 33}), second({2, 1}, dtype, 25).expand({2, 33})}, {}, "both expanded"},
          {{first({1}, dtype, 16), second({1}, dtype, 26)}, {}, "one element"},
          {{first({}, dtype, 17), second({}, dtype, 27)}, {}, "scalars"},
          {{first({2, 0}, dtype, 18), second({2, 0}, dtype, 28)}, {}, "empty"}};
}

std::vector<Sample> broadcast_samples(DType dtype, DomainFn first, DomainFn second) {
  std::vector<Sample> samples = same_shape_samples(dtype, first, second);
  const auto add_sample = [&](const Shape& a, const Shape& b, const char* note) {
    const std::uint64_t tag = samples.size();
    samples.push_back({{first(a, dtype, 40 + tag), second(b, dtype, 60 + tag)}, {}, note});
  };
  add_sample({3, 4, 33}, {33}, "row broadcast");
  add_sample({33}, {3, 4, 33}, "first broadcast along rows");
  add_sample({5, 1}, {1, 7}, "outer");
  add_sample({3, 4, 5}, {4, 1}, "column broadcast");
  add_sample({2, 1, 3, 1}, {4, 1, 5}, "broadcast in several axes");
  add_sample({}, {3, 2}, "scalar first");
  add_sample({6, 2}, {1, 1}, "scalar second");
  add_sample({0, 4}, {1, 4}, "empty against one row");
  samples.push_back(
      {{scattered(first({6, 5}, dtype, 91)), scattered(second({5}, dtype, 92))}, {}, "strided broadcast"});
  return samples;
}

/// Whole numbers, and whole numbers beside floating ones. The second are powers of two, whose quotients f32 holds.
void add_whole_samples(std::vector<Sample>& samples, DType dtype, DomainFn first) {
  const auto powers = [](const Shape& shape, std::uint64_t tag) {
    const Tensor exponents = sample_whole(shape, tag, 0, 3);
    return add(add(mul(exponents, exponents), exponents), Tensor::full({}, 2.0, DType::i64)); // 2, 4, 8
  };
  samples.push_back({{sample_whole({3, 5}, 31, -9, 10), powers({5}, 32)}, {}, "whole numbers"});
  samples.push_back({{scattered(sample_whole({7, 4}, 33, 0, 60).to(DType::u8)), powers({7, 1}, 34)}, {}, "bytes"});
  samples.push_back({{sample_whole({33}, 35, 0, 2).to(DType::boolean), powers({}, 36)}, {}, "truth values"});
  samples.push_back({{first({2, 9}, dtype, 37), powers({9}, 38)}, {}, "whole numbers beside others"});
}

std::vector<Refusal> common_binary_refusals(bool whole) {
  const Tensor no = Tensor::zeros({2, 3}, whole ? DType::bf16 : DType::i64);
  return {{{no, no}, {}, whole ? "must be f32, f64, i64, u8 or bool, it is bf16" : "must be f32 or f64, it is i64"},
          {{Tensor::zeros({3}), Tensor::zeros({3}, DType::f64)}, {}, "different types"},
          {{Tensor::zeros({3}), Tensor()}, {}, "must be given"}};
}

} // namespace

std::vector<Sample> binary_samples(InferFn rule, DType dtype, DomainFn first, DomainFn second) {
  if (rule == same_shape_everywhere) return same_shape_samples(dtype, first, second);
  std::vector<Sample> samples = broadcast_samples(dtype, first, second);
  if (takes_whole(rule)) add_whole_samples(samples, dtype, first);
  return samples;
}
std::vector<Refusal> binary_refusals(InferFn rule) {
  std::vector<Refusal> all = common_binary_refusals(takes_whole(rule));
  const char* words =
      rule == same_shape_everywhere ? "shapes differ" : "shapes do not broadcast: a is [4, 3], b is [5, 2]";
  all.push_back({{Tensor::zeros({4, 3}), Tensor::zeros({5, 2})}, {}, words});
  return all;
}

Attrs sample_attributes(const Parametric& parametric) {
  Attrs attrs;
  for (std::size_t i = 0; i < parametric.specs.size(); ++i) attrs.set(parametric.specs[i].name, parametric.sample[i]);
  return attrs;
}

} // namespace eg::pointwise
