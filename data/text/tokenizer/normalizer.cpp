#include "data/text/tokenizer/normalizer.h"

#include "core/base/utf8.h"

#include <algorithm>

namespace eg::data::tok {
namespace {

/// Hands out places in the original in their order, whatever characters overtake each other: a character takes the next
/// place and skips `skipped` more, or shares the last place. That is how Hugging Face's tokenizers
/// align.
class Places {
public:
  void add(ByteSpan place) { places_.push_back(place); }
  ByteSpan share() const { return last_; }
  ByteSpan take(std::size_t skipped = 0) {
    const ByteSpan place = places_[taken_];
    taken_ += 1 + skipped;
    last_ = places_[taken_ - 1];
    if (taken_ == places_.size()) {
      places_.clear();
      taken_ = 0;
    }
    return place;
  }

private:
  std::vector<ByteSpan> places_;
  std::size_t taken_ = 0;
  ByteSpan last_;
};

/// Canonical decomposition of a stream of characters. `Out` is called with the parts in canonical order, and with
/// whether a part is the first one of its character.
template <class Out> class Decomposer {
public:
  explicit Decomposer(Out out) : out_(out) {}

  void push(char32_t c) {
    if (unicode_.is_plain(c)) {
      if (!marks_.empty()) flush();
      return out_(c, true);
    }
    unicode_.decompose(c, parts_);
    if (parts_.empty()) parts_.push_back(c);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::uint8_t combining_class = unicode_.combining_class(parts_[i]);
      if (combining_class == 0) {
        flush();
        out_(parts_[i], i == 0);
      } else {
        marks_.push_back({parts_[i], combining_class, i == 0});
      }
    }
  }

  void flush() {
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    for (const Mark& mark : marks_) out_(mark.c, mark.is_first);
    marks_.clear();
  }

private:
  struct Mark {
    char32_t c;
    std::uint8_t combining_class;
    bool is_first;
  };
  const Unicode& unicode_ = Unicode::tables();
  Out out_;
  std::vector<char32_t> parts_;
  std::vector<Mark> marks_; // since the last starter
};

class Bert {
public:
  Bert(const Normalizer& wanted, Normalized& out) : wanted_(wanted), out_(out) {}

  void run(std::string_view text) {
    Places places;
    auto decomposed = [&](char32_t c, bool is_first) {
      const ByteSpan from = is_first ? places.take() : places.share();
      if (!unicode_.is(c, accent)) lowered(c, from);
    };
    Decomposer<decltype(decomposed)> decomposer(decomposed);
    const auto push = [&](char32_t c, ByteSpan from) {
      if (!wanted_.strip_accents) return lowered(c, from);
      places.add(from);
      decomposer.push(c);
    };
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = static_cast<std::uint32_t>(at);
      char32_t c = next_utf8(text, at);
      const ByteSpan from{begin, static_cast<std::uint32_t>(at)};
      const std::uint8_t sets = unicode_.sets(c);
      if (wanted_.clean_text && (sets & removed) != 0) continue;
      if (wanted_.clean_text && (sets & space) != 0) c = U' ';
      const bool spaced = wanted_.space_cjk && (sets & cjk) != 0;
      if (spaced) push(U' ', from);
      push(c, from);
      if (spaced) push(U' ', from);
    }
    decomposer.flush();
  }

private:
  void lowered(char32_t c, ByteSpan from) {
    if (!wanted_.lower_case) return out_.append(c, from);
    out_.append(unicode_.lower(c), from);
    if (c == 0x130) out_.append(0x307, from);
  }

  const Unicode& unicode_ = Unicode::tables();
  const Normalizer& wanted_;
  Normalized& out_;
};

/// Canonical composition of decomposed characters.
class Composer {
public:
  explicit Composer(Normalized& out) : out_(out) {}

  void add_place(ByteSpan place) { places_.add(place); }

  void push(char32_t c, bool is_first) {
    const int change = is_first ? 0 : 1;
    const std::uint8_t combining_class = unicode_.combining_class(c);
    // Between the starter and c are marks that were not composed, the last of class last_class_; they block c unless
    // its class is higher.
    const bool blocked = !marks_.empty() && last_class_ >= combining_class;
    if (has_starter_ && !blocked) {
      if (const char32_t composed = unicode_.compose(starter_.c, c); composed != 0) {
        starter_ = {composed, starter_.change + change - 1};
        return;
      }
    }
    if (combining_class == 0) {
      flush();
      starter_ = {c, change};
      has_starter_ = true;
    } else {
      marks_.push_back({c, change});
      last_class_ = combining_class;
    }
  }

  void flush() {
    if (has_starter_) put(starter_);
    for (const Changed& mark : marks_) put(mark);
    marks_.clear();
    has_starter_ = false;
  }

private:
  /// `change`: how many characters more than before there are; below 0, that many were composed into this one.
  struct Changed {
    char32_t c = 0;
    int change = 0;
  };
  void put(const Changed& changed) {
    const ByteSpan from =
        changed.change > 0 ? places_.share() : places_.take(static_cast<std::size_t>(-changed.change));
    out_.append(changed.c, from);
  }

  const Unicode& unicode_ = Unicode::tables();
  Normalized& out_;
  Places places_;
  Changed starter_;
  bool has_starter_ = false;
  std::uint8_t last_class_ = 0;
  std::vector<Changed> marks_;
};

void compose(std::string_view text, Normalized& out) {
  Composer composer(out);
  auto decomposed = [&](char32_t c, bool is_first) { composer.push(c, is_first); };
  Decomposer<decltype(decomposed)> decomposer(decomposed);
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = static_cast<std::uint32_t>(at);
    const char32_t c = next_utf8(text, at);
    composer.add_place({begin, static_cast<std::uint32_t>(at)});
    decomposer.push(c);
  }
  decomposer.flush();
  composer.flush();
}

bool is_composed(std::string_view text) {
  const Unicode& unicode = Unicode::tables();
  for (std::size_t at = 0; at < text.size();)
    if (const char32_t c = next_utf8(text, at); !unicode.is_composed(c)) return false;
  return true;
}

} // namespace

void Normalized::append(char32_t c, ByteSpan from) {
  append_utf8(text, c);
  origin.resize(text.size(), from);
}

ByteSpan Stretch::original(std::size_t from, std::size_t to) const {
  const auto base = static_cast<std::uint32_t>(begin);
  if (origin != nullptr) return {base + origin[from].begin, base + origin[to - 1].end};
  const auto inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80; };
  while (from > 0 && inside(from)) --from;
  while (to < text.size() && inside(to)) ++to;
  return {base + static_cast<std::uint32_t>(from), base + static_cast<std::uint32_t>(to)};
}

bool Normalizer::apply(std::string_view text, Normalized& out) const {
  if (kind == Kind::none || (kind == Kind::nfc && is_composed(text))) return false;
  out.clear();
  if (kind == Kind::bert)
    Bert(*this, out).run(text);
  else
    compose(text, out);
  return true;
}

std::size_t cut_after(std::string_view text, std::size_t wanted) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.size() <= wanted) return text.size();
  for (std::size_t at = std::max<std::size_t>(wanted, 1); at < text.size(); ++at)
    if (text[at] == ' ' && is_letter(text[at - 1])) return at;
  return text.size();
}

} // namespace eg::data::tok
