#include "core/ops/row_tools.h"

#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/meta.h"
#include "core/ops/views/strided_copy.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

std::string_view input_name(const OpArgs& args, std::size_t i) { return args.op.inputs[args.op.variadic ? 0 : i].name; }

/// The type of the other inputs that are f32 or f64; without one f64, which loses the least.
DType floating_beside(const OpArgs& args, std::size_t i) {
  for (std::size_t other = 0; other < args.in.size(); ++other)
    if (other != i && args.given(other) && is_floating(args.in[other].dtype())) return args.in[other].dtype();
  return DType::f64;
}

} // namespace

void check_floating(const OpArgs& args, std::size_t i) {
  if (!is_floating(args.in[i].dtype()))
    throw DTypeError(fmt::format("{}: {} must be f32 or f64, it is {}; convert it with to(\"{}\")", args.op.name,
                                 input_name(args, i), name_of(args.in[i].dtype()), name_of(floating_beside(args, i))));
}

void check_all_floating(const OpArgs& args) {
  for (std::size_t i = 0; i < args.in.size(); ++i)
    if (args.given(i)) check_floating(args, i);
}

void check_number(const OpArgs& args, std::size_t i) {
  const DType dtype = args.in[i].dtype();
  if (!is_floating(dtype) && !is_whole(dtype))
    throw DTypeError(fmt::format("{}: {} must be f32, f64, i64, u8 or bool, it is {}; convert it with to(\"{}\")",
                                 args.op.name, input_name(args, i), name_of(dtype), name_of(floating_beside(args, i))));
}

void check_dtype(const OpArgs& args, std::size_t i, DType wanted) {
  if (args.in[i].dtype() != wanted)
    throw DTypeError(
        fmt::format("{}: {} must be {}, it is {}{}", args.op.name, input_name(args, i), name_of(wanted),
                    name_of(args.in[i].dtype()),
                    wanted == DType::i64 && is_whole(args.in[i].dtype()) ? "; convert it with to(\"i64\")" : ""));
}

void check_shape(const OpArgs& args, std::size_t i, const Shape& wanted) {
  if (!(args.in[i].shape() == wanted))
    throw ShapeError(fmt::format("{}: {} must be {}, it is {}", args.op.name, input_name(args, i), wanted.str(),
                                 args.in[i].shape().str()));
}

void check_rank_at_least(const OpArgs& args, std::size_t i, int rank) {
  if (args.in[i].rank() < rank)
    throw ShapeError(fmt::format("{}: {} must have at least {} axes, it is {}", args.op.name, input_name(args, i), rank,
                                 args.in[i].shape().str()));
}

int axis_of(const OpArgs& args) {
  return normalize_axis(std::string(args.op.name).c_str(), args.attrs.integer("axis"), args.in[0].rank());
}

std::vector<TensorSpec> same_shape_as_first(const OpArgs& args) {
  check_all_floating(args);
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

std::vector<TensorSpec> same_shape_everywhere(const OpArgs& args) {
  check_all_floating(args);
  for (std::size_t i = 1; i < args.in.size(); ++i)
    if (args.given(i) && !(args.in[i].shape() == args.in[0].shape()))
      throw ShapeError(fmt::format("{}: shapes differ: {} is {}, {} is {}", args.op.name, input_name(args, 0),
                                   args.in[0].shape().str(), input_name(args, i), args.in[i].shape().str()));
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

std::vector<TensorSpec> broadcast_of_both(const OpArgs& args) {
  check_all_floating(args);
  return {{broadcast_shapes(args.op.name.data(), args.in[0].shape(), args.in[1].shape()), args.in[0].dtype()}};
}

DType arithmetic_type(DType a, DType b) {
  if (is_floating(a)) return a;
  return is_floating(b) ? b : DType::i64;
}

std::vector<TensorSpec> arithmetic_of_both(const OpArgs& args) {
  check_number(args, 0);
  check_number(args, 1);
  return {{broadcast_shapes(args.op.name.data(), args.in[0].shape(), args.in[1].shape()),
           arithmetic_type(args.in[0].dtype(), args.in[1].dtype())}};
}

std::vector<TensorSpec> quotient_of_both(const OpArgs& args) {
  std::vector<TensorSpec> out = arithmetic_of_both(args);
  if (out[0].dtype == DType::i64) out[0].dtype = DType::f32;
  return out;
}

bool mixes_types(const OpDef& op) { return op.infer == arithmetic_of_both || op.infer == quotient_of_both; }

bool may_fuse(std::span<const Tensor> operands) {
  return !recording() && !is_shape_only() && std::all_of(operands.begin(), operands.end(), [](const Tensor& x) {
    return !x.defined() || (x.has_storage() && x.device().is_cpu());
  });
}

Tensor packed(const Tensor& x) {
  if (x.is_contiguous()) return x;
  PauseRecording pause;
  return x.contiguous();
}

Tensor as_type(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const PauseRecording pause;
  return cast(x, dtype);
}

void run_on_host(KernelFn cpu, const OpArgs& args, std::span<Tensor> out) {
  std::vector<Tensor> in(args.in.begin(), args.in.end()), there;
  for (Tensor& x : in)
    if (x.defined()) x = device::on_cpu(x);
  {
    const DeviceScope host(Device::cpu());
    for (const Tensor& y : out) there.push_back(Tensor::empty(y.shape(), y.dtype()));
    cpu(OpArgs{args.op, in, args.attrs}, there);
  }
  for (std::size_t o = 0; o < out.size(); ++o) out[o] = device::transferred(there[o], out[o].device());
}

void assign(Tensor& out, const Tensor& value) {
  out = value.is_contiguous() && value.exclusive() ? value : packed_copy(value);
}

Tensor widened(const Tensor& x) { return x.defined() && x.dtype() == DType::bf16 ? x.to(DType::f32) : x; }

AxisSplit split_at(const Shape& shape, int axis) {
  AxisSplit split;
  for (int i = 0; i < axis; ++i) split.outer *= shape[i];
  split.extent = shape[axis];
  for (int i = axis + 1; i < shape.rank(); ++i) split.inner *= shape[i];
  return split;
}

void add_term(Tensor& total, const Tensor& term) { total = total.defined() ? total + term : term; }

double bytes_moved(const OpArgs& args, std::span<const TensorSpec> out) {
  double bytes = 0;
  for (std::size_t i = 0; i < args.in.size(); ++i)
    if (args.given(i)) bytes += static_cast<double>(args.in[i].nbytes());
  for (const TensorSpec& spec : out)
    bytes += static_cast<double>(spec.shape.numel()) * static_cast<double>(size_of(spec.dtype));
  return bytes;
}

Tensor sample_normal(const Shape& shape, DType dtype, std::uint64_t tag, double scale, double mean) {
  return random_normal(shape, RandomKey{20240611, tag}, mean, scale, dtype);
}

Tensor sample_uniform(const Shape& shape, DType dtype, std::uint64_t tag, double low, double high) {
  return random_uniform(shape, RandomKey{20240612, tag}, low, high, dtype);
}

Tensor sample_whole(const Shape& shape, std::uint64_t tag, std::int64_t low, std::int64_t high) {
  return random_integers(shape, RandomKey{20240613, tag}, low, high);
}

Tensor sample_off_zero(const Shape& shape, DType dtype, std::uint64_t tag, double gap) {
  std::vector<double> v = sample_normal(shape, DType::f64, tag).to_vector<double>();
  for (double& x : v) x += x < 0 ? -gap : gap;
  return Tensor::from<double>(v, shape).to(dtype);
}

Tensor scattered(const Tensor& x) {
  Shape wide = x.shape();
  if (x.rank() == 0) return x;
  if (x.rank() == 1) { // every second element of a longer tensor
    Tensor holder = Tensor::zeros({x.size(0), 2}, x.dtype());
    Tensor view = holder.select(1, 1);
    view.copy_from(x);
    return view;
  }
  const int rank = x.rank();
  std::swap(wide[rank - 1], wide[rank - 2]);
  wide[rank - 1] += 3;
  Tensor holder = Tensor::zeros(wide, x.dtype());
  Tensor view = holder.slice(rank - 1, 1, 1 + x.size(rank - 2)).transpose();
  view.copy_from(x);
  return view;
}

std::vector<Symmetry> pointwise_symmetries(const Sample& sample) {
  int rank = 0;
  for (const Tensor& x : sample.in) rank = std::max(rank, x.rank());
  std::vector<Symmetry> all;
  for (int back = 1; back <= rank; ++back) {
    std::int64_t extent = 1;
    for (const Tensor& x : sample.in)
      if (x.rank() >= back && x.shape()[-back] != 1) extent = x.shape()[-back];
    if (extent < 2) continue;
    Symmetry symmetry{fmt::format("axis -{}", back), {}};
    for (std::size_t i = 0; i < sample.in.size(); ++i)
      if (sample.in[i].rank() >= back && sample.in[i].shape()[-back] == extent)
        symmetry.legs.push_back(in_leg(static_cast<int>(i), -back));
    symmetry.legs.push_back(out_leg(0, -back));
    all.push_back(std::move(symmetry));
  }
  return all;
}

} // namespace eg
