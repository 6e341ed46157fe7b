#pragma once
// What the fuzzers feed: every reader of files that nobody vouches for. A target returns when the bytes were read or
// refused with a FileError; anything else (another exception, a crash, a sanitizer report) is a finding.

#include "core/error.h"
#include "data/bytes.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "fuzz/tokenizer_targets.h"

#include <nlohmann/json.hpp>

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

inline void image(data::ByteView bytes) {
  refused_or_read([&] { data::decode_image(bytes, "fuzz", 0, image_limits); });
}
inline void idx(data::ByteView bytes) {
  refused_or_read([&] { data::parse_idx(bytes, "fuzz"); });
}
inline void safetensors(data::ByteView bytes) {
  refused_or_read([&] { data::parse_safetensors(bytes, "fuzz"); });
}
inline void json(data::ByteView bytes) {
  refused_or_read([&] { data::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "fuzz"); });
}
inline void cifar_records(data::ByteView bytes) {
  refused_or_read([&] { data::parse_cifar10_records(bytes, "fuzz", "fuzz"); });
}
inline void archive(data::ByteView bytes) {
  refused_or_read([&] {
    const data::Bytes tar = data::unpack({bytes.begin(), bytes.end()}, "fuzz", unpacked_limit);
    data::read_tar_bytes(tar, "fuzz", [](const data::ArchiveMember&) {});
  });
}

} // namespace eg::fuzz
