// Hashes what every op definition and every row of the catalogue gives in exact mode, so that two builds can be
// compared: a native program's lines with those of the same source in WebAssembly.
//   exact_bits                       prints the lines
//   exact_bits plain                 the same without vectors, whose multiply-adds are fused; natively alone
//   exact_bits THEIR_LINES LISTED    compares them with another build's: those that LISTED names must differ, no others

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "core/ops.h"
#include "core/reduction.h"
#include "core/registry.h"
#include "permute/catalogue/case.h"
#include "support/law_tools.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#ifdef EXACT_BITS_TARGETS // Highway chooses a target at run time
#include <hwy/targets.h>
#endif

namespace {

using namespace eg;

/// 64 bits of the bytes that it is given (FNV-1a).
class Hash {
public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) state_ = (state_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  }
  /// Shape, type and bits; every NaN counts as the same, because processors choose other bits for it.
  void add(const Tensor& x) {
    if (!x.defined()) return add("none");
    add(fmt::format("{} {}", name_of(x.dtype()), x.shape().str()));
    if (x.dtype() == DType::f64)
      add_numbers<double, std::uint64_t>(x);
    else if (x.dtype() == DType::f32)
      add_numbers<float, std::uint32_t>(x);
    else
      add(bytes_of(x.contiguous()));
  }
  void add(const std::vector<Tensor>& list) {
    for (const Tensor& x : list) add(x);
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

private:
  static std::string_view bytes_of(const Tensor& x) {
    return {reinterpret_cast<const char*>(x.bytes()), static_cast<std::size_t>(x.numel()) * size_of(x.dtype())};
  }
  template <class T, class Bits> void add_numbers(const Tensor& x) {
    for (const T value : x.to_vector<T>()) {
      const Bits bits = std::isnan(value) ? Bits(-1) : std::bit_cast<Bits>(value);
      add({reinterpret_cast<const char*>(&bits), sizeof bits});
    }
  }

  std::uint64_t state_ = 0xCBF29CE484222325U;
};

/// Name of a line to its hash.
using Lines = std::map<std::string, std::string>;

/// Numbers that f32 holds: drawn in f64, the last bit is the C library's.
std::vector<Tensor> rounded(std::vector<Tensor> list) {
  for (Tensor& x : list)
    if (x.defined() && x.dtype() == DType::f64) x = x.to(DType::f32).to(DType::f64);
  return list;
}

void add_row(const OpDef& op, DType dtype, Lines& lines) {
  Hash inputs, outputs, gradients;
  for (const Sample& narrow : op.samples(DType::f32)) {
    const Sample sample = laws::converted(narrow, dtype);
    inputs.add(sample.in);
    try {
      const std::vector<Tensor> out = laws::outputs(op, sample);
      outputs.add(out);
      if (laws::differentiable(op, sample))
        gradients.add(laws::gradients(op, sample, rounded(laws::cotangents_for(out))));
    } catch (const Error& e) {
      outputs.add(e.what());
    }
  }
  const std::string name = fmt::format("op {} {}", op.name, name_of(dtype));
  lines[name + " inputs"] = inputs.text();
  lines[name + " outputs"] = outputs.text();
  lines[name + " gradients"] = gradients.text();
}

void add_identity(const permute::Identity& identity, DType dtype, Lines& lines) {
  permute::VerifyOptions options;
  options.dtype = dtype;
  options.exact = true;
  Hash sides;
  try {
    permute::Case run(options, identity.id, dtype, true);
    const permute::Claim claim = identity.run(run);
    for (const auto* list : {&claim.holds, &claim.fails})
      for (const permute::Comparison& c : *list) {
        sides.add(c.value);
        sides.add(c.expected);
      }
  } catch (const Error& e) {
    sides.add(e.what());
  }
  lines[fmt::format("identity {} {}", identity.id, name_of(dtype))] = sides.text();
}

Lines lines_here() {
  const ReductionScope exact(Reduction::exact);
  Lines lines;
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const OpDef* op : registry()) add_row(*op, dtype, lines);
    for (const permute::Identity& identity : permute::catalogue()) add_identity(identity, dtype, lines);
  }
  return lines;
}

std::string hash_of(const Lines& lines) {
  Hash all;
  for (const auto& [name, hash] : lines) {
    all.add(name);
    all.add(hash);
  }
  return all.text();
}

std::ifstream opened(const char* path) {
  std::ifstream file(path);
  if (!file) throw FileError(std::string(path) + ": cannot open");
  return file;
}

Lines read_lines(const char* path) {
  std::ifstream file = opened(path);
  Lines lines;
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.rfind(' ');
    if (space != std::string::npos) lines[line.substr(0, space)] = line.substr(space + 1);
  }
  return lines;
}

/// The names of a list, without comments.
std::set<std::string> read_names(const char* path) {
  std::ifstream file = opened(path);
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line.front() != '#') names.insert(line);
  return names;
}

/// Names of lines that only one of both has, or that say different things.
std::set<std::string> differing(const Lines& a, const Lines& b) {
  std::set<std::string> names;
  for (const auto& [name, hash] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second != hash) names.insert(name);
  }
  for (const auto& [name, hash] : b)
    if (!a.contains(name)) names.insert(name);
  return names;
}

/// A changed hash and a missing line must be noticed.
void control(const Lines& lines) {
  Lines changed = lines, shorter = lines;
  changed.begin()->second += "0";
  shorter.erase(std::prev(shorter.end()));
  if (differing(lines, changed).size() != 1 || differing(lines, shorter).size() != 1)
    throw Error("the comparison does not notice a difference");
}

int compare(const Lines& here, const Lines& there, const std::set<std::string>& expected) {
  control(here);
  const std::set<std::string> found = differing(here, there);
  for (const std::string& name : found)
    if (!expected.contains(name)) fmt::print("differs: {}\n", name);
  for (const std::string& name : expected)
    if (!found.contains(name)) fmt::print("is listed, and does not differ: {}\n", name);
  fmt::print("{} lines, of which {} differ; hash here {}, there {}\n", here.size(), found.size(), hash_of(here),
             hash_of(there));
  return found == expected ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) try {
#ifdef EXACT_BITS_TARGETS
  if (argc == 2 && std::string_view(argv[1]) == "plain") hwy::SetSupportedTargetsForTest(HWY_SCALAR);
#endif
  const Lines here = lines_here();
  if (argc == 3) return compare(here, read_lines(argv[1]), read_names(argv[2]));
  for (const auto& [name, hash] : here) fmt::print("{} {}\n", name, hash);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "exact_bits: {}\n", e.what());
  return 2;
}
