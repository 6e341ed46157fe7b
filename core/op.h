#pragma once
// Describes an operation in one definition. The registry (core/registry.h) lists the definitions; the law suite, the
// benchmark and the op reference enumerate them.

#include "core/attributes.h"
#include "core/tensor.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg {

struct OpDef;

/// Shape and element type of an output.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::f32;
};

/// Inputs and attributes of one call. in[i] is undefined where an optional input was not given.
struct OpArgs {
  const OpDef& op;
  std::span<const Tensor> in;
  const Attrs& attrs;

  bool given(std::size_t i) const { return i < in.size() && in[i].defined(); }
};

/// What a vjp rule sees. in[i] and out[i] have values only where the row's `saves` says so, otherwise they are meta
/// tensors (shape and dtype). grad[o] is the cotangent of output o (undefined: zero). wants(i): someone asked for the
/// gradient of input i; a rule does no work for the others.
struct VjpArgs : OpArgs {
  std::span<const Tensor> out;
  std::span<const Tensor> grad;
  std::uint32_t wanted = 0;

  /// True where input i's gradient is asked for. Inputs past the 32nd (of a variadic op) count as wanted when any is.
  bool wants(std::size_t i) const { return i < 32 ? (wanted >> i & 1U) != 0 : true; }
};

/// What a rule sees that adds its gradients to what has arrived from elsewhere.
struct AddingVjp {
  std::span<const Tensor> in;
  std::span<const Tensor> out;
  const Attrs& attrs;
  std::span<const Tensor> grad;    ///< cotangents of the outputs; undefined: zero
  const std::vector<bool>& wanted; ///< by input; a tensor that is an input twice is wanted once
  std::span<Tensor> sums;          ///< by input: what has arrived so far (undefined: zero); add to it
};

/// One gradient per input, undefined where it is zero or was not wanted. Gradients may have the shape of the broadcast
/// output: the engine sums them back to the input's shape.
using Gradients = std::vector<Tensor>;

/// A call that the row's samples list: small, differentiable where it stands.
struct Sample {
  std::vector<Tensor> in;
  Attrs attrs;
  const char* note = "";
};

/// A call that must be refused, and words that the message must contain.
struct Refusal {
  std::vector<Tensor> in;
  Attrs attrs;
  const char* words = "";
};

/// One axis of one input or output.
struct Leg {
  enum class Side : std::uint8_t { in, out };
  Side side;
  int index;
  int axis;
};
constexpr Leg in_leg(int index, int axis) { return {Leg::Side::in, index, axis}; }
constexpr Leg out_leg(int index, int axis) { return {Leg::Side::out, index, axis}; }

/// A permutation symmetry: the same permutation applied to every leg's axis maps inputs to inputs and outputs to
/// outputs: f(rho x) = rho f(x). A leg of an input that the sample does not give is skipped. `values`: inputs whose
/// elements are indices along the permuted axis and are relabelled with the inverse permutation (embedding ids,
/// labels).
struct Symmetry {
  std::string name;
  std::vector<Leg> legs;
  std::vector<int> values = {};
  /// Every index of these legs has a say in the others (softmax, norms): another axis cannot be permuted in its own way
  /// at each of them. False: the call is one call for each index.
  bool mixes = false;
  /// It holds bit for bit: what an output has at one index is computed alike wherever that index lies (kept axes of a
  /// reduction, images, channels).
  bool bit_exact = false;
  /// False: repeated along the legs, a sample would no longer be one that the row is well determined on (a matrix with
  /// equal rows has no inverse, and no definite singular vectors). Laws then do not enlarge it along them.
  bool grows = true;
};

/// A call with fewer than `least` indices along the axes of a symmetry whose name begins with `symmetry` may be
/// refused. The law on small extents cuts each symmetry of each sample to 1 and 0, and allows no other refusal.
struct LeastExtent {
  std::string_view symmetry;
  std::int64_t least = 1;
  std::string_view reason;
};

/// On what the rounding of an operation depends beside the values of its inputs. Laws allow it to the rows that say so.
struct Rounding {
  /// Products, here or in the rule, give BLAS strided operands as they lie: N and T are different routines there, which
  /// may add in another order. A packed copy would cost more than the product gains.
  bool by_layout = false;
  enum class Mean : std::uint8_t { none, in_f64, in_type };
  /// The type to which a mean of the inputs, or a product with it, is rounded: f64 or that of the inputs. Differences
  /// of the inputs are known no better than that.
  Mean mean = Mean::none;
};

/// Cost of one call: floating-point operations and bytes that must move.
struct Work {
  double flops = 0;
  double bytes = 0;
};

/// Bits for OpDef::saves.
namespace saves {
inline constexpr std::uint32_t nothing = 0;
constexpr std::uint32_t in(int i) { return 1U << i; }
constexpr std::uint32_t out(int i) { return 1U << (16 + i); }
} // namespace saves

/// Declaration of one input: its name and whether it may be left out.
struct InputSpec {
  std::string_view name;
  bool optional = false;
};

/// A constexpr list with a fixed capacity, for rows.
template <class T, std::size_t Capacity> struct FixedList {
  std::array<T, Capacity> items{};
  std::size_t count = 0;

  constexpr FixedList() = default;
  constexpr FixedList(std::initializer_list<T> list) {
    for (const T& item : list) items[count++] = item;
  }
  constexpr const T* begin() const { return items.data(); }
  constexpr const T* end() const { return items.data() + count; }
  constexpr std::size_t size() const { return count; }
  constexpr const T& operator[](std::size_t i) const { return items[i]; }
};

using InferFn = std::vector<TensorSpec> (*)(const OpArgs&);
using KernelFn = void (*)(const OpArgs&, std::span<Tensor> out);
using ViewFn = Tensor (*)(const OpArgs&);
using BodyFn = std::vector<Tensor> (*)(const OpArgs&);
using VjpFn = Gradients (*)(const VjpArgs&);
using AddingVjpFn = void (*)(const AddingVjp&);
/// Plain loops over packed float64 (or integer) inputs.
using ReferenceFn = std::vector<Tensor> (*)(const OpArgs&);

/// The row.
struct OpDef {
  std::string_view name;           ///< "softmax"
  std::string_view math;           ///< one line of mathematics
  FixedList<InputSpec, 10> inputs; ///< in order; one named "xs" with `variadic` stands for any number
  bool variadic = false;           ///< the (single) declared input repeats one or more times
  FixedList<std::string_view, 4> outputs = {"y"};
  bool variadic_outputs = false; ///< the (single) declared output repeats: its number follows from the call
  /// The last so many outputs serve the gradient; the operation as a function (core/ops.h, Python) leaves them out.
  std::size_t auxiliary = 0;
  FixedList<AttrSpec, 8> attributes = {};
  InferFn infer = nullptr;              ///< checks the call and gives the outputs' shapes; throws
  KernelFn cpu = nullptr;               ///< fills the outputs, which are packed and uninitialised
  KernelFn exact = nullptr;             ///< instead of cpu in exact mode; null: no sum in cpu whose order could matter
  std::string_view no_exact = {};       ///< why exact mode refuses the row, where it does
  ViewFn view = nullptr;                ///< instead of cpu: gives a view of in[0] (or a copy where there is none)
  BodyFn body = nullptr;                ///< instead of cpu and vjp: made of other ops, which the tape records
  KernelFn cuda = nullptr;              ///< instead of cpu where the inputs are on a device: starts device kernels
  KernelFn cuda_exact = nullptr;        ///< instead of exact there
  bool cuda_same_bits = false;          ///< the device kernel gives the bits of cpu
  std::string_view no_cuda = {};        ///< why there is no cuda kernel, where there is none
  std::uint32_t saves = saves::nothing; ///< what the tape keeps for the rule
  VjpFn vjp = nullptr;                  ///< the rule, made of ops
  /// Instead of vjp where the first input alone has a gradient, and its sum so far is packed and has no other holder.
  /// For a gradient that is mostly zeros: the bits of adding vjp's, the sign of a zero apart.
  AddingVjpFn adding_vjp = nullptr;
  std::string_view no_gradient = {};   ///< why there is no rule, where there is none
  std::string_view zero_gradient = {}; ///< why the rule gives zero everywhere, where it does
  Rounding rounding = {};
  ReferenceFn reference = nullptr; ///< oracle and teaching text; null in pages, as are samples and refuses: row()
  std::vector<Sample> (*samples)(DType) = nullptr;
  std::vector<Refusal> (*refuses)() = nullptr;
  std::vector<Symmetry> (*symmetries)(const Sample&) = nullptr;
  std::string_view no_symmetry = {}; ///< why there is none, where there is none
  FixedList<LeastExtent, 3> least_extents = {};
  Work (*work)(const OpArgs&, std::span<const TensorSpec>) = nullptr;
};

/// True when gradients pass through the operation: by its rule or by those of the ops in its body.
constexpr bool has_gradient(const OpDef& op) {
  return op.vjp != nullptr || (op.body != nullptr && op.no_gradient.empty());
}

/// True for the backward formula of other rows, whose inputs include what a forward pass saved: one of them cannot be
/// changed alone. Such a row, and no other, has a name that ends in "_backward", and no function of that name.
constexpr bool is_backward(const OpDef& op) { return op.name.ends_with("_backward"); }

/// Name of output o, also of a row with any number of them: "ys[2]".
std::string output_name(const OpDef& op, std::size_t o);
/// Name of input i, also of a variadic row: "xs[2]".
std::string input_name(const OpDef& op, std::size_t i);

/// Refuses an incomplete row when the program is compiled: `constinit const OpDef softmax_op = row({...});`. With
/// EQUIGRAD_WITHOUT_LAWS a row has no reference, samples and refusals, so that the compiler leaves their functions out.
consteval OpDef row(OpDef def) {
  if (def.name.empty()) throw "an op row needs a name";
  if (def.math.empty()) throw "an op row needs its mathematics in one line";
  if (def.infer == nullptr) throw "an op row needs a shape rule";
  const int ways = (def.cpu != nullptr ? 1 : 0) + (def.view != nullptr ? 1 : 0) + (def.body != nullptr ? 1 : 0);
  if (ways != 1) throw "an op row needs one of a CPU kernel, a view and a body";
  if (def.auxiliary > 0 && (def.variadic_outputs || def.auxiliary >= def.outputs.size()))
    throw "an op row needs an output that is no auxiliary one";
  if (def.exact != nullptr && def.cpu == nullptr) throw "an exact kernel stands beside a CPU kernel";
  if (!def.no_exact.empty() && (def.cpu == nullptr || def.exact != nullptr))
    throw "an op row that exact mode refuses has a CPU kernel and no exact one";
  if (def.body != nullptr ? def.vjp != nullptr : (def.vjp == nullptr) == def.no_gradient.empty())
    throw "an op row needs a rule or the reason why it has none; a body needs no rule";
  if (def.cpu != nullptr ? (def.cuda == nullptr) == def.no_cuda.empty() : def.cuda != nullptr)
    throw "a CPU kernel needs a device kernel beside it or the reason why there is none";
  if (def.cuda_same_bits && def.cuda == nullptr) throw "the bits of a device kernel need one";
  if (def.cuda_exact != nullptr && (def.exact == nullptr || def.cuda == nullptr))
    throw "an exact device kernel stands beside an exact one and a device kernel";
  if (def.adding_vjp != nullptr && def.vjp == nullptr)
    throw "an op row that adds to a sum needs a rule for when there is none";
  if (def.vjp == nullptr && !def.zero_gradient.empty())
    throw "an op row whose gradient is zero needs a rule that says so";
  if (def.reference == nullptr) throw "an op row needs a reference in plain loops";
  if (def.samples == nullptr) throw "an op row needs samples";
  if (def.refuses == nullptr) throw "an op row needs calls that must be refused";
  if ((def.symmetries == nullptr) == def.no_symmetry.empty()) throw "an op row needs symmetries or the reason why not";
  if (def.work == nullptr) throw "an op row needs its cost";
#ifdef EQUIGRAD_WITHOUT_LAWS
  def.reference = nullptr;
  def.samples = nullptr;
  def.refuses = nullptr;
#endif
  return def;
}

} // namespace eg
