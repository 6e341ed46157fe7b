#pragma once
// What the fuzzers feed: every reader of files that nobody vouches for. A target returns when the bytes were read or
// refused with a FileError; anything else (another exception, a crash, a sanitizer report) is a finding.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/npy.h"
#include "data/preprocess.h"
#include "data/safetensors.h"
#include "data/unpack.h"
#include "fuzz/model_folder.h"
#include "fuzz/scratch.h"
#include "fuzz/tokenizer_targets.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace eg::fuzz {

/// Caps that keep one run fast and small.
inline constexpr std::uint64_t unpacked_limit = std::uint64_t{16} << 20;
inline constexpr data::ImageLimits image_limits{.side = 2048, .pixels = 1 << 20, .file_bytes = 1 << 20};

template <class F> void refused_or_read(F&& read) {
  try {
    read();
  } catch (const FileError&) {
    return;
  }
}

inline void image(ByteView bytes) {
  refused_or_read([&] { data::decode_image(bytes, "fuzz", 0, image_limits); });
}
inline void idx(ByteView bytes) {
  refused_or_read([&] { data::parse_idx(bytes, "fuzz"); });
}
inline void safetensors(ByteView bytes) {
  refused_or_read([&] { data::parse_safetensors(bytes, "fuzz"); });
  refused_or_read([&] { data::parse_safetensors(bytes, "fuzz", {.widen = true}); });
}
inline void npy(ByteView bytes) {
  refused_or_read([&] { data::parse_npy(bytes, "fuzz"); });
}
/// Every tensor of a file, mapped and copied, whatever its format.
inline void read_every_tensor(const std::string& path) {
  refused_or_read([&] {
    const data::TensorReader reader = data::open_tensors(path);
    for (const bool map : {false, true})
      for (std::size_t i = 0; i < reader.tensors().size(); ++i)
        refused_or_read([&] { reader.read(i, {.widen = map, .map = map}); });
  });
}
/// safetensors, npy and npz by their first bytes.
inline void tensor_file(ByteView bytes) {
  static ScratchFile file;
  file.write(bytes);
  read_every_tensor(file.path());
}
/// An index beside two shards that are well-formed.
inline void tensor_index(ByteView bytes) {
  static const ScratchShards shards;
  shards.write_index(bytes);
  read_every_tensor(shards.index());
}
inline void preprocess(ByteView bytes) {
  refused_or_read([&] {
    const data::Preprocessing steps =
        data::parse_preprocessing({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "fuzz");
    const data::Image image{5, 4, 3, Bytes(60, 77)};
    const data::ImageSize between = steps.resized({5, 4}), end = steps.result({5, 4});
    if (std::max({between.height, between.width, end.height, end.width}) > 64) return;
    try {
      data::preprocess(image, steps);
    } catch (const ValueError&) { // as many means as the image has channels, or not
      return;
    }
  });
}
inline void json(ByteView bytes) {
  refused_or_read([&] { parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "fuzz"); });
}
inline void cifar_records(ByteView bytes) {
  refused_or_read([&] { data::parse_cifar10_records(bytes, "fuzz", "fuzz"); });
}
inline void archive(ByteView bytes) {
  refused_or_read([&] {
    const Bytes tar = data::unpack({bytes.begin(), bytes.end()}, "fuzz", unpacked_limit);
    data::read_tar_bytes(tar, "fuzz", [](const data::ArchiveMember&) {});
  });
}

} // namespace eg::fuzz
