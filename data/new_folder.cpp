#include "data/new_folder.h"

#include "core/error.h"
#include "data/bytes.h"

#include <fmt/format.h>

#include <filesystem>
#include <unistd.h>

namespace eg::data {
namespace {

namespace fs = std::filesystem;

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void make(const std::string& path, const std::string& name) {
  std::error_code error;
  fs::create_directories(fs::path(path), error);
  if (error) throw FileError(fmt::format("{}: cannot be made: {}", name, error.message()));
}

} // namespace

NewFolder::NewFolder(std::string path)
    : path_(without_slashes(std::move(path))), temporary_(fmt::format("{}.part.{}", path_, ::getpid())) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(path_, error)))
    throw FileError(path_ + ": is there already; nothing is overwritten");
  make(temporary_, path_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(temporary_, ignored);
}

std::string NewFolder::file(const std::string& name) const { return join_path(temporary_, name); }

std::string NewFolder::make_folder(const std::string& name) const {
  make(file(name), join_path(path_, name));
  return file(name);
}

void NewFolder::keep() {
  std::error_code error;
  fs::rename(temporary_, path_, error);
  if (error) throw FileError(fmt::format("{}: cannot be made: {}", path_, error.message()));
  kept_ = true;
}

} // namespace eg::data
