// A moment of the op fuzzer in every build; tests/fuzz has the programs that run it for longer.

#include "core/memory/allocator.h"
#include "core/threads/parallel.h"
#include "fuzz/op_calls.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <set>

using namespace eg;

namespace {

/// Puts back what prepare_op_calls changes.
class Prepared {
public:
  Prepared() { fuzz::prepare_op_calls(); }
  ~Prepared() {
    allocator::set_limit(limit_);
    parallel::set_threads(0);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

private:
  std::size_t limit_ = allocator::limit();
};

} // namespace

TEST_CASE("fuzz: calls on every row give a clean result or an error of ours, and the memory back") {
  const Prepared prepared;
  constexpr std::uint64_t rounds = 6000;
  std::set<std::string_view> rows;
  int ran = 0;
  int seconds = 0;
  std::size_t live = 0;
  for (std::uint64_t round = 0; round < 2 * rounds; ++round) {
    if (round == rounds) live = allocator::stats().live_bytes; // the second time over the rows have what they keep
    try {
      const fuzz::OpCall call = fuzz::decode_op_call(fuzz::random_bytes(20240701, round % rounds));
      rows.insert(call.op->name);
      const fuzz::OpOutcome outcome = fuzz::run_op_call(call);
      ran += outcome.ran ? 1 : 0;
      seconds += outcome.second ? 1 : 0;
    } catch (const fuzz::Finding& finding) {
      FAIL_CHECK("round ", round, ": ", finding.what());
    }
  }
  CHECK(allocator::stats().live_bytes == live);
  CHECK(ran > 2000);
  CHECK(seconds > 500);
  CHECK(rows.size() > 80);
}

TEST_CASE("fuzz: the same bytes are the same call, and none are a call too") {
  const std::vector<std::uint8_t> bytes = fuzz::random_bytes(1, 2);
  CHECK(bytes == fuzz::random_bytes(1, 2));
  CHECK(fuzz::described(fuzz::decode_op_call(bytes)) == fuzz::described(fuzz::decode_op_call(bytes)));
  CHECK(fuzz::run_op_call(fuzz::decode_op_call({})).ran);
}

TEST_CASE("fuzz: a row that breaks a promise is found") {
  static constexpr auto row_with = [](KernelFn kernel) {
    OpDef op = *fuzz::decode_op_call({}).op;
    op.cpu = kernel;
    return op;
  };
  fuzz::OpCall call = fuzz::decode_op_call({});
  const OpDef writes = row_with([](const OpArgs& args, std::span<Tensor> out) {
    out[0].fill(0.0);
    Tensor(args.in[0]).fill(1.0);
  });
  call.op = &writes;
  CHECK_THROWS_WITH_AS(fuzz::run_op_call(call), doctest::Contains("an input was written"), fuzz::Finding);
  const OpDef throws = row_with([](const OpArgs&, std::span<Tensor>) { throw std::length_error("vector"); });
  call.op = &throws;
  CHECK_THROWS_WITH_AS(fuzz::run_op_call(call), doctest::Contains("not an eg::Error: vector"), fuzz::Finding);
  const OpDef drifts = row_with([](const OpArgs&, std::span<Tensor> out) {
    static double next = 0.0;
    out[0].fill(next += 1.0);
  });
  call.op = &drifts;
  CHECK_THROWS_WITH_AS(fuzz::run_op_call(call), doctest::Contains("repeated: tensor 0 differs"), fuzz::Finding);
}
