#pragma once
// Writes one self-contained HTML file: styles, charts (SVG) and images (PNG data URIs) are inside.

#include "apps/report/chart.h"
#include "data/image.h"

#include <string>
#include <utility>
#include <vector>

namespace eg::report {

/// Builds a page from top to bottom. Every text is escaped, but for markup().
class Page {
public:
  explicit Page(const std::string& title);

  /// `anchor`: a name that links lead to (#anchor); empty: none.
  void heading(const std::string& text, const std::string& anchor = "");
  void paragraph(const std::string& text);
  /// Markup as it is: what a function of this folder made, or escape().
  void markup(const std::string& html);
  /// Rules that follow the page's own styles.
  void style(const std::string& css);
  /// An empty `header` leaves the heading row out. `marks[i]` (the list may be empty) colours row i: "pass" or "fail".
  void table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows,
             const std::vector<std::string>& marks = {});
  void chart(const Chart& chart, const std::string& caption);
  /// Charts of which one is seen at a time, under the names that choose it; without a script.
  void charts(const std::vector<std::pair<std::string, Chart>>& tabs, const std::string& caption);
  /// What follows, up to end_details(), is folded up under a line.
  void begin_details(const std::string& summary);
  void end_details();
  /// Images side by side with a caption each, enlarged to about `width` CSS pixels with square pixels.
  struct Figure {
    data::Image image;
    std::string caption;
  };
  void figures(const std::vector<Figure>& figures, int width);
  /// A text as it is, with its line ends.
  void quote(const std::string& text);
  /// Texts beside each other, each under its name.
  void side_by_side(const std::vector<std::pair<std::string, std::string>>& texts);

  /// Writes the page atomically. Throws FileError.
  void save(const std::string& path) const;
  std::string html() const;

private:
  int tab_groups_ = 0;
  std::string title_;
  std::string style_;
  std::string body_;
};

/// Markup that may be wider than the page, in a region of its own that scrolls: `name` is for screen readers.
std::string scrolling(const std::string& name, const std::string& html);

} // namespace eg::report
