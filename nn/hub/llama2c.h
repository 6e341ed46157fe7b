#pragma once
// Reads checkpoints of llama2.c (Karpathy, 2023): seven integers and float32 weights in a row.

#include "nn/hub/model.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>

namespace eg::hub {

/// Rows of a query or key projection [heads head_dim, dim] from one order of rotary pairs to the other: neighbours
/// (2i, 2i + 1) as Meta's and llama2.c's files have them, to halves (i, i + head_dim / 2) as transformers has them. The
/// attention of a model stays what it is when queries and keys of every layer are reordered and `interleaved` changes.
/// Throws ShapeError unless the rows are whole heads of an even number of features.
Tensor neighbours_to_halves(const Tensor& weight, std::int64_t head_dim);
/// Its inverse.
Tensor halves_to_neighbours(const Tensor& weight, std::int64_t head_dim);

/// Reads a checkpoint of version 0 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len; a negative
/// vocab_size means a head of its own) as the LlamaForCausalLM of the same numbers, f32 and in evaluation, that
/// save_model writes for transformers. Sizes are checked against the file's before memory is taken. Throws FileError.
std::unique_ptr<Model> load_llama2c(const std::string& path);
/// The config of that model, from the header alone. Throws FileError as load_llama2c does.
nlohmann::json llama2c_config(const std::string& path);

} // namespace eg::hub
