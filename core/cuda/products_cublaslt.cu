// Matrix products by cuBLASLt, which is opened at the first one. f32 stays f32: TF32 is not used.
//
// Its epilogue adds the bias and computes GELU where GELU is asked for in the tanh form, the only one it has. The
// gradient of that GELU is not in an epilogue (DGELU, DGELU_BGRAD): it would belong to the product that computes the
// cotangent of `activated`, which is the product of the layer above, and that row does not know what stands below it.
//
// cuBLASLt counts by columns: a matrix in row-major order is its transpose there, so C^T [n, m] = B^T A^T is computed.
// What cuBLASLt calls A is our B, its m is our n.

#include "core/cuda/cublaslt.h"
#include "core/cuda/failure.h"
#include "core/cuda/launch.h"
#include "core/cuda/products.h"
#include "core/cuda/runtime.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace eg::cuda {
namespace {

using device::ProductJob;

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": " + cublaslt().cublasLtGetStatusString(status));
}

/// A handle of the library that is destroyed with its owner.
template <class Handle> using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

template <class T>
void set(const Owned<cublasLtMatmulDesc_t>& to, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublaslt().cublasLtMatmulDescSetAttribute(to.get(), attribute, &value, sizeof value), "cublasLtMatmulDesc");
}
template <class T>
void set(const Owned<cublasLtMatrixLayout_t>& to, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check(cublaslt().cublasLtMatrixLayoutSetAttribute(to.get(), attribute, &value, sizeof value), "cublasLtMatrixLayout");
}
template <class T>
void set(const Owned<cublasLtMatmulPreference_t>& to, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublaslt().cublasLtMatmulPreferenceSetAttribute(to.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreference");
}

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

cudaDataType_t type_of(DType type) {
  return type == DType::f32 ? CUDA_R_32F : type == DType::f64 ? CUDA_R_64F : CUDA_R_16BF;
}

/// A matrix of the library's: `rows` x `columns` of memory, column by column, `ld` apart.
struct Operand {
  cudaDataType_t type;
  bool transposed;
  std::int64_t rows, columns, ld;
};

/// op(X) = the `rows` x `columns` matrix whose element (i, j) lies at i*row + j*column.
Operand operand(DType type, std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  if (row == 1 && column >= rows) return {type_of(type), false, rows, columns, column};
  if (column == 1 && row >= columns) return {type_of(type), true, columns, rows, row};
  throw std::runtime_error("an operand has no axis of unit stride");
}

/// What a plan depends on.
using Key = std::array<std::int64_t, 21>;

/// Bytes that the address is a multiple of, at most 256.
std::int64_t alignment(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

/// A product ready to run.
struct Plan {
  Owned<cublasLtMatmulDesc_t> product{nullptr, nullptr};
  Owned<cublasLtMatrixLayout_t> b{nullptr, nullptr}, a{nullptr, nullptr}, from{nullptr, nullptr}, to{nullptr, nullptr};
  cublasLtMatmulAlgo_t algorithm = {};
};

/// One device.
struct Engine {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  std::map<Key, Plan> plans;
};

/// One call of the library: a product, or a batch of them with even strides.
struct Call {
  const ProductJob& job;
  Operand b, a;
  std::int64_t count, stride_c, stride_a, stride_b;
  const void *at_a, *at_b;
  void* at_c;
  const void* from; ///< what is added to the product, or null
  std::int64_t ld_from;
  const void* bias;       ///< that the library adds, or null
  void* before = nullptr; ///< gets C where at_c gets its GELU, or null
};

Owned<cublasLtMatrixLayout_t> layout(const Operand& x, std::int64_t count, std::int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublaslt().cublasLtMatrixLayoutCreate(&made, x.type, static_cast<std::uint64_t>(x.rows),
                                              static_cast<std::uint64_t>(x.columns), x.ld),
        "cublasLtMatrixLayoutCreate");
  Owned<cublasLtMatrixLayout_t> owned(made, cublaslt().cublasLtMatrixLayoutDestroy);
  if (count > 1) {
    set(owned, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
    set(owned, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  return owned;
}

/// What changes from call to call of one plan.
void set_addresses(const Plan& plan, const Call& call) {
  if (call.bias != nullptr) set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
  if (call.before != nullptr) set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.before);
}

Plan plan_for(const Engine& engine, const Call& call) {
  const CublasLt& lt = cublaslt();
  const bool twice = call.job.type == DType::f64;
  const cudaDataType_t type = type_of(call.job.type);
  Plan plan;
  cublasLtMatmulDesc_t product = nullptr;
  check(lt.cublasLtMatmulDescCreate(&product, twice ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, type),
        "cublasLtMatmulDescCreate");
  plan.product = {product, lt.cublasLtMatmulDescDestroy};
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, call.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, call.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  const std::int64_t m = call.job.m, n = call.job.n;
  const bool gelu = call.before != nullptr;
  if (call.bias != nullptr || gelu)
    set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE,
        !gelu                  ? CUBLASLT_EPILOGUE_BIAS
        : call.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                               : CUBLASLT_EPILOGUE_GELU_AUX);
  if (gelu) set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, n);
  set_addresses(plan, call);
  plan.b = layout(call.b, call.count, call.stride_b);
  plan.a = layout(call.a, call.count, call.stride_a);
  plan.to = layout({type, false, n, m, call.job.ldc}, call.count, call.stride_c);
  plan.from =
      layout({type, false, n, m, call.from != nullptr ? call.ld_from : call.job.ldc}, call.count, call.stride_c);

  cublasLtMatmulPreference_t made = nullptr;
  check(lt.cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference(made, lt.cublasLtMatmulPreferenceDestroy);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  const auto aligned = [](const void* address) { return static_cast<std::uint32_t>(alignment(address)); };
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned(call.at_b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned(call.at_a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned(call.from != nullptr ? call.from : call.at_c));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned(call.at_c));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  check(lt.cublasLtMatmulAlgoGetHeuristic(engine.handle, plan.product.get(), plan.b.get(), plan.a.get(),
                                          plan.from.get(), plan.to.get(), preference.get(), 1, &found, &count),
        "cublasLtMatmulAlgoGetHeuristic");
  if (count == 0) throw std::runtime_error("cublasLtMatmulAlgoGetHeuristic: no algorithm for this product");
  plan.algorithm = found.algo;
  return plan;
}

void run(Engine& engine, gpu::Stream stream, const Call& call) {
  const ProductJob& job = call.job;
  const Key key{static_cast<std::int64_t>(job.type),
                static_cast<std::int64_t>(job.a_type),
                job.m,
                job.n,
                job.k,
                call.a.transposed,
                call.a.ld,
                call.b.transposed,
                call.b.ld,
                job.ldc,
                call.from != nullptr ? call.ld_from : -1,
                call.bias != nullptr ? alignment(call.bias) : 0,
                call.before != nullptr,
                call.count,
                call.stride_a,
                call.stride_b,
                call.stride_c,
                alignment(call.at_a),
                alignment(call.at_b),
                alignment(call.at_c),
                call.from != nullptr ? alignment(call.from) : 0};
  auto place = engine.plans.find(key);
  if (place == engine.plans.end()) place = engine.plans.emplace(key, plan_for(engine, call)).first;
  const Plan& plan = place->second;
  set_addresses(plan, call);
  const double wide[2] = {job.alpha, call.from != nullptr ? 1.0 : 0.0};
  const float narrow[2] = {static_cast<float>(wide[0]), static_cast<float>(wide[1])};
  const bool twice = job.type == DType::f64;
  const auto factor = [&](int i) { return twice ? static_cast<const void*>(&wide[i]) : &narrow[i]; };
  check(cublaslt().cublasLtMatmul(engine.handle, plan.product.get(), factor(0), call.at_b, plan.b.get(), call.at_a,
                                  plan.a.get(), factor(1), call.from != nullptr ? call.from : call.at_c,
                                  plan.from.get(), call.at_c, plan.to.get(), &plan.algorithm, engine.workspace,
                                  workspace_bytes, stream),
        "cublasLtMatmul");
}

template <class T> const void* moved(const T* address, std::int64_t elements, DType type) {
  const std::int64_t size = type == DType::f64 ? 8 : type == DType::f32 ? 4 : 2;
  return static_cast<const std::byte*>(address) + elements * size;
}

/// c[i, j] = bias[j] + addend[i, j], or bias alone: cuBLASLt adds no bias in f64.
__global__ void begin_kernel(double* c, std::int64_t ldc, const double* bias, const double* addend,
                             std::int64_t ld_addend, std::int64_t n, std::int64_t count) {
  for (std::int64_t at = first_element(); at < count; at += element_step()) {
    const std::int64_t i = at / n, j = at % n;
    c[i * ldc + j] = addend == nullptr ? bias[j] : bias[j] + addend[i * ld_addend + j];
  }
}

/// Whether the epilogue can write C and its GELU: NVIDIA asks for a leading dimension that is a multiple of 8 and for
/// an address that is a multiple of 16 bytes, of the buffer that gets C.
bool has_gelu_epilogue(const ProductJob& job) {
  return job.activated != nullptr && job.gelu == device::GeluOf::tanh && job.type == DType::f32 && job.ldc == job.n &&
         job.n % 8 == 0 && alignment(job.c) >= 16;
}

void multiply(Engine& engine, gpu::Stream stream, const ProductJob& job, bool* activated) {
  Call call{job,
            operand(job.b_type, job.n, job.k, job.b_column, job.b_step),
            operand(job.a_type, job.k, job.m, job.a_step, job.a_row),
            1,
            0,
            0,
            0,
            job.a,
            job.b,
            job.c,
            nullptr,
            job.ldc,
            job.bias};
  *activated = has_gelu_epilogue(job);
  if (*activated) {
    call.before = job.c;
    call.at_c = job.activated;
  }
  const bool begins = job.type == DType::f64 && job.bias != nullptr;
  if (begins) {
    const std::int64_t count = job.m * job.n;
    GPU_LAUNCH(begin_kernel, elements_grid(count), elements_block, 0, stream, static_cast<double*>(job.c), job.ldc,
               static_cast<const double*>(job.bias), static_cast<const double*>(job.addend), job.ld_addend, job.n,
               count);
    call.bias = nullptr;
  } else if (job.addend != nullptr) {
    call.from = job.addend;
    call.ld_from = job.ld_addend;
  }
  // The library takes one axis of the batch, the longest; the others are a loop.
  Axes<3> others = job.batch;
  if (others.rank > 0) {
    const int longest = static_cast<int>(std::max_element(others.extent, others.extent + others.rank) - others.extent);
    call.count = others.extent[longest];
    call.stride_c = others.stride[0][longest];
    call.stride_a = others.stride[1][longest];
    call.stride_b = others.stride[2][longest];
    others.extent[longest] = 1;
  }
  for (std::int64_t i = 0, count = others.count(); i < count; ++i) {
    std::int64_t at[3] = {}, rest = i;
    for (int axis = others.rank - 1; axis >= 0; rest /= others.extent[axis], --axis)
      for (int k = 0; k < 3; ++k) at[k] += rest % others.extent[axis] * others.stride[k][axis];
    if (!*activated) call.at_c = const_cast<void*>(moved(job.c, at[0], job.type));
    call.at_a = moved(job.a, at[1], job.a_type);
    call.at_b = moved(job.b, at[2], job.b_type);
    if (job.accumulate || begins) call.from = call.at_c;
    run(engine, stream, call);
  }
}

} // namespace

bool has_product_library(const char** words) {
  static const std::string known = [] {
    if (!cublaslt().failures.empty()) return cublaslt().failures;
    const std::size_t version = cublaslt().cublasLtGetVersion(); // 10000 major + 100 minor + patch
    return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }();
  *words = known.c_str();
  return cublaslt().failures.empty();
}

Failure library_product(Queue queue, const ProductJob& job, bool* activated) {
  static std::mutex mutex; // of the plans and the workspaces, which the order of the stream protects
  static Engine engines[64];
  return in_words([&] {
    const std::scoped_lock lock(mutex);
    Engine& engine = engines[queue.device];
    if (engine.handle == nullptr) check(cublaslt().cublasLtCreate(&engine.handle), "cublasLtCreate");
    if (engine.workspace == nullptr) {
      if (const Failure failure = allocate(queue.device, workspace_bytes, &engine.workspace))
        throw std::runtime_error(failure);
      if (engine.workspace == nullptr) throw std::runtime_error("no memory for cuBLASLt's workspace of 32 MiB");
    }
    multiply(engine, queue.stream, job, activated);
  });
}

} // namespace eg::cuda
