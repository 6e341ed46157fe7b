// What the golden tests must catch.

#include "core/base/error.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/registry.h"
#include "data/unpack.h"
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

namespace {

/// A file with this text and these numbers, and a checksum that is right.
Bytes file_of(const std::string& text, const Bytes& numbers) {
  const auto little = [](std::uint32_t n) {
    Bytes bytes;
    for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::uint8_t>(n >> shift));
    return bytes;
  };
  Bytes body = little(static_cast<std::uint32_t>(text.size()));
  body.insert(body.end(), text.begin(), text.end());
  body.insert(body.end(), numbers.begin(), numbers.end());
  Bytes file;
  for (const char c : std::string("EGGOLD1\n")) file.push_back(static_cast<std::uint8_t>(c));
  const Bytes sum = little(crc32(body));
  file.insert(file.end(), sum.begin(), sum.end());
  file.insert(file.end(), body.begin(), body.end());
  return file;
}

struct BadFile {
  const char* text;
  Bytes numbers;
  const char* says;
};

} // namespace

TEST_CASE("files with a right checksum and wrong contents are refused before room is made for them") {
  const std::string sound = "op exp\ncase v 1 | f:2:c:n | f:2\n";
  CHECK(golden::parse(file_of(sound, {0}), "sound").at(0).values.at(0) == std::vector<double>{0.0, 0.0});
  const BadFile files[] = {
      {"op exp\ncase v 1 | f:2:c:n | f:1048577\n", {0}, "not the shape of a tensor"},
      {"op exp\ncase v 1 | f:2:c:n | f:4611686018427387904\n", {0}, "not the shape of a tensor"},
      {"op exp\ncase v 1 | f:-2:c:n | f:2\n", {0}, "not the shape of a tensor"},
      {"op exp\ncase v 1 | f:2:c:n | f:1x1x1x1x1x1x1x1x1\n", {0}, "not the shape of a tensor"},
      {"op exp\ncase v 1 | f:2:c:n | f:2048x1024\n", {0}, "more elements"},
      {"op exp\ncase v 1 | f:2:c:n | f:0x1048576x1048576\n", {0}, "more elements"},
      {"op exp\ncase v 1 | f:2:c:n | f:1048576 f:1048576 f:1048576 f:1048576 f:1\n", {0, 0, 0, 0, 0}, "more numbers"},
      {"op exp\ncase v 1 | f:2:c:n | f:1048576\n", {1, 0, 0, 1}, "too early"},
      {"op exp\ncase v 1 | f:2:c:n | f:1048576\n", {2, 0, 0, 1}, "too early"},
      {"op exp\ncase v 1 | f:2:c:n | f:1048576\n", {3, 0, 0, 1}, "too early"},
      {"op exp\ncase v 1 | f:2:c:n | f:1048576\n", {4, 0, 0, 1}, "too early"},
      {"op exp\ncase v 1 | f:2:c:n | f:2\n", {}, "too early"},
      {"op exp\ncase 2 1 | f:2:c:n | f:2\n", {0, 0}, "too early"},
      {"op exp\ncase v 1 | f:2:c:n | f:2\n", {0, 0}, "more numbers than the cases need"},
      {"op exp\ncase v 1 | f:2:c:n | f:2\n", {5}, "an unknown kind of numbers"},
      {"op exp\ncase v 1 | f:2:c:n | i:1\n", Bytes{3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, "64 bits"},
      {"case v 1 | f:2:c:n | f:2\n", {0}, "before any operation"},
      {"op exp\ncase v 1 | f:2:c: | f:2\n", {0}, "not an input"},
      {"op exp\ncase v 1 | f:2:c:n\n", {0}, "not a case"},
      {"op exp\ncase y 1 | f:2:c:n | f:2\n", {0}, "an unknown depth"},
      {"op exp\ncase v 1 axis:q=1 | f:2:c:n | f:2\n", {0}, "an unknown kind of attribute"},
      {"op exp\ncase v 1 axis=1 | f:2:c:n | f:2\n", {0}, "not an attribute"},
      {"op exp\ncase v one | f:2:c:n | f:2\n", {0}, "not a number"},
  };
  for (const BadFile& bad : files) {
    const std::string message =
        test::message_of<FileError>([&] { golden::parse(file_of(bad.text, bad.numbers), "bad.golden"); });
    CHECK_MESSAGE(message.starts_with("bad.golden: "), bad.text, message);
    CHECK_MESSAGE(message.find(bad.says) != std::string::npos, bad.text, message);
  }
}

TEST_CASE("calls with unknown draws or layouts fail") {
  for (const char* spec : {"f:2:c:q", "f:2:c:i", "f:2:c:i3", "f:2:c:i3_", "f:2:c:i_3", "f:2:c:i3_3", "f:2:c:i3_x",
                           "f::c:P", "f:2:c:=1", "f:2:c:=1,x", "f:2:z:n", "q:2:c:n"}) {
    const std::string text = std::string("op exp\ncase v 1 | ") + spec + " | f:2\n";
    const golden::Outcome outcome =
        golden::run(golden::parse(file_of(text, {0}), "odd.golden").at(0), find_op("exp"), DType::f64);
    REQUIRE_MESSAGE(outcome.failures.size() == 1, spec);
    CHECK_MESSAGE(outcome.failures[0].find("threw: golden file: ") != std::string::npos, outcome.failures[0]);
  }
}

TEST_CASE("damaged files are refused") {
  const Bytes packed = read_file(path);
  const Bytes plain = data::unpack(packed, path);
  CHECK(golden::parse(plain, "sound").size() == all_cases().size());

  // Every byte of the frame, and places all over the rest.
  const std::size_t stride = plain.size() / 97;
  for (std::size_t at = 0; at < plain.size(); at += at < 32 ? 1 : stride) {
    Bytes damaged = plain;
    damaged[at] ^= 0x10U;
    const std::string message = test::message_of<FileError>([&] { golden::parse(damaged, "damaged.golden"); });
    CHECK_MESSAGE(message.starts_with("damaged.golden: "), "byte ", at, ": ", message);
    if (at >= 8) CHECK_MESSAGE(message.find("checksum") != std::string::npos, "byte ", at, ": ", message);
  }
  for (const std::size_t kept : {std::size_t{0}, std::size_t{7}, std::size_t{15}, std::size_t{16}, plain.size() - 1}) {
    const ByteView part(plain.data(), kept);
    CHECK_MESSAGE(!test::message_of<FileError>([&] { golden::parse(part, "short.golden"); }).empty(), kept);
  }

  // As it lies on the disk, packed.
  for (std::size_t at = 40; at + 40 < packed.size(); at += packed.size() / 7) {
    Bytes damaged = packed;
    damaged[at] ^= 0x10U;
    const std::string message =
        test::message_of<FileError>([&] { golden::parse(data::unpack(damaged, "packed.golden"), "packed.golden"); });
    CHECK_MESSAGE(message.starts_with("packed.golden: "), "byte ", at, ": ", message);
  }
}
