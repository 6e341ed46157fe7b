#include "data/text/tokenizer/tables.h"

#include <cstring>

namespace eg::data::tok {
namespace {

constexpr std::size_t first_capacity = 16;

/// Mixes all bits into all bits (the finaliser of splitmix64).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30U) * 0xBF58476D1CE4E5B9U;
  x = (x ^ x >> 27U) * 0x94D049BB133111EBU;
  return x ^ x >> 31U;
}

std::uint32_t hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  std::size_t at = 0;
  std::uint64_t piece = 0;
  for (; at + sizeof piece <= text.size(); at += sizeof piece) {
    std::memcpy(&piece, text.data() + at, sizeof piece);
    hash = mixed(hash + 0x9E3779B97F4A7C15U) ^ piece;
  }
  piece = 0;
  if (at < text.size()) std::memcpy(&piece, text.data() + at, text.size() - at);
  return static_cast<std::uint32_t>(mixed((hash + 0x9E3779B97F4A7C15U) ^ mixed(piece)));
}

} // namespace

std::size_t PairTable::slot_of(std::uint32_t first, std::uint32_t second) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = mixed(std::uint64_t{first} << 32U | second) & mask;
  while (slots_[at].rank != none && (slots_[at].first != first || slots_[at].second != second)) at = (at + 1) & mask;
  return at;
}

void PairTable::grow() {
  std::vector<Entry> old(slots_.empty() ? first_capacity : 2 * slots_.size());
  old.swap(slots_);
  for (const Entry& entry : old)
    if (entry.rank != none) slots_[slot_of(entry.first, entry.second)] = entry;
}

bool PairTable::put(std::uint32_t first, std::uint32_t second, std::uint32_t value, std::uint32_t rank) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  Entry& entry = slots_[slot_of(first, second)];
  const bool is_new = entry.rank == none;
  entry = {first, second, value, rank};
  count_ += is_new ? 1U : 0U;
  return is_new;
}

const PairTable::Entry* PairTable::find(std::uint32_t first, std::uint32_t second) const {
  if (slots_.empty()) return nullptr;
  const Entry& entry = slots_[slot_of(first, second)];
  return entry.rank == none ? nullptr : &entry;
}

std::size_t TextTable::slot_of(std::string_view text, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].index != none && (slots_[at].hash != hash || texts_[slots_[at].index] != text))
    at = (at + 1) & mask;
  return at;
}

void TextTable::grow() {
  std::vector<Slot> old(slots_.empty() ? first_capacity : 2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.index == none) continue;
    std::size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].index != none) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

bool TextTable::put(std::string_view text, std::uint32_t value) {
  if (2 * (texts_.size() + 1) > slots_.size()) grow();
  const std::uint32_t hash = hash_of(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.index != none) return false;
  slot = {hash, static_cast<std::uint32_t>(texts_.size())};
  texts_.emplace_back(text);
  values_.push_back(value);
  return true;
}

std::uint32_t TextTable::find(std::string_view text) const {
  if (slots_.empty()) return none;
  const Slot& slot = slots_[slot_of(text, hash_of(text))];
  return slot.index == none ? none : values_[slot.index];
}

void ByteTrie::put(std::string_view bytes, std::uint32_t value) {
  std::uint32_t at = root;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (const PairTable::Entry* edge = edges_.find(at, byte)) {
      at = edge->value;
      continue;
    }
    const auto added = static_cast<std::uint32_t>(values_.size());
    edges_.put(at, byte, added);
    values_.push_back(none);
    at = added;
  }
  values_[at] = value;
}

std::uint32_t ByteTrie::node(std::string_view bytes) const {
  std::uint32_t at = root;
  for (const char c : bytes) {
    const PairTable::Entry* edge = edges_.find(at, static_cast<unsigned char>(c));
    if (edge == nullptr) return none;
    at = edge->value;
  }
  return at;
}

ByteTrie::Match ByteTrie::longest(std::string_view text, std::uint32_t from) const {
  Match match;
  std::uint32_t at = from;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const PairTable::Entry* edge = edges_.find(at, static_cast<unsigned char>(text[i]));
    if (edge == nullptr) break;
    at = edge->value;
    if (values_[at] != none) match = {i + 1, values_[at]};
  }
  return match;
}

} // namespace eg::data::tok
