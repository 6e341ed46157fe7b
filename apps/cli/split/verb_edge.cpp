// equigrad edge: training with the encoder's blocks in a cloud.

#include "apps/cli/net/notices.h"
#include "apps/cli/net/place_flags.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/core_dumps.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/verb.h"
#include "apps/cli/train_job.h"

#include "apps/split/cloud_encoder.h"
#include "core/base/bytes.h"
#include "training/language/classify.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace eg::cli {
namespace {

struct EdgeRequest {
  std::string model, config, finish = "decrypt", init = "edge";
  ConnectFlags place;
  std::int64_t attempts = 20;
};

training::SplitTraining training_of(const EdgeRequest& r, std::shared_ptr<split_learning::CloudEncoder> encoder) {
  training::SplitTraining split{
      .encoder = std::move(encoder), .final_weights = training::FinalWeights::decrypted, .next_key = {}};
  if (r.finish == "encrypted") split.final_weights = training::FinalWeights::encrypted;
  if (r.finish != "encrypted" && r.finish != "decrypt") {
    if (!file_exists(r.finish))
      throw UsageError(fmt::format("--finish: '{}' is neither decrypt nor encrypted nor a key file", r.finish));
    split.final_weights = training::FinalWeights::rekeyed;
    split.next_key = r.finish;
  }
  return split;
}

std::shared_ptr<split_learning::CloudEncoder> encoder_of(const EdgeRequest& r, const CommonOptions& common) {
  const net::ClientOptions client = r.place.options();
  split_learning::RemoteOptions options;
  options.cloud_draws_weights = r.init == "cloud";
  options.retry_policy.attempts = static_cast<int>(r.attempts);
  options.retry_policy.stop = &stop_flag();
  options.retry_policy.on_pause = tell_waiting(common, LineBefore::progress);
  return std::make_shared<split_learning::CloudEncoder>(net::connect_over_tcp(client), options);
}

nlohmann::json wire_json(const split_learning::WireCounts& c) {
  const double steps = static_cast<double>(std::max<std::uint64_t>(c.steps, 1));
  return {{"bytes_sent", c.sent},
          {"bytes_received", c.received},
          {"requests", c.requests},
          {"reconnects", c.reconnects},
          {"steps", c.steps},
          {"bytes_per_step", static_cast<double>(c.step_bytes) / steps},
          {"ms_per_step", 1e3 * c.step_seconds / steps},
          {"slowest_step_ms", 1e3 * c.slowest_step}};
}

std::string resume_words(const EdgeRequest& r) {
  const std::string certificates = r.place.certificates.insecure
                                       ? "--insecure-loopback"
                                       : fmt::format("--certs {}", shell_word(r.place.certificates.folder));
  std::string words = fmt::format("equigrad edge {} --connect {} {}", r.model, r.place.connect, certificates);
  const EdgeRequest usual;
  if (r.finish != usual.finish) words += " --finish " + shell_word(r.finish);
  if (r.attempts != usual.attempts) words += fmt::format(" --attempts {}", r.attempts);
  if (r.place.answer_s != usual.place.answer_s) words += fmt::format(" --answer-timeout {}", r.place.answer_s);
  return words;
}

/// A resumed run ends as its first command said, unless this one says otherwise.
void finish_as_begun(EdgeRequest& r, const TrainRequest& request) {
  const auto final_weights = training::final_weights_of_run(request.resumed());
  if (final_weights == training::FinalWeights::encrypted) r.finish = "encrypted";
  if (final_weights == training::FinalWeights::rekeyed)
    throw UsageError("--finish: the run was to end behind another holder's key: name its file again, or say decrypt or "
                     "encrypted");
}

int train(const EdgeRequest& r, const TrainRequest& request) {
  const std::shared_ptr<split_learning::CloudEncoder> encoder = encoder_of(r, request.common);
  SplitJob job;
  job.training = training_of(r, encoder);
  job.command = resume_words(r);
  job.progress = [encoder] {
    const split_learning::WireCounts& c = encoder->counts();
    const double steps = static_cast<double>(std::max<std::uint64_t>(c.steps, 1));
    return ProgressField{fmt::format("{:.2f} MB {:.0f} ms a step on the wire",
                                     static_cast<double>(c.step_bytes) / steps / 1e6, 1e3 * c.step_seconds / steps),
                         6};
  };
  job.result = [encoder](nlohmann::json& json) { json["wire"] = wire_json(encoder->counts()); };
  return r.model == "bert" ? train_bert(request, &job) : train_vit(request, &job);
}

} // namespace

const std::vector<std::string>& edge_models() {
  static const std::vector<std::string> names = {"vit", "deit", "bert"};
  return names;
}

Job declare_edge(CLI::App& app, const CommonOptions& common) {
  auto r = std::make_shared<EdgeRequest>();
  const std::string named = model_in(common.words);
  app.add_option("model", r->model, fmt::format("What to train: {}", fmt::join(edge_models(), ", ")))
      ->required()
      ->check(one_of(edge_models()))
      ->type_name("MODEL");
  r->place.declare(app, common);
  common.files
      ->input(app.add_option(
          "--finish", r->finish,
          "The model to keep: decrypt (plain weights), encrypted (as trained), or a KEY file of another holder "
          "to move it to"))
      ->type_name("WORD|KEY")
      ->capture_default_str();
  app.add_option("--init", r->init,
                 "Who draws the encoder's first weights: edge (as train does, so the seed must be secret when the key "
                 "is), cloud")
      ->check(one_of({"edge", "cloud"}))
      ->capture_default_str();
  app.add_option("--attempts", r->attempts,
                 "To reach the cloud, to be answered, and to find room there, for each message")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  common.files
      ->input(app.add_option("--config", r->config,
                             "JSON file with options named as the flags ('_' for '-'); flags override it"))
      ->type_name("FILE");
  nlohmann::ordered_json defaults;
  if (named == "bert") defaults = training::options_json(training::split_bert_defaults());
  auto flags = std::make_shared<TrainFlags>(app, common, named, defaults);
  app.footer(
      (named.empty() ? std::string("The options of each model: equigrad edge MODEL --help\n\n") : std::string()) +
      "Embedding, head, labels and key stay here. What the cloud gets is in a permuted order, which is obfuscation,\n"
      "not encryption: docs/split-learning.md says what undoes it.");
  return [r, flags, &common, &app]() -> int {
    disable_core_dumps();
    const TrainRequest request{.model = r->model,
                               .config = r->config,
                               .given = flags->given(),
                               .flags = *flags,
                               .common = common,
                               .seed_given = app.count("--seed") > 0};
    if (request.gives(&training::RunOptions::resume) && app.count("--finish") == 0) finish_as_begun(*r, request);
    return train(*r, request);
  };
}

} // namespace eg::cli
