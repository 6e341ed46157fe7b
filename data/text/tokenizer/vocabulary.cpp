#include "data/text/tokenizer/vocabulary.h"

#include "core/base/error.h"
#include "core/base/utf8.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::data::tok {
namespace {

/// Ids that a vocabulary of `count` tokens can have. Gaps are rare and small, and the table of ids has a place for
/// each.
std::uint64_t id_limit(std::size_t count) { return (std::uint64_t{1} << 20U) + 4 * std::uint64_t{count}; }

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  std::size_t at = previous_utf8(text, text.size());
  return Unicode::tables().is(next_utf8(text, at), word);
}

bool begins_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && Unicode::tables().is(next_utf8(text, at), word);
}

/// Where the white space that ends at `end` begins, but not before `least`.
std::size_t space_before(std::string_view text, std::size_t end, std::size_t least) {
  while (end > least) {
    const std::size_t begin = previous_utf8(text, end);
    std::size_t at = begin;
    if (!Unicode::tables().is(next_utf8(text, at), space)) break;
    end = begin;
  }
  return end;
}

std::size_t space_behind(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t at = begin;
    if (!Unicode::tables().is(next_utf8(text, at), space)) break;
    begin = at;
  }
  return begin;
}

} // namespace

void Vocabulary::add(std::string_view token, std::uint64_t id, const std::string& source) {
  if (const std::size_t at = find_invalid_utf8(token); at != std::string_view::npos)
    throw FileError(fmt::format("{}: the token of id {} is not UTF-8 (byte {})", source, id, at));
  if (id >= id_limit(std::max(expected_, ids_.size())))
    throw FileError(fmt::format("{}: id {} of token '{}' is out of proportion to the {} tokens", source, id, token,
                                std::max(expected_, ids_.size())));
  if (has(id))
    throw FileError(fmt::format("{}: id {} is given to both '{}' and '{}'", source, id,
                                tokens_[static_cast<std::size_t>(id)], token));
  const auto place = static_cast<std::size_t>(id);
  if (!ids_.put(token, static_cast<std::uint32_t>(id)))
    throw FileError(fmt::format("{}: token '{}' is there twice, as {} and {}", source, token, ids_.find(token), id));
  if (place >= tokens_.size()) {
    tokens_.resize(place + 1);
    known_.resize(place + 1);
  }
  tokens_[place] = token;
  known_[place] = true;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer) : tokens_(std::move(tokens)) {
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    Normalized changed;
    const bool other = token.normalized && normalizer.apply(token.content, changed);
    (token.normalized ? normalized_ : raw_).put(other ? changed.text : token.content, i);
  }
}

void AddedTokens::split(std::string_view text, bool normalized, bool special, std::vector<Found>& out) const {
  const ByteTrie& trie = normalized ? normalized_ : raw_;
  out.clear();
  std::size_t done = 0; // what came out reaches until here
  for (std::size_t at = 0; at < text.size();) {
    const ByteTrie::Match match = trie.longest(text.substr(at));
    if (match.size == 0) {
      ++at;
      continue;
    }
    // The leftmost, longest match; one that does not count hides what begins inside it all the same.
    const AddedToken& token = tokens_[match.value];
    std::size_t begin = at;
    std::size_t end = at + match.size;
    at = end;
    if (token.special && !special) continue;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) continue;
    if (token.strip_left) begin = std::max(space_before(text, begin, std::min(done, begin)), done);
    if (token.strip_right) end = space_behind(text, end);
    end = std::max(begin, end); // where the token before took this one as its white space
    if (done < begin) out.push_back({nullptr, done, begin});
    out.push_back({&token, begin, end});
    done = end;
  }
  if (done < text.size()) out.push_back({nullptr, done, text.size()});
}

const AddedToken* AddedTokens::find(std::uint32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

bool AddedTokens::is_special(std::uint32_t id) const {
  const AddedToken* token = find(id);
  return token != nullptr && token->special;
}

} // namespace eg::data::tok
