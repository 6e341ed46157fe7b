#pragma once
// Verifies the structure of PNG and JPEG files before stb_image decodes them. Used by image.cpp only. stb_image itself
// ignores PNG checksums, accepts some truncated files as complete and trusts some tables.

#include "data/image.h"

#include <cstdint>
#include <string>

namespace eg::data {

/// What a file's header declares.
struct ImageHeader {
  std::int64_t height = 0;
  std::int64_t width = 0;
  int channels = 0;
};

/// Refuses images beyond `limits`.
void check_limits(const ImageHeader& header, const std::string& source, const ImageLimits& limits);

/// Verifies signature, chunk order, lengths and CRCs, the header, the palette, and that the pixel data unpacks to
/// exactly the size of the image and has the right Adler-32. Returns an equal file made of the chunks that decoding
/// needs alone (one IDAT, palette padded with black to 256 entries so that no index points beyond it).
Bytes checked_png(ByteView file, const std::string& source, const ImageLimits& limits, ImageHeader& header);

/// Verifies markers, segment lengths, quantisation and Huffman tables, one frame of a supported kind, scans that name
/// defined tables and cover every component, restart markers by number and order, the entropy-coded data of a baseline
/// scan symbol by symbol, and the end marker.
void check_jpeg(ByteView file, const std::string& source, const ImageLimits& limits, ImageHeader& header);

/// Unpacks a zlib stream into a buffer that it must fill exactly (stb_image's inflate). False when it does not.
bool inflate_exactly(ByteView packed, Bytes& out);

} // namespace eg::data
