// An operation of your own, with its derivative, checked by the same laws that check the library's: softplus along
// with a row-wise sum, y_i = sum_j log(1 + exp(x_ij)).

#include <equigrad/equigrad.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

using Tensors = std::vector<eg::Tensor>;

/// Runs unrecorded: plain loops, any library, whatever is needed.
Tensors forward(std::span<const eg::Tensor> in) {
  const eg::Tensor x = in[0].contiguous();
  const std::int64_t rows = x.size(0), columns = x.size(1);
  eg::Tensor y = eg::Tensor::empty({rows}, x.dtype());
  const double* source = x.data<double>();
  double* target = y.mutable_data<double>();
  for (std::int64_t i = 0; i < rows; ++i) {
    target[i] = 0.0;
    for (std::int64_t j = 0; j < columns; ++j) target[i] += std::log1p(std::exp(source[i * columns + j]));
  }
  return {y};
}

/// dy_i/dx_ij = sigmoid(x_ij). Made of the library's operations, so it can be differentiated again.
Tensors rule(std::span<const eg::Tensor> in, std::span<const eg::Tensor>, std::span<const eg::Tensor> grad) {
  return {eg::unsqueeze(grad[0], 1) * eg::sigmoid(in[0])};
}

/// The same with a mistake in the derivative, to see that the check sees it.
Tensors wrong_rule(std::span<const eg::Tensor> in, std::span<const eg::Tensor>, std::span<const eg::Tensor> grad) {
  return {eg::unsqueeze(grad[0], 1) * eg::tanh(in[0])};
}

eg::TensorFunction function(const std::shared_ptr<const eg::CustomOp>& op) {
  return [op](const Tensors& in) { return eg::call(op, in); };
}

} // namespace

int main() {
  const auto good = std::make_shared<const eg::CustomOp>(eg::CustomOp{"row_softplus", forward, rule});
  const auto bad = std::make_shared<const eg::CustomOp>(eg::CustomOp{"row_softplus_wrong", forward, wrong_rule});
  const Tensors inputs = {eg::random_normal({4, 5}, {.seed = 1}, 0.0, 1.0, eg::DType::f64)};

  // Columns may come in any order: the same permutation of x's last axis leaves y alone. Rows move with y's.
  const eg::Symmetry columns{"columns", {eg::in_leg(0, 1)}};
  const eg::Symmetry rows{"rows", {eg::in_leg(0, 0), eg::out_leg(0, 0)}};

  eg::GradcheckOptions second;
  second.second = true;
  const eg::CheckResult first = eg::gradcheck(function(good), inputs);
  const eg::CheckResult twice = eg::gradcheck(function(good), inputs, second);
  const eg::CheckResult by_columns = eg::symmetry_check(function(good), inputs, columns);
  const eg::CheckResult by_rows = eg::symmetry_check(function(good), inputs, rows);
  const eg::CheckResult caught = eg::gradcheck(function(bad), inputs);

  const auto line = [](const char* what, const eg::CheckResult& result) {
    std::printf("%-28s %s  error %.1e\n", what, result.pass ? "holds" : "fails", result.error);
  };
  line("gradient", first);
  line("gradient of the gradient", twice);
  line("columns commute", by_columns);
  line("rows commute", by_rows);
  line("the wrong rule's gradient", caught);
  return first.pass && twice.pass && by_columns.pass && by_rows.pass && !caught.pass ? 0 : 1;
}
