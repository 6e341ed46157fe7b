#include "core/gemm/products.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <utility>

namespace eg {
namespace {

thread_local Products present = Products::full;

} // namespace

Products products_named(std::string_view name) {
  for (const Products candidate : {Products::full, Products::bf16})
    if (name == name_of(candidate)) return candidate;
  throw ValueError(fmt::format("precision: '{}' is not one of f32, bf16", name));
}

std::string_view name_of(Products products) { return products == Products::bf16 ? "bf16" : "f32"; }

Products products() { return present; }

ProductsScope::ProductsScope(Products wanted) : before_(std::exchange(present, wanted)) {}

ProductsScope::~ProductsScope() { present = before_; }

} // namespace eg
