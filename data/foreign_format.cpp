#include "data/foreign_format.h"

#include <algorithm>
#include <array>

namespace eg::data {

std::string_view foreign_format(ByteView front) {
  struct Format {
    std::string_view begins, is;
  };
  constexpr std::string_view pickle =
      "is a pickle, which can run any program and is not read: save the tensors as safetensors";
  constexpr std::string_view archive =
      "is a zip archive, as npz files and PyTorch's pickles are: save the tensors as safetensors";
  constexpr std::array<Format, 10> formats{{{{"\x80\x02", 2}, pickle},
                                            {{"\x80\x03", 2}, pickle},
                                            {{"\x80\x04", 2}, pickle},
                                            {{"\x80\x05", 2}, pickle},
                                            {{"PK\x03\x04", 4}, archive},
                                            {{"PK\x05\x06", 4}, archive},
                                            {"\x93NUMPY", "is an npy file: save the tensors as safetensors"},
                                            {"\x89HDF\r\n", "is an HDF5 file: save the tensors as safetensors"},
                                            {"GGUF", "is a GGUF file: save the tensors as safetensors"},
                                            {"\x1f\x8b", "is gzip-compressed: unpack it"}}};
  for (const Format& format : formats)
    if (front.size() >= format.begins.size() &&
        std::equal(format.begins.begin(), format.begins.end(), front.begin(),
                   [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
      return format.is;
  return {};
}

} // namespace eg::data
