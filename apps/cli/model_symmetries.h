#pragma once
// Finds the symmetries of a model folder or of a config, in the names of the folder's files.

#include "nn/hub/folder.h"
#include "permute/symmetries.h"

#include <memory>
#include <string>

namespace eg::cli {

/// A model's outline and what the inference found for the tensors of its files.
struct OutlinedModel {
  std::unique_ptr<hub::Model> model;
  hub::LoadReport report; ///< of a folder
  permute::ModelSymmetries symmetries;

  /// Outlines of the files' tensors by name, in the order of the parameters.
  nn::StateDict tensors() const;
};

/// Throws FileError for a folder or config that cannot be read or whose tensors do not fit the model.
OutlinedModel outline_folder(const std::string& folder);
OutlinedModel outline_config(const std::string& path);

} // namespace eg::cli
