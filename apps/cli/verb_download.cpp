// equigrad download: fetches public data sets from the network.

#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include "apps/fetch/sets.h"
#include "data/dataset.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace eg::cli {
namespace {

/// What the command line asks for.
struct DownloadRequest {
  std::string name, data_dir, mirror;
  bool list = false;
};

int list_sets(const CommonOptions& common) {
  nlohmann::json json = nlohmann::json::array();
  std::string text;
  for (const fetch::PublicSet& set : fetch::public_sets()) {
    std::int64_t bytes = 0;
    for (const fetch::SetFile& file : set.files) bytes += file.bytes;
    text += fmt::format("{:<16} {:>7.1f} MB  {} (from {})\n", set.name, static_cast<double>(bytes) / 1e6, set.about,
                        set.files.front().url);
    json.push_back({{"name", set.name}, {"about", set.about}, {"bytes", bytes}});
  }
  if (common.talks()) say(text);
  write_json(common, {{"sets", json}});
  return done;
}

int download_set(const DownloadRequest& request, const CommonOptions& common) {
  const std::string data_dir = request.data_dir.empty() ? data::default_data_dir() : request.data_dir;
  if (data_dir.empty()) throw UsageError("no data folder was given: give --data-dir or EQUIGRAD_DATA");
  const fetch::PublicSet& set = fetch::public_set(request.name);
  Progress progress(!common.quiet);
  std::string folder;
  try {
    folder =
        fetch::fetch_set(set, data_dir, request.mirror, &stop_flag(),
                         [&](std::int64_t came, std::int64_t total, const std::string& file) {
                           progress.show(static_cast<double>(came), static_cast<double>(total),
                                         {{file, 1}, {fmt::format("{:.1f} MB", static_cast<double>(came) / 1e6), 2}});
                         });
  } catch (const Interrupted& error) {
    throw Interrupted(fmt::format("{}; the same command goes on from there", error.what()));
  }
  progress.clear();
  if (common.talks()) say(fmt::format("{}: {} (checksums right)\n", set.name, folder));
  write_json(common, {{"name", set.name}, {"folder", folder}});
  return done;
}

} // namespace

Job declare_download(CLI::App& app, const CommonOptions& common) {
  auto request = std::make_shared<DownloadRequest>();
  app.add_option("name", request->name, "Which set (--list names them)")->type_name("NAME");
  app.add_flag("--list", request->list, "Name the sets and stop");
  common.files
      ->data_folder(
          app.add_option("--data-dir", request->data_dir, "Folder with the datasets (default: EQUIGRAD_DATA)"))
      ->type_name("FOLDER");
  app.add_option("--mirror", request->mirror, "Another place for the same files: what stands before their names")
      ->type_name("URL");
  return [request, &common, &app]() -> int {
    if (request->list) {
      require_alone(app, "--list");
      return list_sets(common);
    }
    if (request->name.empty()) throw UsageError("no set was given; --list names them");
    return download_set(*request, common);
  };
}

} // namespace eg::cli
