// Hashes what every op definition and every row of the catalogue gives in exact mode, which is the same on every
// machine.
//   exact_bits                   prints a line for each op, type and kind of value, and for each row of the catalogue
//   exact_bits FILE [TARGET]     compares them, in groups, with those of a file, which EQUIGRAD_WRITE_DOCS=1 writes
//   exact_bits - TARGET          prints the lines of another target of Highway than the best: SCALAR, AVX2, AVX3, NEON

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "core/ops.h"
#include "core/reduction.h"
#include "core/registry.h"
#include "core/simd/simd.h"
#include "permute/catalogue/case.h"
#include "support/law_tools.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
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

void add_row(const OpDef& op, DType dtype, Lines& lines) {
  Hash inputs, outputs, gradients;
  for (const Sample& sample : op.samples(dtype)) {
    inputs.add(sample.in);
    try {
      const std::vector<Tensor> out = laws::outputs(op, sample);
      outputs.add(out);
      if (laws::differentiable(op, sample)) gradients.add(laws::gradients(op, sample, laws::cotangents_for(out)));
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
        if (list == &claim.fails && identity.id == "train-lion-ties") continue; // a training in ordinary mode
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

/// One line for each op, and for the rows of the catalogue whose names begin with the same letters.
Lines grouped(const Lines& lines) {
  std::map<std::string, Hash> hashes;
  for (const auto& [name, hash] : lines) {
    std::string group = name.substr(0, name.find(' ', name.find(' ') + 1));
    if (group.starts_with("identity")) group = group.substr(0, group.find_first_of("-0123456789"));
    hashes[group].add(name);
    hashes[group].add(hash);
  }
  Lines groups;
  for (const auto& [name, hash] : hashes) groups[name] = hash.text();
  return groups;
}

Lines read_lines(const char* path) {
  std::ifstream file(path);
  if (!file) throw FileError(std::string(path) + ": cannot open");
  Lines lines;
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.rfind(' ');
    if (!line.starts_with('#') && space != std::string::npos) lines[line.substr(0, space)] = line.substr(space + 1);
  }
  return lines;
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

/// A changed hash and a missing line must be noticed, and so must ops in ordinary mode.
void control(const Lines& groups) {
  Lines changed = groups, shorter = groups;
  changed.begin()->second += "0";
  shorter.erase(std::prev(shorter.end()));
  if (differing(groups, changed).size() != 1 || differing(groups, shorter).size() != 1)
    throw Error("the comparison does not notice a difference");
  for (const char* const name : {"linear", "layer_norm", "softmax", "cross_entropy", "sigmoid"}) {
    Lines ordinary;
    for (const DType dtype : {DType::f64, DType::f32}) add_row(find_op(name), dtype, ordinary);
    if (differing(groups, grouped(ordinary)).size() != groups.size())
      throw Error(fmt::format("{} gives the bits of exact mode in ordinary mode", name));
  }
}

constexpr const char* preamble =
    "# What exact mode computes, hashed: tests/bits/exact_bits.cpp. The same on every machine.\n"
    "# Written by `EQUIGRAD_WRITE_DOCS=1 ctest --preset check -R bits.exact`.\n";

int compare(const char* path, const Lines& here) {
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr) {
    std::ofstream file(path, std::ios::binary);
    file << preamble;
    for (const auto& [name, hash] : here) file << name << ' ' << hash << '\n';
  }
  control(here);
  const std::set<std::string> found = differing(here, read_lines(path));
  for (const std::string& name : found) fmt::print("differs: {}\n", name);
  fmt::print("{}: {} groups, of which {} differ\n", simd::target(), here.size(), found.size());
  return found.empty() ? 0 : 1;
}

/// Lets Highway choose this target and no other.
void choose(std::string_view name) {
#ifdef EXACT_BITS_TARGETS
  for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1)
    if (name == hwy::TargetName(rest & -rest)) return hwy::SetSupportedTargetsForTest(rest & -rest);
#endif
  throw Error(fmt::format("{}: this processor has no such target", name));
}

} // namespace

int main(int argc, char** argv) try {
  if (argc == 3) choose(argv[2]);
  const Lines here = lines_here();
  if (argc > 1 && std::string_view(argv[1]) != "-") return compare(argv[1], grouped(here));
  for (const auto& [name, hash] : here) fmt::print("{} {}\n", name, hash);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "exact_bits: {}\n", e.what());
  return 2;
}
