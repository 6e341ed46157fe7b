#pragma once
// How hidden states pass a BERT's blocks in training: as they are, or as another room has it (training/bert_run.h:
// permuted, or through blocks that another party holds).

#include "core/random.h"
#include "core/tensor.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eg::nn {
class Bert;
} // namespace eg::nn

namespace eg::training {

/// One batch on its way.
struct Passing {
  static constexpr std::int64_t in_test = -1;
  std::int64_t step = in_test; ///< of training
  std::int64_t first = 0;      ///< place of its first text: among those that training sees, or among the test texts
  RandomKey dropout = {};      ///< of the blocks
};

/// Members throw what the other party's do (apps/net/errors.h) where there is one.
class Passage {
public:
  Passage() = default;
  virtual ~Passage() = default;
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  /// Sees the model before its optimiser is made, and may move its weights.
  virtual void enter(nn::Bert& bert) = 0;
  /// Of the names of the parameters that learn, those that do so here. Throws ValueError when the rest would learn
  /// nothing.
  virtual std::vector<std::string> learning_here(std::vector<std::string> learning, const nn::Bert& bert) const = 0;
  /// A run of so many steps begins with the model's weights.
  virtual void begin(const nn::Bert& bert, std::int64_t steps) = 0;
  /// Z [B, T, dim] and its mask [B, T] -> the blocks' output [B, T, dim], tokens and features in the order of Z.
  virtual Tensor encode(const nn::Bert& bert, const Tensor& z, const Tensor& mask, const Passing& passing) = 0;
  /// A checkpoint is written; that behind `best` steps stays.
  virtual void save(std::optional<std::int64_t> best) const = 0;
  /// The run of so many steps goes on from a checkpoint's state.
  virtual void load(const nlohmann::json& state, std::int64_t steps) = 0;
  /// What a checkpoint must remember, and the ValueError when it is of another run.
  virtual void add_state(nlohmann::ordered_json& state) const = 0;
  virtual void check_state(const nlohmann::json& state, const std::string& checkpoint) const = 0;
  /// Gives the model the weights that the run leaves behind.
  virtual void finish(nn::Bert& bert) const = 0;
  /// Says in a model folder of those weights what they carry.
  virtual void mark(const std::string& folder) const = 0;
};

} // namespace eg::training
