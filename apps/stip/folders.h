#pragma once
// Reads and writes the two folders that a model's owner makes of it: the cloud's and the user's.

#include "nn/hub/model.h"
#include "permute/permutation.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace eg::stip {

/// What the cloud knows of the model: sizes and settings of its blocks. Neither the family nor the scheme, no
/// vocabulary, no classes.
struct CloudConfig {
  std::string id; ///< 32 hexadecimal digits, drawn when the model was transformed; the user's folder has the same
  std::int64_t layers = 0;
  std::int64_t positions = 0; ///< most tokens of one text
  nn::BlockConfig block;
  std::vector<double> scales; ///< of Q K^T, by layer; 0: 1/sqrt(head_dim)
};

/// The cloud's half.
struct CloudModel {
  CloudConfig config;
  nn::Blocks blocks; ///< in evaluation
  DType dtype = DType::f32;
};

/// Writes stip.json and model.safetensors ("blocks.0.attention.qkv.weight", ...). Throws FileError.
void write_cloud(const std::string& folder, const CloudConfig& config, const nn::Blocks& blocks);
/// Reads them. Sizes are checked against the file's before memory is taken. Throws FileError.
CloudModel open_cloud(const std::string& folder, DType dtype = DType::f32);

/// The user's half: a model folder of Hugging Face's format whose config has no blocks (embeddings, final norm, pooler
/// and head), stip.json, and residual.key of mode 0600.
class UserModel {
public:
  /// Throws FileError, also for a key that others can read or that is another model's.
  explicit UserModel(const std::string& folder, DType dtype = DType::f32);

  const hub::Model& model() const { return *model_; }
  const std::string& id() const { return id_; }
  DType dtype() const { return dtype_; }
  std::int64_t dim() const { return key_.size(); }
  /// Features [..., dim] as the cloud gets them, x pi, and back.
  Tensor hidden(const Tensor& x) const;
  Tensor plain(const Tensor& x) const;

private:
  std::string id_;
  DType dtype_;
  std::unique_ptr<hub::Model> model_;
  permute::Permutation key_, back_;
};

/// Names in a user's folder.
inline constexpr const char* stip_file = "stip.json";
inline constexpr const char* stip_key_file = "residual.key";
/// The label of a key of STIP: its kind and its model.
std::string stip_key_label(const std::string& id, std::int64_t dim);

} // namespace eg::stip
