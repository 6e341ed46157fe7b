// The structure of a PNG file (ISO/IEC 15948), verified before decoding.

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "data/image_checks.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

namespace eg::data {

namespace {

constexpr std::array<std::uint8_t, 8> signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

std::uint32_t big_endian_at(ByteView b, std::size_t i) {
  return static_cast<std::uint32_t>(b[i]) << 24 | static_cast<std::uint32_t>(b[i + 1]) << 16 |
         static_cast<std::uint32_t>(b[i + 2]) << 8 | static_cast<std::uint32_t>(b[i + 3]);
}

/// The checksum of a zlib stream (RFC 1950).
std::uint32_t adler32(ByteView bytes) {
  constexpr std::uint32_t modulus = 65521;
  constexpr std::size_t most = 5552; // terms that 32 bits hold before the remainder is taken
  std::uint32_t low = 1, high = 0;
  while (!bytes.empty()) {
    const ByteView part = bytes.first(std::min(most, bytes.size()));
    for (const std::uint8_t byte : part) high += low += byte;
    low %= modulus;
    high %= modulus;
    bytes = bytes.subspan(part.size());
  }
  return high << 16 | low;
}

struct Header {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int depth = 0;
  int color = 0;
  bool interlaced = false;

  int samples() const { return color == 2 ? 3 : color == 4 ? 2 : color == 6 ? 4 : 1; }
};

struct Chunk {
  std::string_view type;
  ByteView data;
};

/// Walks a file's chunks and keeps those that decoding needs.
class PngParser {
public:
  PngParser(ByteView file, const std::string& source) : file_(file), source_(source) {}

  void parse(const ImageLimits& limits);
  Bytes rebuilt() const;
  const Header& header() const { return header_; }
  bool has_transparency() const { return !transparency_.empty(); }

private:
  [[noreturn]] void fail(std::string_view reason) const {
    throw FileError(fmt::format("{}: corrupt PNG: {}", source_, reason));
  }
  Chunk next();
  void read_header(ByteView data, const ImageLimits& limits);
  void take(const Chunk& chunk);
  void take_palette(ByteView data);
  void take_transparency(ByteView data);
  std::uint64_t pass_bytes(std::uint64_t width, std::uint64_t height) const;
  std::uint64_t raw_bytes() const;
  void check_pixels() const;

  ByteView file_;
  const std::string& source_;
  std::size_t at_ = signature.size();
  Header header_;
  Bytes palette_;
  Bytes transparency_;
  Bytes pixels_;
  bool pixels_seen_ = false;
  bool pixels_over_ = false;
};

Chunk PngParser::next() {
  if (file_.size() - at_ < 12) throw FileError(source_ + ": truncated PNG: its end chunk is missing");
  const std::uint32_t length = big_endian_at(file_, at_);
  const std::string_view type(reinterpret_cast<const char*>(file_.data()) + at_ + 4, 4);
  const bool letters =
      std::all_of(type.begin(), type.end(), [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); });
  if (!letters) fail(fmt::format("no chunk begins at byte {}", at_));
  if (length > file_.size() - at_ - 12)
    throw FileError(fmt::format("{}: truncated PNG: chunk {} at byte {} has {} bytes, the file ends after {}", source_,
                                type, at_, length, file_.size() - at_ - 8));
  const ByteView data = file_.subspan(at_ + 8, length);
  if (crc32(file_.subspan(at_ + 4, length + std::size_t{4})) != big_endian_at(file_, at_ + 8 + length))
    fail(fmt::format("the checksum of chunk {} at byte {} does not match", type, at_));
  at_ += std::size_t{12} + length;
  return {type, data};
}

void PngParser::read_header(ByteView data, const ImageLimits& limits) {
  if (data.size() != 13) fail("chunk IHDR does not have 13 bytes");
  header_ = {big_endian_at(data, 0), big_endian_at(data, 4), data[8], data[9], data[12] == 1};
  if (header_.width == 0 || header_.height == 0) fail(fmt::format("its size is {}x{}", header_.width, header_.height));
  const int depth = header_.depth;
  const bool small = depth == 1 || depth == 2 || depth == 4;
  const bool fits = header_.color == 0   ? small || depth == 8 || depth == 16
                    : header_.color == 3 ? small || depth == 8
                    : header_.color == 2 || header_.color == 4 || header_.color == 6 ? depth == 8 || depth == 16
                                                                                     : false;
  if (!fits) fail(fmt::format("no PNG has colour type {} with {} bits", header_.color, depth));
  if (data[10] != 0 || data[11] != 0 || data[12] > 1) fail("unknown compression, filter or interlace method");
  check_limits({header_.height, header_.width, header_.samples()}, source_, limits);
}

void PngParser::take_palette(ByteView data) {
  if (!palette_.empty()) fail("two palettes");
  if (pixels_seen_) fail("its palette follows its pixels");
  if (header_.color == 0 || header_.color == 4) fail("a grey image with a palette");
  if (data.empty() || data.size() % 3 != 0 || data.size() > 768) fail("a palette of wrong length");
  if (header_.color == 3 && data.size() / 3 > (std::size_t{1} << header_.depth))
    fail("a palette with more colours than its bits can name");
  palette_.assign(data.begin(), data.end());
}

void PngParser::take_transparency(ByteView data) {
  if (pixels_seen_) fail("its transparency follows its pixels");
  if (!transparency_.empty()) fail("two transparency chunks");
  if (header_.color == 4 || header_.color == 6) return; // forbidden there, and ignored by other readers as well
  const std::size_t most = header_.color == 0 ? 2 : header_.color == 2 ? 6 : palette_.size() / 3;
  if (data.empty() || data.size() > most || (header_.color != 3 && data.size() != most))
    fail("a transparency chunk of wrong length");
  transparency_.assign(data.begin(), data.end());
}

void PngParser::take(const Chunk& chunk) {
  if (chunk.type == "IHDR") fail("two headers");
  if (chunk.type != "IDAT") pixels_over_ = pixels_seen_;
  if (chunk.type == "PLTE") return take_palette(chunk.data);
  if (chunk.type == "tRNS") return take_transparency(chunk.data);
  if (chunk.type == "IDAT") {
    if (pixels_over_) fail("its pixel chunks do not follow each other");
    if (header_.color == 3 && palette_.empty()) fail("its palette is missing");
    pixels_seen_ = true;
    pixels_.insert(pixels_.end(), chunk.data.begin(), chunk.data.end());
    return;
  }
  if ((chunk.type[0] & 0x20) == 0) fail(fmt::format("unknown critical chunk {}", chunk.type));
}

std::uint64_t PngParser::pass_bytes(std::uint64_t width, std::uint64_t height) const {
  const auto bits = static_cast<std::uint64_t>(header_.depth) * static_cast<std::uint64_t>(header_.samples());
  return width == 0 || height == 0 ? 0 : height * (1 + (width * bits + 7) / 8);
}

/// Bytes of all scan lines with their filter bytes; of the seven Adam7 passes when interlaced.
std::uint64_t PngParser::raw_bytes() const {
  const std::uint64_t width = header_.width;
  const std::uint64_t height = header_.height;
  if (!header_.interlaced) return pass_bytes(width, height);
  struct Pass {
    std::uint64_t x, y, dx, dy;
  };
  constexpr std::array<Pass, 7> passes{
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};
  std::uint64_t bytes = 0;
  for (const Pass& p : passes)
    bytes += pass_bytes(width > p.x ? (width - p.x + p.dx - 1) / p.dx : 0,
                        height > p.y ? (height - p.y + p.dy - 1) / p.dy : 0);
  return bytes;
}

void PngParser::check_pixels() const {
  // Deflate cannot shrink by more than 1032 to 1, so a larger claim is refused before memory is taken for it.
  const std::uint64_t expected = raw_bytes();
  if (pixels_.size() < 6 || expected / 1032 > pixels_.size())
    fail(fmt::format("{} bytes of pixel data are too few for {}x{} pixels", pixels_.size(), header_.width,
                     header_.height));
  Bytes raw;
  resize_for(fmt::format("{}: {}x{} pixels", source_, header_.width, header_.height), raw,
             static_cast<std::size_t>(expected));
  if (!inflate_exactly(pixels_, raw)) fail(fmt::format("its pixel data do not unpack to {} bytes", expected));
  if (adler32(raw) != big_endian_at(pixels_, pixels_.size() - 4)) fail("the checksum of its pixel data does not match");
}

void PngParser::parse(const ImageLimits& limits) {
  const Chunk first = next();
  if (first.type != "IHDR") fail(fmt::format("it begins with chunk {}", first.type));
  read_header(first.data, limits);
  for (Chunk chunk = next(); chunk.type != "IEND"; chunk = next()) take(chunk);
  if (!pixels_seen_) fail("it has no pixels");
  check_pixels();
}

void append_chunk(Bytes& out, std::string_view type, ByteView data) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::uint8_t>(data.size() >> shift));
  out.insert(out.end(), type.begin(), type.end());
  out.insert(out.end(), data.begin(), data.end());
  out.insert(out.end(), 4, 0); // the decoder does not look at checksums
}

Bytes PngParser::rebuilt() const {
  Bytes out;
  out.reserve(pixels_.size() + 2048);
  out.assign(signature.begin(), signature.end());
  append_chunk(out, "IHDR", file_.subspan(16, 13));
  if (header_.color == 3) {
    Bytes padded = palette_;
    padded.resize(768);
    append_chunk(out, "PLTE", padded);
  }
  if (!transparency_.empty()) append_chunk(out, "tRNS", transparency_);
  append_chunk(out, "IDAT", pixels_);
  append_chunk(out, "IEND", {});
  return out;
}

} // namespace

Bytes checked_png(ByteView file, const std::string& source, const ImageLimits& limits, ImageHeader& header) {
  PngParser parser(file, source);
  parser.parse(limits);
  header = {parser.header().height, parser.header().width, parser.header().samples()};
  return parser.rebuilt();
}

} // namespace eg::data
