// Emulates the part of cuBLASLt that products use: plain loops in double, behind the refusals that NVIDIA documents
// and what an algorithm may rely on. A wrong call is an Error that says what is wrong with it.

#include "core/cuda/emulator/library/cublasLt.h"

#include "core/bf16.h"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <string>

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t of_a = CUBLAS_OP_N, of_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;

  bool adds_bias() const { return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS; }
  bool has_gelu() const {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
  std::int32_t batches = 1;
  std::int64_t stride = 0;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 4> alignment{256, 256, 256, 256}; ///< of A, B, C, D
};

namespace {

using eg::emulator::Error;
using Layout = cublasLtMatrixLayoutOpaque_t;
using Product = cublasLtMatmulDescOpaque_t;

void require(bool holds, const std::string& words) {
  if (!holds) throw Error("cuBLASLt: " + words);
}

std::int64_t size_of(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

template <class T> void assign(T& to, const void* value, std::size_t bytes) {
  require(bytes == sizeof(T),
          "an attribute of " + std::to_string(sizeof(T)) + " bytes is given as " + std::to_string(bytes) + " bytes");
  std::memcpy(&to, value, sizeof(T));
}

/// Four matrices of one product, in the order A, B, C, D.
using Layouts = std::array<const Layout*, 4>;
constexpr const char* names = "ABCD";

std::int64_t rows_of(const Layout& x, cublasOperation_t op) { return op == CUBLAS_OP_N ? x.rows : x.columns; }
std::int64_t columns_of(const Layout& x, cublasOperation_t op) { return op == CUBLAS_OP_N ? x.columns : x.rows; }

/// What the documentation of cublasLtMatmul() allows.
void check_kind(const Product& p, const Layouts& of) {
  const auto& [a, b, c, d] = of;
  const bool wide = p.compute == CUBLAS_COMPUTE_64F;
  require(p.scale == (wide ? CUDA_R_64F : CUDA_R_32F), "the scale has another type than the sums");
  const cudaDataType_t of_d = d->type;
  require(c->type == of_d && a->type == b->type, "C and D, or A and B, have different types");
  require(wide ? a->type == CUDA_R_64F && of_d == CUDA_R_64F
               : (a->type == CUDA_R_32F && of_d == CUDA_R_32F) ||
                     (a->type == CUDA_R_16BF && (of_d == CUDA_R_32F || of_d == CUDA_R_16BF)),
          "there is no product of these types");
  require(p.epilogue == CUBLASLT_EPILOGUE_DEFAULT || !wide, "f64 has no epilogue");
  require(!p.adds_bias() || p.bias != nullptr, "the epilogue needs a bias");
  if (p.has_gelu()) {
    require(p.aux != nullptr && reinterpret_cast<std::uintptr_t>(p.aux) % 16 == 0,
            "the auxiliary buffer is missing or lies at no multiple of 16 bytes");
    require(p.aux_ld % 8 == 0 && p.aux_ld >= d->rows,
            "the leading dimension of the auxiliary buffer is " + std::to_string(p.aux_ld) +
                "; it must be a multiple of 8, and at least the " + std::to_string(d->rows) + " rows of D");
    require(d->batches == 1, "the auxiliary buffer has no stride for a batch");
  }
  require(rows_of(*a, p.of_a) == d->rows && columns_of(*b, p.of_b) == d->columns &&
              columns_of(*a, p.of_a) == rows_of(*b, p.of_b) && c->rows == d->rows && c->columns == d->columns,
          "the matrices do not fit each other");
  for (const Layout* const x : of) require(x->batches == d->batches, "the matrices have different batches");
}

/// What an algorithm was chosen for: another product must not use it.
std::uint64_t kind_of(const Product& p, const Layouts& of) {
  std::uint64_t hash = 14695981039346656037U;
  const auto add = [&](auto value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211U; };
  add(p.compute), add(p.scale), add(p.of_a), add(p.of_b), add(p.epilogue), add(p.aux_ld);
  for (const Layout* const x : of)
    add(x->type), add(x->rows), add(x->columns), add(x->ld), add(x->batches), add(x->stride);
  return hash;
}

template <class T> double number(const void* from, std::int64_t at) {
  return static_cast<double>(static_cast<const T*>(from)[at]);
}
template <> double number<eg::BFloat16>(const void* from, std::int64_t at) {
  return static_cast<float>(static_cast<const eg::BFloat16*>(from)[at]);
}
double read(cudaDataType_t type, const void* from, std::int64_t at) {
  return type == CUDA_R_64F   ? number<double>(from, at)
         : type == CUDA_R_32F ? number<float>(from, at)
                              : number<eg::BFloat16>(from, at);
}
void write(cudaDataType_t type, void* to, std::int64_t at, double value) {
  if (type == CUDA_R_64F)
    static_cast<double*>(to)[at] = value;
  else if (type == CUDA_R_32F)
    static_cast<float*>(to)[at] = static_cast<float>(value);
  else
    static_cast<eg::BFloat16*>(to)[at] = eg::BFloat16(value);
}

/// One product with all that it needs when the stream comes to it.
struct Work {
  Product product;
  std::array<Layout, 4> of;
  double alpha, beta;
  std::array<const void*, 4> at;
  void* d;

  void run() const {
    const auto& [a, b, c, to] = of;
    const std::int64_t terms = columns_of(a, product.of_a);
    const bool plain_a = product.of_a == CUBLAS_OP_N, plain_b = product.of_b == CUBLAS_OP_N;
    const std::int64_t a_row = plain_a ? 1 : a.ld, a_step = plain_a ? a.ld : 1;
    const std::int64_t b_step = plain_b ? 1 : b.ld, b_column = plain_b ? b.ld : 1;
    for (std::int64_t batch = 0; batch < to.batches; ++batch)
      for (std::int64_t j = 0; j < to.columns; ++j) {
        const std::int64_t column = batch * to.stride + j * to.ld;
        for (std::int64_t i = 0; i < to.rows; ++i) {
          double sum = 0.0;
          for (std::int64_t k = 0; k < terms; ++k)
            sum += read(a.type, at[0], batch * a.stride + i * a_row + k * a_step) *
                   read(b.type, at[1], batch * b.stride + k * b_step + j * b_column);
          sum *= alpha;
          if (beta != 0.0) sum += beta * read(c.type, at[2], batch * c.stride + i + j * c.ld);
          if (product.adds_bias()) sum += read(to.type, product.bias, i);
          if (product.has_gelu()) {
            write(to.type, product.aux, j * product.aux_ld + i, sum);
            sum = 0.5 * sum * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (sum + 0.044715 * sum * sum * sum)));
          }
          write(to.type, d, column + i, sum);
        }
        const auto written = [type = to.type, rows = to.rows](void* matrix, std::int64_t first) {
          eg::emulator::note_written(static_cast<std::byte*>(matrix) + first * size_of(type),
                                     static_cast<std::size_t>(rows * size_of(type)));
        };
        written(d, column);
        if (product.has_gelu()) written(product.aux, j * product.aux_ld);
      }
  }
};

/// The bytes from a matrix's first element to its last, over its batch.
std::size_t extent_of(const Layout& x) {
  const std::int64_t last = (x.batches - 1) * x.stride + (x.columns - 1) * x.ld + x.rows;
  return static_cast<std::size_t>(last * size_of(x.type));
}

using eg::emulator::check_device_range;

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static cublasLtContext context;
  *handle = &context;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "done" : "refused";
}

std::size_t cublasLtGetVersion() { return 130002; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = std::make_unique<Product>(Product{compute, scale}).release();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  const std::unique_ptr<Product> owned(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    assign(desc->of_a, value, bytes);
    break;
  case CUBLASLT_MATMUL_DESC_TRANSB:
    assign(desc->of_b, value, bytes);
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    assign(desc->epilogue, value, bytes);
    break;
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    assign(desc->bias, value, bytes);
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    assign(desc->aux, value, bytes);
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    assign(desc->aux_ld, value, bytes);
    break;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t ld) {
  require(rows > 0 && columns > 0, "a matrix without elements");
  require(ld >= static_cast<std::int64_t>(rows),
          "columns of " + std::to_string(rows) + " elements lie " + std::to_string(ld) + " apart");
  *layout =
      std::make_unique<Layout>(Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), ld})
          .release();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  const std::unique_ptr<Layout> owned(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    assign(layout->batches, value, bytes);
  else
    assign(layout->stride, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = std::make_unique<cublasLtMatmulPreferenceOpaque_t>().release();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t> owned(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    assign(preference->workspace, value, bytes);
  else
    assign(preference->alignment.at(attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  require(handle != nullptr && wanted >= 1, "the heuristic is asked without handle or place for an answer");
  const Layouts of{a, b, c, d};
  check_kind(*desc, of);
  *results = {};
  results->algo.data[0] = kind_of(*desc, of);
  for (std::size_t i = 0; i < 4; ++i) results->algo.data[1 + i] = preference->alignment[i];
  results->algo.data[5] = preference->workspace;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  require(handle != nullptr, "a product without handle");
  const Layouts of{a_layout, b_layout, c_layout, d_layout};
  check_kind(*desc, of);
  require(algo->data[0] == kind_of(*desc, of), "the algorithm was chosen for another product");
  require(workspace_bytes >= algo->data[5] && reinterpret_cast<std::uintptr_t>(workspace) % 16 == 0,
          "the workspace is too small or not at a multiple of 16 bytes");
  check_device_range(workspace, workspace_bytes);
  const bool wide = desc->scale == CUDA_R_64F;
  const auto factor = [&](const void* x) {
    return wide ? *static_cast<const double*>(x) : static_cast<double>(*static_cast<const float*>(x));
  };
  Work work{*desc, {*a_layout, *b_layout, *c_layout, *d_layout}, factor(alpha), factor(beta), {a, b, c, d}, d};
  for (std::size_t i = 0; i < 4; ++i) {
    if (i == 2 && work.beta == 0.0) continue; // C is not read
    require(reinterpret_cast<std::uintptr_t>(work.at[i]) % algo->data[1 + i] == 0,
            std::string(1, names[i]) + " lies at no multiple of the " + std::to_string(algo->data[1 + i]) +
                " bytes that the algorithm was chosen for");
    check_device_range(work.at[i], extent_of(work.of[i]));
  }
  if (work.beta != 0.0 && c == d)
    require(c_layout->ld == d_layout->ld && c_layout->stride == d_layout->stride,
            "C and D are one, and lie differently");
  if (desc->has_gelu())
    check_device_range(desc->aux, static_cast<std::size_t>(((d_layout->columns - 1) * desc->aux_ld + d_layout->rows) *
                                                           size_of(d_layout->type)));
  if (desc->adds_bias())
    check_device_range(desc->bias, static_cast<std::size_t>(d_layout->rows * size_of(d_layout->type)));
  eg::emulator::enqueue(stream, [work] { work.run(); });
  return CUBLAS_STATUS_SUCCESS;
}
