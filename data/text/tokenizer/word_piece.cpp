#include "data/text/tokenizer/word_piece.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace eg::data::tok {
namespace {

class WordPiece final : public Model {
public:
  WordPiece(const Vocabulary& vocabulary, const AddedTokens& added, const WordPieceOptions& options,
            const std::string& source)
      : longest_word_(options.longest_word), unknown_(vocabulary.find(options.unknown)) {
    if (unknown_ == none)
      throw FileError(fmt::format("{}: the vocabulary lacks the unknown token '{}'", source, options.unknown));
    for (std::uint32_t id = 0; id < vocabulary.end(); ++id) {
      if (!vocabulary.has(id) || added.is_special(id)) continue;
      words_.put(vocabulary.token(id), id);
      trie_.put(vocabulary.token(id), id);
    }
    continuing_ = trie_.node(options.prefix);
  }

  const char* kind() const override { return "WordPiece"; }
  bool bytes_of(std::string_view, std::string&) const override { return false; }

  void tokenize(const Stretch& stretch, Workspace&, std::vector<Piece>& out) const override {
    const Unicode& unicode = Unicode::tables();
    const std::string_view text = stretch.text;
    std::size_t begin = 0; // of the word that is being read
    std::uint64_t characters = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t here = at;
      const std::uint8_t sets = unicode.sets(next_utf8(text, at));
      ++characters;
      if ((sets & (space | punctuation)) == 0) continue;
      add_word(stretch, begin, here, characters - 1, out);
      if ((sets & space) == 0) add_word(stretch, here, at, 1, out);
      begin = at;
      characters = 0;
    }
    add_word(stretch, begin, text.size(), characters, out);
  }

private:
  void add_word(const Stretch& stretch, std::size_t begin, std::size_t end, std::uint64_t characters,
                std::vector<Piece>& out) const {
    if (begin == end) return;
    const std::size_t before = out.size();
    if (characters <= longest_word_ && add_pieces(stretch, begin, end, out)) return;
    out.resize(before, Piece{});
    out.push_back({unknown_, stretch.original(begin, end)});
  }

  /// False when some part of the word begins with no token.
  bool add_pieces(const Stretch& stretch, std::size_t begin, std::size_t end, std::vector<Piece>& out) const {
    const std::string_view whole = stretch.text.substr(begin, end - begin);
    if (const std::uint32_t id = words_.find(whole); id != none) {
      out.push_back({id, stretch.original(begin, end)});
      return true;
    }
    std::uint32_t from = ByteTrie::root;
    for (std::size_t at = begin; at < end; from = continuing_) {
      if (from == none) return false;
      const ByteTrie::Match match = trie_.longest(stretch.text.substr(at, end - at), from);
      if (match.size == 0) return false;
      out.push_back({match.value, stretch.original(at, at + match.size)});
      at += match.size;
    }
    return true;
  }

  std::uint64_t longest_word_;
  std::uint32_t unknown_;
  TextTable words_; // most words are tokens
  ByteTrie trie_;
  std::uint32_t continuing_ = none; // where the trie has continuing tokens
};

} // namespace

std::unique_ptr<Model> make_word_piece(const Vocabulary& vocabulary, const AddedTokens& added,
                                       const WordPieceOptions& options, const std::string& source) {
  return std::make_unique<WordPiece>(vocabulary, added, options, source);
}

} // namespace eg::data::tok
