#include "core/gemm/matmul_precision.h"

#include "core/base/context.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <utility>

namespace eg {

MatmulPrecision matmul_precision_named(std::string_view name) {
  for (const MatmulPrecision candidate : {MatmulPrecision::full, MatmulPrecision::bf16})
    if (name == name_of(candidate)) return candidate;
  throw ValueError(fmt::format("precision: '{}' is not one of f32, bf16", name));
}

std::string_view name_of(MatmulPrecision products) { return products == MatmulPrecision::bf16 ? "bf16" : "f32"; }

MatmulPrecision matmul_precision() { return execution_context().settings.matmul_precision; }

MatmulPrecisionScope::MatmulPrecisionScope(MatmulPrecision wanted)
    : before_(std::exchange(execution_context().settings.matmul_precision, wanted)) {}

MatmulPrecisionScope::~MatmulPrecisionScope() { execution_context().settings.matmul_precision = before_; }

} // namespace eg
