// The scans of a JPEG file: their headers, their order, and their data as far as no decoder is needed.

#include "core/base/error.h"
#include "data/jpeg_parser.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::data::jpeg {
namespace {

constexpr int max_scans = 256; // every progressive scan costs a pass over the image

} // namespace

std::vector<ScanPart> JpegParser::read_parts(ByteView s) {
  const std::size_t count = s.empty() ? 0 : s[0];
  if (count < 1 || count > components_.size() || s.size() != 4 + 2 * count) fail("a scan header is malformed");
  std::vector<ScanPart> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const int id = s[1 + 2 * i];
    const auto dc = static_cast<std::size_t>(s[2 + 2 * i] >> 4);
    const auto ac = static_cast<std::size_t>(s[2 + 2 * i] & 15);
    const auto it =
        std::find_if(components_.begin(), components_.end(), [&](const Component& c) { return c.id == id; });
    if (it == components_.end() || dc > 3 || ac > 3) fail("a scan names a component or table that does not exist");
    for (const ScanPart& part : parts)
      if (part.component == &*it) fail("a scan names a component twice");
    if (!quantisation_[static_cast<std::size_t>(it->quantisation)]) fail("a quantisation table is missing");
    parts.push_back({&*it, &huffman_[0][dc], &huffman_[1][ac]});
  }
  return parts;
}

/// The order of the scans of a progressive file (T.81, annex G).
void JpegParser::check_progression(const std::vector<ScanPart>& parts, int first, int last, int high) {
  if (first > last || last > 63 || (first == 0 && last != 0) || (first > 0 && parts.size() > 1))
    fail("a scan of impossible frequencies");
  for (const ScanPart& part : parts) {
    if (first == 0 && high == 0) {
      if (!part.dc->defined) fail("a Huffman table is missing");
      part.component->scanned = true;
    }
    if (!part.component->scanned) fail("a scan refines what no scan has begun");
    if (first > 0 && !part.ac->defined) fail("a Huffman table is missing");
  }
}

void JpegParser::read_scan() {
  if (!framed_) fail("a scan before the frame header");
  check_colours();
  if (++scans_ > max_scans) throw FileError(fmt::format("{}: JPEG with more than {} scans", source_, max_scans));
  const ByteView s = segment("a scan header");
  const std::vector<ScanPart> parts = read_parts(s);
  const int first = s[s.size() - 3];
  const int last = s[s.size() - 2];
  const int high = s[s.size() - 1] >> 4;
  const int low = s[s.size() - 1] & 15;
  if (progressive_) {
    if (low > 13 || (high != 0 && high != low + 1)) fail("a scan of impossible precision");
    check_progression(parts, first, last, high);
    return walk_progressive(parts);
  }
  if (first != 0 || high != 0 || low != 0) fail("a scan header is malformed");
  for (const ScanPart& part : parts) {
    if (!part.dc->defined || !part.ac->defined) fail("a Huffman table is missing");
    if (part.component->scanned) fail("two scans of one component");
    part.component->scanned = true;
  }
  walk_baseline(parts);
}

/// Minimum coded units of a scan: blocks when it has one component, groups of blocks otherwise.
std::int64_t JpegParser::units(const std::vector<ScanPart>& parts) const {
  const auto blocks = [](std::int64_t pixels, std::int64_t part, std::int64_t most) {
    return ((pixels * part + most - 1) / most + 7) / 8;
  };
  if (parts.size() == 1) {
    const Component& c = *parts[0].component;
    return blocks(width_, c.h, h_max_) * blocks(height_, c.v, v_max_);
  }
  return ((width_ + 8 * h_max_ - 1) / (8 * h_max_)) * ((height_ + 8 * v_max_ - 1) / (8 * v_max_));
}

void JpegParser::walk_block(BitReader& bits, const ScanPart& part) const {
  const int size = bits.symbol(*part.dc);
  if (size < 0 || size > 15 || !bits.skip(size)) fail("its pixel data end early or hold an unknown code");
  for (int k = 1; k < 64;) {
    const int symbol = bits.symbol(*part.ac);
    if (symbol < 0) fail("its pixel data end early or hold an unknown code");
    const int run = symbol >> 4;
    const int length = symbol & 15;
    if (length == 0 && run != 15) return;
    k += run + 1;
    if (k > 64 || !bits.skip(length)) fail("its pixel data end early or run past a block");
  }
}

/// The restart marker number `index` at byte `at`; returns where its data begin.
std::size_t JpegParser::take_restart(std::size_t at, std::int64_t index) const {
  while (at + 1 < file_.size() && file_[at] == 0xFF && file_[at + 1] == 0xFF) ++at;
  if (at + 1 >= file_.size()) fail_truncated();
  if (file_[at] != 0xFF || file_[at + 1] != 0xD0 + index % 8) fail("a restart marker is missing or out of order");
  return at + 2;
}

void JpegParser::walk_baseline(const std::vector<ScanPart>& parts) {
  BitReader bits(file_, at_);
  const std::int64_t count = units(parts);
  for (std::int64_t unit = 0; unit < count; ++unit) {
    if (restart_interval_ > 0 && unit > 0 && unit % restart_interval_ == 0)
      bits.move_to(take_restart(bits.align(), unit / restart_interval_ - 1));
    for (const ScanPart& part : parts) {
      const int blocks = parts.size() == 1 ? 1 : part.component->h * part.component->v;
      for (int b = 0; b < blocks; ++b) walk_block(bits, part);
    }
  }
  at_ = bits.align();
  while (at_ < file_.size() && file_[at_] != 0xFF) ++at_; // some cameras pad the data
}

/// Finds the end of a progressive scan, whose data only a decoder can follow, and counts its restart markers.
void JpegParser::walk_progressive(const std::vector<ScanPart>& parts) {
  const std::int64_t wanted = restart_interval_ > 0 ? (units(parts) - 1) / restart_interval_ : 0;
  std::int64_t seen = 0;
  for (; at_ + 1 < file_.size(); ++at_) {
    if (file_[at_] != 0xFF || file_[at_ + 1] == 0xFF) continue;
    const int next = file_[at_ + 1];
    if (next == 0) {
      ++at_;
    } else if (next >= 0xD0 && next <= 0xD7) {
      if (seen >= wanted) fail("a restart marker too many");
      take_restart(at_, seen++);
      ++at_;
    } else {
      if (seen != wanted) fail("a restart marker is missing or out of order");
      return;
    }
  }
  fail_truncated();
}

} // namespace eg::data::jpeg
