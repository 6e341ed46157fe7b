// The user's folder: embeddings, final norm, head, and the residual's key.

#include "apps/stip/folders.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/call.h"
#include "nn/hub/fields.h"
#include "nn/hub/folder.h"
#include "permute/key.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::stip {

std::string stip_key_label(const std::string& id, std::int64_t dim) {
  return nlohmann::ordered_json{{"format", "equigrad-stip-key"}, {"model", id}, {"dim", dim}}.dump();
}

UserModel::UserModel(const std::string& folder, DType dtype) : dtype_(dtype) {
  const std::string source = join_path(folder, stip_file);
  if (!file_exists(source))
    throw FileError(fmt::format("{}: is no user's folder of STIP (there is no {}); equigrad stip transform makes one",
                                folder, stip_file));
  const hub::Fields f(read_json(source), source);
  if (f.text("format", "") != "equigrad-stip-user" || f.integer("version", 0) != 1)
    throw FileError(source + ": is no user's folder of STIP that this program knows");
  id_ = f.text("id", "");
  const std::int64_t dim = f.integer("dim");
  const std::string path = join_path(folder, stip_key_file);
  const permute::SecretKey key = permute::SecretKey::load(path);
  if (key.label() != stip_key_label(id_, dim))
    throw FileError(fmt::format("{}: key {} is not this model's", path, key.fingerprint()));
  key_ = key.source(id_)(dim, "residual");
  back_ = key_.inverse();
  model_ = hub::load_model(folder, {.dtype = dtype}).model;
  if (!model_->blocks().empty()) throw FileError(folder + ": its config has blocks, which a user's has not");
}

Tensor UserModel::hidden(const Tensor& x) const {
  const PauseRecording pause;
  return key_.apply(x, -1);
}

Tensor UserModel::plain(const Tensor& x) const {
  const PauseRecording pause;
  return back_.apply(x, -1);
}

} // namespace eg::stip
