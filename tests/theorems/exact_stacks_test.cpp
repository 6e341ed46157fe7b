// Stacks of BERT-, GPT- and Llama-style blocks made of operations: in exact mode permuted tokens (with their mask and
// positions) and permuted features give the same bits, moved, forward and in every gradient; else they do not.

#include "autograd/check.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"

#include <cmath>
#include <doctest/doctest.h>

namespace {

using namespace eg;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t batch = 2, tokens = 9, dim = 24, heads = 4, kv_heads = 2, head_dim = 6, hidden = 40, layers = 2;

/// Inputs of a stack by number, with the axes that a permutation of the tokens and one of the residual features move.
struct Stack {
  Tensors inputs;
  Symmetry rows{"tokens", {out_leg(0, -2)}};
  Symmetry columns{"features", {out_leg(0, -1)}};
  DType dtype;

  explicit Stack(DType type) : dtype(type) {}

  Tensor draw(const Shape& shape, double scale, double mean = 0.0) {
    return random_normal(shape, {91, inputs.size()}, mean, scale, dtype);
  }
  int add(Tensor x) {
    inputs.push_back(std::move(x));
    return static_cast<int>(inputs.size()) - 1;
  }
  /// A weight [out, in]; `in_is_residual`, `out_is_residual`: that axis lies on the residual stream.
  void weight(std::int64_t out, std::int64_t in, bool out_is_residual, bool in_is_residual) {
    const int i = add(draw({out, in}, 0.2));
    if (out_is_residual) columns.legs.push_back(in_leg(i, 0));
    if (in_is_residual) columns.legs.push_back(in_leg(i, 1));
  }
  void vector(std::int64_t size, bool residual, double mean) {
    const int i = add(draw({size}, 0.3, mean));
    if (residual) columns.legs.push_back(in_leg(i, 0));
  }
  void norm(bool with_beta) {
    vector(dim, true, 1.2);
    if (with_beta) vector(dim, true, -0.2);
  }
  void states() {
    const int x = add(draw({batch, tokens, dim}, 1.0));
    rows.legs.push_back(in_leg(x, -2));
    columns.legs.push_back(in_leg(x, -1));
  }
  /// An additive causal mask [T, T]: its rows and columns move with the tokens.
  void causal_mask() {
    Tensor mask = Tensor::zeros({tokens, tokens}, dtype);
    for (std::int64_t i = 0; i < tokens; ++i)
      for (std::int64_t j = i + 1; j < tokens; ++j) mask.select(0, i).select(0, j).fill(-1e9);
    const int m = add(mask);
    rows.legs.push_back(in_leg(m, 0));
    rows.legs.push_back(in_leg(m, 1));
  }
};

/// Takes the inputs one after another.
struct Reader {
  const Tensors& in;
  std::size_t at = 0;
  const Tensor& next() { return in[at++]; }
};

Tensor by_heads(const Tensor& x, std::int64_t count) {
  return x.reshape({batch, tokens, count, head_dim}).transpose(1, 2);
}
Tensor joined(const Tensor& x) { return x.transpose(1, 2).contiguous().reshape({batch, tokens, heads * head_dim}); }

/// softmax(q k^T / sqrt d + mask) v; an undefined mask is none.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  Tensor scores = matmul(q, k, false, true) * (1.0 / std::sqrt(static_cast<double>(head_dim)));
  if (mask.defined()) scores = scores + mask;
  return joined(matmul(softmax(scores), v));
}

Tensor project(Reader& r, const Tensor& x) {
  const Tensor& weight = r.next();
  return linear(x, weight, r.next());
}

// --- BERT: post-LN, GELU ---

Stack bert(DType dtype) {
  Stack s(dtype);
  s.states();
  for (int layer = 0; layer < layers; ++layer) {
    for (int part = 0; part < 3; ++part)
      s.weight(heads * head_dim, dim, false, true), s.vector(heads * head_dim, false, 0.1);
    s.weight(dim, heads * head_dim, true, false), s.vector(dim, true, 0.1);
    s.norm(true);
    s.weight(hidden, dim, false, true), s.vector(hidden, false, 0.1);
    s.weight(dim, hidden, true, false), s.vector(dim, true, 0.1);
    s.norm(true);
  }
  return s;
}

Tensors run_bert(const Tensors& in) {
  Reader r{in};
  Tensor x = r.next();
  for (int layer = 0; layer < layers; ++layer) {
    const Tensor q = by_heads(project(r, x), heads), k = by_heads(project(r, x), heads),
                 v = by_heads(project(r, x), heads);
    const Tensor a = project(r, attend(q, k, v, {}));
    const Tensor gamma = r.next();
    x = layer_norm(x + a, gamma, r.next());
    const Tensor h = gelu(project(r, x));
    const Tensor m = project(r, h);
    const Tensor gamma2 = r.next();
    x = layer_norm(x + m, gamma2, r.next());
  }
  return {x};
}

// --- GPT: pre-LN, causal, GELU (tanh) ---

Stack gpt(DType dtype) {
  Stack s(dtype);
  s.states();
  s.causal_mask();
  for (int layer = 0; layer < layers; ++layer) {
    s.norm(true);
    for (int part = 0; part < 3; ++part)
      s.weight(heads * head_dim, dim, false, true), s.vector(heads * head_dim, false, 0.1);
    s.weight(dim, heads * head_dim, true, false), s.vector(dim, true, 0.1);
    s.norm(true);
    s.weight(hidden, dim, false, true), s.vector(hidden, false, 0.1);
    s.weight(dim, hidden, true, false), s.vector(dim, true, 0.1);
  }
  return s;
}

Tensors run_gpt(const Tensors& in) {
  Reader r{in};
  Tensor x = r.next();
  const Tensor mask = r.next();
  for (int layer = 0; layer < layers; ++layer) {
    const Tensor gamma = r.next();
    const Tensor n = layer_norm(x, gamma, r.next());
    const Tensor q = by_heads(project(r, n), heads), k = by_heads(project(r, n), heads),
                 v = by_heads(project(r, n), heads);
    x = x + project(r, attend(q, k, v, mask));
    const Tensor gamma2 = r.next();
    const Tensor h = gelu_tanh(project(r, layer_norm(x, gamma2, r.next())));
    x = x + project(r, h);
  }
  return {x};
}

// --- Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases ---

Stack llama(DType dtype) {
  Stack s(dtype);
  s.states();
  s.causal_mask();
  const int positions = s.add(Tensor::arange(tokens));
  s.rows.legs.push_back(in_leg(positions, 0));
  for (int layer = 0; layer < layers; ++layer) {
    s.norm(false);
    s.weight(heads * head_dim, dim, false, true);
    s.weight(kv_heads * head_dim, dim, false, true);
    s.weight(kv_heads * head_dim, dim, false, true);
    s.weight(dim, heads * head_dim, true, false);
    s.norm(false);
    s.weight(hidden, dim, false, true);
    s.weight(hidden, dim, false, true);
    s.weight(dim, hidden, true, false);
  }
  return s;
}

/// Each key head serves heads / kv_heads query heads.
Tensor shared(const Tensor& x) {
  constexpr std::int64_t group = heads / kv_heads;
  return x.unsqueeze(2).expand({batch, kv_heads, group, tokens, head_dim}).reshape({batch, heads, tokens, head_dim});
}

Tensors run_llama(const Tensors& in) {
  Reader r{in};
  Tensor x = r.next();
  const Tensor mask = r.next();
  const Tensor positions = r.next();
  const auto turned = [&](const Tensor& y, std::int64_t count) {
    return rotary(y.reshape({batch, tokens, count, head_dim}), positions).transpose(1, 2);
  };
  for (int layer = 0; layer < layers; ++layer) {
    const Tensor n = rms_norm(x, r.next());
    const Tensor q = turned(linear(n, r.next()), heads);
    const Tensor k = shared(turned(linear(n, r.next()), kv_heads));
    const Tensor v = shared(by_heads(linear(n, r.next()), kv_heads));
    x = x + linear(attend(q, k, v, mask), r.next());
    const Tensor m = rms_norm(x, r.next());
    const Tensor gate = linear(m, r.next());
    const Tensor up = linear(m, r.next());
    x = x + linear(swiglu(gate, up), r.next());
  }
  return {x};
}

SymmetryCheckOptions bitwise() {
  SymmetryCheckOptions options;
  options.bits = true;
  return options;
}

void check(const char* name, const Stack& stack, Tensors (*run)(const Tensors&)) {
  for (const Symmetry* symmetry : {&stack.rows, &stack.columns}) {
    INFO(std::string(name), ", ", symmetry->name, ", ", std::string(name_of(stack.dtype)));
    if (stack.dtype == DType::f64) { // in f32 the gradient of b_K, which is 0, is nothing but rounding
      const CheckResult ordinary = symmetry_check(run, stack.inputs, *symmetry);
      CHECK_MESSAGE(ordinary.pass, ordinary.detail);
    }
    CHECK_FALSE(symmetry_check(run, stack.inputs, *symmetry, bitwise()).pass); // else exact mode would prove nothing
    const ReductionScope exact(Reduction::exact);
    for (const int threads : {1, 2, 3}) {
      parallel::set_threads(threads);
      const CheckResult result = symmetry_check(run, stack.inputs, *symmetry, bitwise());
      CHECK_MESSAGE(result.pass, result.detail);
    }
    parallel::set_threads(0);
  }
}

} // namespace

TEST_CASE("exact mode: permuted stacks of blocks have the bits of the plain ones, moved") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    check("BERT", bert(dtype), run_bert);
    check("GPT", gpt(dtype), run_gpt);
    check("Llama", llama(dtype), run_llama);
  }
}
