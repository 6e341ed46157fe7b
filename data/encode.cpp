#include "data/encode.h"

namespace eg::data {

std::string base64(ByteView bytes) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t rest = bytes.size() - i;
    const unsigned group = static_cast<unsigned>(bytes[i]) << 16 |
                           (rest > 1 ? static_cast<unsigned>(bytes[i + 1]) << 8 : 0U) |
                           (rest > 2 ? static_cast<unsigned>(bytes[i + 2]) : 0U);
    text += digits[group >> 18];
    text += digits[(group >> 12) & 63U];
    text += rest > 1 ? digits[(group >> 6) & 63U] : '=';
    text += rest > 2 ? digits[group & 63U] : '=';
  }
  return text;
}

std::string data_uri(ByteView bytes, std::string_view mime) {
  std::string uri = "data:";
  uri += mime;
  uri += ";base64,";
  uri += base64(bytes);
  return uri;
}

std::string png_data_uri(const Image& image) { return data_uri(encode_png(image), "image/png"); }

} // namespace eg::data
