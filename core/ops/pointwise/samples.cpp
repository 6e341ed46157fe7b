#include "core/ops/pointwise/samples.h"

namespace eg::pointwise {

Tensor anywhere(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_normal(shape, dtype, tag, 1.3); }
Tensor positive(const Shape& shape, DType dtype, std::uint64_t tag) {
  return sample_uniform(shape, dtype, tag, 0.3, 3.0);
}
Tensor off_zero(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_off_zero(shape, dtype, tag); }

std::vector<Sample> unary_samples(DType dtype, DomainFn domain, const Attrs& attrs) {
  return {{{domain({3, 5}, dtype, 1)}, attrs, "matrix"},
          {{scattered(domain({7, 4}, dtype, 2))}, attrs, "strided"},
          {{domain({2, 65}, dtype, 3)}, attrs, "longer than a vector, with a tail"},
          {{domain({2, 1, 33}, dtype, 4).expand({2, 3, 33})}, attrs, "expanded"},
          {{domain({1}, dtype, 5)}, attrs, "one element"},
          {{domain({}, dtype, 6)}, attrs, "scalar"},
          {{domain({0, 3}, dtype, 7)}, attrs, "empty"}};
}

std::vector<Refusal> unary_refusals(const Attrs& attrs) {
  Attrs strange = attrs;
  strange.set("speed", 2.0);
  return {{{Tensor::zeros({2, 3}, DType::i64)}, attrs, "x must be f32 or f64, it is i64"},
          {{Tensor::zeros({3}, DType::boolean)}, attrs, "x must be f32 or f64, it is bool"},
          {{Tensor::zeros({3})}, strange, "there is no attribute 'speed'"}};
}

namespace {

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

std::vector<Refusal> common_binary_refusals() {
  return {{{Tensor::zeros({2, 3}, DType::i64), Tensor::zeros({2, 3}, DType::i64)}, {}, "must be f32 or f64, it is i64"},
          {{Tensor::zeros({3}), Tensor::zeros({3}, DType::f64)}, {}, "different types"},
          {{Tensor::zeros({3}), Tensor()}, {}, "must be given"}};
}

} // namespace

std::vector<Sample> binary_samples(InferFn rule, DType dtype, DomainFn first, DomainFn second) {
  return rule == broadcast_of_both ? broadcast_samples(dtype, first, second) : same_shape_samples(dtype, first, second);
}
std::vector<Refusal> binary_refusals(InferFn rule) {
  std::vector<Refusal> all = common_binary_refusals();
  const char* words = rule == broadcast_of_both ? "shapes do not broadcast: a is [4, 3], b is [5, 2]" : "shapes differ";
  all.push_back({{Tensor::zeros({4, 3}), Tensor::zeros({5, 2})}, {}, words});
  return all;
}

Attrs sample_attributes(const Parametric& parametric) {
  Attrs attrs;
  for (std::size_t i = 0; i < parametric.specs.size(); ++i) attrs.set(parametric.specs[i].name, parametric.sample[i]);
  return attrs;
}

} // namespace eg::pointwise
