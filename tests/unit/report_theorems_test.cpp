// The page of `equigrad verify --report`: its parts, and that it shows what was measured.

#include "apps/report/pages/theorem_report.h"

#include "apps/report/chart.h"
#include "apps/report/pages/axis_diagram.h"
#include "apps/report/pages/log_strip.h"
#include "apps/report/pages/theorem_cards.h"
#include "apps/report/pictures.h"
#include "apps/report/shuffle.h"
#include "core/ops.h"
#include "nn/block.h"
#include "support/markup.h"
#include "support/message.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace eg;
using namespace eg::permute;
using namespace eg::report;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<VerifyResult> some_results() {
  VerifyOptions options;
  options.filter = "lem9.*";
  std::vector<VerifyResult> results = run_catalogue(options);
  options.dtype = DType::f32;
  for (const VerifyResult& r : run_catalogue(options)) results.push_back(r);
  return results;
}

/// cx of the n-th circle of a picture.
double circle(const std::string& svg, int n) {
  std::size_t at = 0;
  for (int i = 0; i <= n; ++i) at = svg.find("cx=\"", at) + 4;
  return std::stod(svg.substr(at));
}

} // namespace

TEST_CASE("report: a strip puts errors on one logarithmic scale and shows what lies outside its zone") {
  const std::string good = log_strip({{"f64", 1e-15, 1e-11, 0.5, 1e-3}, {"f32", 1e-6, 5e-6, 0.5, 1e-3}});
  CHECK(test::fault_of_markup(good) == "");
  CHECK(!has(good, " off\""));
  CHECK(circle(good, 0) < circle(good, 1));
  const double third =
      circle(log_strip({{"f64", 1e-12, 1, 1, 1e-3}}), 0) - circle(log_strip({{"f64", 1e-15, 1, 1, 1e-3}}), 0);
  const double next =
      circle(log_strip({{"f64", 1e-9, 1, 1, 1e-3}}), 0) - circle(log_strip({{"f64", 1e-12, 1, 1, 1e-3}}), 0);
  CHECK(third == doctest::Approx(next).epsilon(0.01)); // three decades are as wide anywhere
  CHECK(has(log_strip({{"f64", 1e-3, 1e-11, 0.5, 1e-3}}), "class=\"error off\""));
  CHECK(has(log_strip({{"f64", 1e-15, 1e-11, 1e-5, 1e-3}}), "class=\"control off\""));
  const std::string endless = log_strip({{"f64", std::numeric_limits<double>::infinity(), 1e-11, std::nan(""), 1e-3}});
  CHECK(count(endless, " off\"") == 2);
  CHECK(!has(test::without_tags(endless), "nan"));
  CHECK(circle(endless, 0) <= 520);
  CHECK(circle(log_strip({{"f64", 0.0, 0.0, 1, 1e-3}}), 0) >= 0);
}

TEST_CASE("report: the axis diagram names every parameter and counts its groups") {
  const std::vector<DiagramParameter> parameters = {
      {"fc1.weight", {{8, {{"hidden"}}}, {4, {{"residual"}}}}},
      {"fc1.bias", {{8, {{"hidden"}}}}},
      {"scale", {{1}}},
      {"table<&>", {{9}, {4, {{"residual"}}}}},
      {"qkv.weight", {{12, {{"heads"}, {"qk", 0, 8}}}, {4, {{"residual"}}}}}};
  const std::string svg = axis_diagram(parameters, {{"qk", "(S_2)^2, 2.0 bits"}});
  CHECK(test::fault_of_markup(svg) == "");
  for (const char* text : {"fc1.weight", "fc1.bias", "table&lt;&amp;&gt;", "hidden: 2 axes", "residual: 3 axes",
                           "one number", "qk: (S_2)^2, 2.0 bits, 1 axis", ">c d 12<", "does not move"})
    CHECK_MESSAGE(has(svg, text), text);
  std::vector<DiagramParameter> many;
  many.reserve(60);
  for (int i = 0; i < 60; ++i) many.push_back({"w" + std::to_string(i), {{2 + i, {{"g" + std::to_string(i)}}}}});
  const std::string wide = axis_diagram(many);
  CHECK(test::fault_of_markup(wide) == "");
  CHECK(has(wide, ">bh   g59: 1 axis<")); // 26 + 26 + 8 letters
  CHECK(test::fault_of_markup(axis_diagram({})) == "");
}

TEST_CASE("report: the axis diagram takes what the inference found") {
  const nn::Block block({.dim = 12, .heads = 3, .mlp = 20}, {});
  const Tensor z = Tensor::zeros({1, 5, 12});
  SymmetryQuery query;
  query.parameters = block.state_dict();
  query.inputs = {{"z", z}};
  query.data_axes = {{"z", 0}, {"z", 1}};
  query.run = [&] { return nn::StateDict{{"y", block(z)}}; };
  const ModelSymmetries symmetries(query);
  const SymmetryDiagram diagram = diagram_of(symmetries, query.parameters);
  CHECK(diagram.parameters.size() == query.parameters.size());
  const auto axis_of = [&](const std::string& name, std::size_t axis) {
    for (const DiagramParameter& p : diagram.parameters)
      if (p.name == name) return p.axes.at(axis);
    FAIL(name);
    return DiagramAxis{};
  };
  const DiagramAxis stream = axis_of("norm1.weight", 0), hidden = axis_of("mlp.fc1.bias", 0);
  REQUIRE(stream.uses.size() == 1);
  REQUIRE(hidden.uses.size() == 1);
  CHECK(stream.uses[0].group == axis_of("mlp.fc1.weight", 1).uses.at(0).group); // what reads the residual stream
  CHECK(stream.uses[0].group == axis_of("attention.proj.weight", 0).uses.at(0).group);
  CHECK(hidden.uses[0].group == axis_of("mlp.fc2.weight", 1).uses.at(0).group);
  CHECK(hidden.uses[0].group != stream.uses[0].group);
  CHECK(diagram.notes.at(stream.uses[0].group).starts_with("S_12, 28.8 bits"));
  const DiagramAxis values = axis_of("attention.proj.weight", 1), fused = axis_of("attention.qkv.weight", 0);
  CHECK(values.uses.size() >= 2); // heads, and what is within them
  CHECK(std::any_of(fused.uses.begin(), fused.uses.end(), [](const DiagramUse& u) { return u.last == 24; })); // Q and K
  CHECK(diagram_of(symmetries, query.parameters, 3).parameters.size() == 3);
  CHECK(test::fault_of_markup(axis_diagram(diagram.parameters, diagram.notes)) == "");
}

TEST_CASE("report: maps of signed values and of position embeddings") {
  const data::Image signs = signed_map(Tensor::from<double>({-2, 0, 2, 1}, {2, 2}), 2.0);
  CHECK(signs.at(0, 0, 2) > signs.at(0, 0, 0)); // blue
  CHECK(signs.at(1, 0, 0) > signs.at(1, 0, 2)); // red
  for (int c = 0; c < 3; ++c) CHECK(signs.at(0, 1, c) == 255);
  CHECK(signs.at(1, 1, 1) > signs.at(1, 0, 1)); // half way is lighter
  const Tensor e = random_normal({9, 5}, {.seed = 4});
  const data::Image map = position_map(e, 3);
  CHECK(map.height == 11);
  CHECK(position_map(e * 3.0, 3).pixels == map.pixels); // cosines know no length
  CHECK(map.at(0, 0, 0) == 253);                        // every position is most like itself: the ramp's bright end
  CHECK(map.at(5, 5, 1) == map.at(0, 0, 1));
  CHECK(position_map(random_normal({9, 5}, {.seed = 5}), 3).pixels != map.pixels);
  CHECK(has(test::message_of([&] { position_map(e, 2); }), "position_map: "));
  CHECK(has(test::message_of([&] { signed_map(Tensor::zeros({0, 2}), 1.0); }), "signed_map: the matrix is empty"));
}

TEST_CASE("report: a card shows statement, formula, numbers and bits of its row, for every dtype") {
  const std::vector<VerifyResult> results = some_results();
  const std::string html = cards(results);
  CHECK(test::fault_of_markup(html) == "");
  const std::vector<std::string> shown = test::elements(html, "article");
  CHECK(shown.size() * 2 == results.size());
  for (const VerifyResult& r : results) {
    CAPTURE(r.id);
    std::string card;
    for (const std::string& one : shown)
      if (has(one, "id=\"" + r.id + "\"")) card = one;
    REQUIRE(!card.empty());
    CHECK(has(card, "<math "));
    CHECK(has(card, "class=\"strip\""));
    CHECK(has(card, std::to_string(r.differing) + " of " + std::to_string(r.compared)));
    CHECK(has(card, r.equation.empty() ? "CVPR 2024" : "CVPR 2024, equation " + r.equation));
    CHECK(count(card, "<tr class=\"measured\">") == 2);
  }
  CHECK(has(html, "href=\"#lem9.1\""));
}

TEST_CASE("report: rows that fail are marked, listed first and say why") {
  std::vector<VerifyResult> results = some_results();
  results[1].pass = false;
  results[1].error = std::numeric_limits<double>::infinity();
  results[1].detail = "it broke <here>";
  const std::string top = summary(results), html = cards(results);
  CHECK(test::fault_of_markup(top + html) == "");
  CHECK(has(top, "<b>1</b>fail"));
  CHECK(has(top, "class=\"fail\" href=\"#" + results[1].id + "\""));
  CHECK(has(html, "class=\"card fail\" id=\"" + results[1].id + "\""));
  CHECK(count(html, "class=\"card fail\"") == 1);
  CHECK(has(html, "it broke &lt;here&gt;"));
  CHECK(has(html, "<data value=\"\">inf</data>"));
  const std::string fine = summary(some_results());
  CHECK(!has(fine, "do not hold"));
  CHECK(has(fine, "<b>0</b>fail"));
}

TEST_CASE("report: long formulas are cut between their equations, none of them lost") {
  VerifyOptions options;
  options.filter = "lem9.4";
  const std::string html = cards(run_catalogue(options));
  CHECK(count(html, "<math ") == 4);
  for (const char* part : {"b_{1(P)} = b_1 P_t,", "W_{2(P)} = P_C^\\top W_2 P_t,", "b_{2(P)} = b_2 P_C\""})
    CHECK_MESSAGE(has(html, part), part);
}

TEST_CASE("report: every row of the catalogue has a card with a formula") {
  std::vector<VerifyResult> results;
  for (const Identity& row : catalogue()) {
    VerifyResult& r = results.emplace_back();
    r.id = row.id;
    r.title = row.title;
    r.paper = row.paper;
    r.equation = row.equation;
  }
  const std::string html = cards(results);
  CHECK(test::fault_of_markup(html) == "");
  const std::vector<std::string> shown = test::elements(html, "article");
  CHECK(shown.size() == catalogue().size());
  for (const std::string& card : shown) CHECK(has(card, "<math "));
}

TEST_CASE("report: the whole page has every section, is well formed and needs nothing else") {
  std::vector<std::string> reports;
  double last = -1.0;
  TheoremReportOptions options;
  options.on_progress = [&](double part, const std::string& what) {
    CHECK(part >= last);
    CHECK(part <= 1.0);
    last = part;
    reports.push_back(what);
  };
  const std::string html = theorem_report(some_results(), options).html();
  CHECK(test::fault_of_markup(html) == "");
  for (const char* heading :
       {"Summary", "Gradients of a permuted transformer", "Attention of a permuted transformer", "Error against depth",
        "Position embeddings, trained plain and shuffled", "What the encoder sees", "Which axes move together"})
    CHECK_MESSAGE(has(html, std::string(">") + heading + "</h2>"), heading);
  CHECK(!has(html, ">Secure Transformer Inference"));
  for (const char* outside : {"http:", "https:", "<script", "<link", "@import", "url("})
    CHECK_MESSAGE(!has(html, outside), outside);
  CHECK(count(html, "src=\"") == count(html, "src=\"data:image/png;base64,"));
  CHECK(count(html, "<img ") >= 15 + 4 + 4 + 12);
  CHECK(html.size() < 3u << 20);
  CHECK(reports.size() > 30);
  for (std::size_t at = html.find("href=\"#"); at != std::string::npos; at = html.find("href=\"#", at + 1)) {
    const std::string target = html.substr(at + 7, html.find('"', at + 7) - at - 7);
    CHECK_MESSAGE(count(html, " id=\"" + target + "\"") == 1, target);
  }
  CHECK(has(html, "equal to the last bit at every depth"));
  const std::size_t section = html.find("id=\"figure-positions\"");
  std::vector<std::string> maps; // before, plain, shuffled, sinusoidal
  for (std::size_t at = html.find("src=\"", section); maps.size() < 4; at = html.find("src=\"", at + 1))
    maps.push_back(html.substr(at, html.find('"', at + 5) - at));
  CHECK(maps[1] == maps[2]); // trained plain and shuffled, to the last pixel
  CHECK(maps[0] != maps[1]);
  CHECK(maps[3] != maps[1]);
  CHECK(has(html, "shapes images"));
}

TEST_CASE("report: whoever is told may end the work") {
  TheoremReportOptions options;
  options.on_progress = [](double part, const std::string&) {
    if (part > 0.01) throw Interrupted("enough");
  };
  CHECK_THROWS_AS(theorem_report(some_results(), options), Interrupted);
  CHECK(has(test::message_of<ValueError>([] { theorem_report({}, {}); }), "there are no results"));
}
