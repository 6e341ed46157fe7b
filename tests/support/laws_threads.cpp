#include "core/threads/parallel.h"
#include "support/law_tools.h"

#include <fmt/format.h>

namespace eg::laws {
namespace {

struct DefaultThreadsAgain {
  ~DefaultThreadsAgain() { parallel::set_threads(0); }
};

void check_threads(const OpDef& op, const Sample& sample, DType dtype, Verdict& verdict) {
  const DefaultThreadsAgain restore;
  Tensors first_out;
  Tensors first_gradients;
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    const Tensors out = outputs(op, sample);
    const Tensors g = differentiable(op, sample) ? gradients(op, sample, cotangents_for(out)) : Tensors{};
    if (threads == 1) {
      first_out = out;
      first_gradients = g;
      continue;
    }
    ++verdict.checked;
    if (const std::string difference = difference_in_bits(out, first_out); !difference.empty())
      verdict.fail(
          fmt::format("{}: {} threads give other bits than 1: {}", where(op, sample, dtype), threads, difference));
    if (const std::string difference = difference_in_bits(g, first_gradients); !difference.empty())
      verdict.fail(fmt::format("{}: gradients: {} threads give other bits than 1: {}", where(op, sample, dtype),
                               threads, difference));
  }
}

} // namespace

Verdict threads_law(const OpDef& op) {
  constexpr int large_samples = 2;
  Verdict verdict;
  for (const DType dtype : {DType::f64, DType::f32}) {
    int grown = 0;
    each_sample(op, dtype, verdict, [&](const Sample& sample) {
      check_threads(op, sample, dtype, verdict);
      if (op.view != nullptr || grown == large_samples) return;
      const Sample large = enlarged(op, sample, 100000);
      if (large.in.empty()) return;
      check_threads(op, large, dtype, verdict);
      ++grown;
    });
    if (op.view == nullptr && grown == 0)
      verdict.fail(fmt::format("{}: no {} sample grows along a symmetry, so its work was never cut into chunks",
                               op.name, name_of(dtype)));
  }
  return verdict;
}

} // namespace eg::laws
