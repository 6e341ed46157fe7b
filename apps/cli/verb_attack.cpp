// equigrad attack: what a cloud learns of permuted weights and data.

#include "apps/cli/model_files.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include "apps/attacks/table.h"
#include "core/base/bytes.h"
#include "core/base/words.h"
#include "data/dataset.h"
#include "permute/key.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace eg::cli {
namespace {

/// What the command line asks for.
struct AttackRequest {
  std::string name, model, scheme, base, keys, out, markdown, defences, data, data_dir;
  double noise = 0.3, delta = 0.05;
  std::int64_t tokens = 16, layer = -1, size = 0, pictures = 1000;
  attacks::Effort effort = {};
  bool list = false, learned = false;
};

int list_attacks(const CommonOptions& common) {
  nlohmann::ordered_json attacks = nlohmann::ordered_json::array(), schemes = attacks;
  std::string text;
  for (const attacks::Attack& a : attacks::attacks()) {
    text += attacks::described(a);
    attacks.push_back({{"name", a.name},
                       {"id", a.id},
                       {"sees", a.sees},
                       {"recovers", a.recovers},
                       {"cost", a.cost},
                       {"source", a.source},
                       {"learns", a.learns}});
  }
  text += "\nschemes\n";
  for (const permute::SchemeInfo& s : permute::schemes()) {
    text += fmt::format("  {:<11} {}\n", s.name, s.what);
    schemes.push_back({{"name", s.name}, {"what", s.what}});
  }
  nlohmann::ordered_json defences = nlohmann::ordered_json::array();
  text += "\ndefences\n";
  for (const attacks::DefenceInfo& d : attacks::defences()) {
    const std::string strength =
        *d.strength == '\0' ? "" : fmt::format(" (:X {}; {} unless told otherwise)", d.strength, d.usual);
    text += fmt::format("  {:<13} {}{}\n", d.name, d.what, strength);
    defences.push_back({{"name", d.name}, {"what", d.what}, {"strength", d.strength}, {"usual", d.usual}});
  }
  if (common.talks()) say(text + "\n" + attacks::not_encryption + "\n");
  write_json(common, {{"attacks", attacks}, {"schemes", schemes}, {"defences", defences}});
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

/// `album`: pictures that the drawn model is to be for, or null.
std::vector<permute::BlockWeights> models_of(const AttackRequest& o, const attacks::AttackImages* attack_images,
                                             RandomKey key) {
  if (!o.model.empty()) return {permute::open_block_weights(o.model, key)};
  if (attack_images == nullptr) return {permute::random_image_model(key), permute::random_text_model(key)};
  return {permute::random_image_model(key, attack_images->own.height(), attack_images->own.channels()),
          permute::random_text_model(key)};
}

bool is_left_out(const attacks::Attack& attack, const AttackRequest& o) { return attack.learns && !o.learned; }

/// The attacks that were asked for; of all, those that fit some model.
std::vector<const attacks::Attack*> attacks_of(const AttackRequest& o,
                                               const std::vector<permute::BlockWeights>& models) {
  if (o.name != "all") return {&chosen([&]() -> const attacks::Attack& { return attacks::attack_named(o.name); })};
  std::vector<const attacks::Attack*> fitting;
  for (const attacks::Attack& a : attacks::attacks())
    if (!is_left_out(a, o) &&
        std::any_of(models.begin(), models.end(), [&](const permute::BlockWeights& v) { return attacks::fits(a, v); }))
      fitting.push_back(&a);
  return fitting;
}

std::vector<const permute::SchemeInfo*> schemes_of(const AttackRequest& o) {
  if (!o.scheme.empty())
    return {&chosen([&]() -> const permute::SchemeInfo& { return permute::scheme_named(o.scheme); })};
  std::vector<const permute::SchemeInfo*> all;
  for (const permute::SchemeInfo& s : permute::schemes()) all.push_back(&s);
  return all;
}

/// --defences: "noise,low-pass:3", or all.
std::vector<attacks::Protection> protections_of(const AttackRequest& o) {
  std::vector<attacks::Protection> meant;
  if (o.defences == "all")
    for (const attacks::DefenceInfo& d : attacks::defences()) meant.push_back({d.defence, d.usual});
  else
    for (const std::string& word : words_of_list(o.defences))
      meant.push_back(chosen([&] { return attacks::protection_named(word); }));
  if (meant.empty()) meant.emplace_back();
  return meant;
}

/// The pictures of attacks that learn, or of --data; null where neither is asked for.
std::unique_ptr<attacks::AttackImages> attack_images_of(const AttackRequest& o, std::uint64_t seed) {
  const bool learns = o.name == "all" ? o.learned : attacks::attack_named(o.name).learns;
  if (!learns && o.data.empty()) return nullptr;
  if (o.name != "all" && !attacks::attack_named(o.name).pictures)
    throw UsageError(fmt::format("--data has no effect: the attack {} looks at no pictures", o.name));
  const std::string name = o.data.empty() ? "faces" : o.data;
  const auto open = [&](data::Split split, std::int64_t limit) {
    return data::open_dataset(name, o.data_dir, split, {.limit = limit, .size = o.size, .stop = &stop_flag()});
  };
  return std::make_unique<attacks::AttackImages>(
      open(data::Split::train, o.pictures), open(data::Split::test, 100),
      attacks::PerceptualMetricTraining{.on_progress = [](std::int64_t) { throw_if_stopped(); }}, RandomKey{seed, 9});
}

attacks::TableRequest table_of(const AttackRequest& o, const attacks::AttackImages* attack_images,
                               const CommonOptions& common) {
  attacks::TableRequest t;
  t.key = RandomKey{common.seed, 8};
  t.schemes = schemes_of(o);
  t.protections = protections_of(o);
  t.attack_images = attack_images;
  t.effort = o.effort;
  using enum attacks::Base;
  t.bases = {published, tuned, secret};
  if (!o.base.empty()) t.bases = {chosen([&] { return attacks::base_named(o.base); })};
  t.fresh = {false, true};
  if (!o.keys.empty()) t.fresh = {o.keys == "fresh"};
  t.models = models_of(o, attack_images, t.key);
  t.attacks = attacks_of(o, t.models);
  t.noise = o.noise;
  t.delta = o.delta;
  t.tokens = o.tokens;
  t.layer = o.layer;
  return t;
}

void print(const std::vector<attacks::Cell>& cells, const AttackRequest& o) {
  LongOutput out;
  if (o.name != "all") out.add(attacks::described(*cells.front().attack) + "\n");
  for (const attacks::Cell& cell : cells)
    if (o.name != "all" || !cell.findings.holds()) out.add(attacks::text_of(cell) + "\n");
  if (cells.size() > 1) out.add(attacks::matrix_of(cells) + "\n");
  out.add(std::string(attacks::not_encryption) + "\n");
  out.finish();
}

int attack(const AttackRequest& o, const CommonOptions& common) {
  add_model(*common.files, o.model);
  common.files->check();
  require_writable(o.out);
  require_writable(o.markdown);
  // The secret of the party that is attacked; nothing of it is printed or written.
  const permute::SecretKey key = permute::SecretKey::generate("attack");
  if (o.name != "all") attacks_of(o, {}); // a wrong name is reported before anything is read
  const std::unique_ptr<attacks::AttackImages> attack_images = attack_images_of(o, common.seed);
  attacks::TableRequest request = table_of(o, attack_images.get(), common);
  request.source = key.source("attack");
  Progress progress(!common.quiet);
  request.on_progress = [&](double share, const std::string& what) { progress.show(share, 1.0, {{what, 1}}); };
  const StopScope stopping;
  const std::vector<attacks::Cell> cells = attacks::run_table(request);
  progress.clear();
  if (common.talks()) print(cells, o);
  if (!o.out.empty()) write_result(o.out, attacks::page_of(cells).html());
  if (!o.markdown.empty()) write_result(o.markdown, attacks::markdown_of(cells));
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const attacks::Cell& cell : cells) results.push_back(to_json(cell));
  write_json(common, nlohmann::json{{"results", results}, {"note", attacks::not_encryption}});
  const bool holds = std::all_of(cells.begin(), cells.end(), [](const attacks::Cell& c) { return c.findings.holds(); });
  return holds ? done : check_failed;
}

} // namespace

Job declare_attack(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<AttackRequest>();
  app.add_option("name", o->name, "Which attack (--list names them), or all")->type_name("NAME");
  app.add_flag("--list", o->list, "Name the attacks and the schemes and stop");
  common.files
      ->input(app.add_option(
          "--model", o->model,
          "Attack these trained weights: a model folder, a BERT folder without embeddings, a llama2.c checkpoint "
          "or its folder (default: drawn models, one of pictures, one of texts)"))
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
      ->check(number(0.0, 1e6))
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--delta", o->delta, "Base tuned: how far tuning moved each weight, in deviations of its tensor")
      ->check(number(0.0, 1e6))
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
  app.add_flag("--learned", o->learned, "all: also the attacks that learn, which take minutes each");
  common.files
      ->input(app.add_option(
          "--data", o->data,
          "Pictures of the attackers and of those that are attacked: cifar10, faces (drawn), shapes, mnist, ..., "
          "or a folder of class folders; the drawn model is made for them (default: faces for attacks that "
          "learn)"))
      ->type_name("NAME|FOLDER");
  common.files
      ->data_folder(app.add_option("--data-dir", o->data_dir, "Folder with the datasets (default: EQUIGRAD_DATA)"))
      ->type_name("FOLDER");
  app.add_option("--size", o->size, "Side to which pictures of a folder are resized, or side of drawn ones")
      ->check(whole_number(8, 1024))
      ->type_name("N");
  app.add_option("--pictures", o->pictures, "How many pictures an attacker has of his own")
      ->check(whole_number(2, 1000000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--defences", o->defences,
                 "What the edge does beside the scheme, several one after another: NAME or NAME:STRENGTH, with commas, "
                 "or all (--list names them; default: none)")
      ->type_name("LIST");
  app.add_option("--steps", o->effort.steps, "Attacks that learn: steps of a decoder or of P_C, iterations over pixels")
      ->check(whole_number(1, 1000000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--pretraining", o->effort.pretraining, "Steps of a decoder on shapes before it sees a pair")
      ->check(whole_number(0, 1000000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--rounds", o->effort.rounds, "Rounds of training that the attack rounds looks at")
      ->check(whole_number(2, 100))
      ->type_name("N")
      ->capture_default_str();
  common.files->result(app.add_option("--out", o->out, "Write a page with the tables and pictures to this file"))
      ->type_name("FILE.html");
  common.files
      ->result(app.add_option("--markdown", o->markdown, "Write the table of main rates as Markdown to this file"))
      ->type_name("FILE");
  return [o, &common, &app]() -> int {
    if (o->list) {
      require_alone(app, "--list");
      return list_attacks(common);
    }
    if (o->name.empty()) throw UsageError("no attack was given; --list names them");
    return attack(*o, common);
  };
}

} // namespace eg::cli
