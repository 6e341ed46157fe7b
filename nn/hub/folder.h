#pragma once
// Reads and writes model folders of Hugging Face's format: config.json and model.safetensors or its shards.

#include "nn/hub/model.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eg::hub {

/// How a file's tensors and a model's differ. Names are the file's.
struct LoadReport {
  std::string path;                    ///< of the tensors
  std::vector<std::string> missing;    ///< the model has them, the file does not
  std::vector<std::string> unexpected; ///< the file has them and nothing is known of them; with the nearest name
  std::vector<std::string> misshapen;  ///< "name is [4, 3], the model's is [3, 4] (transposed?)"
  std::vector<std::string> unused;     ///< known and not needed: copies of tied tensors, constants, other heads
  std::vector<std::string> renamed;    ///< found under another name: other prefix, gamma and beta
  std::vector<std::string> fresh;      ///< of a fresh head: not read, random
  /// The model's name and the file's of every tensor that was found.
  std::vector<std::pair<std::string, std::string>> found;

  bool complete() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
  /// One line that names up to five tensors of each kind.
  std::string summary() const;
};

struct LoadModelOptions {
  DType dtype = DType::f32; ///< f32 or f64: the parameters' type, whatever the file's
  /// A head (what does not belong to the base model, and its pooler) that the file lacks, or has in another shape,
  /// begins with random weights from `key`, and LoadReport::fresh says so: for fine-tuning. So does a classifier whose
  /// classes `adapt` has given other names (id2label), or in another order, unless either are mere numbers: LABEL_0, 0.
  bool fresh_head = false;
  RandomKey key = {};
  /// Patterns (glob_match) of parameters, by their names in files or in the model, that begin with random weights too,
  /// whether the folder has them or not.
  std::vector<std::string> fresh = {};
  /// Changes the config before the model is made: another head, other dropout.
  std::function<void(nlohmann::json& config)> adapt = {};
  /// Height and width of the images to come, if they differ from the config's: ViT's and DeiT's position embeddings
  /// are resampled (resample_positions).
  std::optional<std::pair<std::int64_t, std::int64_t>> image_size = {};
};

struct LoadedModel {
  std::unique_ptr<Model> model; ///< in evaluation
  LoadReport report;
};

/// A model folder's config.json. Throws FileError where it cannot be read or is not a JSON object.
nlohmann::json read_config(const std::string& folder);

/// Where the model of `path` is: RUN/model for the folder of a run that trained one (training/run.h), else `path`.
std::string model_folder_of_run(const std::string& path);

/// Reads a model folder. Tensors are looked for under the architecture's own names, and without or with the base
/// model's prefix, and with gamma and beta for the weight and bias of norms. F16 and BF16 are widened. Throws FileError
/// "FOLDER: ..." when something is missing (unless it may be fresh), unexpected (unless the head is fresh and it is
/// another head's) or of another shape, or when config.json or the tensors cannot be read; ValueError for a pattern of
/// `fresh` that fits nothing.
LoadedModel load_model(const std::string& folder, const LoadModelOptions& options = {});

/// What the names and shapes of a folder show.
struct ModelSummary {
  std::string family, architecture;
  std::int64_t parameters = 0; ///< numbers
  std::vector<std::string> inputs;
  LoadReport report; ///< complete(): load_model would read it
};

/// The model of a folder, or of a config.json alone, whose tensors are meta tensors (core/meta.h): its structure, of
/// any size, without memory and without reading values; in evaluation. Throws FileError for what load_model refuses
/// before it looks at tensors.
LoadedModel outline_of_folder(const std::string& folder);
std::unique_ptr<Model> outline_of_config(const std::string& path);

/// Looks at a model folder without reading its values. Throws FileError for what load_model refuses before it looks at
/// tensors: a config that is not supported, files that cannot be read.
ModelSummary examine_model(const std::string& folder);

/// Writes config.json (with torch_dtype as written) and model.safetensors, or shards of at most `shard_bytes` with
/// their index, so that transformers' from_pretrained and load_model read them. Existing files are replaced one by one,
/// each complete or not at all, the config last. Throws FileError.
void save_model(const Model& model, const std::string& folder,
                std::uint64_t shard_bytes = std::uint64_t{5'000'000'000});

/// Position embeddings [1, special + h w, dim] of a grid of h x w patches resampled to another grid, bicubic without
/// antialiasing, as transformers' interpolate_pos_encoding does it; the first `special` tokens stay. Throws ShapeError
/// when the tokens do not fit the grid.
Tensor resample_positions(const Tensor& positions, std::int64_t special, std::pair<std::int64_t, std::int64_t> from,
                          std::pair<std::int64_t, std::int64_t> to);

} // namespace eg::hub
