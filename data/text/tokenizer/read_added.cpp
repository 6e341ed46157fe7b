#include "data/text/tokenizer/read_fields.h"

#include <fmt/format.h>

namespace eg::data::tok {
namespace {

constexpr std::size_t longest_added_token = 4096; // bytes; looking for tokens takes time in proportion to the longest

} // namespace

AddedToken& AddedTokenList::add(const Fields& where, const std::string& content, std::uint64_t id) {
  if (content.empty() || content.size() > longest_added_token)
    where.fail(fmt::format("a token of {} bytes; 1 to {} are supported", content.size(), longest_added_token));
  if (id >= none) where.fail(fmt::format("id {} of '{}' is too large", id, content));
  const auto number = static_cast<std::uint32_t>(id);
  const std::uint32_t known = vocabulary_->find(content);
  if (known == none ? vocabulary_->has(id) : known != id)
    where.fail(fmt::format("'{}' has id {}, but in the vocabulary {}", content, id,
                           known == none ? fmt::format("that is '{}'", vocabulary_->token(number))
                                         : fmt::format("it has {}", known)));
  if (!places_.put(content, static_cast<std::uint32_t>(tokens_.size())))
    where.fail(fmt::format("'{}' is there twice", content));
  if (!ids_.put(number, 0, 0)) where.fail(fmt::format("id {} is there twice", id));
  return tokens_.emplace_back(AddedToken{.content = content, .id = number});
}

AddedToken& AddedTokenList::add(const Fields& where, const std::string& content, std::uint64_t id,
                                const Fields& fields) {
  AddedToken& token = add(where, content, id);
  token.special = fields.flag_or("special", false);
  token.single_word = fields.flag_or("single_word", false);
  token.strip_left = fields.flag_or("lstrip", false);
  token.strip_right = fields.flag_or("rstrip", false);
  token.normalized = fields.flag_or("normalized", !token.special);
  return token;
}

AddedToken* AddedTokenList::find(const std::string& content) {
  const std::uint32_t place = places_.find(content);
  return place == none ? nullptr : &tokens_[place];
}

} // namespace eg::data::tok
