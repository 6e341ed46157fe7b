#include "core/gemm/matmul_precision.h"

#include "core/base/context.h"
#include "core/base/named_values.h"

#include <utility>

namespace eg {
namespace {

constexpr NamedValues<MatmulPrecision, 3> names{
    {{"f32", MatmulPrecision::full}, {"bf16", MatmulPrecision::bf16}, {"int8", MatmulPrecision::int8}}};

} // namespace

MatmulPrecision matmul_precision_named(std::string_view name) { return value_named(names, "precision", name); }

std::string_view name_of(MatmulPrecision products) { return name_in(names, products); }

MatmulPrecision matmul_precision() { return execution_context().settings.matmul_precision; }

MatmulPrecisionScope::MatmulPrecisionScope(MatmulPrecision wanted)
    : before_(std::exchange(execution_context().settings.matmul_precision, wanted)) {}

MatmulPrecisionScope::~MatmulPrecisionScope() { execution_context().settings.matmul_precision = before_; }

} // namespace eg
