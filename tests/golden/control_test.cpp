// What the golden tests must catch.

#include "core/call.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/registry.h"
#include "golden/run.h"
#include "support/message.h"

#include <doctest/doctest.h>
#include <map>

using namespace eg;

namespace {

const std::string path = EQUIGRAD_SOURCE_DIR "/tests/golden/pytorch.golden";

const std::vector<golden::Case>& all_cases() {
  static const std::vector<golden::Case> cases = golden::read(path);
  return cases;
}

/// How many cases of the row fail with it changed.
template <class Change> int caught(const char* name, DType dtype, Change change) {
  OpDef wrong = find_op(name);
  change(wrong);
  int failing = 0;
  for (const golden::Case& c : all_cases())
    if (c.op == name && !golden::run(c, wrong, dtype).failures.empty()) ++failing;
  return failing;
}

template <class Change> void must_catch(const char* what, const char* name, Change change) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    CHECK_MESSAGE(caught(name, dtype, [](OpDef&) {}) == 0, "the right row fails: ", std::string(name));
    CHECK_MESSAGE(caught(name, dtype, change) > 0, "not caught in ", name_of(dtype), ": ", std::string(what));
  }
}

} // namespace

TEST_CASE("wrong rows are caught") {
  must_catch("softmax with the wrong sign", "softmax", [](OpDef& op) {
    op.vjp = [](const VjpArgs& v) -> Gradients {
      const Tensor inner = sum(mul(v.out[0], v.grad[0]), {v.attrs.integer("axis")}, true);
      return {mul(v.out[0], sub(inner, v.grad[0]))};
    };
  });
  must_catch("exp with a gradient that is off by a ten-thousandth", "exp", [](OpDef& op) {
    op.vjp = [](const VjpArgs& v) -> Gradients { return {affine(mul(v.grad[0], v.out[0]), 1.0001, 0.0)}; };
  });
  must_catch("tanh whose rule is right but a constant to the next derivative", "tanh", [](OpDef& op) {
    op.vjp = [](const VjpArgs& v) -> Gradients {
      return {mul(v.grad[0], affine(mul(v.out[0], v.out[0]).detach(), -1.0, 1.0))};
    };
  });
  must_catch("mul with a value that is off by a ten-thousandth", "mul", [](OpDef& op) {
    op.cpu = nullptr;
    op.vjp = nullptr;
    op.body = [](const OpArgs& a) -> std::vector<Tensor> { return {affine(mul(a.in[0], a.in[1]), 1.0001, 0.0)}; };
  });
  must_catch("sum that keeps the axes", "sum", [](OpDef& op) {
    op.cpu = nullptr;
    op.vjp = nullptr;
    op.body = [](const OpArgs& a) -> std::vector<Tensor> { return {sum(a.in[0], a.attrs.integers("axes"), true)}; };
  });
}

TEST_CASE("damaged files are refused") {
  const data::Bytes packed = data::read_file(path);
  const data::Bytes plain = data::unpack(packed, path);
  CHECK(golden::parse(plain, "sound").size() == all_cases().size());

  // Every byte of the frame, and places all over the rest.
  const std::size_t stride = plain.size() / 97;
  for (std::size_t at = 0; at < plain.size(); at += at < 32 ? 1 : stride) {
    data::Bytes damaged = plain;
    damaged[at] ^= 0x10U;
    const std::string message = test::message_of<FileError>([&] { golden::parse(damaged, "damaged.golden"); });
    CHECK_MESSAGE(message.starts_with("damaged.golden: "), "byte ", at, ": ", message);
    if (at >= 8) CHECK_MESSAGE(message.find("checksum") != std::string::npos, "byte ", at, ": ", message);
  }
  for (const std::size_t kept : {std::size_t{0}, std::size_t{7}, std::size_t{15}, std::size_t{16}, plain.size() - 1}) {
    const data::ByteView part(plain.data(), kept);
    CHECK_MESSAGE(!test::message_of<FileError>([&] { golden::parse(part, "short.golden"); }).empty(), kept);
  }

  // As it lies on the disk, packed.
  for (std::size_t at = 40; at + 40 < packed.size(); at += packed.size() / 7) {
    data::Bytes damaged = packed;
    damaged[at] ^= 0x10U;
    const std::string message =
        test::message_of<FileError>([&] { golden::parse(data::unpack(damaged, "packed.golden"), "packed.golden"); });
    CHECK_MESSAGE(message.starts_with("packed.golden: "), "byte ", at, ": ", message);
  }
}
