#include "permute/folder.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/base/new_folder.h"
#include "data/safetensors.h"
#include "data/tensor_reader.h"
#include "permute/folder_files.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace eg::permute {
namespace {

namespace fs = std::filesystem;

constexpr const char* mark_name = "permutation.json";
constexpr const char* mark_format = "equigrad-permuted-model";

/// Copies rows of `element` bytes from one packed array to another, gathered along its axes.
class ByteGather {
public:
  ByteGather(const std::vector<std::int64_t>& dims, std::size_t element, std::vector<const Permutation*> moves)
      : dims_(dims), moves_(std::move(moves)), strides_(dims.size(), element) {
    for (std::size_t axis = dims.size(); axis-- > 1;)
      strides_[axis - 1] = strides_[axis] * static_cast<std::size_t>(dims[axis]);
    // Behind the last axis that moves, elements are contiguous in both arrays.
    last_ = moves_.size();
    while (last_ > 0 && moves_[last_ - 1] == nullptr) --last_;
  }

  /// bytes: of either array.
  void run(const std::byte* from, std::byte* to, std::size_t bytes) const {
    if (last_ == 0 || bytes == 0) // nothing moves
      std::memcpy(to, from, bytes);
    else
      copy(0, from, to);
  }

private:
  void copy(std::size_t axis, const std::byte* from, std::byte* to) const {
    const auto n = dims_[axis];
    const std::size_t stride = strides_[axis];
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t source = moves_[axis] != nullptr ? (*moves_[axis])[i] : i;
      const std::byte* const at = from + static_cast<std::size_t>(source) * stride;
      std::byte* const place = to + static_cast<std::size_t>(i) * stride;
      if (axis + 1 == last_)
        std::memcpy(place, at, stride);
      else
        copy(axis + 1, at, place);
    }
  }

  const std::vector<std::int64_t>& dims_;
  std::vector<const Permutation*> moves_;
  std::vector<std::size_t> strides_;
  std::size_t last_ = 0;
};

class FolderWriter {
public:
  explicit FolderWriter(const FolderJob& job) : job_(job), folder_(job.to) {
    for (const ParameterAxes& axes : job.axes) axes_[axes.parameter] = &axes;
  }

  std::vector<LeftOut> run() {
    std::set<std::string> weights;
    const data::TensorReader reader = data::open_tensors(job_.from);
    for (const std::string& path : reader.files()) weights.insert(fs::path(path).filename().string());
    FolderFiles files = files_of(job_.from, weights, job_.mark && job_.mark->renumbers_tokens);
    for (const std::string& name : files.kept)
      all_ += static_cast<double>(InputFile(join_path(job_.from, name)).size());
    for (const std::string& name : files.kept) {
      if (name == mark_name) continue;
      if (weights.contains(name))
        permuted(name);
      else
        copied(name);
    }
    for (const auto& [name, axes] : axes_)
      if (!found_.contains(name)) throw FileError(fmt::format("{}: holds no tensor {}", job_.from, name));
    if (job_.mark) {
      const nlohmann::json mark{{"format", mark_format},
                                {"version", 1},
                                {"key", job_.mark->key},
                                {"groups", job_.mark->groups},
                                {"renumbers_tokens", job_.mark->renumbers_tokens}};
      write_json(folder_.file(mark_name), mark);
    }
    folder_.keep();
    return std::move(files.left_out);
  }

private:
  static constexpr std::size_t piece = std::size_t{8} << 20;

  void advance(std::uint64_t bytes) {
    poll_interrupt();
    done_ += static_cast<double>(bytes);
    if (job_.progress) job_.progress(done_, all_);
  }

  /// Bytes [begin, end) as they are.
  void copy_range(const InputFile& in, AtomicFile& out, std::uint64_t begin, std::uint64_t end) {
    std::vector<std::byte> buffer;
    while (begin < end) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece, end - begin));
      buffer.resize(count);
      in.read(begin, buffer.data(), count);
      out.write(buffer.data(), count);
      begin += count;
      advance(count);
    }
  }

  /// The path in the new folder of a file of the old one.
  std::string place_of(const std::string& name) const {
    const std::string aside = std::string(plain_tokenizer_folder) + "/";
    const std::string plain = name.starts_with(aside) ? name.substr(aside.size()) : name;
    const bool moves = job_.mark && job_.mark->renumbers_tokens && is_of_tokenizer(plain);
    return moves ? aside + plain : plain;
  }

  void copied(const std::string& name) {
    const std::string place = place_of(name);
    if (const std::size_t slash = place.find('/'); slash != std::string::npos)
      if (const std::string inner = place.substr(0, slash); folders_.insert(inner).second) {
        folder_.make_folder(inner);
        keep_mode(fs::path(name).parent_path().string(), inner, fs::perms::owner_all);
      }
    const InputFile in(join_path(job_.from, name));
    AtomicFile out(folder_.file(place));
    copy_range(in, out, 0, in.size());
    out.commit();
    keep_mode(name, place);
  }

  /// Whoever may read the old file or folder may read the new one, and otherwise the owner alone, with the further
  /// rights `besides`.
  void keep_mode(const std::string& name, const std::string& place, fs::perms besides = fs::perms::owner_write) {
    std::error_code error;
    const fs::perms mode = fs::status(join_path(job_.from, name), error).permissions();
    if (!error) fs::permissions(folder_.file(place), mode | besides, error);
    if (error) throw FileError(fmt::format("{}: cannot get its mode: {}", folder_.file(place), error.message()));
  }

  void permuted(const std::string& name) {
    const InputFile in(join_path(job_.from, name));
    const data::TensorFileHeader header = data::read_safetensors_header(in.path());
    AtomicFile out(folder_.file(name));
    copy_range(in, out, 0, header.data_begin);
    for (const data::TensorEntry& entry : header.entries) {
      const auto axes = axes_.find(entry.name);
      const std::uint64_t begin = header.data_begin + entry.begin, end = header.data_begin + entry.end;
      if (axes == axes_.end())
        copy_range(in, out, begin, end);
      else
        gathered(in, out, entry, begin, *axes->second);
    }
    out.commit();
    keep_mode(name, name);
  }

  void gathered(const InputFile& in, AtomicFile& out, const data::TensorEntry& entry, std::uint64_t begin,
                const ParameterAxes& axes) {
    found_.insert(entry.name);
    const unsigned bits = data::bits_of(entry.type);
    if (bits % 8 != 0)
      throw FileError(fmt::format("{}: {} holds {}, elements of {} bits: they cannot be moved one by one", in.path(),
                                  entry.name, name_of(entry.type), bits));
    if (axes.groups.size() != entry.dims.size())
      throw FileError(
          fmt::format("{}: {} has {} axes, not {}", in.path(), entry.name, entry.dims.size(), axes.groups.size()));
    std::vector<const Permutation*> moves;
    for (std::size_t axis = 0; axis < entry.dims.size(); ++axis) {
      const auto p = job_.permutations.find(axes.groups[axis]);
      moves.push_back(axes.groups[axis].empty() ? nullptr : &p->second);
      if (moves.back() != nullptr && moves.back()->size() != entry.dims[axis])
        throw FileError(fmt::format("{}: axis {} of {} has {} places, the key moves {}", in.path(), axis, entry.name,
                                    entry.dims[axis], moves.back()->size()));
    }
    const auto bytes = static_cast<std::size_t>(entry.end - entry.begin);
    std::vector<std::byte> from(bytes), to(bytes);
    in.read(begin, from.data(), bytes);
    poll_interrupt();
    ByteGather(entry.dims, bits / 8, std::move(moves)).run(from.data(), to.data(), bytes);
    out.write(to.data(), bytes);
    advance(bytes);
  }

  const FolderJob& job_;
  NewFolder folder_;
  std::map<std::string, const ParameterAxes*> axes_;
  std::set<std::string> found_, folders_;
  double done_ = 0.0, all_ = 0.0;
};

} // namespace

std::optional<FolderMark> read_mark(const std::string& folder) {
  const std::string path = join_path(folder, mark_name);
  if (!path_exists(path)) return {};
  const nlohmann::json json = read_json(path);
  try {
    if (json.at("format") != mark_format || json.at("version") != 1)
      throw FileError(path + ": is no mark of a permuted model that this program knows");
    return FolderMark{json.at("key").get<std::string>(), json.at("groups").get<std::set<std::string>>(),
                      json.value("renumbers_tokens", false)};
  } catch (const nlohmann::json::exception&) {
    throw FileError(path + ": is no mark of a permuted model");
  }
}

std::vector<LeftOut> permute_folder(const FolderJob& job) { return FolderWriter(job).run(); }

} // namespace eg::permute
