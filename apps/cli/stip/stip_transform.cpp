// equigrad stip transform: the owner's part.

#include "apps/cli/model_files.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/core_dumps.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/stip/stip.h"

#include "apps/stip/transform.h"
#include "core/base/bytes.h"
#include "core/base/words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

namespace eg::cli {
namespace {

/// Files beside the weights that the user needs: tokenizer, preprocessing, ids that end texts.
std::vector<std::string> companions_of(const std::string& model) {
  std::vector<std::string> files;
  if (!folder_exists(model)) return files;
  const auto add = [&](const char* name) {
    if (std::string path = join_path(model, name); file_exists(path)) files.push_back(std::move(path));
  };
  for (const char* name : tokenizer_files) add(name);
  for (const char* name : config_files)
    if (std::string(name) != "config.json") add(name);
  return files;
}

int transform(const stip::TransformJob& job, const CommonOptions& common) {
  add_model(*common.files, job.model);
  common.files->check();
  const stip::Transformed t = stip::transform_for_stip(job);
  const std::string scheme = permute::info_of(job.scheme).name;
  if (common.talks())
    say(fmt::format("{}/cloud: {} of a {}, {} numbers, {}: no embeddings, no head, no key\n"
                    "{}/user: embeddings and head, {} numbers, and residual.key ({}), which only the user may have\n",
                    job.out, count_of(static_cast<std::uint64_t>(t.layers), "block"), t.architecture,
                    t.cloud_parameters, scheme, job.out, t.user_parameters, t.fingerprint));
  write_json(common, {{"out", job.out},
                      {"scheme", scheme},
                      {"id", t.id},
                      {"key", t.fingerprint},
                      {"architecture", t.architecture},
                      {"layers", t.layers},
                      {"dim", t.dim},
                      {"cloud_parameters", t.cloud_parameters},
                      {"user_parameters", t.user_parameters},
                      {"log2_keys", t.log2_count}});
  return done;
}

} // namespace

Job declare_stip_transform(CLI::App& app, const CommonOptions& common) {
  struct Options {
    stip::TransformJob job;
    std::string scheme = "stip2";
  };
  auto o = std::make_shared<Options>();
  common.files
      ->input(app.add_option("--model", o->job.model,
                             "Model folder (ViT, DeiT, BERT, GPT-2, Llama), or a llama2.c checkpoint"))
      ->required()
      ->type_name("DIR");
  app.add_option("--scheme", o->scheme,
                 "stip1: the residual stream alone, as printed; stip2: inner permutations within heads too")
      ->check(one_of({"stip1", "stip2"}))
      ->capture_default_str()
      ->type_name("NAME");
  common.files
      ->new_folder(app.add_option("--out", o->job.out, "New folder: OUT/cloud for the cloud, OUT/user for the user"))
      ->required()
      ->type_name("OUT");
  app.footer("Keys come from the system's random source; the inner permutations are forgotten. A permutation is\n"
             "obfuscation, not encryption: docs/stip.md says what the cloud learns.");
  return [o, &common, &app]() -> int {
    disable_core_dumps();
    const StopScope stopping;
    if (app.count("--seed") > 0)
      throw UsageError("--seed has no effect on stip transform: keys come from the system's random source");
    o->job.model = model_folder(o->job.model);
    o->job.scheme = permute::scheme_named(o->scheme).scheme;
    o->job.copies = companions_of(o->job.model);
    warn_of_key(o->job.model);
    return transform(o->job, common);
  };
}

} // namespace eg::cli
