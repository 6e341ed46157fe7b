#include "apps/attacks/learnt_columns.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "optim/optimizer.h"
#include "permute/recovery/assignment.h"

namespace eg::attacks {
namespace {

constexpr int sinkhorn_rounds = 20;

} // namespace

Tensor doubly_stochastic(const Tensor& a, double temperature) {
  Tensor m = exp((a - amax(a, {-1}, true)) / temperature);
  for (int i = 0; i < sinkhorn_rounds; ++i) {
    m = m / sum(m, {1}, true);
    m = m / sum(m, {0}, true);
  }
  return m;
}

std::vector<std::int64_t> nearest_assignment(const Tensor& m) {
  // Column j of M selects the feature of Z that is feature j of Z M.
  return permute::hungarian(m.transpose(0, 1).contiguous().to(DType::f64), true).columns.to_vector<std::int64_t>();
}

double LearntColumns::found(const permute::Permutation& truth) const {
  double right = 0.0;
  for (std::size_t j = 0; j < assignment.size(); ++j)
    right += assignment[j] == truth[static_cast<std::int64_t>(j)] ? 1.0 : 0.0;
  return assignment.empty() ? 0.0 : right / static_cast<double>(assignment.size());
}

LearntColumns learn_columns(std::int64_t dim, DType dtype, const ColumnLearning& learning, std::vector<Tensor> others,
                            const std::function<Tensor(const Tensor& m, std::int64_t step)>& loss, RandomKey key) {
  const Tensor a = (random_normal({dim, dim}, key) * 0.1).to(dtype);
  std::vector<Tensor> parameters = std::move(others);
  parameters.push_back(a);
  const auto optimizer = optim::make_optimizer("adam", parameters);
  for (std::int64_t step = 0; step < learning.steps; ++step) {
    if (learning.on_progress) learning.on_progress(step);
    Tape tape;
    const Tensor value = loss(doubly_stochastic(a, learning.temperature), step);
    optimizer->step(tape.gradient(value, parameters), learning.lr);
  }
  const PauseRecording pause;
  LearntColumns learnt{.matrix = doubly_stochastic(a, learning.temperature), .assignment = {}};
  learnt.assignment = nearest_assignment(learnt.matrix);
  return learnt;
}

} // namespace eg::attacks
