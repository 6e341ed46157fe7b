// equigrad explore: the explorer as one page, with a model in it where one is given.

#include "apps/cli/model_files.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"

#include "core/base/bytes.h"
#include "data/encode.h"
#include "data/tensor_reader.h"
#include "nn/hub/folder.h"
#include "permute/folder_files.h"
#include "permute/key_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <set>

namespace eg::cli {
namespace {

namespace fs = std::filesystem;

struct ExploreOptions {
  std::string out, model, page;
};

constexpr std::string_view place_of_model = "<!-- model -->";
constexpr std::uint64_t most_bytes = std::uint64_t{200} << 20; // of a model: a page of more is slow to open

/// The page that scripts/explorer.sh makes: installed beside the program, or in the tree that it was built in.
std::string built_page() {
  std::error_code ignored;
  const fs::path bin = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::string tried;
  for (const char* place : {"../share/equigrad/explorer.html", "../../explorer/explorer.html"}) {
    const std::string path = (bin / place).lexically_normal().string();
    if (file_exists(path)) return path;
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ", path);
  }
  throw FileError(
      fmt::format("the explorer is not built: there is no {}. In the source tree, ./scripts/explorer.sh builds it (it "
                  "installs emscripten); --page FILE names one that lies elsewhere",
                  tried));
}

/// {"name": folder's name, "files": {name: base64}}; its text can stand in a script element.
std::string packed(const std::string& folder) {
  (void)hub::examine_model(folder); // what is wrong with it is said here, not on the page
  std::set<std::string> weights;    // files that the model reads; other .safetensors files stay out
  const data::TensorReader reader = data::open_tensors(folder);
  for (const std::string& path : reader.files()) weights.insert(fs::path(path).filename().string());
  nlohmann::json files = nlohmann::json::object();
  std::uint64_t size = 0;
  for (const std::string& name : permute::files_of(folder, weights, false).kept) {
    const std::string path = join_path(folder, name);
    if (permute::is_key_file(path))
      throw FileError(fmt::format("{}: is a secret key; it must not get into a page", path));
    size += fs::file_size(path);
    if (size > most_bytes)
      throw FileError(
          fmt::format("{}: its files are larger than the {} MB that a page can hold", folder, most_bytes >> 20));
    files[name] = data::base64(read_file(path));
  }
  std::string text =
      nlohmann::json{{"name", fs::canonical(folder).filename().string()}, {"files", std::move(files)}}.dump(
          -1, ' ', true, nlohmann::json::error_handler_t::replace);
  // "</script" in a file's name must not end the element.
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) text.replace(at, 1, "\\u003c");
  return text;
}

} // namespace

Job declare_explore(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<ExploreOptions>();
  common.files->result(app.add_option("--out", o->out, "Page to write: one HTML file that needs nothing else"))
      ->required()
      ->type_name("FILE");
  common.files->input(app.add_option("--model", o->model, "Model folder to put into the page, for its part \"Yours\""))
      ->type_name("FOLDER");
  common.files
      ->input(app.add_option("--page", o->page, "explorer.html of ./scripts/explorer.sh (default: beside the program)"))
      ->type_name("FILE");
  return [o, &common]() -> int {
    if (!o->model.empty()) o->model = model_folder(o->model);
    add_model(*common.files, o->model);
    common.files->check();
    require_writable(o->out);
    const std::string path = o->page.empty() ? built_page() : o->page;
    const Bytes bytes = read_file(path, std::uint64_t{64} << 20);
    std::string page(bytes.begin(), bytes.end());
    const std::size_t at = page.find(place_of_model);
    if (at == std::string::npos) throw FileError(fmt::format("{}: is no page of ./scripts/explorer.sh", path));
    if (!o->model.empty())
      page.replace(at, place_of_model.size(),
                   fmt::format("<script type=\"application/json\" id=\"model\">{}</script>", packed(o->model)));
    write_result(o->out, page);
    if (common.talks())
      say(fmt::format("{}: {:.1f} MB, opens in any browser with WebAssembly, without a network\n", o->out,
                      static_cast<double>(page.size()) / 1e6));
    write_json(common, {{"page", o->out}, {"bytes", page.size()}, {"model", o->model}});
    return done;
  };
}

} // namespace eg::cli
