// Mutants over the registry: every op definition, wrong in every way of mutants.h, is caught by a law.
// docs/numerics/mutants.md is the list, written by this test with EQUIGRAD_WRITE_DOCS=1.

#include "core/ops.h"
#include "core/registry.h"
#include "mutants.h"
#include "support/law_tools.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sstream>

using namespace eg;
using laws::Mutant;
using laws::Mutation;

namespace {

struct NamedLaw {
  const char* name;
  laws::Law law;
};

/// The laws that may catch a mutation, the quickest first.
std::vector<NamedLaw> judges_of(Mutation mutation) {
  switch (mutation) {
  case Mutation::missing_leg:
  case Mutation::other_axis:
    return {{"symmetry", laws::symmetry_law},
            {"backward symmetry", laws::backward_symmetry_law},
            {"mixing", laws::mixing_law},
            {"exact", laws::exact_law},
            {"placement", laws::placement_law}};
  case Mutation::inexact:
    return {{"exact", laws::exact_law}};
  case Mutation::scaled_adding:
    return {{"adding", laws::adding_law}};
  case Mutation::scaled_output:
  case Mutation::shifted_output:
  case Mutation::shifted_indices:
    return {{"reference", laws::reference_law}};
  default:
    return {{"gradient", laws::gradient_law}, {"wants", laws::wants_law}};
  }
}

/// The law that catches a mutant; "" when none does.
std::string killer_of(const Mutant& mutant) {
  std::string killer;
  laws::with_mutant(mutant, [&](const OpDef& wrong) {
    for (const NamedLaw& judge : judges_of(mutant.mutation))
      if (!judge.law(wrong).pass()) {
        killer = judge.name;
        return;
      }
  });
  return killer;
}

struct Survivor {
  const char* row;
  const char* mutant;
  const char* why;
};

constexpr std::array<Survivor, 6> survivors = {{
    {"relu_backward", "gradient shifted, input 0", "the rule gives no gradient for it: it is zero almost everywhere"},
    {"relu_backward", "gradient missing, input 0", "the rule gives no gradient for it: it is zero almost everywhere"},
    {"prod_of_others", "ordinary kernel for exact",
     "the row promises only the axes beside the product; its exact kernel has a test of its own"},
    {"conv2d_weight_backward", "ordinary kernel for exact",
     "two images are added in either order alike, and samples have no more; its exact kernel has a test of its own"},
    {"cholesky", "ordinary kernel for exact",
     "no symmetry of the row moves the order of its sums; the bits of other machines are the test bits.exact's"},
    {"solve_triangular", "ordinary kernel for exact",
     "no symmetry of the row moves the order of its sums; the bits of other machines are the test bits.exact's"},
}};

const Survivor* known(const Mutant& mutant) {
  const auto* found = std::find_if(survivors.begin(), survivors.end(), [&](const Survivor& s) {
    return mutant.row->name == s.row && mutant.name() == s.mutant;
  });
  return found == survivors.end() ? nullptr : found;
}

/// The kill matrix as Markdown.
std::string document(const std::map<std::string, std::map<std::string, int>>& caught, int total) {
  std::map<std::string, int> by_law;
  std::string rows;
  for (const auto& [row, killers] : caught) {
    std::string cells;
    int count = 0;
    for (const auto& [law, n] : killers) {
      by_law[law] += n;
      count += n;
      cells += fmt::format("{}{} {}", cells.empty() ? "" : ", ", law, n);
    }
    rows += fmt::format("| {} | {} | {} |\n", row, count, cells);
  }
  std::string text =
      "# Mutants\n\nWritten by `law_tests --source-file=*mutants_are_caught*` with EQUIGRAD_WRITE_DOCS=1. "
      "Each op definition is made wrong in one\nway at a time, and a law must catch it. The ways are:\n\n";
  for (int m = 0; m <= static_cast<int>(Mutation::other_axis); ++m)
    text += fmt::format("- {}\n", laws::words(static_cast<Mutation>(m)));
  text += fmt::format("\n{} mutants of {} op definitions; not caught: {}.\n\n| caught by | mutants |\n|---|--:|\n",
                      total, caught.size(), survivors.size());
  for (const auto& [law, n] : by_law) text += fmt::format("| {} | {} |\n", law, n);
  text += "\n## Not caught, and why\n\n| op definition | mutant | why it changes nothing that a law asks "
          "|\n|---|---|---|\n";
  for (const Survivor& s : survivors) text += fmt::format("| {} | {} | {} |\n", s.row, s.mutant, s.why);
  return text + "\n## The matrix\n\n| op definition | caught | by |\n|---|--:|---|\n" + rows;
}

} // namespace

TEST_CASE("every mutant of every op definition is caught") {
  std::map<std::string, std::map<std::string, int>> caught;
  std::size_t survived = 0;
  int total = 0;
  for (const OpDef* op : registry())
    for (const Mutant& mutant : laws::mutants_of(*op)) {
      ++total;
      const std::string killer = killer_of(mutant), what = fmt::format("{}: {}", op->name, mutant.name());
      const bool listed = known(mutant) != nullptr;
      survived += listed ? 1 : 0;
      CHECK_MESSAGE(killer.empty() == listed, what, listed ? " is listed and was caught by " : " was not caught",
                    killer);
      if (!killer.empty()) ++caught[std::string(op->name)][killer];
    }
  CHECK(survived == survivors.size());
  const std::string path = EQUIGRAD_SOURCE_DIR "/docs/numerics/mutants.md", now = document(caught, total);
  if (std::getenv("EQUIGRAD_WRITE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << now;
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  INFO("run this test with EQUIGRAD_WRITE_DOCS=1 and commit docs/numerics/mutants.md");
  CHECK(text.str() == now);
}

TEST_CASE("the exact kernel of prod_of_others moves with its axis, the ordinary one does not") {
  const OpDef& op = find_op("prod_of_others");
  const Tensor x = random_normal({1, 40}, {5, 0}, 1.0, 0.3, DType::f64);
  std::vector<std::int64_t> order(40);
  for (std::int64_t i = 0; i < 40; ++i) order[static_cast<std::size_t>(i)] = (i * 7 + 3) % 40;
  const Tensor gather = Tensor::from<std::int64_t>(order, {40});
  const auto moves = [&](KernelFn kernel) {
    const Attrs attrs{{"axis", std::int64_t{1}}};
    const auto run = [&](const Tensor& in) {
      const std::vector<Tensor> given{in};
      std::vector<Tensor> out{Tensor::empty(in.shape(), in.dtype())};
      kernel(OpArgs{op, given, attrs}, out);
      return out[0];
    };
    return same_bits(run(index_select(x, 1, gather)), index_select(run(x), 1, gather));
  };
  CHECK(moves(op.exact));
  CHECK_FALSE(moves(op.cpu));
}
