#pragma once
// Parses a JPEG file (ITU-T T.81) and verifies it; used by jpeg.cpp and jpeg_scans.cpp only.

#include "data/image_checks.h"
#include "data/jpeg_bits.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data::jpeg {

struct Component {
  int id = 0;
  int h = 1, v = 1;
  int quantisation = 0;
  bool scanned = false; // for progressive files: its first DC scan
};

/// A component of a scan, with its codes.
struct ScanPart {
  Component* component;
  const Huffman* dc;
  const Huffman* ac;
};

/// What was read of a file so far, and where the next marker should be.
class JpegParser {
public:
  JpegParser(ByteView file, const std::string& source, const ImageLimits& limits)
      : file_(file), source_(source), limits_(limits) {}

  ImageHeader parse();

private:
  [[noreturn]] void fail(std::string_view reason) const;
  [[noreturn]] void fail_truncated() const;
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
  int transform_ = -1; // how colours are coded by Adobe's marker: 0 not, 1 YCbCr, 2 YCCK; -1: no marker
};

} // namespace eg::data::jpeg
