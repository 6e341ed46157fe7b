#include "training/event_files.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "training/event_record.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <vector>

namespace eg::training {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "events.out.tfevents.", writer = ".equigrad.";

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Sorted: oldest first.
std::vector<std::string> event_files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    if (std::string name = it->path().filename().string(); is_event_file(name)) names.push_back(std::move(name));
  if (code) throw FileError(fmt::format("{}: cannot list the folder: {}", folder, code.message()));
  std::sort(names.begin(), names.end());
  return names;
}

/// Keeps the beginning of a file, up to the first event that `kept` does not keep; whether a value is left.
bool trim(const std::string& path, const KeptMetrics& kept) {
  const Bytes bytes = read_file(path);
  std::size_t end = 0;
  bool whole = true, holds_values = false;
  each_event(bytes, [&](const EventRead& event) {
    const bool test = !event.values.empty() && event.values.front().first.starts_with("test/");
    whole = whole && (event.values.empty() || kept.keeps(event.step, test));
    if (!whole) return;
    end = event.end;
    holds_values = holds_values || !event.values.empty();
  });
  std::error_code code;
  if (!holds_values)
    fs::remove(path, code);
  else if (end < bytes.size())
    fs::resize_file(path, end, code);
  if (code) throw FileError(fmt::format("{}: cannot shorten: {}", path, code.message()));
  return holds_values;
}

/// A name after those that are there.
std::string next_name(const std::string& folder) {
  const std::vector<std::string> names = event_files_in(folder);
  auto seconds = static_cast<std::int64_t>(now());
  int count = 0;
  if (!names.empty()) { // a clock that went back, or a process that lived for less than a second
    const std::string& last = names.back();
    std::int64_t then = 0;
    std::from_chars(last.data() + prefix.size(), last.data() + last.size(), then);
    if (then >= seconds) {
      seconds = then;
      std::from_chars(last.data() + last.rfind('.') + 1, last.data() + last.size(), count);
      ++count;
    }
  }
  return fmt::format("{}{:010}{}{:03}", prefix, seconds, writer, count);
}

std::string trimmed(const std::string& folder, const KeptMetrics& kept) {
  trim_event_files(folder, kept);
  return join_path(folder, next_name(folder));
}

} // namespace

bool is_event_file(std::string_view name) {
  const std::size_t middle = name.find(writer);
  return name.starts_with(prefix) && middle != std::string_view::npos &&
         is_number(name.substr(prefix.size(), middle - prefix.size())) &&
         is_number(name.substr(middle + writer.size()));
}

void trim_event_files(const std::string& folder, const KeptMetrics& kept) {
  for (const std::string& name : event_files_in(folder)) trim(join_path(folder, name), kept);
}

EventFile::EventFile(const std::string& folder, const KeptMetrics& kept) : file_(trimmed(folder, kept)) {
  file_.append(version_event(now()));
  if (kept.through >= 0) file_.append(start_event(now(), kept.through + 1));
}

void EventFile::write(const nlohmann::ordered_json& record) {
  const std::string split = is_test_record(record) ? "test/" : "train/";
  std::vector<std::pair<std::string, float>> values;
  each_metric(record, "/", [&](const std::string& name, const nlohmann::ordered_json& value) {
    if (value.is_number() && name != "step") values.emplace_back(split + name, value.get<float>());
  });
  file_.append(scalars_event(now(), record.at("step").get<std::int64_t>(), values));
}

} // namespace eg::training
