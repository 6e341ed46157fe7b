// equigrad cloud: encoder blocks for edges, trained without their data.

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/split/certificates.h"
#include "cli/train_lines.h"
#include "cli/verb.h"

#include "data/json.h"
#include "privacy/split/net/server.h"
#include "privacy/split/recipe.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <tuple>

namespace eg::cli {
namespace {

struct CloudRequest {
  std::string listen, model;
  CertificateFlags certificates;
  privacy::ServiceOptions service;
  privacy::ServerOptions server;
  std::int64_t runs = 8, connections = 64, message_mb = 256, memory_mb = 1024, idle_s = 900;
};

void note(const std::string& text) { std::fputs(fmt::format("equigrad: {}\n", text).c_str(), stderr); }

nlohmann::json result_json(const privacy::EncoderService& service, const privacy::Server& server) {
  const privacy::ServiceCounts& s = service.counts();
  const privacy::ServerCounts& n = server.counts();
  return {{"requests", s.requests},
          {"refusals", s.refusals},
          {"repeated", s.repeated},
          {"steps", s.steps},
          {"runs", service.runs()},
          {"connections", n.connections.load()},
          {"connections_refused", n.refused.load()},
          {"connections_dropped", n.dropped.load()},
          {"bytes_received", n.received.load()},
          {"bytes_sent", n.sent.load()}};
}

int serve(CloudRequest& r, const CommonOptions& common) {
  if (r.model != "any") r.service.recipe = privacy::recipe_of(data::read_json(r.model), r.model);
  if (r.service.recipe && r.service.recipe->run.steps == 0)
    throw ValueError(r.model + ": steps is missing: the learning rate depends on how many there are");
  r.service.seed = common.seed;
  r.service.runs = static_cast<std::size_t>(r.runs);
  r.service.frames.body = static_cast<std::uint64_t>(r.message_mb) << 20;
  r.server.tls = r.certificates.files();
  r.server.insecure_loopback = r.certificates.insecure;
  std::tie(r.server.address, r.server.port) = host_and_port("--listen", r.listen);
  r.server.known = static_cast<std::size_t>(r.connections);
  r.server.memory = static_cast<std::uint64_t>(r.memory_mb) << 20;
  r.server.idle_timeout = std::chrono::seconds(r.idle_s);
  privacy::EncoderService service(r.service);
  privacy::Server server(service, r.server);
  note(fmt::format("listening on {}:{}{}", r.server.address, server.port(),
                   r.certificates.insecure ? " without TLS" : ""));
  Progress progress(!common.quiet);
  server.run(stop_flag(), [&] {
    const privacy::ServiceCounts& c = service.counts();
    progress.show_open({{fmt::format("{} runs", service.runs()), 1},
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
    say(fmt::format("{} steps of {} runs{}\n", service.counts().steps, service.runs(),
                    r.service.out.empty() ? "" : "; checkpoints in " + r.service.out));
  return done;
}

} // namespace

Job declare_cloud(CLI::App& app, const CommonOptions& common) {
  auto r = std::make_shared<CloudRequest>();
  app.add_option("--listen", r->listen, "Address and port to listen on; port 0: a free one")
      ->required()
      ->type_name("ADDR:PORT");
  app.add_option("--model", r->model,
                 "JSON file with the encoder that is trained here: dim, layers, heads, mlp, optimizer, lr, schedule, "
                 "steps, ... as "
                 "the flags of train; any: what each edge asks for")
      ->required()
      ->type_name("CONFIG");
  r->certificates.declare(app, "cloud");
  app.add_option("--out", r->service.out, "Folder for checkpoints, one below it for each run (default: none are kept)")
      ->type_name("FOLDER");
  app.add_option("--keep", r->service.keep, "Newest checkpoints of a run that stay")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  app.add_option("--runs", r->runs, "Most runs in memory")->check(whole_number(1, 10'000))->capture_default_str();
  app.add_option("--connections", r->connections, "Most edges that are connected")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  app.add_option("--most-parameters", r->service.parameters, "Of one run's encoder")
      ->check(whole_number(1, 1'000'000'000'000))
      ->capture_default_str();
  app.add_option("--message-mb", r->message_mb, "Largest message, MiB")
      ->check(whole_number(1, 16'384))
      ->capture_default_str();
  app.add_option("--memory-mb", r->memory_mb, "Messages on their way, all together, MiB")
      ->check(whole_number(1, 1'048'576))
      ->capture_default_str();
  app.add_option("--idle", r->idle_s, "Seconds after which a silent connection ends")
      ->check(whole_number(1, 86'400))
      ->capture_default_str();
  app.footer("Ctrl-C writes checkpoints and ends. The cloud sees features and gradients in a permuted order, which is\n"
             "obfuscation, not encryption: docs/split-learning.md.");
  return [r, &common]() -> int {
    survive_broken_pipes();
    return serve(*r, common);
  };
}

} // namespace eg::cli
