// The emulated cuBLASLt: right products, and the calls that the library would refuse or answer with wrong numbers.

#include "core/cuda/emulator/library/cublasLt.h"
#include "device.h"

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

using namespace eg::test;

namespace {

/// One product D [m, n] = A B + C with columns packed; each test makes one thing wrong.
struct Call {
  std::int64_t m = 3, n = 4, k = 5;
  cudaDataType_t type = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t of_a = CUBLAS_OP_N;
  std::int64_t ld_a = 3, ld_d = 3;
  std::size_t attribute_bytes = sizeof(cublasOperation_t);
  std::uint32_t aligned_a = 4;
  bool bias = false;
  bool gelu = false; ///< with the sum before it in an auxiliary buffer
  std::int64_t aux_ld = 8;
  std::size_t aux_offset = 0; ///< in bytes
  std::int64_t m_of_algorithm = 3;
  const void* a = nullptr; ///< instead of device memory
  std::size_t workspace = 64;
};

/// A handle that is destroyed with its owner, also where the call after it is refused.
template <class Handle> using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

std::vector<float> matrix(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + 0.25F * static_cast<float>(i % 7);
  return values;
}

/// D, and in *before the auxiliary buffer.
std::vector<float> run(const Call& call, std::vector<float>* before = nullptr) {
  const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  const DeviceArray<float> a(matrix(size(call.ld_a, 5), 1)), b(matrix(size(call.k, call.n), -1));
  const DeviceArray<float> c(matrix(size(call.m, call.n), 2)), bias(matrix(size(call.m, 1), 0.5F));
  const DeviceArray<float> d(size(call.ld_d, call.n)), workspace(16);
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatmulDescCreate(&product, call.compute, call.scale);
  const Owned<cublasLtMatmulDesc_t> owned_product(product, cublasLtMatmulDescDestroy);
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &call.of_a, call.attribute_bytes);
  if (call.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void* const at = bias.data();
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at);
  }
  const DeviceArray<float> aux(size(8, call.n) + 4);
  if (call.gelu) {
    const cublasLtEpilogue_t epilogue = call.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    void* const at = reinterpret_cast<std::byte*>(aux.data()) + call.aux_offset;
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &at, sizeof at);
    cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &call.aux_ld, sizeof call.aux_ld);
  }
  std::vector<Owned<cublasLtMatrixLayout_t>> layouts;
  const auto layout = [&](std::int64_t rows, std::int64_t columns, std::int64_t ld) {
    cublasLtMatrixLayout_t made = nullptr;
    cublasLtMatrixLayoutCreate(&made, call.type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                               ld);
    layouts.emplace_back(made, cublasLtMatrixLayoutDestroy);
    return made;
  };
  const auto of_a = layout(call.m, call.k, call.ld_a), of_b = layout(call.k, call.n, call.k);
  const auto of_c = layout(call.m, call.n, call.m), of_d = layout(call.m, call.n, call.ld_d);
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const Owned<cublasLtMatmulPreference_t> owned_preference(preference, cublasLtMatmulPreferenceDestroy);
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    const std::uint32_t bytes = 4;
    cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof bytes);
  }
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &call.aligned_a, 4);
  const std::uint64_t most = 64;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  const auto other_a = layout(call.m_of_algorithm, call.k, call.m_of_algorithm),
             other = layout(call.m_of_algorithm, call.n, call.m_of_algorithm);
  const bool same = call.m_of_algorithm == call.m;
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, product, same ? of_a : other_a, of_b, same ? of_c : other, same ? of_d : other,
                                 preference, 1, &found, &count);
  REQUIRE(count == 1);
  const float one = 1;
  const void* const at_a = call.a != nullptr ? call.a : a.data();
  const cublasStatus_t status = cublasLtMatmul(handle, product, &one, at_a, of_a, b.data(), of_b, &one, c.data(), of_c,
                                               d.data(), of_d, &found.algo, workspace.data(), call.workspace, nullptr);
  CHECK(status == CUBLAS_STATUS_SUCCESS);
  if (before != nullptr) *before = aux.host();
  return d.host();
}

std::string refusal(const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  try {
    run(call);
  } catch (const eg::emulator::Error& error) {
    return error.what();
  }
  return "it was taken";
}

} // namespace

TEST_CASE("the emulated cuBLASLt multiplies") {
  for (const bool bias : {false, true}) {
    Call call;
    call.bias = bias;
    const std::vector<float> d = run(call), a = matrix(15, 1), b = matrix(20, -1), c = matrix(12, 2),
                             e = matrix(3, 0.5F);
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t i = 0; i < 3; ++i) {
        double wanted = c[i + 3 * j] + (bias ? e[i] : 0.0F);
        for (std::size_t k = 0; k < 5; ++k) wanted += static_cast<double>(a[i + 3 * k]) * b[k + 5 * j];
        CHECK(std::abs(d[i + 3 * j] - wanted) < 1e-5);
      }
  }
}

TEST_CASE("the emulated cuBLASLt computes GELU in the tanh form, and keeps what was before it") {
  for (const bool bias : {false, true}) {
    Call call;
    call.bias = bias;
    const std::vector<float> plain = run(call);
    call.gelu = true;
    std::vector<float> before;
    const std::vector<float> d = run(call, &before);
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t i = 0; i < 3; ++i) {
        const double x = plain[i + 3 * j];
        CHECK(before[i + 8 * j] == plain[i + 3 * j]);
        CHECK(std::abs(d[i + 3 * j] - 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))) <
              1e-6);
      }
  }
}

TEST_CASE("what cuBLASLt would refuse is an error") {
  const struct {
    std::function<void(Call&)> spoil;
    const char* words;
  } cases[] = {
      {[](Call& c) { c.ld_a = 2; }, "columns of 3 elements lie 2 apart"},
      {[](Call& c) { c.of_a = CUBLAS_OP_T; }, "the matrices do not fit each other"},
      {[](Call& c) { c.scale = CUDA_R_64F; }, "the scale has another type than the sums"},
      {[](Call& c) { c.type = CUDA_R_64F; }, "there is no product of these types"},
      {[](Call& c) { c.type = CUDA_R_64F, c.scale = CUDA_R_64F, c.compute = CUBLAS_COMPUTE_64F, c.bias = true; },
       "f64 has no epilogue"},
      {[](Call& c) { c.type = CUDA_R_64F, c.scale = CUDA_R_64F, c.compute = CUBLAS_COMPUTE_64F, c.gelu = true; },
       "f64 has no epilogue"},
      {[](Call& c) { c.gelu = true, c.aux_ld = 4; }, "the leading dimension of the auxiliary buffer is 4"},
      {[](Call& c) { c.gelu = true, c.aux_ld = 0; }, "at least the 3 rows of D"},
      {[](Call& c) { c.gelu = true, c.aux_offset = 4; }, "lies at no multiple of 16 bytes"},
      {[](Call& c) { c.attribute_bytes = 8; }, "an attribute of 4 bytes is given as 8 bytes"},
      {[](Call& c) { c.m_of_algorithm = 2; }, "the algorithm was chosen for another product"},
      {[](Call& c) { c.aligned_a = 1024; }, "A lies at no multiple of the 1024 bytes"},
      {[](Call& c) { c.workspace = 32; }, "the workspace is too small"},
      {[](Call& c) { c.workspace = 4096; }, "check_device_range"},
      {[](Call& c) {
         static const float host[15] = {};
         c.a = host;
         c.aligned_a = 4;
       },
       "check_device_range"},
      {[](Call& c) { c.m = 0, c.ld_a = 1, c.ld_d = 1, c.m_of_algorithm = 0; }, "a matrix without elements"},
  };
  for (const auto& c : cases) {
    const std::string words = refusal(c.spoil);
    CHECK_MESSAGE(words.find(c.words) != std::string::npos, std::string(c.words), ": ", words);
  }
}
