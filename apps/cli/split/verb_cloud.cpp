// equigrad cloud: encoder blocks for edges, trained without their data.

#include "apps/cli/net/notices.h"
#include "apps/cli/net/place_flags.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"
#include "apps/cli/train_lines.h"

#include "apps/split/recipe.h"
#include "apps/split/service.h"
#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "training/checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace eg::cli {
namespace {

struct CloudRequest {
  std::string model;
  ListenFlags place;
  split_learning::ServiceOptions service;
  std::int64_t runs = 8;
};

nlohmann::json result_json(const split_learning::EncoderService& service, const net::Server& server) {
  const split_learning::ServiceCounts& s = service.counts();
  nlohmann::json json{{"requests", s.requests},
                      {"refusals", s.refusals},
                      {"repeated", s.repeated},
                      {"steps", s.steps},
                      {"runs", service.runs()}};
  add_counts(json, server.counts());
  return json;
}

int serve(CloudRequest& r, const CommonOptions& common) {
  common.files->goes_on_in(r.service.out);
  common.files->check();
  if (r.model != "any") r.service.recipe = split_learning::recipe_of(read_json(r.model), r.model);
  if (r.service.recipe && r.service.recipe->run.steps == 0)
    throw ValueError(r.model + ": steps is missing: the learning rate depends on how many there are");
  r.service.seed = common.seed;
  r.service.runs = static_cast<std::size_t>(r.runs);
  r.service.frames.body = r.place.largest_message();
  split_learning::EncoderService service(r.service);
  net::Server server(service, r.place.options());
  if (!r.service.out.empty()) { // not where another one listens
    training::make_folder(r.service.out);
    require_writable(join_path(r.service.out, "run"));
  }
  tell_place(r.place, server);
  Progress progress(!common.quiet);
  service.on_trouble(report_trouble(progress));
  server.run(stop_flag(), [&] {
    const split_learning::ServiceCounts& c = service.counts();
    progress.show_open({{count_of(service.runs(), "run"), 1},
                        {fmt::format("{} steps", c.steps), 1},
                        {fmt::format("{:.1f} MB in", static_cast<double>(server.counts().received.load()) / 1e6), 3},
                        {fmt::format("{:.1f} MB out", static_cast<double>(server.counts().sent.load()) / 1e6), 4},
                        {fmt::format("{} refused", c.refusals + server.counts().refused.load()), 5},
                        memory_field()});
  });
  progress.clear();
  service.save_all();
  write_json(common, result_json(service, server));
  if (common.talks())
    say(fmt::format("{} of {}{}\n", count_of(service.counts().steps, "step"), count_of(service.runs(), "run"),
                    r.service.out.empty() ? "" : "; checkpoints in " + r.service.out));
  return done;
}

} // namespace

Job declare_cloud(CLI::App& app, const CommonOptions& common) {
  auto r = std::make_shared<CloudRequest>();
  r->place.declare(app, common);
  common.files
      ->input(app.add_option(
          "--model", r->model,
          "JSON file with the encoder that is trained here: dim, layers, heads, mlp, optimizer, lr, schedule, "
          "steps, ... as "
          "the flags of train; any: what each edge asks for"))
      ->required()
      ->type_name("CONFIG");
  common.files
      ->told_by_verb(app.add_option("--out", r->service.out,
                                    "Folder for checkpoints, one below it for each run (default: none are kept)"))
      ->type_name("FOLDER");
  app.add_option("--keep", r->service.keep, "Newest checkpoints of a run that stay")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  app.add_option("--runs", r->runs, "Most runs in memory")->check(whole_number(1, 10'000))->capture_default_str();
  app.add_option("--most-parameters", r->service.parameters, "Of one run's encoder")
      ->check(whole_number(1, 1'000'000'000'000))
      ->capture_default_str();
  app.footer("Ctrl-C writes checkpoints and ends. The cloud sees features and gradients in a permuted order, which is\n"
             "obfuscation, not encryption: docs/split-learning.md.");
  return [r, &common]() -> int { return serve(*r, common); };
}

} // namespace eg::cli
