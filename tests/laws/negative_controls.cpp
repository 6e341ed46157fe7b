// Rows that are wrong on purpose, and the law that must catch each. A law that accepts one of them tests nothing.

#include "controls.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/registry.h"
#include "core/threads/parallel.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

using namespace eg;
using laws::axis_of;
using laws::must_accept;
using laws::must_catch;
using laws::spoiled;
using laws::sum_along;

namespace {

/// The right kernel of the row `name`, then `spoil` on its first output.
template <class Spoil> void spoiled_kernel(const char* name, const OpArgs& a, std::span<Tensor> out, Spoil spoil) {
  find_op(name).cpu(a, out);
  if (out[0].dtype() == DType::f32)
    spoil(out[0].mutable_data<float>(), out[0].numel());
  else
    spoil(out[0].mutable_data<double>(), out[0].numel());
}

} // namespace

TEST_CASE("the right rows pass the laws that catch the wrong ones") {
  must_accept(laws::gradient_law, "softmax");
  must_accept(laws::symmetry_law, "softmax");
  must_accept(laws::reference_law, "softmax");
  must_accept(laws::layout_law, "tanh");
  must_accept(laws::placement_law, "tanh");
  must_accept(laws::threads_law, "mul");
}

TEST_CASE("wrong first derivatives") {
  must_catch(laws::gradient_law, "softmax without the row sum", spoiled("softmax", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients { return {mul(v.out[0], v.grad[0])}; };
             }));
  must_catch(laws::gradient_law, "softmax with the wrong sign", spoiled("softmax", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 const Tensor inner = sum_along(mul(v.out[0], v.grad[0]), axis_of(v));
                 return {mul(v.out[0], sub(inner, v.grad[0]))};
               };
             }));
  must_catch(laws::gradient_law, "softmax summed along another axis", spoiled("softmax", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 const Tensor inner = sum_along(mul(v.out[0], v.grad[0]), 0);
                 return {mul(v.out[0], sub(v.grad[0], inner))};
               };
             }));
  must_catch(laws::gradient_law, "tanh without the square", spoiled("tanh", [](OpDef& op) {
               op.saves = saves::out(0);
               op.vjp = [](const VjpArgs& v) -> Gradients { return {mul(v.grad[0], affine(v.out[0], -1.0, 1.0))}; };
             }));
  must_catch(laws::gradient_law, "affine that forgets its scale",
             spoiled("affine", [](OpDef& op) { op.vjp = [](const VjpArgs& v) -> Gradients { return {v.grad[0]}; }; }));
  must_catch(laws::gradient_law, "a factor that is off by a ten-thousandth", spoiled("exp", [](OpDef& op) {
               op.saves = saves::out(0);
               op.vjp = [](const VjpArgs& v) -> Gradients { return {affine(mul(v.grad[0], v.out[0]), 1.0001, 0.0)}; };
             }));
  must_catch(laws::gradient_law, "mul with its operands' gradients swapped", spoiled("mul", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 return {mul(v.grad[0], v.in[0]), mul(v.grad[0], v.in[1])};
               };
             }));
  must_catch(laws::gradient_law, "a rule that gives no gradient for the second operand", spoiled("mul", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients { return {mul(v.grad[0], v.in[1]), Tensor()}; };
             }));
  must_catch(laws::gradient_law, "layer_norm that treats mean and deviation as constants",
             spoiled("layer_norm", [](OpDef& op) {
               op.saves = saves::nothing;
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 Gradients g(3);
                 if (v.wants(0)) g[0] = v.grad[0];
                 return g;
               };
             }));
}

TEST_CASE("a rule that reads what the row does not save") {
  must_catch(laws::gradient_law, "exp that saves nothing",
             spoiled("exp", [](OpDef& op) { op.saves = saves::nothing; }));
}

TEST_CASE("samples at which nothing can be seen") {
  must_catch(laws::gradient_law, "relu with negative samples alone", spoiled("relu", [](OpDef& op) {
               op.samples = [](DType dtype) -> std::vector<Sample> {
                 return {{{Tensor::full({3, 4}, -1.0, dtype)}, {}}};
               };
             }));
  must_catch(laws::completeness_law, "a row without samples",
             spoiled("relu", [](OpDef& op) { op.samples = [](DType) -> std::vector<Sample> { return {}; }; }));
}

TEST_CASE("wrong second derivatives") {
  must_catch(laws::second_derivative_law, "a rule that hides its saved output", spoiled("exp", [](OpDef& op) {
               op.saves = saves::out(0);
               op.vjp = [](const VjpArgs& v) -> Gradients { return {mul(v.grad[0], v.out[0].detach())}; };
             }));
  must_catch(laws::second_derivative_law, "a rule that hides the cotangent", spoiled("mul", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 const Tensor g = v.grad[0].detach();
                 return {mul(g, v.in[1]), mul(g, v.in[0])};
               };
             }));
  // The first derivative of both is right: no other law would see it.
  CHECK(laws::gradient_law(spoiled("exp", [](OpDef& op) {
          op.saves = saves::out(0);
          op.vjp = [](const VjpArgs& v) -> Gradients { return {mul(v.grad[0], v.out[0].detach())}; };
        })).pass());
}

TEST_CASE("rules that do too much or too little work") {
  must_catch(laws::wants_law, "a rule that computes what nobody asked for", spoiled("mul", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 return {mul(v.grad[0], v.in[1]), mul(v.grad[0], v.in[0])};
               };
             }));
  must_catch(laws::wants_law, "a rule whose first gradient needs the second to be wanted",
             spoiled("mul", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 Gradients g(2);
                 if (v.wants(0) && v.wants(1)) g[0] = mul(v.grad[0], v.in[1]);
                 if (v.wants(1)) g[1] = mul(v.grad[0], v.in[0]);
                 return g;
               };
             }));
  must_catch(laws::saves_only_what_is_read, "a tape that keeps the input of exp",
             spoiled("exp", [](OpDef& op) { op.saves |= saves::in(0); }));
}

TEST_CASE("false symmetries") {
  must_catch(laws::symmetry_law, "softmax: rows of x move the columns of y", spoiled("softmax", [](OpDef& op) {
               op.samples = [](DType dtype) -> std::vector<Sample> {
                 return {{{random_normal({5, 5}, {3, 1}, 0.0, 1.0, dtype)}, {}}};
               };
               op.symmetries = [](const Sample&) -> std::vector<Symmetry> {
                 return {{"mixed", {in_leg(0, -2), out_leg(0, -1)}}};
               };
             }));
  must_catch(laws::symmetry_law, "softmax: y does not move with the columns", spoiled("softmax", [](OpDef& op) {
               op.symmetries = [](const Sample& s) -> std::vector<Symmetry> {
                 if (s.in[0].size(-1) < 2) return {};
                 return {{"columns", {in_leg(0, -1)}}};
               };
             }));
  must_catch(laws::symmetry_law, "matmul: the rows of A without those of Y", spoiled("matmul", [](OpDef& op) {
               op.symmetries = [](const Sample&) -> std::vector<Symmetry> { return {{"rows", {in_leg(0, -2)}}}; };
             }));
  // A weight per place: each row still sums to one number, but the place matters.
  const auto place_matters = spoiled("softmax", [](OpDef& op) {
    op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
      spoiled_kernel("softmax", a, out, [](auto* y, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
          y[i] *= static_cast<std::remove_reference_t<decltype(*y)>>(1 + 1e-3 * static_cast<double>(i));
      });
    };
  });
  must_catch(laws::symmetry_law, "a kernel to which the place matters", place_matters);
  must_catch(laws::symmetry_law, "a symmetry that no sample exercises", spoiled("softmax", [](OpDef& op) {
               op.samples = [](DType dtype) -> std::vector<Sample> {
                 return {{{random_normal({1, 1}, {3, 1}, 0.0, 1.0, dtype)}, {}}};
               };
               op.symmetries = [](const Sample&) -> std::vector<Symmetry> {
                 return {{"rows", {in_leg(0, -2), out_leg(0, -2)}}};
               };
             }));
  must_catch(laws::backward_symmetry_law, "a rule that weighs the places", spoiled("tanh", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 Tensor weights = Tensor::arange(v.grad[0].numel(), DType::i64).to(v.grad[0].dtype());
                 return {mul(v.grad[0], weights.reshape(v.grad[0].shape()))};
               };
             }));
}

TEST_CASE("a law does not replace another: softmax without the row sum keeps every symmetry") {
  const OpDef wrong = spoiled("softmax", [](OpDef& op) {
    op.saves = saves::out(0);
    op.vjp = [](const VjpArgs& v) -> Gradients { return {mul(v.out[0], v.grad[0])}; };
  });
  CHECK(laws::symmetry_law(wrong).pass());
  CHECK(laws::backward_symmetry_law(wrong).pass());
  CHECK_FALSE(laws::gradient_law(wrong).pass());
}

namespace {

/// tanh that differs by a factor where x is not packed.
template <int epsilons> void tanh_by_layout(const OpArgs& a, std::span<Tensor> out) {
  spoiled_kernel("tanh", a, out, [&](auto* y, std::int64_t n) {
    using T = std::remove_reference_t<decltype(*y)>;
    if (a.in[0].is_contiguous()) return;
    for (std::int64_t i = 0; i < n; ++i) y[i] *= T(1) + T(epsilons) * std::numeric_limits<T>::epsilon();
  });
}

} // namespace

TEST_CASE("rounding by layout is for rows that declare it, and rounding alone") {
  OpDef op = find_op("tanh");
  op.cpu = tanh_by_layout<1>;
  must_catch(laws::layout_law, "a kernel that rounds by layout", op);
  op.rounding.by_layout = true;
  const laws::Verdict declared = laws::layout_law(op);
  CHECK_MESSAGE(declared.pass(), declared.text());
  op.cpu = tanh_by_layout<1'000'000>;
  must_catch(laws::layout_law, "a kernel that errs by layout", op);
}

TEST_CASE("wrong kernels") {
  const auto wrong_tail = spoiled("tanh", [](OpDef& op) {
    op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
      spoiled_kernel("tanh", a, out, [](auto* y, std::int64_t n) {
        for (std::int64_t i = n - n % 4; i < n; ++i)
          y[i] *= static_cast<std::remove_reference_t<decltype(*y)>>(1.00001);
      });
    };
  });
  must_catch(laws::reference_law, "a vector tail with other arithmetic", wrong_tail);
  must_catch(laws::symmetry_law, "a vector tail with other arithmetic", wrong_tail);
  must_catch(laws::placement_law, "a last element that is off by one unit in the last place",
             spoiled("tanh", [](OpDef& op) {
               op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
                 spoiled_kernel("tanh", a, out, [](auto* y, std::int64_t n) {
                   using T = std::remove_reference_t<decltype(*y)>;
                   if (n > 0) y[n - 1] = std::nextafter(y[n - 1], T(2));
                 });
               };
             }));
  must_accept(laws::placement_law, "sum");
  must_catch(laws::placement_law, "a sum that calls the axes it adds along bit-exact", spoiled("sum", [](OpDef& op) {
               op.symmetries = [](const Sample& s) -> std::vector<Symmetry> {
                 std::vector<Symmetry> all = find_op("sum").symmetries(s);
                 for (Symmetry& symmetry : all) symmetry.bit_exact = true;
                 return all;
               };
             }));
  must_catch(laws::layout_law, "a kernel that ignores strides", spoiled("tanh", [](OpDef& op) {
               op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
                 const Tensor& x = a.in[0];
                 const auto skipped = x.bytes() - x.storage()->bytes.get();
                 const std::size_t left = x.storage()->size_bytes - static_cast<std::size_t>(skipped);
                 // Wrong, but inside its buffer: a sanitizer has nothing to say.
                 const bool fits = left >= out[0].nbytes();
                 const Tensor as_if_packed = fits ? x.view_as(x.shape(), contiguous_strides(x.shape()), 0) : x;
                 find_op("tanh").cpu(OpArgs{a.op, std::span(&as_if_packed, 1), a.attrs}, out);
               };
             }));
  must_catch(laws::dtype_law, "an f32 kernel with half the digits", spoiled("tanh", [](OpDef& op) {
               op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
                 find_op("tanh").cpu(a, out);
                 if (out[0].dtype() != DType::f32) return;
                 for (std::int64_t i = 0; i < out[0].numel(); ++i) {
                   float& y = out[0].mutable_data<float>()[i];
                   y = std::round(y * 256.0F) / 256.0F;
                 }
               };
             }));
  must_catch(laws::completeness_law, "a kernel that writes to its input", spoiled("tanh", [](OpDef& op) {
               op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
                 find_op("tanh").cpu(a, out);
                 Tensor x = a.in[0];
                 if (x.numel() > 0) x.fill(0.5);
               };
             }));
}

// A build without threads has no second number of them.
TEST_CASE("a kernel whose values depend on the threads" * doctest::skip(parallel::backend() == "serial")) {
  must_catch(laws::threads_law, "a sum that is cut by the number of threads", spoiled("tanh", [](OpDef& op) {
               op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
                 spoiled_kernel("tanh", a, out, [](auto* y, std::int64_t n) {
                   using T = std::remove_reference_t<decltype(*y)>;
                   if (n > 0) y[0] = static_cast<T>(0.1 * parallel::threads());
                 });
               };
             }));
}

TEST_CASE("incomplete rows") {
  using laws::completeness_law;
  must_catch(completeness_law, "no mathematics", spoiled("tanh", [](OpDef& op) { op.math = {}; }));
  must_catch(completeness_law, "no rule and no reason", spoiled("tanh", [](OpDef& op) { op.vjp = nullptr; }));
  must_catch(completeness_law, "a rule and a reason", spoiled("tanh", [](OpDef& op) { op.no_gradient = "none"; }));
  must_catch(completeness_law, "no reference", spoiled("tanh", [](OpDef& op) { op.reference = nullptr; }));
  must_catch(completeness_law, "no refusals",
             spoiled("tanh", [](OpDef& op) { op.refuses = []() -> std::vector<Refusal> { return {}; }; }));
  must_catch(completeness_law, "saves an output that is not there",
             spoiled("tanh", [](OpDef& op) { op.saves = saves::out(3); }));
  must_catch(completeness_law, "a shape rule that lies", spoiled("tanh", [](OpDef& op) {
               op.view = [](const OpArgs& a) { return a.in[0].reshape({-1}); };
               op.cpu = nullptr;
             }));
}

TEST_CASE("bad calls that are not refused well") {
  must_catch(laws::errors_law, "other words", spoiled("softmax", [](OpDef& op) {
               op.refuses = []() -> std::vector<Refusal> {
                 return {{{Tensor::zeros({2, 2})}, {{"axis", std::int64_t{7}}}, "the moon is full"}};
               };
             }));
  must_catch(laws::errors_law, "a call that is accepted", spoiled("softmax", [](OpDef& op) {
               op.refuses = []() -> std::vector<Refusal> { return {{{Tensor::zeros({2, 2})}, {}, "softmax"}}; };
             }));
  must_catch(laws::errors_law, "an exception that is not the library's", spoiled("softmax", [](OpDef& op) {
               op.infer = [](const OpArgs&) -> std::vector<TensorSpec> { throw std::runtime_error("softmax: no"); };
             }));
}

TEST_CASE("a row without a rule that gives another reason") {
  OpDef op = find_op("argmax");
  REQUIRE_FALSE(op.no_gradient.empty());
  CHECK(laws::no_gradient_law(op).pass());
  OpDef tanh_without_rule = find_op("tanh");
  tanh_without_rule.vjp = nullptr;
  tanh_without_rule.no_gradient = "kept as a control";
  CHECK(laws::no_gradient_law(tanh_without_rule).pass());
}

TEST_CASE("wrong words on what mixes") {
  must_accept(laws::mixing_law, "softmax");
  must_accept(laws::mixing_law, "tanh");
  must_catch(laws::mixing_law, "softmax that says its columns do not mix", spoiled("softmax", [](OpDef& op) {
               op.symmetries = [](const Sample& s) {
                 std::vector<Symmetry> all = find_op("softmax").symmetries(s);
                 for (Symmetry& symmetry : all) symmetry.mixes = false;
                 return all;
               };
             }));
  must_catch(laws::mixing_law, "tanh that says its axes mix", spoiled("tanh", [](OpDef& op) {
               op.symmetries = [](const Sample& s) {
                 std::vector<Symmetry> all = find_op("tanh").symmetries(s);
                 for (Symmetry& symmetry : all) symmetry.mixes = true;
                 return all;
               };
             }));
}

TEST_CASE("rows that are wrong where the other laws do not look") {
  must_accept(laws::small_extent_law, "exp");
  must_catch(laws::small_extent_law, "exp that forgets an axis of extent 1", spoiled("exp", [](OpDef& op) {
               op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
                 find_op("exp").cpu(a, out);
                 const Shape& shape = out[0].shape();
                 if (std::find(shape.begin(), shape.end(), 1) != shape.end()) out[0].fill(0.0);
               };
             }));
  must_catch(laws::small_extent_law, "max that does not say that it refuses an empty axis",
             spoiled("max", [](OpDef& op) { op.least_extents = {}; }));
  must_catch(laws::small_extent_law, "exp that says it refuses an empty axis", spoiled("exp", [](OpDef& op) {
               op.least_extents = {{"axis", 1, "because"}};
             }));
  must_accept(laws::no_gradient_law, "argmax");
  must_catch(laws::no_gradient_law, "a row that says it has no gradient and gives one",
             spoiled("bce_with_logits", [](OpDef& op) { op.no_gradient = "because"; }));
  must_accept(laws::exact_law, "softmax");
  must_catch(laws::exact_law, "softmax with its ordinary kernel for the exact one",
             spoiled("softmax", [](OpDef& op) { op.exact = op.cpu; }));
}
