// The theorem catalogue on a device: every row holds there, and what was computed elsewhere, or is wrong, fails.

#include "core/device/device.h"
#include "permute/catalogue/case.h"
#include "support/message.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace eg;
using namespace eg::permute;

namespace {

VerifyOptions there() {
  VerifyOptions options;
  options.device = Device::cuda();
  options.steps = 10;
  return options;
}

/// The result of a row of the test's own.
template <class Fill> VerifyResult result_of(Fill fill, const VerifyOptions& options = there()) {
  const Identity row{"test", "a row of the test", "", "", ClaimKind::identity, Gate::one_pass, "", "", [&](Case& c) {
                       Claim claim;
                       fill(claim, c);
                       return claim;
                     }};
  return verify(row, options);
}

} // namespace

TEST_CASE("every row of the catalogue but one holds on the device, and its negative control fails") {
  std::vector<std::string> left_out;
  for (const Identity& identity : catalogue())
    for (const DType dtype : {DType::f64, DType::f32}) {
      if (!why_not_on(identity, Device::cuda()).empty()) {
        left_out.push_back(identity.id);
        continue;
      }
      if (identity.sharp && dtype == DType::f32) continue; // a search of many seconds, on the same kernels' other type
      VerifyOptions options = there();
      options.dtype = dtype;
      const VerifyResult r = verify(identity, options);
      INFO(r.id, " ", std::string(name_of(dtype)), ": error ", r.error, " (", r.detail, "), tolerance ", r.tolerance,
           "; control \"", r.control.what, "\" ", r.control.error);
      CHECK(r.pass);
      CHECK(r.device == Device::cuda());
    }
  CHECK(left_out == std::vector<std::string>{"train-blockwise", "train-blockwise"});
}

TEST_CASE("a row that takes exact sums is refused on the device, alone and beside others") {
  VerifyOptions options = there();
  const std::string why =
      "verify: train-blockwise takes exact sums, and matrix products have no exact kernel for cuda:0";
  options.filter = "train-blockwise";
  CHECK(test::message_of<ValueError>([&] { run_catalogue(options); }) == why);
  options.filter = "train-b*";
  const std::vector<VerifyResult> others = run_catalogue(options);
  REQUIRE(others.size() == 1);
  CHECK(others.front().id == "train-bn");
  for (const Identity& identity : catalogue())
    if (identity.exact_sums) CHECK(verify(identity, options).detail == why);
  options.device = Device::cpu();
  CHECK(run_catalogue(options).size() == 2);
}

TEST_CASE("a row that is wrong on the device, or computed elsewhere, fails") {
  const auto right = [](Claim& claim, Case& c) {
    const Tensor x = c.normal({3, 4});
    CHECK(x.device() == current_device());
    claim.equal("one sum", sum(x, {0}), sum(x, {0}));
    claim.differs("another sum", sum(x, {0}) + 1.0, sum(x, {0}));
  };
  CHECK(result_of(right).pass);
  const VerifyResult off = result_of([&](Claim& claim, Case& c) {
    right(claim, c);
    claim.holds.front().value = claim.holds.front().value + 1e-9;
  });
  CHECK_FALSE(off.pass);
  CHECK(off.detail == "one sum");
  const VerifyResult elsewhere = result_of([&](Claim& claim, Case& c) {
    const DeviceScope here(Device::cpu());
    right(claim, c);
  });
  CHECK_FALSE(elsewhere.pass);
  CHECK(elsewhere.detail == "verify: one sum: a side was computed on cpu, not on cuda:0");
  const VerifyResult control = result_of([&](Claim& claim, Case& c) {
    right(claim, c);
    claim.fails.front().value = claim.fails.front().value.to(Device::cpu());
  });
  CHECK_FALSE(control.pass);
  CHECK(control.detail == "verify: another sum: a side was computed on cpu, not on cuda:0");
  VerifyOptions cpu = there();
  cpu.device = Device::cpu();
  CHECK(result_of(right, cpu).pass);
}

TEST_CASE("exact reductions are refused on a device, and a device that is not there") {
  VerifyOptions options = there();
  options.filter = "eq45";
  options.exact = true;
  CHECK(test::message_of<ValueError>([&] { run_catalogue(options); }) ==
        "verify: exact needs the CPU: matrix products have no exact kernel for cuda:0");
  options.exact = false;
  options.device = Device::cuda(3);
  const std::string absent = test::message_of<DeviceError>([&] { run_catalogue(options); });
  CHECK_MESSAGE(absent.starts_with("cuda:3: there is no such device"), absent);
}
