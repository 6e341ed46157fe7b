#include "apps/report/pages/predictions.h"

#include "core/call.h"
#include "core/ops.h"
#include "nn/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace eg::pages {
namespace {

using Counts = std::vector<std::vector<std::int64_t>>; ///< [class][said]

Counts counts_of(const Predictions& p) {
  const auto classes = static_cast<std::int64_t>(p.classes.size());
  const Tensor matrix =
      nn::confusion_matrix(Tensor::from(p.said, {p.size()}), Tensor::from(p.labels, {p.size()}), classes);
  const std::vector<std::int64_t> flat = matrix.to_vector<std::int64_t>();
  Counts counts;
  for (auto row = flat.begin(); row != flat.end(); row += classes) counts.emplace_back(row, row + classes);
  return counts;
}

/// A bar of the share, behind its number.
std::string bar_cell(std::int64_t part, std::int64_t whole) {
  const double share = whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  return fmt::format(R"(<td class="bar" style="--part:{:.1f}%">{}</td>)", share, percent(part, whole));
}

/// The class that `label` was taken for most often, with how often; "" when it never was.
std::string taken_for(const Predictions& p, const std::vector<std::int64_t>& row, std::size_t label) {
  std::size_t most = label == 0 ? 1 : 0;
  for (std::size_t c = 0; c < row.size(); ++c)
    if (c != label && row[c] > row[most]) most = c;
  return most < row.size() && row[most] > 0 ? fmt::format("{} ({})", p.classes[most], row[most]) : "";
}

} // namespace

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "" : fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void Predictions::add(const Tensor& logits, const Tensor& batch_labels) {
  const PauseRecording pause;
  const std::vector<double> shares = softmax(logits.to(DType::f64)).to_vector<double>();
  const std::vector<std::int64_t> wanted = batch_labels.to_vector<std::int64_t>();
  const auto width = static_cast<std::ptrdiff_t>(logits.size(1));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto row = shares.begin() + static_cast<std::ptrdiff_t>(i) * width;
    const auto largest = std::max_element(row, row + width);
    labels.push_back(wanted[i]);
    said.push_back(largest - row);
    probability.push_back(*largest);
  }
}

std::int64_t Predictions::correct() const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) count += right(i) ? 1 : 0;
  return count;
}

std::vector<std::size_t> Predictions::surest_mistakes(std::size_t count) const {
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (!right(i)) wrong.push_back(i);
  std::stable_sort(wrong.begin(), wrong.end(),
                   [this](std::size_t a, std::size_t b) { return probability[a] > probability[b]; });
  wrong.resize(std::min(count, wrong.size()));
  return wrong;
}

std::vector<std::size_t> Predictions::spread(std::size_t count) const {
  std::vector<std::size_t> places;
  const std::size_t most = std::min(count, labels.size());
  for (std::size_t i = 0; i < most; ++i) places.push_back(i * labels.size() / most);
  return places;
}

std::string Predictions::caption(std::size_t i) const {
  const double share = 100 * probability[i];
  return right(i) ? fmt::format("\u2713 {} ({:.0f}\u00a0%)", class_of(said[i]), share)
                  : fmt::format("\u2717 {} ({:.0f}\u00a0%), is {}", class_of(said[i]), share, class_of(labels[i]));
}

void add_confusion(report::Page& page, const Predictions& p) {
  using report::escape;
  const Counts counts = counts_of(p);
  page.style(".confusion td { text-align: right; background: color-mix(in srgb, #0072b2 calc(var(--part) * .75), "
             "transparent) !important; } .confusion td.hit { font-weight: 700; } .confusion { width: auto; "
             "margin-bottom: 1.4rem; }\n");
  std::string html = "<table class=\"confusion\"><thead><tr><th>is \\ said</th>";
  for (const std::string& name : p.classes) html += fmt::format("<th>{}</th>", escape(name));
  html += "</tr></thead><tbody>\n";
  for (std::size_t label = 0; label < counts.size(); ++label) {
    const std::int64_t all = std::accumulate(counts[label].begin(), counts[label].end(), std::int64_t{0});
    html += fmt::format("<tr><th>{}</th>", escape(p.classes[label]));
    for (std::size_t said = 0; said < counts[label].size(); ++said)
      html += fmt::format(R"(<td{} style="--part:{:.1f}%">{}</td>)", said == label ? R"( class="hit")" : "",
                          all == 0 ? 0.0 : 100.0 * static_cast<double>(counts[label][said]) / static_cast<double>(all),
                          counts[label][said] == 0 ? "\u00b7" : std::to_string(counts[label][said]));
    html += "</tr>\n";
  }
  page.markup(report::scrolling("confusion matrix", html + "</tbody></table>"));
}

void add_classes(report::Page& page, const Predictions& p) {
  using report::escape;
  const Counts counts = counts_of(p);
  page.style(
      "td.bar { min-width: 7rem; } td.bar::after { content: \"\"; display: block; height: 4px; width: var(--part); "
      "background: #009e73; }\n");
  std::string html = "<table><thead><tr><th>class</th><th>samples</th><th>found (recall)</th>"
                     "<th>said and true (precision)</th><th>most often taken for</th></tr></thead><tbody>\n";
  for (std::size_t label = 0; label < counts.size(); ++label) {
    const std::int64_t all = std::accumulate(counts[label].begin(), counts[label].end(), std::int64_t{0});
    std::int64_t said = 0;
    for (const auto& row : counts) said += row[label];
    html += fmt::format("<tr><td>{}</td><td>{}</td>{}{}<td>{}</td></tr>\n", escape(p.classes[label]), all,
                        bar_cell(counts[label][label], all), bar_cell(counts[label][label], said),
                        escape(taken_for(p, counts[label], label)));
  }
  page.markup(report::scrolling("classes", html + "</tbody></table>"));
}

} // namespace eg::pages
