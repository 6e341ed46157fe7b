// Rows that lose digits far from ordinary numbers, and the laws that must catch them.

#include "controls.h"

using namespace eg;
using laws::axis_of;
using laws::must_accept;
using laws::must_catch;
using laws::spoiled;
using laws::sum_along;

TEST_CASE("digits that are lost far from ordinary numbers") {
  must_accept(laws::offset_law, "softmax");
  must_accept(laws::offset_law, "layer_norm");
  must_accept(laws::large_law, "layer_norm");
  must_catch(laws::offset_law, "log_softmax that subtracts a rounded log sum exp",
             spoiled("log_softmax", [](OpDef& op) {
               op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
                 if (a.in[0].numel() > 0) out[0].copy_from(sub(a.in[0], logsumexp(a.in[0], {axis_of(a)}, true)));
               };
             }));
  must_catch(laws::offset_law, "softmax whose gradient takes exp(x - log sum exp) again",
             spoiled("softmax", [](OpDef& op) {
               op.saves = saves::in(0);
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 const Tensor y = exp(sub(v.in[0], logsumexp(v.in[0], {axis_of(v)}, true)));
                 return {mul(y, sub(v.grad[0], sum_along(mul(y, v.grad[0]), axis_of(v))))};
               };
             }));
  must_catch(laws::offset_law, "center that does not say to which type it rounds the mean",
             spoiled("center", [](OpDef& op) { op.rounding = {}; }));
  must_catch(laws::offset_law, "layer_norm that says it rounds the mean to f64",
             spoiled("layer_norm", [](OpDef& op) { op.rounding.mean = Rounding::Mean::in_f64; }));
  must_catch(laws::large_law, "layer_norm whose squares leave the type", spoiled("layer_norm", [](OpDef& op) {
               op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
                 const Tensor centred = center(a.in[0], {-1});
                 Tensor y = centred * rsqrt(mean(centred * centred, {-1}, true) + a.attrs.real("eps"));
                 if (a.given(1)) y = y * a.in[1];
                 if (a.given(2)) y = y + a.in[2];
                 if (y.numel() > 0) out[0].copy_from(y);
               };
             }));
  must_catch(laws::large_law, "relu whose gradient has a square on the way", spoiled("relu", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients {
                 const Tensor square = mul(v.out[0], v.out[0]);
                 return {mul(v.grad[0], div(square, affine(square, 1.0, 1e-30)))};
               };
             }));
  // The reference law does not see it.
  CHECK(laws::reference_law(spoiled("log_softmax", [](OpDef& op) {
          op.cpu = [](const OpArgs& a, std::span<Tensor> out) {
            if (a.in[0].numel() > 0) out[0].copy_from(sub(a.in[0], logsumexp(a.in[0], {axis_of(a)}, true)));
          };
        })).pass());
}
