#include "data/inflate.h"

#include "core/base/error.h"
#include "core/base/out_of_memory.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#define ZLIB_CONST
#include <zlib.h>

namespace eg::data {
namespace {

/// zlib counts in 32 bits.
uInt part_of(std::size_t bytes) { return static_cast<uInt>(std::min<std::size_t>(bytes, std::size_t{1} << 30)); }

} // namespace

void Inflater::End::operator()(z_stream_s* stream) const {
  ::inflateEnd(stream);
  delete stream;
}

Inflater::Inflater(Source more, std::string source)
    : more_(std::move(more)), source_(std::move(source)), stream_(new z_stream_s{}) {
  if (inflateInit2(stream_.get(), -MAX_WBITS) != Z_OK) fail_out_of_memory(source_);
}

void Inflater::fail(std::string_view reason) const { throw FileError(fmt::format("{}: {}", source_, reason)); }

/// Makes sure that zlib has packed bytes. False where there are no more.
bool Inflater::feed() {
  if (stream_->avail_in > 0) return true;
  if (piece_.empty()) piece_ = more_();
  const uInt part = part_of(piece_.size());
  stream_->next_in = piece_.data();
  stream_->avail_in = part;
  piece_ = piece_.subspan(part);
  fed_ += part;
  return part > 0;
}

std::size_t Inflater::read(std::uint8_t* to, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes && !ended_) {
    const bool fed = feed();
    const uInt room = part_of(bytes - done);
    stream_->next_out = to + done;
    stream_->avail_out = room;
    const int status = ::inflate(stream_.get(), Z_NO_FLUSH);
    done += room - stream_->avail_out;
    ended_ = status == Z_STREAM_END;
    if (status == Z_MEM_ERROR) fail_out_of_memory(source_);
    if (status == Z_DATA_ERROR) fail(fmt::format("its packed data are corrupt: {}", stream_->msg));
    if (status == Z_BUF_ERROR && !fed) fail("its packed data end early");
  }
  return done;
}

std::size_t Inflater::read_behind(std::uint8_t* to, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes && feed()) {
    const uInt part = std::min(part_of(bytes - done), stream_->avail_in);
    std::memcpy(to + done, stream_->next_in, part);
    stream_->next_in += part;
    stream_->avail_in -= part;
    done += part;
  }
  return done;
}

void Inflater::restart() {
  ::inflateReset(stream_.get());
  ended_ = false;
}

std::uint64_t Inflater::taken() const { return fed_ - stream_->avail_in; }

} // namespace eg::data
