#include "apps/report/pages/curves.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace eg::pages {
namespace {

using data::Split;
using report::Chart;
using report::Page;
using report::Series;

constexpr std::size_t most_points = 80; ///< of a train curve: single steps are noisy

enum class Axis : std::uint8_t { steps, seconds };

/// "images_per_s" in words.
std::string readable(std::string metric) {
  std::replace(metric.begin(), metric.end(), '_', ' ');
  std::replace(metric.begin(), metric.end(), '.', ' ');
  return metric.ends_with(" per s") ? metric.substr(0, metric.size() - 5) + "a second" : metric;
}

bool has_seconds(const std::vector<RunFolder>& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const RunFolder& run) { return run.seconds > 0.0; });
}

void add_series(Chart& chart, const Curve& curve, Axis axis, Series series) {
  if (curve.value.empty()) return;
  series.x = axis == Axis::steps ? curve.step : curve.seconds;
  series.y = curve.value;
  chart.series.push_back(std::move(series));
}

Chart chart_of(const std::vector<RunFolder>& runs, const std::string& metric, Axis axis) {
  Chart chart{.title = readable(metric),
              .x_label = axis == Axis::steps ? "step" : "seconds",
              .y_label = readable(metric),
              .log_y = metric.ends_with("drift")};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const int color = static_cast<int>(i);
    const Curve& test = runs[i].curve(Split::test, metric);
    add_series(chart, smoothed(runs[i].curve(Split::train, metric), most_points), axis,
               {.name = runs[i].name + " train",
                .width = test.value.empty() ? 2.0 : 1.2,
                .color = color,
                .faint = !test.value.empty()});
    add_series(chart, test, axis, {.name = runs[i].name + " test", .color = color, .dots = true});
  }
  return chart;
}

/// What was measured, the usual figures first.
std::vector<std::string> metrics_of(const std::vector<RunFolder>& runs) {
  std::set<std::string> found;
  for (const RunFolder& run : runs)
    for (const auto& [key, curve] : run.curves)
      if (!key.second.starts_with("variants.") || runs.size() == 1) found.insert(key.second);
  std::vector<std::string> names;
  for (const char* first : {"loss", "accuracy", "auc"})
    if (found.erase(first) > 0) names.emplace_back(first);
  std::set<std::string> last;
  for (const std::string& name : found)
    if (name == "lr" || name.ends_with("_per_s")) last.insert(name);
  for (const std::string& name : found)
    if (!last.contains(name)) names.push_back(name);
  names.insert(names.end(), last.begin(), last.end());
  return names;
}

/// Values that a train curve averages, for its caption.
std::size_t averaged(const std::vector<RunFolder>& runs, const std::string& metric) {
  std::size_t most = 1;
  for (const RunFolder& run : runs)
    most = std::max(most, (run.curve(Split::train, metric).value.size() + most_points - 1) / most_points);
  return most;
}

std::string number(double value, const char* unit = "") {
  return std::isfinite(value) ? fmt::format("{:.4g}{}", value, unit) : "";
}

/// "0.4312", or "" for a curve without values.
std::string last(const Curve& curve) { return curve.value.empty() ? "" : number(curve.value.back()); }
std::string last_percent(const Curve& curve) {
  return curve.value.empty() ? "" : fmt::format("{:.2f} %", 100 * curve.value.back());
}

/// The value and its step.
std::string best(const Curve& curve, bool least) {
  if (curve.value.empty()) return "";
  const auto at = least ? std::min_element(curve.value.begin(), curve.value.end())
                        : std::max_element(curve.value.begin(), curve.value.end());
  return fmt::format("{} (step {:.0f})", least ? number(*at) : fmt::format("{:.2f} %", 100 * *at),
                     curve.step[static_cast<std::size_t>(at - curve.value.begin())]);
}

std::string speed_of(const RunFolder& run) {
  for (const auto& [key, curve] : run.curves) {
    if (key.first != Split::train || !key.second.ends_with("_per_s")) continue;
    std::vector<double> sorted = curve.value;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    return fmt::format("{:.0f} {}", sorted[sorted.size() / 2], readable(key.second));
  }
  return "";
}

std::string text_of(const nlohmann::json& options, const std::string& key) {
  const auto found = options.find(key);
  if (found == options.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string clock(double seconds) {
  if (seconds <= 0.0) return "";
  if (seconds < 60.0) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::lround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02} h", whole / 3600, whole / 60 % 60, whole % 60);
}

} // namespace

Curve smoothed(const Curve& curve, std::size_t points) {
  if (points == 0) throw ValueError("smoothed: points must be positive");
  const std::size_t width = std::max<std::size_t>(1, (curve.value.size() + points - 1) / points);
  Curve out;
  for (std::size_t begin = 0; begin < curve.value.size(); begin += width) {
    const std::size_t end = std::min(begin + width, curve.value.size());
    double sum = 0.0;
    for (std::size_t i = begin; i < end; ++i) sum += curve.value[i];
    out.value.push_back(sum / static_cast<double>(end - begin));
    out.step.push_back(curve.step[end - 1]);
    out.seconds.push_back(curve.seconds[end - 1]);
  }
  return out;
}

void add_numbers(Page& page, const std::vector<RunFolder>& runs) {
  std::vector<std::vector<std::string>> rows;
  for (const RunFolder& run : runs)
    rows.push_back({run.name, run.model, text_of(run.options, "data"), std::to_string(run.step),
                    last(smoothed(run.curve(Split::train, "loss"), 20)), last(run.curve(Split::test, "loss")),
                    best(run.curve(Split::test, "loss"), true), last_percent(run.curve(Split::test, "accuracy")),
                    best(run.curve(Split::test, "accuracy"), false), last(run.curve(Split::test, "auc")),
                    run.skipped > 0 ? std::to_string(run.skipped) : "", clock(run.seconds), speed_of(run)});
  std::vector<std::string> header = {"run",       "model",           "data",          "steps",   "train loss",
                                     "test loss", "least test loss", "test accuracy", "largest", "AUC",
                                     "skipped",   "time with tests", "speed (median)"};
  for (std::size_t c = header.size(); c-- > 0;) // columns that no run fills
    if (std::all_of(rows.begin(), rows.end(), [c](const auto& row) { return row[c].empty(); })) {
      header.erase(header.begin() + static_cast<std::ptrdiff_t>(c));
      for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
    }
  page.table(header, rows);
  page.paragraph("The train loss is the mean of the run's last twentieth.");
}

void add_curves(Page& page, const std::vector<RunFolder>& runs) {
  const bool seconds = has_seconds(runs);
  for (const std::string& metric : metrics_of(runs)) {
    const std::size_t mean_of = averaged(runs, metric);
    std::string caption = "Lines with dots: tests.";
    if (mean_of > 1) caption = fmt::format("Thin lines: training, means of up to {} steps. {}", mean_of, caption);
    std::vector<std::pair<std::string, Chart>> tabs = {{"by step", chart_of(runs, metric, Axis::steps)}};
    if (seconds) tabs.emplace_back("by seconds", chart_of(runs, metric, Axis::seconds));
    page.charts(tabs, caption);
  }
}

void add_options(Page& page, const std::vector<RunFolder>& runs) {
  std::vector<std::string> keys;
  for (const RunFolder& run : runs)
    for (const auto& [key, value] : run.options.items())
      if (key != "out" && key != "resume" && key != "overwrite" &&
          std::find(keys.begin(), keys.end(), key) == keys.end())
        keys.push_back(key);
  std::vector<std::vector<std::string>> different, same;
  for (const std::string& key : keys) {
    std::vector<std::string> row = {key};
    for (const RunFolder& run : runs) row.push_back(run.options.contains(key) ? text_of(run.options, key) : "—");
    const bool differs = std::any_of(row.begin() + 1, row.end(), [&](const auto& cell) { return cell != row[1]; });
    if (differs)
      different.push_back(std::move(row));
    else
      same.push_back({key, row[1]});
  }
  std::vector<std::string> header = {"option"};
  for (const RunFolder& run : runs) header.push_back(run.name);
  if (runs.size() > 1 && different.empty()) page.paragraph("The runs have the same options.");
  if (!different.empty()) page.table(header, different);
  page.begin_details(runs.size() > 1 ? fmt::format("{} options that are the same", same.size()) : "all options");
  page.table({"option", runs.size() > 1 ? "all runs" : runs.front().name}, same);
  page.end_details();
}

} // namespace eg::pages
