// Rows whose device kernel or rule is wrong on purpose, and the law that must catch each on the device.

#include "laws/controls.h"

#include "core/device/device.h"
#include "support/law_device.h"

using namespace eg;
using laws::must_accept;
using laws::must_catch;
using laws::spoiled;

TEST_CASE("the laws on a device catch what is wrong there alone") {
  const laws::LawDeviceScope scope(Device::cuda());
  for (const char* name : {"relu", "tanh", "softmax", "layer_norm"}) must_accept(laws::reference_law, name);
  must_accept(laws::layout_law, "tanh");
  must_catch(laws::reference_law, "the kernel of another row",
             spoiled("relu", [](OpDef& op) { op.cuda = find_op("abs").cuda; }));
  must_catch(laws::reference_law, "a kernel that writes nothing",
             spoiled("tanh", [](OpDef& op) { op.cuda = [](const OpArgs&, std::span<Tensor>) {}; }));
  must_catch(laws::layout_law, "a kernel that takes every input for packed", spoiled("tanh", [](OpDef& op) {
               op.cuda = [](const OpArgs& a, std::span<Tensor> out) {
                 const Shape& shape = a.in[0].shape();
                 const Tensor packed = a.in[0].view_as(shape, contiguous_strides(shape), 0);
                 find_op("tanh").cuda({find_op("tanh"), std::span(&packed, 1), a.attrs}, out);
               };
             }));
  must_catch(laws::dtype_law, "a kernel that is right in f64 alone", spoiled("tanh", [](OpDef& op) {
               op.cuda = [](const OpArgs& a, std::span<Tensor> out) {
                 find_op(out[0].dtype() == DType::f64 ? "tanh" : "sigmoid").cuda(a, out);
               };
             }));
  must_catch(laws::gradient_law, "a rule without its sum", spoiled("softmax", [](OpDef& op) {
               op.vjp = [](const VjpArgs& v) -> Gradients { return {mul(v.out[0], v.grad[0])}; };
             }));
  must_catch(laws::symmetry_law, "a kernel that treats one row in its own way", spoiled("softmax", [](OpDef& op) {
               op.cuda = [](const OpArgs& a, std::span<Tensor> out) {
                 find_op("softmax").cuda(a, out);
                 if (out[0].rank() > 0 && out[0].size(0) > 0) out[0].slice(0, 0, 1).fill(0.25);
               };
             }));
}

TEST_CASE("a CPU kernel that is wrong is not noticed on the device") { // so it was the device's that was asked above
  const laws::LawDeviceScope scope(Device::cuda());
  // Of floats alone: whole numbers are computed by the CPU's kernel there too.
  const OpDef wrong = spoiled("tanh", [](OpDef& op) { op.cpu = find_op("sigmoid").cpu; });
  CHECK(laws::reference_law(wrong).pass());
}
