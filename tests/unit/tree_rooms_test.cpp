// The rooms of the tree and their arrows, as CMake knows them: few, none backward, and as docs/rooms.svg draws them.

#include "core/base/bytes.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Room {
  std::string name, path;
  std::vector<std::string> uses;
  bool library() const { return !path.starts_with("apps/"); }
};

std::string text_of(const std::string& path) {
  const eg::Bytes bytes = eg::read_file(path);
  return {bytes.begin(), bytes.end()};
}

/// ROOMS.txt of the build: a line "NAME PATH USES..." for each room, in the order in which CMake met them.
std::vector<Room> rooms() {
  std::vector<Room> found;
  std::istringstream lines(text_of(EQUIGRAD_BINARY_DIR "/rooms/rooms.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Room room;
    words >> room.name >> room.path;
    for (std::string word; words >> word;) room.uses.push_back(word);
    found.push_back(room);
  }
  return found;
}

/// How many rooms stand below each, one upon another.
std::map<std::string, int> heights(const std::vector<Room>& all) {
  std::map<std::string, int> height;
  for (const Room& room : all) {
    int above = 0;
    for (const std::string& used : room.uses) above = std::max(above, height.at(used) + 1);
    height[room.name] = above;
  }
  return height;
}

constexpr int box_width = 104, box_height = 30, column = 132, storey = 66, margin = 16;

struct Spot {
  int x, y;
};

/// Where each room is drawn: by its height from below, beside the others of that height.
std::map<std::string, Spot> spots(const std::vector<Room>& all, int& width, int& bottom) {
  const std::map<std::string, int> height = heights(all);
  std::map<int, std::vector<std::string>> storeys;
  for (const Room& room : all) storeys[height.at(room.name)].push_back(room.name);
  std::size_t widest = 0;
  for (const auto& [level, names] : storeys) widest = std::max(widest, names.size());
  width = 2 * margin + static_cast<int>(widest - 1) * column + box_width;
  bottom = margin + static_cast<int>(storeys.size() - 1) * storey;
  std::map<std::string, Spot> spot;
  for (const auto& [level, names] : storeys) {
    const int used = static_cast<int>(names.size() - 1) * column + box_width;
    for (std::size_t i = 0; i < names.size(); ++i)
      spot[names[i]] = {(width - used) / 2 + static_cast<int>(i) * column, bottom - level * storey};
  }
  return spot;
}

std::string figure(const std::vector<Room>& all) {
  int width = 0, bottom = 0;
  const std::map<std::string, Spot> spot = spots(all, width, bottom);
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="Which folder uses which">
<style>
  svg {{ background: #fff; font: 13px sans-serif }}
  rect {{ fill: #e8f0fb; stroke: #2a5ea8 }} .app rect {{ fill: #f4efe6; stroke: #8a6d3b }}
  text {{ fill: #1b1f24; text-anchor: middle }} path {{ fill: none; stroke: #8b949e; stroke-width: 1.2 }}
  @media (prefers-color-scheme: dark) {{
    svg {{ background: #0d1117 }} rect {{ fill: #16263d; stroke: #6ea8fe }} .app rect {{ fill: #2c2517; stroke: #d0a95c }}
    text {{ fill: #e6edf3 }} path {{ stroke: #6e7681 }}
  }}
</style>
)",
      width, bottom + box_height + margin);
  for (const Room& room : all)
    for (const std::string& used : room.uses) {
      const Spot from = spot.at(room.name), to = spot.at(used);
      const int x0 = from.x + box_width / 2, y0 = from.y + box_height, x1 = to.x + box_width / 2, y1 = to.y;
      svg += fmt::format("<path d=\"M{} {}C{} {} {} {} {} {}\"/>\n", x0, y0, x0, y0 + storey / 2, x1, y1 - storey / 2,
                         x1, y1);
    }
  for (const Room& room : all) {
    const Spot at = spot.at(room.name);
    svg += fmt::format("<g{}><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\"/>"
                       "<text x=\"{}\" y=\"{}\">{}</text></g>\n",
                       room.library() ? "" : " class=\"app\"", room.path, at.x, at.y, box_width, box_height,
                       at.x + box_width / 2, at.y + 20, room.name);
  }
  return svg + "</svg>\n";
}

constexpr std::size_t most_arrows = 43;

/// What is wrong with the arrows: too many, one to a room that comes later, one from the library into an application.
std::vector<std::string> faults(const std::vector<Room>& all) {
  std::vector<std::string> found;
  std::map<std::string, bool> library;
  std::size_t arrows = 0;
  for (const Room& room : all) {
    arrows += room.uses.size();
    for (const std::string& used : room.uses) {
      if (!library.contains(used))
        found.push_back(fmt::format("{} uses {}, which comes after it", room.name, used));
      else if (room.library() && !library.at(used))
        found.push_back(fmt::format("{} is of the library and uses {}, an application", room.name, used));
    }
    library[room.name] = room.library();
  }
  if (arrows > most_arrows)
    found.push_back(fmt::format("{} arrows between rooms; there may be {}", arrows, most_arrows));
  return found;
}

TEST_CASE("rooms: at most 43 arrows, none backward, none from the library into an application") {
  const std::vector<Room> all = rooms();
  CHECK(all.size() > 15);
  CHECK(faults(all) == std::vector<std::string>{});
  // Controls: each of the three is noticed.
  std::vector<Room> broken = all;
  broken[1].uses = {all.back().name}; // in the place of another arrow
  CHECK(faults(broken).size() == 1);
  broken = {{"report", "apps/report", {}}, {"nn", "nn", {"report"}}};
  CHECK(faults(broken).size() == 1);
  broken = all;
  broken.back().uses.insert(broken.back().uses.end(), 41, all.front().name);
  CHECK(faults(broken).size() == 1);
}

TEST_CASE("rooms: docs/rooms.svg draws them as they are") {
  const std::string path = EQUIGRAD_SOURCE_DIR "/docs/rooms.svg", now = figure(rooms());
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr) eg::write_file(path, now);
  // Without asio or OpenSSL a build has fewer arrows than the figure.
  const std::vector<Room> all = rooms();
  const bool sockets = std::any_of(all.begin(), all.end(), [](const Room& room) {
    return room.name == "verbs" && std::ranges::find(room.uses, "split") != room.uses.end();
  });
  if (!sockets) return;
  CHECK_MESSAGE(text_of(path) == now, "write it anew with EQUIGRAD_WRITE_DOCS=1 ctest --preset dev -R tree_rooms");
}

/// Names of headers and sources in the table rows of a README that are not below its folder.
std::vector<std::string> missing_files(const std::filesystem::path& readme) {
  std::vector<std::string> there, missing;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(readme.parent_path()))
    there.push_back("/" + std::filesystem::relative(entry.path(), readme.parent_path()).string());
  const std::regex name("`([a-z][a-z0-9_/-]*\\.(h|cpp))`");
  std::istringstream lines(text_of(readme.string()));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('|')) continue;
    for (auto at = std::sregex_iterator(line.begin(), line.end(), name); at != std::sregex_iterator(); ++at) {
      const std::string wanted = "/" + (*at)[1].str();
      if (std::none_of(there.begin(), there.end(), [&](const std::string& path) { return path.ends_with(wanted); }))
        missing.push_back((*at)[1].str());
    }
  }
  return missing;
}

TEST_CASE("rooms: the tables of their READMEs name files that are there") {
  std::size_t read = 0;
  for (const Room& room : rooms()) {
    const std::filesystem::path readme = std::filesystem::path(EQUIGRAD_SOURCE_DIR) / room.path / "README.md";
    if (!std::filesystem::exists(readme)) continue;
    ++read;
    INFO(readme.string());
    CHECK(missing_files(readme) == std::vector<std::string>{});
  }
  CHECK(read > 10);
  const eg::test::TemporaryFolder folder; // control
  eg::write_file(folder.path("there.h"), std::string_view());
  eg::write_file(folder.path("README.md"), std::string_view("| `there.h`, `gone.h` | what they give |\n"));
  CHECK(missing_files(folder.path("README.md")) == std::vector<std::string>{"gone.h"});
}

TEST_CASE("tree: at most 15 folders at the top") {
  const std::set<std::string> made{"build", "dist", "out"}; // .gitignore
  std::size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EQUIGRAD_SOURCE_DIR)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && !name.starts_with('.') && !made.contains(name)) ++folders;
  }
  CHECK(folders <= 15);
}

} // namespace
