#pragma once
// Maps tensors of a file to parts of a model's parameters.

#include "nn/module.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::hub {

/// Rows of a fused parameter.
enum class Part : std::uint8_t { all, q, k, v, gate, up };

/// One line of a family's table. "{}" stands for a layer's number. Names are those of layers, whose weight and bias
/// are meant where the model has them, or of tensors.
struct NameRule {
  const char* file;
  const char* model;
  Part part = Part::all;
  bool transposed = false; ///< the file holds a matrix [in, out] (GPT-2's Conv1D)
};

/// One tensor of a file: rows [begin, end) of a parameter, transposed or not, in the file's shape.
struct Binding {
  std::string file;
  std::string parameter;
  std::int64_t begin = 0, end = 0;
  bool transposed = false;
  Shape shape;       ///< in the file
  bool head = false; ///< not of the base model, or its pooler: what a checkpoint for another task lacks
  /// Further names under which files hold the same numbers, because the config ties the two tensors. A file may have
  /// either or both; where both are there and differ, it is refused. Such a name may have any prefix.
  std::vector<std::string> tied = {};
  /// The name under which the same numbers are written once more, for readers that look there; "": none. What a file
  /// holds under it is not read.
  std::string twin = {};
};

/// The rows of the fused projections: attention's qkv is (heads, kv_heads, kv_heads) head_dim.
struct FusedRows {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

/// A binding for each tensor that the rules give to parameters of `state`, `prefix` before the file's names.
std::vector<Binding> bindings_of(std::span<const NameRule> rules, const nn::StateDict& state, const FusedRows& fused,
                                 std::string_view prefix);

/// The bound part in the file's shape, made of operations, so that a tape records it.
Tensor bound(const Tensor& parameter, const Binding& binding);

/// The file's tensor: a copy of the bound part of `parameter` (or of its gradient) in the file's shape, packed.
Tensor extract(const Tensor& parameter, const Binding& binding);
/// Copies the file's tensor, of shape binding.shape and a floating type, into the bound part.
void insert(Tensor& parameter, const Binding& binding, const Tensor& from_file);

} // namespace eg::hub
