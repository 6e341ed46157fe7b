// For builds without zlib: refuses gzip files and compressed members of zip files. Files that are not packed are read
// as everywhere.

#include "core/base/error.h"
#include "data/inflate.h"

#include <string_view>

struct z_stream_s {}; // its pointer is always null here

namespace eg::data {
namespace {

[[noreturn]] void refuse(const std::string& source, std::string_view what) {
  throw FileError(source + ": " + std::string(what) + ", which this build cannot read");
}

} // namespace

void Inflater::End::operator()(z_stream_s*) const {}
Inflater::Inflater(Source, std::string source) { refuse(source, "compressed data"); }
// No object exists whose members could be called.
std::size_t Inflater::read(std::uint8_t*, std::size_t) { refuse(source_, "compressed data"); }
std::uint64_t Inflater::taken() const { refuse(source_, "compressed data"); }

Bytes unpack_gzip(ByteView, const std::string& source, std::uint64_t) { refuse(source, "a gzip file"); }

} // namespace eg::data
