// The namespace of every header is that of its folder: apps/net/wire.h declares in eg::net. What is below all rooms,
// core and autograd, declares in eg itself.

#include "core/base/bytes.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::string_view folders[] = {"apps",  "autograd", "core",   "data",    "nn",
                                        "optim", "permute",  "python", "training"};

/// The namespace below eg that a folder gives its name to: its own name, but for eg::split, which is an operation.
std::string namespace_of(const std::string& folder) { return folder == "split" ? "split_learning" : folder; }

/// True where a header at `path` may open `name`, such as eg::data::tok: a folder above it has that name below eg.
bool may_open(const fs::path& path, const std::string& name) {
  const std::string below = name.substr(0, name.find("::", 4));
  return std::ranges::any_of(path.parent_path(), [&](const fs::path& folder) {
    return folder == "core" || folder == "autograd" || below == "eg::" + namespace_of(folder.string());
  });
}

/// The namespaces that a header opens and may not. One that only forward declarations stand in is not counted.
std::vector<std::string> foreign_namespaces(const fs::path& path, const std::string& header) {
  const std::regex block(R"((?:^|\n)namespace (eg[\w:]*) \{\n([^}]*)\n\})");
  const std::regex declarations(R"((?:\s*(?:class|struct) \w+;|\s*//[^\n]*)*\s*)");
  const std::regex opened(R"((?:^|\n)namespace (eg[\w:]*) \{)");
  std::vector<std::string> found;
  for (auto at = std::sregex_iterator(header.begin(), header.end(), opened); at != std::sregex_iterator(); ++at) {
    const std::string name = (*at)[1], rest = header.substr(static_cast<std::size_t>(at->position()));
    std::smatch whole;
    const bool forward = std::regex_search(rest, whole, block, std::regex_constants::match_continuous) &&
                         std::regex_match(whole[2].str(), declarations);
    if (!forward && !may_open(path, name)) found.push_back(name);
  }
  return found;
}

TEST_CASE("namespaces: every header declares in its room's") {
  std::size_t read = 0;
  for (const std::string_view folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(EQUIGRAD_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".h") continue;
      ++read;
      const fs::path path = fs::relative(entry.path(), EQUIGRAD_SOURCE_DIR);
      const eg::Bytes bytes = eg::read_file(entry.path().string());
      CHECK_MESSAGE(foreign_namespaces(path, {bytes.begin(), bytes.end()}) == std::vector<std::string>{},
                    path.string());
    }
  CHECK(read > 200);
}

TEST_CASE("namespaces: one of another room is noticed") {
  using Names = std::vector<std::string>;
  const auto opens = [](const char* path, const std::string& name) {
    return foreign_namespaces(path,
                              "#pragma once\n\nnamespace " + name + " {\n\nint f();\n\n} // namespace " + name + "\n");
  };
  CHECK(opens("apps/net/tcp/tls.h", "eg::net") == Names{});
  CHECK(opens("apps/split/cloud_encoder.h", "eg::split_learning") == Names{});
  CHECK(opens("nn/hub/model.h", "eg::hub") == Names{});
  CHECK(opens("data/text/tokenizer/parts.h", "eg::data::tok") == Names{});
  CHECK(opens("core/ops/sort/sort.h", "eg::sorting") == Names{});
  CHECK(opens("apps/net/wire.h", "eg::privacy") == Names{"eg::privacy"});
  CHECK(opens("nn/metrics.h", "eg") == Names{"eg"});
  CHECK(opens("training/option.h", "eg::permute") == Names{"eg::permute"});
  CHECK(opens("apps/report/page.h", "eg::permute::report") == Names{"eg::permute::report"});
  CHECK(opens("apps/net/wire.h", "eg::network") == Names{"eg::network"});
  // A forward declaration is where its class is; a function, or a class's definition, is not one.
  const std::string own = "namespace eg::nn {\nint f();\n} // namespace eg::nn\n";
  CHECK(foreign_namespaces("nn/a.h", "namespace eg::data {\nclass A;\nstruct B;\n} // namespace eg::data\n" + own) ==
        Names{});
  CHECK(foreign_namespaces("nn/a.h", "namespace eg::data {\nclass A;\nint g();\n} // namespace eg::data\n" + own) ==
        Names{"eg::data"});
  CHECK(foreign_namespaces("nn/a.h", own + "\nnamespace eg::data {\n\nclass A {\n};\n\n} // namespace eg::data\n") ==
        Names{"eg::data"});
}

} // namespace
