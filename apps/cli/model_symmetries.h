#pragma once
// Finds the symmetries of a model folder or of a config, in the names of the folder's files.

#include "nn/hub/folder.h"
#include "permute/symmetries.h"
#include "permute/symmetries_json.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>

namespace eg::cli {

/// A model's outline and what the inference found for the tensors of its files.
struct OutlinedModel {
  std::unique_ptr<hub::Model> model;
  hub::LoadReport report; ///< of a folder
  permute::ModelSymmetries symmetries;
  std::optional<permute::Certificate> certificate = {}; ///< of a small copy; nothing where none was asked for

  /// Outlines of the files' tensors by name, in the order of the parameters.
  nn::StateDict tensors() const;
};

/// --no-certify, which leaves out the certificate.
void declare_certify(CLI::App& app, bool& skip);

/// Finds the symmetries and tries them on a small copy of the model (permute::certify), unless `certify` is false.
/// Throws FileError for a folder or config that cannot be read or whose tensors do not fit the model, SymmetryError
/// where a claimed symmetry does not hold.
OutlinedModel outline_folder(const std::string& folder, bool certify);
OutlinedModel outline_config(const std::string& path, bool certify);

/// One line for people.
std::string line_of(const std::optional<permute::Certificate>& certificate);

} // namespace eg::cli
