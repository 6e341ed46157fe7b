#include "data/text/tokenizer/byte_pairs.h"

#include "core/base/error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <functional>

namespace eg::data::tok {
namespace {

constexpr std::size_t cache_slots = 4096;        // of 56 bytes: they stay in the second level of cache
constexpr std::size_t worth_caching = 1U << 14U; // bytes of a stretch of text; a shorter first one makes no cache

class BytePairs final : public Model {
public:
  BytePairs(const Vocabulary& vocabulary, const AddedTokens& added, const MergeRules& rules,
            const BytePairOptions& options, const std::string& source)
      : options_(options) {
    for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
      const std::string_view letter = ByteLetters::tables().letter(static_cast<std::uint8_t>(byte));
      bytes_[byte] = vocabulary.find(letter);
      if (bytes_[byte] == none)
        throw FileError(fmt::format("{}: the vocabulary lacks the token '{}' for byte {}", source, letter, byte));
      if (added.is_special(bytes_[byte]))
        throw FileError(
            fmt::format("{}: special token '{}' stands for a byte, so that text could spell it", source, letter));
    }
    for (std::size_t rank = 0; rank < rules.size(); ++rank) add_rule(vocabulary, added, rules[rank], rank, source);
    add_words(vocabulary, added);
  }

  const char* kind() const override { return "byte-level BPE"; }
  bool bytes_of(std::string_view token, std::string& out) const override {
    return ByteLetters::tables().bytes(token, out);
  }

  void tokenize(const Stretch& stretch, Workspace& workspace, std::vector<Piece>& out) const override {
    if (workspace.cache.empty() && stretch.text.size() >= worth_caching) workspace.cache.resize(cache_slots);
    if (!options_.prefix_blank || stretch.text.front() == ' ') return add_words(stretch, workspace, out);
    // The blank represents the character behind it.
    workspace.prefixed.assign(1, ' ').append(stretch.text);
    workspace.prefixed_origin.resize(workspace.prefixed.size());
    for (std::size_t at = 1; at < workspace.prefixed.size(); ++at) {
      const ByteSpan from = stretch.original(at - 1, at);
      const auto base = static_cast<std::uint32_t>(stretch.begin);
      workspace.prefixed_origin[at] = {from.begin - base, from.end - base};
    }
    workspace.prefixed_origin[0] = workspace.prefixed_origin[1];
    add_words({workspace.prefixed, workspace.prefixed_origin.data(), stretch.begin}, workspace, out);
  }

private:
  void add_rule(const Vocabulary& vocabulary, const AddedTokens& added, const MergeRules::value_type& rule,
                std::size_t rank, const std::string& source) {
    const auto id_of = [&](const std::string& token) {
      const std::uint32_t id = vocabulary.find(token);
      if (id == none)
        throw FileError(fmt::format("{}: merge {} ('{} {}'): token '{}' is not in the vocabulary", source, rank + 1,
                                    rule.first, rule.second, token));
      return id;
    };
    const std::uint32_t left = id_of(rule.first);
    const std::uint32_t right = id_of(rule.second);
    const std::uint32_t result = id_of(rule.first + rule.second);
    if (added.is_special(result))
      throw FileError(fmt::format("{}: merge {} ('{} {}') makes the special token '{}', so that text could spell it",
                                  source, rank + 1, rule.first, rule.second, vocabulary.token(result)));
    if (!rules_.put(left, right, result, static_cast<std::uint32_t>(rank)))
      throw FileError(fmt::format("{}: merge {} ('{} {}') is there twice", source, rank + 1, rule.first, rule.second));
  }

  /// Tokens that a word which spells them becomes: most words of a text.
  void add_words(const Vocabulary& vocabulary, const AddedTokens& added) {
    Workspace workspace;
    std::string bytes;
    for (std::uint32_t id = 0; id < vocabulary.end(); ++id) {
      if (!vocabulary.has(id) || added.is_special(id)) continue;
      if (!bytes_of(vocabulary.token(id), bytes) || bytes.empty()) continue;
      if (!options_.whole_words) {
        merge(bytes, workspace);
        if (workspace.symbols.front().size != bytes.size() || workspace.symbols.front().id != id) continue;
      }
      words_.put(bytes, id);
    }
  }

  void add_words(const Stretch& stretch, Workspace& workspace, std::vector<Piece>& out) const {
    const std::string_view text = stretch.text;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = word_end(text, at, options_.pattern);
      const std::string_view word = text.substr(at, end - at);
      if (const std::uint32_t id = words_.find(word); id != none)
        out.push_back({id, stretch.original(at, end)});
      else if (workspace.cache.empty() || word.size() > CachedWord::longest)
        add_merged(stretch, at, word, workspace, out);
      else
        add_cached(stretch, at, word, workspace, out);
      at = end;
    }
  }

  void add_merged(const Stretch& stretch, std::size_t at, std::string_view word, Workspace& workspace,
                  std::vector<Piece>& out) const {
    merge(word, workspace);
    for (const Symbol& symbol : workspace.symbols) {
      if (symbol.size == 0) continue;
      out.push_back({symbol.id, stretch.original(at, at + symbol.size)});
      at += symbol.size;
    }
  }

  /// The words before are looked up by their place in a small table; one that comes later takes the place over.
  void add_cached(const Stretch& stretch, std::size_t at, std::string_view word, Workspace& workspace,
                  std::vector<Piece>& out) const {
    CachedWord& cached = workspace.cache[std::hash<std::string_view>()(word) % workspace.cache.size()];
    if (cached.size == word.size() && std::memcmp(cached.bytes, word.data(), word.size()) == 0) {
      std::size_t begin = at;
      for (std::size_t i = 0; i < cached.count; ++i) {
        out.push_back({cached.ids[i], stretch.original(begin, at + cached.ends[i])});
        begin = at + cached.ends[i];
      }
      return;
    }
    const std::size_t before = out.size();
    add_merged(stretch, at, word, workspace, out);
    if (out.size() - before > CachedWord::most) return;
    cached.size = static_cast<std::uint8_t>(word.size());
    cached.count = 0;
    std::memcpy(cached.bytes, word.data(), word.size());
    std::size_t end = 0;
    for (const Symbol& symbol : workspace.symbols) {
      if (symbol.size == 0) continue;
      end += symbol.size;
      cached.ids[cached.count] = symbol.id;
      cached.ends[cached.count++] = static_cast<std::uint8_t>(end);
    }
  }

  /// Leaves the tokens of the word in workspace.symbols, between symbols of size 0.
  void merge(std::string_view word, Workspace& workspace) const;
  void propose(std::uint32_t place, Workspace& workspace) const;

  BytePairOptions options_;
  std::array<std::uint32_t, 256> bytes_{};
  PairTable rules_;
  TextTable words_; // by their bytes
};

/// The order of the queue: the lowest rule first, the leftmost of equals.
bool comes_later(const Merge& a, const Merge& b) { return a.rank != b.rank ? a.rank > b.rank : a.place > b.place; }

void BytePairs::propose(std::uint32_t place, Workspace& workspace) const {
  const Symbol& left = workspace.symbols[place];
  if (left.behind == none) return;
  const PairTable::Entry* rule = rules_.find(left.id, workspace.symbols[left.behind].id);
  if (rule != nullptr) workspace.merges.push_back({rule->rank, place, rule->value});
}

void BytePairs::merge(std::string_view word, Workspace& workspace) const {
  std::vector<Symbol>& symbols = workspace.symbols;
  std::vector<Merge>& queue = workspace.merges;
  symbols.clear();
  queue.clear();
  const auto count = static_cast<std::uint32_t>(word.size());
  for (std::uint32_t i = 0; i < count; ++i)
    symbols.push_back(
        {bytes_[static_cast<unsigned char>(word[i])], 1, i == 0 ? none : i - 1, i + 1 == count ? none : i + 1});
  for (std::uint32_t i = 0; i + 1 < count; ++i) propose(i, workspace);
  std::make_heap(queue.begin(), queue.end(), comes_later);
  const auto queued = [&](std::uint32_t place) {
    const std::size_t before = queue.size();
    propose(place, workspace);
    if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), comes_later);
  };
  while (!queue.empty()) {
    const Merge best = queue.front();
    std::pop_heap(queue.begin(), queue.end(), comes_later);
    queue.pop_back();
    Symbol& left = symbols[best.place];
    if (left.size == 0 || left.behind == none) continue;
    Symbol& right = symbols[left.behind];
    // The neighbours may have been merged otherwise since this was proposed.
    const PairTable::Entry* rule = rules_.find(left.id, right.id);
    if (rule == nullptr || rule->value != best.result) continue;
    left.id = best.result;
    left.size += right.size;
    right.size = 0;
    left.behind = right.behind;
    if (left.behind != none) symbols[left.behind].before = best.place;
    if (left.before != none) queued(left.before);
    queued(best.place);
  }
}

} // namespace

std::unique_ptr<Model> make_byte_pairs(const Vocabulary& vocabulary, const AddedTokens& added, const MergeRules& rules,
                                       const BytePairOptions& options, const std::string& source) {
  return std::make_unique<BytePairs>(vocabulary, added, rules, options, source);
}

} // namespace eg::data::tok
