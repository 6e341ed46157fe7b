#include "permute/catalogue/equations.h"

#include "permute/catalogue/catalogue.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::permute {
namespace {

/// Numbers whose row has another id and, in the catalogue, another number: steps on the way to it, or the same
/// equation in another paper.
struct Elsewhere {
  int first, last;
  const char* id;
};
/// Numbers that state nothing to check.
struct Unchecked {
  int first, last;
  const char* reason;
};

struct Paper {
  const char* prefix;
  int last;
  std::vector<Elsewhere> elsewhere;
  std::vector<Unchecked> unchecked;
};

const std::vector<Paper>& papers() {
  static const std::vector<Paper> all = {
      {"eq",
       88,
       {{42, 44, "eq45"}, {48, 51, "eq52"}, {53, 55, "eq56"}, {57, 57, "eq60"}},
       {{1, 2, "no row claims it: the supplement at hand begins at 14, and cites 3 to 13 of the main paper"},
        {87, 87, "it is the objective that a task minimises"},
        {88, 88, "it is the objective that an attacker minimises"}}},
      {"s1-eq",
       100,
       {{4, 4, "s1-thm1"},   {5, 5, "s1-thm2"},    {6, 6, "s1-thm3"},   {7, 7, "s1-thm4"},   {8, 8, "s1-conv"},
        {9, 9, "s1-thm3"},   {12, 12, "s1-sigma"}, {13, 13, "eq14"},    {14, 14, "eq15"},    {15, 15, "eq16"},
        {16, 16, "eq17"},    {17, 17, "eq18"},     {18, 18, "eq19"},    {19, 19, "eq20"},    {20, 20, "eq21"},
        {21, 21, "lem9.1"},  {22, 22, "lem9.2"},   {23, 23, "s3-self"}, {24, 24, "lem9.4"},  {25, 25, "s1-thm1"},
        {26, 26, "eq22"},    {28, 28, "eq24"},     {29, 29, "eq25"},    {31, 31, "eq27"},    {32, 32, "eq28"},
        {34, 34, "eq30"},    {37, 37, "eq33"},     {38, 38, "eq34"},    {39, 39, "eq64"},    {40, 40, "s1-eq41"},
        {43, 44, "s1-eq42"}, {53, 53, "s1-eq54"},  {56, 58, "s1-eq59"}, {61, 61, "s1-eq60"}, {63, 65, "s1-eq66"},
        {69, 72, "s1-eq73"}, {74, 76, "s1-eq77"},  {78, 78, "s1-eq81"}, {84, 84, "eq63"},    {85, 85, "eq64"},
        {98, 100, "s1-thm5"}},
       {{1, 1, "it is the objective that a task minimises"},
        {2, 2, "it is the objective that an attacker minimises"},
        {3, 3, "it is the objective that an attacker without a model minimises"}}},
      {"stip-eq", 5, {{1, 5, "stip-thm1"}}, {}},
  };
  return all;
}

NumberedEquation looked_up(const Paper& paper, int number) {
  NumberedEquation equation{fmt::format("{}{}", paper.prefix, number), {}, ""};
  const auto within = [number](const auto& range) { return range.first <= number && number <= range.last; };
  for (const Identity& identity : catalogue())
    if (is_numbered(identity, equation.name)) equation.ids.push_back(identity.id);
  for (const Elsewhere& other : paper.elsewhere)
    if (within(other)) equation.ids.emplace_back(other.id);
  for (const Unchecked& none : paper.unchecked)
    if (within(none)) equation.reason = none.reason;
  return equation;
}

} // namespace

const std::vector<NumberedEquation>& numbered_equations() {
  static const std::vector<NumberedEquation> all = [] {
    std::vector<NumberedEquation> equations;
    for (const Paper& paper : papers())
      for (int number = 1; number <= paper.last; ++number) equations.push_back(looked_up(paper, number));
    return equations;
  }();
  return all;
}

const NumberedEquation* numbered_equation(std::string_view filter) {
  const auto& all = numbered_equations();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& e) { return e.name == filter; });
  return found == all.end() ? nullptr : &*found;
}

} // namespace eg::permute
