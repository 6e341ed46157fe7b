#include "core/base/error.h"
#include "data/encode.h"
#include "data/image.h"
#include "data_fixtures.h"
#include "data_jpegs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <set>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

std::vector<std::string> files_below(const std::filesystem::path& folder, const std::string& extension) {
  std::vector<std::string> paths;
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder))
    if (item.is_regular_file() && item.path().extension() == extension) paths.push_back(item.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Image gradient(int height, int width, int channels) {
  Image image{height, width, channels, {}};
  for (int i = 0; i < height * width * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 7 % 251));
  return image;
}

std::string refusal(ByteView bytes, const ImageLimits& limits = {}) {
  return message_of<FileError>([&] { decode_image(bytes, "pic", 0, limits); });
}

int largest_difference(const Image& a, const Image& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  int most = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

} // namespace

TEST_CASE("image: PNG survives encoding and decoding") {
  for (int channels = 1; channels <= 4; ++channels) {
    const Image image = gradient(13, 17, channels);
    const Image back = decode_image(encode_png(image), "pic");
    CHECK(back.height == 13);
    CHECK(back.width == 17);
    CHECK(back.channels == channels);
    CHECK(back.pixels == image.pixels);
  }
  CHECK(decode_image(encode_png(gradient(2, 2, 1)), "pic", 3).pixels.size() == 12);
  CHECK(message_of<ValueError>([] {
          encode_png({2, 2, 3, {}});
        }) == "encode_png: 2x2 pixels of 3 channels do not fit 0 bytes");
  CHECK(message_of<ValueError>([] { decode_image({}, "pic", 5); }) ==
        "decode_image: channels is 5; 0 (the file's own) to 4 are possible");
}

TEST_CASE("image: damage to a PNG gets a message that names it") {
  const Bytes good = encode_png(gradient(8, 8, 3));
  CHECK(refusal({}) == "pic: neither a PNG nor a JPEG image");
  CHECK(refusal(ByteView(good).first(good.size() - 12)) == "pic: truncated PNG: its end chunk is missing");
  CHECK(refusal(ByteView(good).first(60)).starts_with("pic: truncated PNG: chunk IDAT at byte 33 has "));
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_THROWS_AS(decode_image(ByteView(good).first(size), "pic"), FileError);
  for (std::size_t i = 0; i < good.size(); ++i) { // every byte of a PNG is checked by something
    Bytes bad = good;
    bad[i] ^= 0x10;
    CAPTURE(i);
    CHECK_THROWS_AS(decode_image(bad, "pic"), FileError);
  }
  CHECK(refusal(good, {.side = 7}) == "pic: 8x8 pixels, more than the 7 a side and 64000000 in all that are read");
  CHECK(refusal(good, {.pixels = 63}) == "pic: 8x8 pixels, more than the 16384 a side and 63 in all that are read");
  CHECK(refusal(good, {.file_bytes = 50}).ends_with(" bytes, more than the 50 that are read"));
}

TEST_CASE("image: PngSuite, its good files by checksum and its broken ones refused") {
  const auto folder = data_or_skip("image: PngSuite", "images/pngsuite");
  if (folder.empty()) return;
  std::map<std::string, std::uint32_t> checksums;
  for (const std::string& line : lines_of((folder / "decode_crc32_results.txt").string())) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos || line.find_first_not_of("0123456789", colon + 2) != std::string::npos) continue;
    checksums[std::filesystem::path(line.substr(0, colon)).filename().string()] =
        static_cast<std::uint32_t>(std::stoul(line.substr(colon + 2)));
  }
  int broken = 0;
  int equal = 0;
  int good = 0;
  for (const std::string& path : files_below(folder, ".png")) {
    CAPTURE(path);
    const std::string name = std::filesystem::path(path).filename().string();
    if (name.starts_with("x")) {
      ++broken;
      CHECK(message_of<FileError>([&] { read_image(path); }).starts_with(path + ": "));
      continue;
    }
    ++good;
    const Image image = read_image(path);
    CHECK(image.pixels.size() == static_cast<std::size_t>(image.height * image.width * image.channels));
    if (checksums.contains(name) && crc32(image.pixels) == checksums[name]) ++equal;
  }
  CHECK(good == 161);
  CHECK(equal == 161);
  CHECK(broken == 14);
}

TEST_CASE("image: other odd PNG files are refused or decoded as they should be") {
  const auto folder = data_or_skip("image: other odd PNG files", "images/png-faults");
  if (folder.empty()) return;
  const std::set<std::string> bad_checksum{"cicp_pq.png", "issue#430.png"}; // in chunks that do not hold pixels
  for (const std::string& path : files_below(folder, ".png")) {
    CAPTURE(path);
    const std::string name = std::filesystem::path(path).filename().string();
    if (name.starts_with("x_") || bad_checksum.contains(name))
      CHECK(message_of<FileError>([&] { read_image(path); }).starts_with(path + ": corrupt PNG: "));
    else
      CHECK_NOTHROW(read_image(path));
  }
}

TEST_CASE("image: JPEG files look as expected") {
  const auto folder = data_or_skip("image: JPEG files look as expected", "images/jpeg-valid");
  if (folder.empty()) return;
  const std::map<std::string, std::string> refused{
      {"mjpeg.jpg", "corrupt JPEG: a Huffman table is missing"},
      {"partial_progressive.jpg", "corrupt JPEG: no marker at byte 1292"},
      {"progressive-missing-dc.jpg", "corrupt JPEG: a scan refines what no scan has begun"}};
  int compared = 0;
  for (const std::string& path : files_below(folder, ".jpg")) {
    CAPTURE(path);
    const std::string name = std::filesystem::path(path).filename().string();
    const std::string twin = path.substr(0, path.size() - 4) + ".png";
    if (const auto it = refused.find(name); it != refused.end()) {
      CHECK(message_of<FileError>([&] { read_image(path); }) == path + ": " + it->second);
      continue;
    }
    const Image image = read_image(path);
    if (!file_exists(twin) || name == "jpg-size-3x3.jpg" || name == "jpg-size-4x4.jpg") continue; // disabled.list
    ++compared;
    CHECK(largest_difference(image, read_image(twin, image.channels)) <= 3);
  }
  CHECK(compared == 30);
}

TEST_CASE("image: malformed JPEG files are refused with a reason") {
  const auto folder = data_or_skip("image: malformed JPEG files", "images/jpeg-malformed");
  if (folder.empty()) return;
  for (const std::string& path : files_below(folder, ".jpg")) {
    CAPTURE(path);
    if (path.ends_with("multiple-0xff-before-eoi.jpg"))
      CHECK_NOTHROW(read_image(path));
    else
      CHECK(message_of<FileError>([&] { read_image(path); }).starts_with(path + ": "));
  }
  for (const std::string& path : files_below(folder, ".jpeg"))
    CHECK_NOTHROW(read_image(path)); // broken colour profiles
  const std::string large = (folder / "max_size.jpg").string();
  CHECK(message_of<FileError>([&] { read_image(large); }) ==
        large + ": 65535x65535 pixels, more than the 16384 a side and 64000000 in all that are read");
}

TEST_CASE("image: every cut of a JPEG is refused") {
  const auto path = data_or_skip("image: every cut of a JPEG is refused", "images/jpeg-valid/restarts.jpg");
  if (path.empty()) return;
  const Bytes good = read_file(path.string());
  CHECK_NOTHROW(decode_image(good, "pic"));
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_THROWS_AS(decode_image(ByteView(good).first(size), "pic"), FileError);
  CHECK(refusal(ByteView(good).first(good.size() - 2)) == "pic: truncated JPEG: its end marker is missing");
  Bytes closed(good.begin(), good.end() - 200); // cut, with an end marker put back
  closed.insert(closed.end(), {0xFF, 0xD9});
  CHECK(refusal(closed).starts_with("pic: corrupt JPEG: "));
}

TEST_CASE("image: four components are CMYK or YCCK by Adobe's marker, and refused without it") {
  const Bytes cyan = bytes_of(cyan_cmyk);
  const Image image = decode_image(cyan, "pic");
  CHECK(image.channels == 3);
  CHECK(Bytes(image.pixels.begin(), image.pixels.begin() + 3) == Bytes{0, 255, 255});
  Bytes unmarked = cyan;
  unmarked.erase(unmarked.begin() + 2, unmarked.begin() + 18);
  CHECK(refusal(unmarked) == "pic: JPEG of four components without an Adobe marker that says whether they are CMYK or "
                             "YCCK; save it as RGB");
  Bytes other = cyan;
  other[17] = 1;
  CHECK(refusal(other) == "pic: JPEG of four components whose Adobe marker says neither CMYK nor YCCK; save it as RGB");
  Bytes late = unmarked; // behind the pixels, where readers do not look for it any more
  late.insert(late.end() - 2, cyan.begin() + 2, cyan.begin() + 18);
  CHECK(refusal(late) == refusal(unmarked));
}

TEST_CASE("image: a component that would be enlarged by a fraction is refused") {
  Bytes file = bytes_of(half_as_wide);
  const std::string_view frame("\xFF\xC0\x00\x11", 4);
  const auto at = std::search(file.begin(), file.end(), frame.begin(), frame.end(),
                              [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
  REQUIRE(at != file.end());
  at[11] = 0x31; // 3 samples of brightness across
  at[14] = 0x21; // and 2 of the first colour
  CHECK(refusal(file) == "pic: JPEG of an unsupported kind: component 2 has a sample for 3/2 x 1/1 pixels");
}

TEST_CASE("image: colours of half the width are spread as libjpeg does, up to the last column") {
  const std::array<int, 48> pillow{199, 41,  40,  200, 40,  40,  202, 40,  38,  202, 39, 40,  200, 39, 44,  200,
                                   39,  44,  202, 40,  38,  202, 40,  38,  197, 42,  38, 197, 42,  40, 199, 41,
                                   40,  202, 39,  42,  203, 38,  42,  170, 45,  89,  72, 34,  153, 36, 41,  197};
  const Image image = decode_image(bytes_of(half_as_wide), "pic");
  REQUIRE(image.width == 16);
  for (std::size_t i = 0; i < pillow.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(image.pixels[i] - pillow[i]) <= 2);
  }
}

TEST_CASE("image: damage that only decoding finds has a reason") {
  const Bytes good = bytes_of(progressive_grey);
  CHECK(decode_image(good, "pic").channels == 1);
  Bytes bad = good;
  bad[156] ^= 1;
  CHECK(refusal(bad) == "pic: corrupt JPEG: its pixel data hold an unknown code");
  bad = good;
  bad[134] ^= 0x80;
  CHECK(refusal(bad) == "pic: corrupt JPEG: its pixel data hold an impossible DC coefficient");
}

TEST_CASE("image: resizing takes areas when shrinking and lines when growing") {
  const Image flat{5, 7, 3, std::vector<std::uint8_t>(105, 200)};
  for (const auto& [h, w] : {std::pair{2, 3}, {9, 20}, {5, 1}, {1, 7}}) {
    const Image out = resize(flat, h, w);
    CHECK(out.height == h);
    CHECK(out.width == w);
    CHECK(out.pixels == std::vector<std::uint8_t>(static_cast<std::size_t>(h * w * 3), 200));
  }
  CHECK(resize({2, 2, 1, {0, 100, 50, 250}}, 1, 1).pixels == std::vector<std::uint8_t>{100});
  CHECK(resize({1, 3, 1, {0, 90, 240}}, 1, 2).pixels == std::vector<std::uint8_t>{30, 190}); // (0 + 90/2) / 1.5
  CHECK(resize({1, 2, 1, {0, 100}}, 1, 4).pixels == std::vector<std::uint8_t>{0, 25, 75, 100});
  CHECK(resize(flat, 5, 7).pixels == flat.pixels);
  CHECK(message_of<ValueError>([&] { resize(flat, 0, 3); }) == "resize: from 5x7 to 0x3 pixels");
}

TEST_CASE("encode: base64 and data URIs") {
  const auto coded = [](std::string_view text) {
    return base64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  CHECK(coded("") == "");
  CHECK(coded("f") == "Zg==");
  CHECK(coded("fo") == "Zm8=");
  CHECK(coded("foo") == "Zm9v");
  CHECK(coded("foobar") == "Zm9vYmFy");
  CHECK(base64(Bytes{0xFF, 0xEF, 0xBE}) == "/+++");
  CHECK(png_data_uri({1, 1, 1, {7}}).starts_with("data:image/png;base64,iVBORw0KGgo"));
}
