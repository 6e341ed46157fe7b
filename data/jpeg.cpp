// The structure of a JPEG file (ITU-T T.81), verified before decoding: markers, tables, the frame.

#include "core/base/error.h"
#include "data/jpeg_parser.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::data {
namespace jpeg {

void JpegParser::fail(std::string_view reason) const {
  throw FileError(fmt::format("{}: corrupt JPEG: {}", source_, reason));
}

void JpegParser::fail_truncated() const { throw FileError(source_ + ": truncated JPEG: its end marker is missing"); }

int JpegParser::next_marker() {
  if (at_ < file_.size() && file_[at_] != 0xFF) {
    if (framed_) fail(fmt::format("no marker at byte {}", at_));
    while (at_ < file_.size() && file_[at_] != 0xFF) ++at_; // padding between segments occurs, and is harmless there
  }
  while (at_ < file_.size() && file_[at_] == 0xFF) ++at_;
  if (at_ >= file_.size()) fail_truncated();
  return file_[at_++];
}

/// The segment that begins at at_, without its length, of which at least one byte is present.
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

/// Throws where the colours of four components are unknown: readers of such files do not agree.
void JpegParser::check_colours() const {
  if (components_.size() != 4 || transform_ == 0 || transform_ == 2) return;
  throw FileError(fmt::format("{}: JPEG of four components {}; save it as RGB", source_,
                              transform_ < 0 ? "without an Adobe marker that says whether they are CMYK or YCCK"
                                             : "whose Adobe marker says neither CMYK nor YCCK"));
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

} // namespace jpeg

void check_jpeg(ByteView file, const std::string& source, const ImageLimits& limits, ImageHeader& header) {
  header = jpeg::JpegParser(file, source, limits).parse();
}

} // namespace eg::data
