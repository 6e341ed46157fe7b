// equigrad attack: what a cloud learns of permuted weights and data.

#include "apps/cli/model_files.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/spread.h"
#include "apps/cli/shell/verb.h"

#include "apps/attacks/request.h"
#include "core/base/bytes.h"
#include "distributed/communicator.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace eg::cli {
namespace {

/// What the command line asks for.
struct AttackRequest : attacks::AttackRequest {
  AttackRequest() { name.clear(); }
  std::string out, markdown;
  bool list = false;
};

/// Throws UsageError for what is asked wrongly.
void check_flags(const attacks::AttackRequest& o) {
  try {
    attacks::check(o);
  } catch (const ValueError& error) {
    const std::string what = error.what();
    throw UsageError(what.starts_with("data has no effect") ? "--" + what : what);
  }
}

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

void print(const std::vector<attacks::Cell>& cells, const AttackRequest& o) {
  LongOutput out;
  if (o.name != "all") out.add(attacks::described(*cells.front().attack) + "\n");
  for (const attacks::Cell& cell : cells)
    if (o.name != "all" || !cell.findings.holds()) out.add(attacks::text_of(cell) + "\n");
  if (cells.size() > 1) out.add(attacks::matrix_of(cells) + "\n");
  out.add(std::string(attacks::not_encryption) + "\n");
  out.finish();
}

/// All processes have one key and share the cells, those whose attacks learn first.
attacks::Sharing sharing_over(const CommonOptions& common) {
  if (alone(common)) return {};
  attacks::Sharing sharing;
  sharing.agree = [&common](std::span<std::byte> key) { common.processes->broadcast(key); };
  sharing.run_cells = [&common](const std::vector<attacks::Cell>& cells,
                                const std::function<attacks::Findings(std::size_t)>& run) {
    SpreadOptions<attacks::Findings> how;
    for (const attacks::Cell& cell : cells) how.costs.push_back(cell.attack->learns ? 1 : 0);
    return spread<attacks::Findings>(common, cells.size(), run, {attacks::to_record, attacks::findings_from}, how);
  };
  return sharing;
}

int attack(const AttackRequest& o, const CommonOptions& common) {
  add_model(*common.files, o.model);
  common.files->check();
  require_writable(o.out);
  require_writable(o.markdown);
  check_flags(o); // a wrong name is reported before anything is read
  Progress progress(!common.quiet);
  const StopScope stopping;
  const std::vector<attacks::Cell> cells = attacks::run_request(
      o, common.seed, &stop_flag(),
      [&](double share, const std::string& what) {
        progress.show(share, 1.0, {{what, 1}});
      },
      sharing_over(common));
  progress.clear();
  if (common.talks()) print(cells, o);
  if (speaks(common) && !o.out.empty()) write_result(o.out, attacks::page_of(cells).html());
  if (speaks(common) && !o.markdown.empty()) write_result(o.markdown, attacks::markdown_of(cells));
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
