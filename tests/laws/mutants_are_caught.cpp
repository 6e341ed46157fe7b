// Mutants over the registry: every op definition, wrong in every way of mutants.h, is caught by a law.

#include "core/registry.h"
#include "mutants.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fmt/format.h>
#include <iostream>

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
    return {{"symmetry", laws::symmetry_law},   {"backward symmetry", laws::backward_symmetry_law},
            {"mixing", laws::mixing_law},       {"exact", laws::exact_law},
            {"placement", laws::placement_law}, {"completeness", laws::completeness_law}};
  case Mutation::inexact:
    return {{"exact", laws::exact_law}};
  case Mutation::scaled_output:
  case Mutation::shifted_output:
  case Mutation::shifted_indices:
    return {{"reference", laws::reference_law}, {"gradient", laws::gradient_law}, {"symmetry", laws::symmetry_law}};
  default:
    return {{"gradient", laws::gradient_law},
            {"wants", laws::wants_law},
            {"second derivative", laws::second_derivative_law},
            {"backward symmetry", laws::backward_symmetry_law},
            {"layout", laws::layout_law},
            {"f32 - f64", laws::dtype_law},
            {"offset", laws::offset_law}};
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

} // namespace

TEST_CASE("every mutant of every op definition is caught") {
  for (const OpDef* op : registry())
    for (const Mutant& mutant : laws::mutants_of(*op)) {
      const std::string killer = killer_of(mutant);
      std::cout << fmt::format("{} | {} | {}\n", op->name, mutant.name(), killer) << std::flush;
      CHECK_MESSAGE(!killer.empty(), std::string(op->name), ": ", mutant.name());
    }
}
