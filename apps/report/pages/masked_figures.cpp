// Words of a held-out text that a masked language model guesses.

#include "apps/report/pages/predictions.h"
#include "apps/report/pages/run_model.h"
#include "core/call.h"
#include "core/ops.h"
#include "data/text/text.h"
#include "nn/bert.h"
#include "training/language/classify.h"
#include "training/language/corpus.h"
#include "training/language/masker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace eg::pages {
namespace {

using report::escape;
using report::Page;

constexpr std::int64_t guesses = 5;       ///< that are counted and shown
constexpr std::int64_t shown_tokens = 40; ///< of a window on the page

/// What the model read in the place of a token.
enum class Read : std::uint8_t { mask, another, itself };
constexpr std::array<const char*, 3> read_names = {"[MASK]", "another word", "the word itself"};

/// One token that was to be guessed.
struct Guess {
  std::int64_t place = 0, wanted = 0; ///< in its window, with [CLS]; the token there
  Read read = Read::mask;
  std::array<std::int64_t, guesses> said{}; ///< the likeliest first
  std::array<double, guesses> probability{};

  bool first() const { return said[0] == wanted; }
  bool among() const { return std::find(said.begin(), said.end(), wanted) != said.end(); }
};

/// A run's model with its tokenizer and the held-out text.
class Subject {
public:
  Subject(const RunFolder& run, const FigureOptions& o)
      : options_(options_in(run, training::ClassifyOptions(), o)), model_(plain_model_of(run, options_)),
        tokenizer_(tokenizer_of(run)), masker_(tokenizer_, options_.mask_share) {
    bert_ = dynamic_cast<const nn::Bert*>(&model_->module());
    if (bert_ == nullptr || !bert_->lm_head)
      throw ValueError(
          fmt::format("{}: its model is a {}, no masked language model", run.path, model_->architecture()));
    const bool own = options_.validation.empty();
    name_ = own ? options_.data : options_.validation;
    const std::string whole = data::read_text(own ? data::find_text(options_.data, options_.data_dir) : name_);
    const std::string_view text = own ? data::held_out(whole, options_.held_out).second : std::string_view(whole);
    ids_ = data::token_ids(tokenizer_, text, o.stop);
    if (ids_.empty()) throw FileError(fmt::format("{}: its held-out part is empty", name_));
    require_test_data(run, training::fingerprint(ids_));
  }

  const std::string& name() const { return name_; }
  const data::Tokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t tokens() const { return std::ssize(ids_); }
  std::int64_t window() const { return std::min(options_.context - 2, tokens()); }

  /// Masks `length` tokens from `begin` on and runs the model. `ids` receives what it read.
  std::vector<Guess> guess(std::int64_t begin, std::int64_t length, RandomKey key,
                           std::vector<std::int64_t>& ids) const {
    const PauseRecording pause;
    const std::size_t start[] = {static_cast<std::size_t>(begin)};
    const training::MaskedBatch batch =
        masker_(training::windows(ids_, start, 0, length), [&](std::int64_t) { return RandomStream(key); });
    const Tensor hidden = (*bert_)({.ids = batch.ids});
    const Tensor logits =
        bert_->masked_lm(index_select(hidden.reshape({batch.ids.numel(), hidden.size(-1)}), 0, batch.places));
    const std::int64_t count = std::min(guesses, logits.size(1));
    const auto [values, places] = topk(softmax(logits.to(DType::f64)), count);
    ids = batch.ids.to_vector<std::int64_t>();
    const auto at = batch.places.to_vector<std::int64_t>(), wanted = batch.wanted.to_vector<std::int64_t>(),
               said = places.to_vector<std::int64_t>();
    const std::vector<double> shares = values.to_vector<double>();
    std::vector<Guess> found;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      Guess g{.place = at[i], .wanted = wanted[i]};
      const std::int64_t read = ids[static_cast<std::size_t>(at[i])];
      g.read = read == masker_.mask_id() ? Read::mask : read == wanted[i] ? Read::itself : Read::another;
      g.said.fill(-1);
      std::copy_n(said.begin() + static_cast<std::ptrdiff_t>(i) * count, count, g.said.begin());
      std::copy_n(shares.begin() + static_cast<std::ptrdiff_t>(i) * count, count, g.probability.begin());
      found.push_back(g);
    }
    return found;
  }

private:
  training::ClassifyOptions options_;
  std::unique_ptr<hub::Model> model_;
  data::Tokenizer tokenizer_;
  training::Masker masker_;
  const nn::Bert* bert_ = nullptr;
  std::string name_;
  std::vector<std::int32_t> ids_;
};

/// How many were guessed, by what the model read, and in all.
void add_shares(Page& page, const std::vector<Guess>& all) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, auto&& counts) {
    const std::int64_t count = std::count_if(all.begin(), all.end(), counts);
    const auto of = [&](auto&& right) {
      return std::count_if(all.begin(), all.end(), [&](const Guess& g) { return counts(g) && right(g); });
    };
    rows.push_back({name, std::to_string(count), percent(of([](const Guess& g) { return g.first(); }), count),
                    percent(of([](const Guess& g) { return g.among(); }), count)});
  };
  for (std::size_t r = 0; r < read_names.size(); ++r)
    add(read_names[r], [r](const Guess& g) { return g.read == static_cast<Read>(r); });
  add("all", [](const Guess&) { return true; });
  page.table({"the model read", "tokens to guess", "guessed", fmt::format("among its first {}", guesses)}, rows);
}

/// The window as the model read it, tokens to guess numbered and marked.
std::string window_markup(const Subject& s, const std::vector<std::int64_t>& ids, const std::vector<Guess>& found) {
  std::string html = "<p class=\"window\">";
  std::size_t next = 0;
  for (std::size_t i = 1; i + 1 < ids.size(); ++i) { // without [CLS] and [SEP]
    const std::string token = escape(s.tokenizer().token(ids[i]));
    if (next < found.size() && found[next].place == static_cast<std::int64_t>(i))
      html += fmt::format("<mark>{}<sup>{}</sup></mark> ", token, ++next);
    else
      html += token + " ";
  }
  return html + "</p>\n";
}

void add_window(Page& page, const Subject& s, std::int64_t begin, RandomKey key) {
  std::vector<std::int64_t> ids;
  const std::vector<Guess> found = s.guess(begin, std::min(shown_tokens, s.window()), key, ids);
  page.markup(window_markup(s, ids, found));
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> marks;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Guess& g = found[i];
    std::string said;
    for (std::size_t k = 0; k < g.said.size() && g.said[k] >= 0; ++k)
      said += fmt::format("{}{} ({:.0f}\u00a0%)", k == 0 ? "" : ", ", s.tokenizer().token(g.said[k]),
                          100.0 * g.probability[k]);
    rows.push_back({std::to_string(i + 1), s.tokenizer().token(g.wanted), read_names[static_cast<std::size_t>(g.read)],
                    said,
                    g.first()   ? "\u2713"
                    : g.among() ? "among them"
                                : "\u2717"});
    marks.emplace_back(g.first() ? "pass" : "");
  }
  page.table({"", "stood there", "the model read", "the model says", ""}, rows, marks);
}

} // namespace

void add_masked_figures(Page& page, const RunFolder& run, const FigureOptions& o) {
  report_progress(o, run.name + ": reading the model and its text");
  const Subject subject(run, o);
  const std::int64_t length = subject.window(), whole = subject.tokens() / length;
  report_progress(o, run.name + ": guessing masked words");
  std::vector<Guess> all;
  std::vector<std::int64_t> ids;
  for (std::int64_t w = 0; w < whole && (o.samples == 0 || std::ssize(all) < o.samples); ++w) {
    leave_if_stopped(o);
    const auto found = subject.guess(w * length, length, RandomKey{o.seed, static_cast<std::uint64_t>(w)}, ids);
    all.insert(all.end(), found.begin(), found.end());
  }
  page.paragraph(fmt::format(
      "The final model on {} words of the held-out part of {}, which are masked anew here, not as in the run's tests:",
      all.size(), subject.name()));
  add_shares(page, all);
  page.style(".window { line-height: 1.9; } .window mark { padding: .1em .3em; border-radius: .25em; } "
             ".window sup { font-size: .7em; }\n");
  constexpr std::int64_t windows = 3;
  for (std::int64_t i = 0; i < std::min(windows, whole); ++i) {
    leave_if_stopped(o);
    add_window(page, subject, i * (whole / std::min(windows, whole)) * length,
               RandomKey{o.seed, 1}.fold(static_cast<std::uint64_t>(i)));
  }
}

} // namespace eg::pages
