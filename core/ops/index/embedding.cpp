// embedding: rows of a table; its adjoint adds rows to a table of zeros, in the order of the ids.

#include "core/ops.h"
#include "core/ops/index/row_moves.h"
#include "core/ops/list.h"
#include "core/ops/views/strided_copy.h"

#include <array>
#include <fmt/format.h>
#include <unordered_map>

namespace eg {
namespace {

std::vector<TensorSpec> embedding_infer(const OpArgs& a) {
  check_dtype(a, 1, DType::i64);
  const Shape& weight = a.in[0].shape();
  if (weight.rank() != 2) throw ShapeError(fmt::format("embedding: weight must be [V, C], it is {}", weight.str()));
  return {{with_new_axis(a, a.in[1].shape(), a.in[1].rank(), weight[1]), a.in[0].dtype()}};
}

RowMove move_of(const Tensor& packed_ids, std::int64_t table_rows, std::int64_t width) {
  RowMove m;
  m.extent = table_rows;
  m.count = packed_ids.numel();
  m.inner = width;
  m.index = index_address(packed_ids);
  return m;
}

void embedding_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor weight = a.in[0].contiguous();
  const Tensor ids = a.in[1].contiguous();
  check_indices("embedding", ids, weight.shape()[0]);
  take_rows(weight.dtype(), move_of(ids, weight.shape()[0], weight.shape()[1]), weight.bytes(),
            out[0].mutable_bytes("embedding"));
}

void embedding_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Tensor weight = packed(a.in[0]);
  const Tensor ids = packed(a.in[1]);
  take_on_device("embedding", move_of(ids, weight.shape()[0], weight.shape()[1]), false, weight, out[0]);
}

std::vector<Tensor> embedding_reference(const OpArgs& a) {
  return {tabulate(embedding_infer(a)[0].shape, a.in[0].dtype(), [&](const Index& i) {
    const double id = read(a.in[1], Index(i.begin(), i.end() - 1));
    return read(a.in[0], {static_cast<std::int64_t>(id), i.back()});
  })};
}

Tensor ids_of(std::initializer_list<std::int64_t> values, const Shape& shape) { return Tensor::from(values, shape); }

std::vector<Sample> embedding_samples(DType dtype) {
  return {
      {{sample_values({5, 3}, dtype, 1), ids_of({4, 0, 4, 2, 1, 4}, {2, 3})}, {}, "an id occurs three times"},
      {{sample_transposed({7, 33}, dtype, 2), ids_of({6, 5, 0, 3}, {4})}, {}, "a transposed table"},
      {{sample_values({3, 1}, dtype, 3), ids_of({2, 2, 0, 1}, {2, 2}).transpose()}, {}, "one column, transposed ids"},
      {{sample_values({3, 4}, dtype, 4), ids_of({1}, {})}, {}, "a single id"},
      {{sample_values({3, 4}, dtype, 5), ids_of({}, {0})}, {}, "no ids"}};
}

std::vector<Refusal> embedding_refuses() {
  const Tensor weight = Tensor::zeros({10, 4});
  return {{{weight, ids_of({1, 12}, {2})}, {}, "index 12 at position 1 is outside [0, 10)"},
          {{weight, ids_of({-1}, {1})}, {}, "index -1 at position 0 is outside [0, 10)"},
          {{weight, Tensor::zeros({2})}, {}, "ids must be i64, it is f32"},
          {{Tensor::zeros({4}), ids_of({1}, {1})}, {}, "weight must be [V, C], it is [4]"}};
}

std::vector<Symmetry> embedding_symmetries(const Sample& s) {
  std::vector<Symmetry> list;
  if (s.in[0].shape()[1] >= 2) list.push_back({"columns", {in_leg(0, 1), out_leg(0, -1)}});
  if (s.in[0].shape()[0] >= 2) list.push_back({"vocabulary", {in_leg(0, 0)}, {1}});
  for (int axis = 0; axis < s.in[1].rank(); ++axis)
    if (s.in[1].shape()[axis] >= 2)
      list.push_back({fmt::format("ids axis {}", axis), {in_leg(1, axis), out_leg(0, axis)}});
  return list;
}

/// The rows that are looked up, not the whole table.
Work embedding_work(const OpArgs& a, std::span<const TensorSpec> out) {
  const double row_bytes = static_cast<double>(out[0].shape.numel()) * static_cast<double>(size_of(out[0].dtype));
  return {0.0, 2.0 * row_bytes + static_cast<double>(a.in[1].numel()) * static_cast<double>(size_of(DType::i64))};
}

std::vector<TensorSpec> backward_infer(const OpArgs& a) {
  check_dtype(a, 1, DType::i64);
  const Shape& grad = a.in[0].shape();
  const Shape& ids = a.in[1].shape();
  check_floating(a, 0);
  if (grad.rank() != ids.rank() + 1 || grad != with_new_axis(a, ids, ids.rank(), grad[-1]))
    throw ShapeError(fmt::format("embedding_backward: grad must be ids' shape and one axis more: grad is {}, ids is {}",
                                 grad.str(), ids.str()));
  const std::int64_t rows = a.attrs.integer("rows");
  if (rows < 0) throw ValueError(fmt::format("embedding_backward: rows is {}; it must not be negative", rows));
  return {{{rows, grad[-1]}, a.in[0].dtype()}};
}

template <bool exact> void backward_cpu(const OpArgs& a, std::span<Tensor> out) {
  const Tensor grad = a.in[0].contiguous();
  const Tensor ids = a.in[1].contiguous();
  const Shape& table = out[0].shape();
  check_indices("embedding_backward", ids, table[0]);
  if (exact) fill_zeros(out[0]);
  (exact ? add_rows_exact : sum_rows)(grad.dtype(), move_of(ids, table[0], table[1]), grad.bytes(),
                                      out[0].mutable_bytes("embedding_backward"));
}

void backward_cuda(const OpArgs& a, std::span<Tensor> out) {
  const Tensor grad = packed(a.in[0]);
  const Tensor ids = packed(a.in[1]);
  const Shape& table = out[0].shape();
  fill_zeros(out[0]);
  add_on_device("embedding_backward", move_of(ids, table[0], table[1]), false, grad, out[0]);
}

std::vector<Tensor> backward_reference(const OpArgs& a) {
  const Tensor& grad = a.in[0];
  const Tensor& ids = a.in[1];
  return {tabulate(backward_infer(a)[0].shape, grad.dtype(), [&](const Index& y) {
    double sum = 0;
    for_each_index(ids.shape(), [&](Index i) {
      if (static_cast<std::int64_t>(read(ids, i)) != y[0]) return;
      i.push_back(y[1]);
      sum += read(grad, i);
    });
    return sum;
  })};
}

Attrs table_rows(std::int64_t rows) { return {{"rows", rows}}; }

std::vector<Sample> backward_samples(DType dtype) {
  return {{{sample_values({2, 3, 3}, dtype, 1), ids_of({4, 0, 4, 2, 1, 4}, {2, 3})}, table_rows(5), "an id thrice"},
          {{sample_transposed({4, 65}, dtype, 2), ids_of({6, 5, 0, 3}, {4})}, table_rows(7), "a transposed gradient"},
          {{sample_values({4, 1}, dtype, 3), ids_of({2, 2, 0, 1}, {4})}, table_rows(3), "one column"},
          {{sample_values({4}, dtype, 4), ids_of({1}, {})}, table_rows(3), "a single id"},
          {{sample_values({0, 4}, dtype, 5), ids_of({}, {0})}, table_rows(3), "no ids"}};
}

std::vector<Refusal> backward_refuses() {
  const Tensor grad = Tensor::zeros({2, 4});
  return {{{grad, ids_of({1, 12}, {2})}, table_rows(10), "index 12 at position 1 is outside [0, 10)"},
          {{grad, ids_of({1}, {1})}, table_rows(10), "grad is [2, 4], ids is [1]"},
          {{grad, ids_of({1, 2}, {2})}, table_rows(-1), "rows is -1"},
          {{Tensor::zeros({2, 4}, DType::i64), ids_of({1, 2}, {2})}, table_rows(3), "grad must be"}};
}

std::vector<Symmetry> backward_symmetries(const Sample& s) {
  std::vector<Symmetry> list;
  if (s.in[0].shape()[-1] >= 2) list.push_back({"columns", {in_leg(0, -1), out_leg(0, 1)}});
  if (s.attrs.integer("rows") >= 2) list.push_back({"vocabulary", {out_leg(0, 0)}, {1}});
  for (int axis = 0; axis < s.in[1].rank(); ++axis)
    if (s.in[1].shape()[axis] >= 2)
      list.push_back({fmt::format("ids axis {}", axis), {in_leg(0, axis), in_leg(1, axis)}});
  return list;
}

/// The ids that occur, in the order of their first places, and for each place the number of its id among them.
struct DistinctIds {
  Tensor ids, numbers;
};

DistinctIds distinct(const Tensor& ids) {
  std::unordered_map<std::int64_t, std::int64_t> number_of;
  std::vector<std::int64_t> found;
  const Tensor packed = ids.contiguous();
  Tensor numbers = Tensor::empty(packed.shape(), DType::i64);
  const auto* from = packed.data<std::int64_t>();
  auto* to = numbers.mutable_data<std::int64_t>("embedding");
  for (std::int64_t i = 0; i < packed.numel(); ++i) {
    const auto [at, fresh] = number_of.try_emplace(from[i], static_cast<std::int64_t>(found.size()));
    if (fresh) found.push_back(from[i]);
    to[i] = at->second;
  }
  const auto count = static_cast<std::int64_t>(found.size());
  return {Tensor::from(found, {count}), numbers};
}

/// A table of a large vocabulary is as large as all else in a step, and few of its rows are looked up.
void embedding_adding_vjp(const AddingVjp& v) {
  Tensor& sum = v.sums[0];
  if (!sum.device().is_cpu()) { // the host does not see the ids
    const Tensor whole = call1(embedding_backward_op, {v.grad[0], v.in[1]}, table_rows(sum.shape()[0]));
    sum = add(sum, whole);
    return;
  }
  const DistinctIds rows = distinct(v.in[1]);
  const Tensor added = call1(embedding_backward_op, {v.grad[0], rows.numbers}, table_rows(rows.ids.numel()));
  const Clock::time_point began = recording() ? Clock::now() : Clock::time_point();
  add_rows(sum.dtype(), move_of(rows.ids, sum.shape()[0], sum.shape()[1]), added.bytes(),
           sum.mutable_bytes("embedding_backward"));
  if (!recording()) return;
  const std::array<Tensor, 2> in = {added, rows.ids};
  const Attrs attrs = table_rows(sum.shape()[0]);
  notify_recorders(
      Event{.op = &embedding_backward_op, .in = in, .out = std::span(&sum, 1), .attrs = &attrs, .began = began});
}

} // namespace

constinit const OpDef embedding_op = row({
    .name = "embedding",
    .math = "y[.., c] = weight[ids[..], c]",
    .inputs = {{"weight"}, {"ids"}},
    .infer = embedding_infer,
    .cpu = embedding_cpu,
    .cuda = embedding_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(1),
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {call1(embedding_backward_op, {v.grad[0], v.in[1]}, table_rows(v.in[0].shape()[0])), Tensor()};
    },
    .adding_vjp = embedding_adding_vjp,
    .reference = embedding_reference,
    .samples = embedding_samples,
    .refuses = embedding_refuses,
    .symmetries = embedding_symmetries,
    .work = embedding_work,
});

constinit const OpDef embedding_backward_op = row({
    .name = "embedding_backward",
    .math = "y[v, c] = sum of grad[.., c] over the places where ids[..] = v",
    .inputs = {{"grad"}, {"ids"}},
    .attributes = {required_attr("rows", AttrKind::integer, "rows V of the table")},
    .infer = backward_infer,
    .cpu = backward_cpu<false>,
    .exact = backward_cpu<true>,
    .cuda = backward_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(1),
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {embedding(v.grad[0], v.in[1]), Tensor()};
    },
    .reference = backward_reference,
    .samples = backward_samples,
    .refuses = backward_refuses,
    .symmetries = backward_symmetries,
    .work = scatter_work<0>,
});

Tensor embedding(const Tensor& weight, const Tensor& ids) { return call1(embedding_op, {weight, ids}); }

} // namespace eg
