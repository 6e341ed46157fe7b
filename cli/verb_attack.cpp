// equigrad attack: what a cloud learns of permuted weights and data.

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/model_files.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verb.h"

#include "core/interrupt.h"
#include "data/bytes.h"
#include "permute/key.h"
#include "privacy/table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace eg::cli {
namespace {

/// What the command line asks for.
struct Request {
  std::string name, model, scheme, base, keys, out, markdown;
  double noise = 0.3, delta = 0.05;
  std::int64_t tokens = 16, layer = -1;
  bool list = false;
};

int list_attacks(const CommonOptions& common) {
  nlohmann::ordered_json attacks = nlohmann::ordered_json::array(), schemes = attacks;
  std::string text;
  for (const privacy::Attack& a : privacy::attacks()) {
    text += privacy::described(a);
    attacks.push_back({{"name", a.name},
                       {"id", a.id},
                       {"sees", a.sees},
                       {"recovers", a.recovers},
                       {"cost", a.cost},
                       {"source", a.source}});
  }
  text += "\nschemes\n";
  for (const privacy::SchemeInfo& s : privacy::schemes()) {
    text += fmt::format("  {:<11} {}\n", s.name, s.what);
    schemes.push_back({{"name", s.name}, {"what", s.what}});
  }
  if (common.talks()) say(text + "\n" + privacy::not_encryption + "\n");
  write_json(common, {{"attacks", attacks}, {"schemes", schemes}});
  return done;
}

/// Runs `choose` with ValueErrors as mistakes on the command line.
template <class F> decltype(auto) chosen(F&& choose) {
  try {
    return choose();
  } catch (const ValueError& error) {
    throw UsageError(error.what());
  }
}

std::vector<privacy::Victim> victims_of(const Request& o, RandomKey key) {
  if (!o.model.empty()) return {privacy::open_victim(o.model, key)};
  return {privacy::drawn_picture_victim(key), privacy::drawn_text_victim(key)};
}

/// The attacks that were asked for; of all, those that fit some model.
std::vector<const privacy::Attack*> attacks_of(const Request& o, const std::vector<privacy::Victim>& victims) {
  if (o.name != "all") return {&chosen([&]() -> const privacy::Attack& { return privacy::attack_named(o.name); })};
  std::vector<const privacy::Attack*> fitting;
  for (const privacy::Attack& a : privacy::attacks())
    if (std::any_of(victims.begin(), victims.end(), [&](const privacy::Victim& v) { return privacy::fits(a, v); }))
      fitting.push_back(&a);
  return fitting;
}

std::vector<const privacy::SchemeInfo*> schemes_of(const Request& o) {
  if (!o.scheme.empty())
    return {&chosen([&]() -> const privacy::SchemeInfo& { return privacy::scheme_named(o.scheme); })};
  std::vector<const privacy::SchemeInfo*> all;
  for (const privacy::SchemeInfo& s : privacy::schemes()) all.push_back(&s);
  return all;
}

privacy::TableRequest table_of(const Request& o, const CommonOptions& common) {
  privacy::TableRequest t;
  t.key = RandomKey{common.seed, 8};
  t.schemes = schemes_of(o);
  if (o.name != "all") attacks_of(o, {}); // a wrong name is told before a model is read
  using enum privacy::Base;
  t.bases = {published, tuned, secret};
  if (!o.base.empty()) t.bases = {chosen([&] { return privacy::base_named(o.base); })};
  t.fresh = {false, true};
  if (!o.keys.empty()) t.fresh = {o.keys == "fresh"};
  t.victims = victims_of(o, t.key);
  t.attacks = attacks_of(o, t.victims);
  t.noise = o.noise;
  t.delta = o.delta;
  t.tokens = o.tokens;
  t.layer = o.layer;
  return t;
}

void print(const std::vector<privacy::Cell>& cells, const Request& o) {
  LongOutput out;
  if (o.name != "all") out.add(privacy::described(*cells.front().attack) + "\n");
  for (const privacy::Cell& cell : cells)
    if (o.name != "all" || !cell.findings.holds()) out.add(privacy::text_of(cell) + "\n");
  if (cells.size() > 1) out.add(privacy::matrix_of(cells) + "\n");
  out.add(std::string(privacy::not_encryption) + "\n");
  out.finish();
}

int attack(const Request& o, const CommonOptions& common) {
  require_apart(common, {o.out, o.markdown}, o.model.empty() ? std::vector<std::string>{} : known_files(o.model));
  require_writable(o.out, true);
  require_writable(o.markdown, true);
  // The secret of the party that is attacked; nothing of it is printed or written.
  const permute::SecretKey key = permute::SecretKey::generate("attack");
  privacy::TableRequest request = table_of(o, common);
  request.source = key.source("attack");
  Progress progress(!common.quiet);
  request.tell = [&](double share, const std::string& what) { progress.show(share, 1.0, {{what, 1}}); };
  const auto stop = [] { throw_if_stopped(); };
  const InterruptScope scope(stop);
  const std::vector<privacy::Cell> cells = privacy::run_table(request);
  progress.clear();
  if (common.talks()) print(cells, o);
  if (!o.out.empty()) privacy::page_of(cells).save(o.out);
  if (!o.markdown.empty()) data::write_file(o.markdown, std::string_view(privacy::markdown_of(cells)));
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const privacy::Cell& cell : cells) results.push_back(to_json(cell));
  write_json(common, nlohmann::json{{"results", results}, {"note", privacy::not_encryption}});
  const bool holds = std::all_of(cells.begin(), cells.end(), [](const privacy::Cell& c) { return c.findings.holds(); });
  return holds ? done : check_failed;
}

} // namespace

Job declare_attack(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<Request>();
  app.add_option("name", o->name, "Which attack (--list names them), or all")->type_name("NAME");
  app.add_flag("--list", o->list, "Name the attacks and the schemes and stop");
  app.add_option(
         "--model", o->model,
         "Attack these trained weights: a model folder, a BERT folder without embeddings, a llama2.c checkpoint "
         "or its folder (default: drawn models, one of pictures, one of texts)")
      ->type_name("FOLDER");
  app.add_option("--scheme", o->scheme, "Under this scheme alone (default: all of them)")->type_name("NAME");
  app.add_option("--base", o->base,
                 "What the attacker knows of the weights: published, tuned (what they were tuned from), secret "
                 "(default: each)")
      ->type_name("NAME");
  app.add_option("--keys", o->keys, "fixed: one P_C for all queries; fresh: one for each (default: both)")
      ->check(CLI::IsMember({"fixed", "fresh"}))
      ->type_name("NAME");
  app.add_option("--noise", o->noise, "Noise of the schemes that have some, in deviations of the features")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--delta", o->delta, "Base tuned: how far tuning moved each weight, in deviations of its tensor")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--tokens", o->tokens, "Tokens of a text")
      ->check(whole_number(2, 4096))
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--layer", o->layer,
         "Blocks that a text has passed when the attacker sees it (default: all, or none for an encoder or more "
         "than 4096 tokens)")
      ->check(whole_number(0, 1000000))
      ->type_name("N");
  app.add_option("--out", o->out, "Write a page with the tables and pictures to this file")->type_name("FILE.html");
  app.add_option("--markdown", o->markdown, "Write the table of main rates as Markdown to this file")
      ->type_name("FILE");
  return [o, &common]() -> int {
    if (o->list) return list_attacks(common);
    if (o->name.empty()) throw UsageError("no attack was given; --list names them");
    survive_broken_pipes();
    return attack(*o, common);
  };
}

} // namespace eg::cli
