// The structure of a JPEG file (ITU-T T.81), verified before decoding.

#include "core/error.h"
#include "data/image_checks.h"
#include "data/jpeg_bits.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

namespace eg::data {

namespace {

using jpeg::BitReader;
using jpeg::Huffman;

constexpr int max_scans = 256; // every progressive scan costs a pass over the image

struct Component {
  int id = 0;
  int h = 1, v = 1;
  int quantisation = 0;
  bool scanned = false; // for progressive files: its first DC scan
};

struct ScanPart {
  Component* component;
  const Huffman* dc;
  const Huffman* ac;
};

class JpegParser {
public:
  JpegParser(ByteView file, const std::string& source, const ImageLimits& limits)
      : file_(file), source_(source), limits_(limits) {}

  ImageHeader parse();

private:
  [[noreturn]] void fail(std::string_view reason) const {
    throw FileError(fmt::format("{}: corrupt JPEG: {}", source_, reason));
  }
  [[noreturn]] void fail_truncated() const { throw FileError(source_ + ": truncated JPEG: its end marker is missing"); }
  int next_marker();
  ByteView segment(std::string_view what);
  void read_tables(int marker);
  void read_quantisation(ByteView s);
  void read_huffman(ByteView s);
  void read_adobe(ByteView s);
  void read_frame(int marker);
  void check_sampling() const;
  void check_colours() const;
  void read_scan();
  std::vector<ScanPart> read_parts(ByteView s);
  void check_progression(const std::vector<ScanPart>& parts, int first, int last, int high);
  std::int64_t units(const std::vector<ScanPart>& parts) const;
  void walk_baseline(const std::vector<ScanPart>& parts);
  void walk_block(BitReader& bits, const ScanPart& part) const;
  void walk_progressive(const std::vector<ScanPart>& parts);
  std::size_t take_restart(std::size_t at, std::int64_t index) const;

  ByteView file_;
  const std::string& source_;
  const ImageLimits& limits_;
  std::size_t at_ = 2;
  bool framed_ = false;
  bool progressive_ = false;
  std::int64_t width_ = 0, height_ = 0;
  int h_max_ = 1, v_max_ = 1;
  std::vector<Component> components_;
  std::array<bool, 4> quantisation_{};
  std::array<std::array<Huffman, 4>, 2> huffman_{};
  int restart_interval_ = 0;
  int scans_ = 0;
  int transform_ = -1; // how Adobe's marker says that colours are coded: 0 not, 1 YCbCr, 2 YCCK; -1: no marker
};

int JpegParser::next_marker() {
  if (at_ < file_.size() && file_[at_] != 0xFF) {
    if (framed_) fail(fmt::format("no marker at byte {}", at_));
    while (at_ < file_.size() && file_[at_] != 0xFF) ++at_; // padding between segments occurs, and is harmless there
  }
  while (at_ < file_.size() && file_[at_] == 0xFF) ++at_;
  if (at_ >= file_.size()) fail_truncated();
  return file_[at_++];
}

/// The segment that begins at at_, without its length, of which at least one byte is there.
ByteView JpegParser::segment(std::string_view what) {
  if (file_.size() - at_ < 2) fail_truncated();
  const std::size_t length = static_cast<std::size_t>(file_[at_]) << 8 | file_[at_ + 1];
  if (length < 2) fail(fmt::format("{} of {} bytes", what, length));
  if (length > file_.size() - at_) fail_truncated();
  const ByteView content = file_.subspan(at_ + 2, length - 2);
  at_ += length;
  return content;
}

void JpegParser::read_quantisation(ByteView s) {
  while (!s.empty()) {
    const int wide = s[0] >> 4;
    const int table = s[0] & 15;
    const std::size_t size = wide != 0 ? 129 : 65;
    if (wide > 1 || table > 3 || s.size() < size) fail("a quantisation table is malformed");
    quantisation_[static_cast<std::size_t>(table)] = true;
    s = s.subspan(size);
  }
}

void JpegParser::read_huffman(ByteView s) {
  while (!s.empty()) {
    const auto kind = static_cast<std::size_t>(s[0] >> 4);
    const auto index = static_cast<std::size_t>(s[0] & 15);
    if (kind > 1 || index > 3 || s.size() < 17) fail("a Huffman table is malformed");
    std::size_t symbols = 0;
    for (std::size_t i = 1; i <= 16; ++i) symbols += s[i];
    if (symbols > 256 || s.size() < 17 + symbols) fail("a Huffman table is malformed");
    Huffman& table = huffman_[kind][index];
    std::copy_n(s.begin() + 17, symbols, table.symbols.begin());
    if (!table.build(s.subspan(1, 16))) fail("a Huffman table is not a prefix code");
    s = s.subspan(17 + symbols);
  }
}

void JpegParser::read_tables(int marker) {
  const bool ignored = (marker >= 0xE0 && marker <= 0xEF) || marker == 0xFE;
  if (!ignored && marker != 0xDB && marker != 0xC4 && marker != 0xDD && marker != 0xDC) {
    const bool frame = marker >= 0xC3 && marker <= 0xCF && marker != 0xC8;
    if (frame) throw FileError(source_ + ": JPEG of an unsupported kind (lossless, hierarchical or arithmetic-coded)");
    fail(fmt::format("marker FF{:02X} at byte {}", marker, at_ - 2));
  }
  const ByteView s = segment("a segment");
  if (marker == 0xDB) read_quantisation(s);
  if (marker == 0xC4) read_huffman(s);
  if (marker == 0xDD) {
    if (s.size() != 2) fail("a restart interval of wrong length");
    restart_interval_ = s[0] << 8 | s[1];
  }
  if (marker == 0xEE) read_adobe(s);
  if (marker == 0xDC && (!framed_ || s.size() != 2 || (s[0] << 8 | s[1]) != height_))
    fail("its number of lines is given twice");
}

void JpegParser::read_adobe(ByteView s) {
  constexpr std::string_view name("Adobe\0", 6);
  if (s.size() < 12 || !std::equal(name.begin(), name.end(), s.begin())) return;
  if (scans_ > 0) fail("Adobe's marker follows its pixels");
  transform_ = s[11];
}

void JpegParser::read_frame(int marker) {
  if (framed_) fail("two frames");
  const ByteView s = segment("a frame header");
  if (s.size() < 6) fail("a frame header of wrong length");
  if (s[0] != 8) throw FileError(fmt::format("{}: JPEG with {} bits a sample; only 8 are read", source_, s[0]));
  height_ = s[1] << 8 | s[2];
  width_ = s[3] << 8 | s[4];
  const std::size_t count = s[5];
  if (count != 1 && count != 3 && count != 4) fail(fmt::format("{} components", count));
  if (s.size() != 6 + 3 * count) fail("a frame header of wrong length");
  if (height_ == 0 || width_ == 0) fail(fmt::format("its size is {}x{}", width_, height_));
  check_limits({height_, width_, static_cast<int>(count)}, source_, limits_);
  for (std::size_t i = 0; i < count; ++i) {
    const ByteView c = s.subspan(6 + 3 * i, 3);
    components_.push_back({c[0], c[1] >> 4, c[1] & 15, c[2], false});
    const Component& last = components_.back();
    if (last.h < 1 || last.h > 4 || last.v < 1 || last.v > 4 || last.quantisation > 3) fail("a component is malformed");
    for (std::size_t k = 0; k < i; ++k)
      if (components_[k].id == last.id) fail("two components of one name");
    h_max_ = std::max(h_max_, last.h);
    v_max_ = std::max(v_max_, last.v);
  }
  check_sampling();
  progressive_ = marker == 0xC2;
  framed_ = true;
}

/// Throws where a component would have to be enlarged by a fraction.
void JpegParser::check_sampling() const {
  for (const Component& c : components_)
    if (h_max_ % c.h != 0 || v_max_ % c.v != 0)
      throw FileError(fmt::format("{}: JPEG of an unsupported kind: component {} has a sample for {}/{} x {}/{} pixels",
                                  source_, c.id, h_max_, c.h, v_max_, c.v));
}

/// Throws where nothing says which colours four components are: readers of such files do not agree.
void JpegParser::check_colours() const {
  if (components_.size() != 4 || transform_ == 0 || transform_ == 2) return;
  throw FileError(fmt::format("{}: JPEG of four components {}; save it as RGB", source_,
                              transform_ < 0 ? "without an Adobe marker that says whether they are CMYK or YCCK"
                                             : "whose Adobe marker says neither CMYK nor YCCK"));
}

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

ImageHeader JpegParser::parse() {
  for (;;) {
    const int marker = next_marker();
    if (marker == 0xD9) break;
    if (marker == 0xDA)
      read_scan();
    else if (marker == 0xC0 || marker == 0xC1 || marker == 0xC2)
      read_frame(marker);
    else
      read_tables(marker);
  }
  if (!framed_) fail("it has no frame");
  for (const Component& c : components_)
    if (!c.scanned) fail("a component has no pixels");
  return {height_, width_, components_.size() == 1 ? 1 : 3};
}

} // namespace

void check_jpeg(ByteView file, const std::string& source, const ImageLimits& limits, ImageHeader& header) {
  header = JpegParser(file, source, limits).parse();
}

} // namespace eg::data
