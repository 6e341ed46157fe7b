// stb_image and stb_image_write, compiled here and nowhere else: PNG and JPEG only, from and to memory, nothing
// exported. The allocator hands out zeroed memory, so that what a damaged file leaves undecoded is black and not old
// heap content.

#include "core/base/context.h"
#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "data/image.h"
#include "data/image_checks.h"

#include <cstdlib>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace eg::data {
namespace {

// stb_image returns null for memory that it does not get as for a damaged file, so its allocator notes how much it was.
void* zeroed(std::size_t bytes) {
  void* const block = std::calloc(1, bytes);
  if (block == nullptr) execution_context().refused_bytes = bytes;
  return block;
}

void* resized(void* old, std::size_t bytes) {
  void* const block = std::realloc(old, bytes);
  if (block == nullptr) execution_context().refused_bytes = bytes;
  return block;
}

/// `out` gets two samples for each of the `w` of `in`, as libjpeg makes them: three quarters of the nearer one and a
/// quarter of the next; the same sample twice where there are at most two. stb_image's own takes the wrong one of the
/// last two for the last sample but one.
std::uint8_t* twice_as_wide(std::uint8_t* out, const std::uint8_t* in, int w) {
  const auto mixed = [in](int near, int next, int rounding) {
    return static_cast<std::uint8_t>((3 * in[near] + in[next] + rounding) >> 2);
  };
  for (int i = 0; i < w; ++i) {
    out[2 * i] = i == 0 || w <= 2 ? in[i] : mixed(i, i - 1, 1);
    out[2 * i + 1] = i == w - 1 || w <= 2 ? in[i] : mixed(i, i + 1, 2);
  }
  return out;
}

} // namespace
} // namespace eg::data

// The name of stb_image's function where it is defined, which a parenthesis follows, but not where it is used.
static unsigned char* stbi__resample_row_h_2(unsigned char* out, unsigned char* in, unsigned char*, int w, int) {
  return eg::data::twice_as_wide(out, in, w);
}
#define stbi__resample_row_h_2(...) stbi__resample_row_h_2_as_shipped [[maybe_unused]] (__VA_ARGS__)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_ASSERT(x) ((void)(x))
#define STBI_MALLOC(size) eg::data::zeroed(size)
#define STBI_REALLOC(block, size) eg::data::resized(block, size)
#define STBI_FREE(block) std::free(block)
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>
#undef stbi__resample_row_h_2

namespace eg::data {

namespace {

struct FreePixels {
  void operator()(stbi_uc* pixels) const { stbi_image_free(pixels); }
};

} // namespace

bool inflate_exactly(ByteView packed, Bytes& out) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (packed.size() > most || out.size() > most) return false;
  const int got =
      stbi_zlib_decode_buffer(reinterpret_cast<char*>(out.data()), static_cast<int>(out.size()),
                              reinterpret_cast<const char*>(packed.data()), static_cast<int>(packed.size()));
  return got >= 0 && static_cast<std::size_t>(got) == out.size();
}

namespace {

/// What stb_image is given: the file itself, or one equal to it, which `rebuilt` then holds.
ByteView checked(ByteView bytes, const std::string& source, const ImageLimits& limits, ImageHeader& header,
                 Bytes& rebuilt) {
  if (bytes.size() > static_cast<std::uint64_t>(limits.file_bytes))
    throw FileError(
        fmt::format("{}: {} bytes, more than the {} that are read", source, bytes.size(), limits.file_bytes));
  const ImageFormat format = image_format(bytes);
  if (format == ImageFormat::unknown) throw FileError(source + ": neither a PNG nor a JPEG image");
  if (format == ImageFormat::png) return rebuilt = checked_png(bytes, source, limits, header);
  check_jpeg(bytes, source, limits, header);
  return bytes;
}

/// Why stb_image has refused a file; its words for what passes the checks before it are made plain.
std::string refusal_words() {
  const std::string_view words = stbi_failure_reason();
  if (words == "bad huffman code") return "its pixel data hold an unknown code";
  if (words == "can't merge dc and ac") return "its pixel data hold an impossible DC coefficient";
  if (words == "unknown marker") return "an unknown marker follows some of its pixel data";
  return std::string(words);
}

Image decoded(ByteView file, const std::string& source, int channels, const ImageLimits& limits) {
  if (channels < 0 || channels > 4)
    throw ValueError(fmt::format("decode_image: channels is {}; 0 (the file's own) to 4 are possible", channels));
  ImageHeader header;
  Bytes rebuilt;
  const ByteView bytes = checked(file, source, limits, header, rebuilt);
  int width = 0;
  int height = 0;
  int own = 0;
  std::size_t& refused_bytes = execution_context().refused_bytes;
  refused_bytes = 0;
  const std::unique_ptr<stbi_uc, FreePixels> pixels(
      stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width, &height, &own, channels));
  if (!pixels && refused_bytes > 0)
    fail_out_of_memory(fmt::format("{}: {}x{} pixels", source, header.width, header.height), refused_bytes);
  if (!pixels)
    throw FileError(fmt::format("{}: corrupt {}: {}", source, image_format(file) == ImageFormat::png ? "PNG" : "JPEG",
                                refusal_words()));
  if (width != header.width || height != header.height)
    throw FileError(fmt::format("{}: corrupt image: its size changes within the file", source));
  const int kept = channels != 0 ? channels : own;
  const std::size_t size =
      static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * static_cast<std::size_t>(kept);
  return {height, width, kept, std::vector<std::uint8_t>(pixels.get(), pixels.get() + size)};
}

} // namespace

Image decode_image(ByteView bytes, const std::string& source, int channels, const ImageLimits& limits) {
  return naming_memory(source, [&] { return decoded(bytes, source, channels, limits); });
}

Bytes encode_png(const Image& image) {
  if (image.height < 1 || image.width < 1 || image.channels < 1 || image.channels > 4 ||
      image.pixels.size() != static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                                 static_cast<std::size_t>(image.channels))
    throw ValueError(fmt::format("encode_png: {}x{} pixels of {} channels do not fit {} bytes", image.height,
                                 image.width, image.channels, image.pixels.size()));
  if (image.pixels.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) / 2)
    throw ValueError(fmt::format("encode_png: {} bytes of pixels are too many", image.pixels.size()));
  Bytes out;
  const auto append = [](void* to, void* data, int size) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    static_cast<Bytes*>(to)->insert(static_cast<Bytes*>(to)->end(), from, from + size);
  };
  if (stbi_write_png_to_func(append, &out, image.width, image.height, image.channels, image.pixels.data(),
                             image.width * image.channels) == 0)
    throw MemoryError("encode_png: out of memory");
  return out;
}

} // namespace eg::data
