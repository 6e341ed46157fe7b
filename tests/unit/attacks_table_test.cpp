// Attacks on whole models under every scheme: drawn ones, and trained ones where their files are.

#include "apps/attacks/attack_views.h"
#include "apps/attacks/metrics.h"
#include "apps/attacks/table.h"
#include "core/ops.h"
#include "support/message.h"
#include "support/skip.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>

using namespace eg;
using namespace eg::attacks;
using namespace eg::permute;

namespace {

TableRequest small_request(std::vector<BlockWeights> models, Base base) {
  TableRequest r;
  r.models = std::move(models);
  r.bases = {base};
  r.fresh = {false, true};
  r.tokens = 6;
  r.key = {3, 0};
  r.source = permute::public_source({4, 0});
  for (const SchemeInfo& s : schemes()) r.schemes.push_back(&s);
  for (const Attack& a : attacks::attacks())
    if (!a.learns) r.attacks.push_back(&a);
  return r;
}

/// The main rate of one cell; -1 where there is nothing to attack.
double rate(const std::vector<Cell>& cells, const std::string& attack, const std::string& scheme, bool fresh = false) {
  for (const Cell& c : cells)
    if (attack == c.attack->name && scheme == c.scheme->name && c.fresh == fresh)
      return c.findings.list.empty() ? -1.0 : c.findings.list.front().value;
  FAIL("no such cell");
  return -1.0;
}

std::string failures(const std::vector<Cell>& cells) {
  std::string text;
  for (const Cell& c : cells)
    if (!c.findings.holds()) text += text_of(c);
  return text;
}

void check_same_function(const BlockWeights& v, const SchemeInfo& scheme) {
  CAPTURE(v.name);
  CAPTURE(scheme.name);
  const ObfuscatedModel cloud = obfuscate(v, scheme.columns, permute::public_source({6, 0}), {7, 0});
  const Tensor z = random_normal({2, 5, v.block.dim}, {8, 0}, 0.0, 1.0, DType::f64);
  const Tensor plain = through(blocks_with(v.block, v.layers, v.weights), v.layers, z);
  const Tensor moved = through(blocks_with(v.block, v.layers, cloud.weights), v.layers, cloud.enter(z));
  CHECK(relative_error(moved, cloud.enter(plain)) < 1e-10);
  if (scheme.columns != Columns::plain) CHECK(relative_error(moved, plain) > 1e-2); // control
}

} // namespace

TEST_CASE("privacy: under every scheme the cloud computes what the plain model does, moved") {
  for (const BlockWeights& v : {random_text_model({1, 0}), random_image_model({2, 0})})
    for (const SchemeInfo& scheme : schemes())
      if (incompatible_because(v, scheme.columns).empty()) check_same_function(v, scheme);
  CHECK(incompatible_because(random_text_model({1, 0}), Columns::tied).find("rotary") != std::string::npos);
  CHECK(incompatible_because(random_image_model({1, 0}), Columns::orthogonal).find("RMSNorm") != std::string::npos);
}

TEST_CASE("privacy: public weights give everything that theory says, on drawn models, fixed or fresh keys") {
  const auto cells = run_table(small_request({random_image_model({1, 0}), random_text_model({1, 0})}, Base::published));
  const std::string failed = failures(cells);
  CHECK_MESSAGE(failed.empty(), failed);
  for (const char* scheme : {"tied", "decoupled", "both", "stip1", "stip2"})
    CHECK(rate(cells, "weights", scheme) == 1.0);
  CHECK(rate(cells, "weights", "orthogonal") == -1.0);
  CHECK(rate(cells, "linear-map", "orthogonal") == 1.0);
  CHECK(rate(cells, "vocabulary", "stip2") == 1.0);
  CHECK(rate(cells, "cache", "stip1") == 1.0);
  CHECK(rate(cells, "linear", "decoupled", true) == 1.0);
  CHECK(rate(cells, "positions", "both") == 1.0);
  CHECK(rate(cells, "mask", "row") == 1.0);
  CHECK(rate(cells, "alignment", "stip2", true) == 1.0);
  CHECK(rate(cells, "alignment", "stip2", false) == -1.0);
  CHECK(rate(cells, "gradients", "row") == 1.0);
  // What does help: an orthogonal map against sorting.
  CHECK(rate(cells, "vocabulary", "orthogonal") < 0.4);
  // And what noise does to weights: nothing.
  CHECK(rate(cells, "weights", "stip2+noise") == 1.0);
  CHECK(rate(cells, "linear", "noise") < 0.2);
}

TEST_CASE(
    "privacy: who knows nothing of the weights reads no keys and texts from them, but inverts pictures all the same") {
  const auto cells = run_table(small_request({random_image_model({1, 0}), random_text_model({1, 0})}, Base::secret));
  for (const char* scheme : {"decoupled", "stip1", "stip2"}) {
    CHECK(rate(cells, "weights", scheme) < 0.2);
    CHECK(rate(cells, "gains", scheme) < 0.2);
    CHECK(rate(cells, "vocabulary", scheme) < 0.4);
    CHECK(rate(cells, "cache", scheme) < 0.4);
    CHECK(rate(cells, "linear", scheme) == 1.0);
  }
  CHECK(rate(cells, "positions", "row") < 0.4);
  const std::string failed = failures(cells);
  CHECK_MESSAGE(failed.empty(), failed);
}

TEST_CASE("privacy: weights tuned by 5 % give the same keys") {
  TableRequest r = small_request({random_image_model({1, 0}), random_text_model({1, 0})}, Base::tuned);
  r.attacks = {&attack_named("weights")};
  const auto cells = run_table(r);
  for (const char* scheme : {"tied", "decoupled", "stip1", "stip2"}) CHECK(rate(cells, "weights", scheme) == 1.0);
}

TEST_CASE("privacy: requests that cannot be run are refused, results are told") {
  CHECK(test::message_of<ValueError>([] { attack_named("weigths"); }).find("weights") != std::string::npos);
  CHECK(test::message_of<ValueError>([] { scheme_named("stip3"); }).find("stip1") != std::string::npos);
  CHECK(test::message_of<ValueError>([] { base_named("public"); }).find("published") != std::string::npos);
  TableRequest r = small_request({random_text_model({1, 0})}, Base::published);
  r.attacks = {&attack_named("positions")};
  CHECK(test::message_of<ValueError>([&] { run_table(r); }).find("models of pictures") != std::string::npos);
  r.attacks = {&attack_named("mask")};
  r.schemes = {&info_of(Scheme::row), &info_of(Scheme::stip1)};
  r.fresh = {false};
  const auto cells = run_table(r);
  CHECK(text_of(cells[0]).find("100.0 %") != std::string::npos);
  CHECK(text_of(cells[1]).find("nothing to attack: tokens are in their order") != std::string::npos);
  CHECK(markdown_of(cells).find("| row, weights published, fixed keys | 100 % |") != std::string::npos);
  CHECK(to_json(cells[0])["status"] == "pass");
  CHECK(page_of(cells).html().find("obfuscation, not encryption") != std::string::npos);
  r.layer = 3;
  r.attacks = {&attack_named("vocabulary")};
  CHECK(test::message_of<ValueError>([&] { run_table(r); }).find("the model has 2 blocks") != std::string::npos);
}

TEST_CASE("privacy: trained weights give their keys away") {
  for (const char* name : {"bert-tiny-sst2-encoder", "vit-mnist-shallow", "llama2c-aidreams260K"}) {
    const auto folder = test::data_or_skip(std::string("privacy: ") + name, std::string("weights/") + name);
    if (folder.empty()) continue;
    CAPTURE(name);
    const BlockWeights v = open_block_weights(folder.string(), {5, 0});
    TableRequest r = small_request({v}, Base::published);
    r.fresh = {false};
    r.attacks = {&attack_named("weights"), &attack_named("gains"), &attack_named("attention")};
    if (v.text) r.attacks.insert(r.attacks.end(), {&attack_named("vocabulary"), &attack_named("cache")});
    const auto cells = run_table(r);
    const std::string failed = failures(cells);
    CHECK_MESSAGE(failed.empty(), failed);
    CHECK(rate(cells, "weights", "stip2") == 1.0);
    r.bases = {Base::secret};
    r.attacks = {&attack_named("weights")};
    CHECK(rate(run_table(r), "weights", "stip2") < 0.3);
    for (const SchemeInfo& scheme : schemes())
      if (incompatible_because(v, scheme.columns).empty()) check_same_function(v, scheme);
  }
}
