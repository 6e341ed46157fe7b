#include "core/gemm/products.h"

#include "core/base/context.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <utility>

namespace eg {

Products products_named(std::string_view name) {
  for (const Products candidate : {Products::full, Products::bf16})
    if (name == name_of(candidate)) return candidate;
  throw ValueError(fmt::format("precision: '{}' is not one of f32, bf16", name));
}

std::string_view name_of(Products products) { return products == Products::bf16 ? "bf16" : "f32"; }

Products products() { return execution_context().settings.products; }

ProductsScope::ProductsScope(Products wanted) : before_(std::exchange(execution_context().settings.products, wanted)) {}

ProductsScope::~ProductsScope() { execution_context().settings.products = before_; }

} // namespace eg
