// Hashes of every row's outputs on its samples, to compare a device with another machine's emulated one.
//   EQUIGRAD_DEVICE_HASHES_TO=FILE    writes the hashes of the device
//   EQUIGRAD_DEVICE_HASHES=FILE       compares the device with a file
// With neither, a few rows of the device are compared with the CPU.

#include "core/bf16.h"
#include "core/device/device.h"
#include "core/registry.h"
#include "core/strided.h"
#include "support/law_tools.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

using namespace eg;

namespace {

/// FNV-1a of 64 bits.
struct Hash {
  std::uint64_t value = 0xcbf29ce484222325;

  void add(std::uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) value = (value ^ (word >> shift & 0xff)) * 0x100000001b3;
  }
};

/// Types, shapes and bits. All NaNs count as one: their bits are a matter of the processor.
std::uint64_t hash_of(const laws::Tensors& list) {
  Hash hash;
  for (const Tensor& x : list) {
    hash.add(x.defined() ? 1 : 0);
    if (!x.defined()) continue;
    hash.add(static_cast<std::uint64_t>(x.dtype()));
    hash.add(static_cast<std::uint64_t>(x.rank()));
    for (int axis = 0; axis < x.rank(); ++axis) hash.add(static_cast<std::uint64_t>(x.size(axis)));
    visit_dtype(x.dtype(), [&]<class T>() {
      for (const T element : x.to_vector<T>()) {
        if constexpr (std::is_same_v<T, float>)
          hash.add(std::isnan(element) ? ~std::uint32_t{0} : std::bit_cast<std::uint32_t>(element));
        else if constexpr (std::is_same_v<T, double>)
          hash.add(std::isnan(element) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(element));
        else if constexpr (std::is_same_v<T, BFloat16>)
          hash.add(element.bits);
        else
          hash.add(static_cast<std::uint64_t>(element));
      }
    });
  }
  return hash.value;
}

struct Entry {
  bool must_agree = false; ///< the row has the bits of the CPU on every device
  std::uint64_t inputs = 0, outputs = 0;
};
/// By "softmax f32 3": row, type, sample.
using Hashes = std::map<std::string, Entry>;

/// Of the rows with these names, all rows when there are none.
Hashes hashes_on(Device device, const std::set<std::string>& names = {}) {
  Hashes all;
  for (const OpDef* op : registry()) {
    if (!names.empty() && names.count(std::string(op->name)) == 0) continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      int number = 0;
      for (const Sample& sample : op->samples(dtype)) {
        const laws::LawDeviceScope scope(device);
        all[fmt::format("{} {} {}", op->name, name_of(dtype), number++)] = {op->cuda_same_bits, hash_of(sample.in),
                                                                            hash_of(laws::outputs(*op, sample))};
      }
    }
  }
  return all;
}

void write(const Hashes& hashes, const std::string& path) {
  std::ofstream file(path);
  for (const auto& [key, e] : hashes)
    file << fmt::format("{} {} {:016x} {:016x}\n", key, e.must_agree ? "same" : "near", e.inputs, e.outputs);
  file.close();
  REQUIRE_MESSAGE(file.good(), path);
}

Hashes read(const std::string& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path);
  Hashes hashes;
  std::string name, type, number, kind;
  Entry e;
  while (file >> name >> type >> number >> kind >> std::hex >> e.inputs >> e.outputs) {
    e.must_agree = kind == "same";
    hashes[fmt::format("{} {} {}", name, type, number)] = e;
  }
  REQUIRE_MESSAGE(file.eof(), path);
  return hashes;
}

struct Comparison {
  int compared = 0, agree = 0;
  std::vector<std::string> wrong;    ///< what must not be
  std::map<std::string, int> others; ///< how many samples of a row without the CPU's bits differ

  std::string text() const {
    std::string list;
    for (const auto& [row, samples] : others) list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", row, samples);
    return fmt::format("hashes: {} of {} agree; {} wrong; of rows that may differ: {}", agree, compared, wrong.size(),
                       list.empty() ? "none" : list);
  }
};

Comparison compare(const Hashes& here, const Hashes& wanted) {
  Comparison found;
  for (const auto& [key, entry] : wanted)
    if (here.count(key) == 0) found.wrong.push_back(key + ": is not computed here");
  for (const auto& [key, entry] : here) {
    const auto other = wanted.find(key);
    if (other == wanted.end()) {
      found.wrong.push_back(key + ": is not in the file");
      continue;
    }
    ++found.compared;
    if (entry.inputs != other->second.inputs)
      found.wrong.push_back(key + ": has other inputs here, so that nothing was compared");
    else if (entry.outputs == other->second.outputs)
      ++found.agree;
    else if (entry.must_agree || other->second.must_agree)
      found.wrong.push_back(key + ": has other bits");
    else
      ++found.others[key.substr(0, key.find(' '))];
  }
  return found;
}

std::string text_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

} // namespace

TEST_CASE("hashes of outputs are those of the file, or of the CPU") {
  const std::string to = text_of("EQUIGRAD_DEVICE_HASHES_TO"), from = text_of("EQUIGRAD_DEVICE_HASHES");
  if (!to.empty()) {
    const Hashes hashes = hashes_on(Device::cuda());
    CHECK(hashes.size() > 1000);
    write(hashes, to);
    return;
  }
  const std::set<std::string> few = {"add", "sort", "softmax", "linear", "where", "cumsum"};
  const Comparison found = from.empty() ? compare(hashes_on(Device::cuda(), few), hashes_on(Device::cpu(), few))
                                        : compare(hashes_on(Device::cuda()), read(from));
  for (const std::string& line : found.wrong) FAIL_CHECK(line);
  CHECK(found.agree > (from.empty() ? 50 : 1000));
  std::printf("%s\n", found.text().c_str());
}

TEST_CASE("a comparison of hashes finds what differs") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("hashes");
  const Hashes written = hashes_on(Device::cuda(), {"add", "softmax"});
  write(written, path);
  const Hashes hashes = read(path);
  CHECK(compare(written, hashes).wrong.empty());
  CHECK(compare(written, hashes).agree == static_cast<int>(written.size()));

  const auto with = [&](const std::string& key, const auto& change) {
    Hashes other = hashes;
    change(other.at(key));
    return compare(written, other);
  };
  REQUIRE(hashes.at("add f32 0").must_agree);
  REQUIRE_FALSE(hashes.at("softmax f64 1").must_agree);
  CHECK(with("add f32 0", [](Entry& e) { e.outputs ^= 1; }).wrong ==
        std::vector<std::string>{"add f32 0: has other bits"});
  CHECK(with("softmax f64 1", [](Entry& e) { e.inputs ^= 1; }).wrong.size() == 1);
  const Comparison near = with("softmax f64 1", [](Entry& e) { e.outputs ^= 1; });
  CHECK(near.wrong.empty());
  CHECK(near.others == std::map<std::string, int>{{"softmax", 1}});
  Hashes fewer = hashes;
  fewer.erase("add f64 1");
  CHECK(compare(written, fewer).wrong == std::vector<std::string>{"add f64 1: is not in the file"});
  CHECK(compare(fewer, hashes).wrong == std::vector<std::string>{"add f64 1: is not computed here"});

  const auto hash = [](float a, float b) { return hash_of({Tensor::from(std::vector<float>{a, b}, {2})}); };
  CHECK(hash(0.0F, 1.0F) != hash(-0.0F, 1.0F));
  CHECK(hash(0.0F, 1.0F) != hash(1.0F, 0.0F));
  CHECK(hash(NAN, 1.0F) == hash(-NAN, 1.0F));
}
