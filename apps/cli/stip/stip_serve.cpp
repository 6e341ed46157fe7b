// equigrad stip serve: the cloud's part.

#include "apps/cli/model_files.h"
#include "apps/cli/net/notices.h"
#include "apps/cli/net/place_flags.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/stip/stip.h"
#include "apps/cli/train_lines.h"

#include "apps/stip/service.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace eg::cli {
namespace {

struct ServeRequest {
  std::string model, dtype = "f32";
  ListenFlags place;
  std::int64_t sessions = 64, tokens = 4096, cache_mb = 1024;
};

stip::StipServiceOptions options_of(const ServeRequest& r) {
  stip::StipServiceOptions o;
  o.sessions = static_cast<std::size_t>(r.sessions);
  o.tokens = r.tokens;
  o.cache_bytes = static_cast<std::uint64_t>(r.cache_mb) << 20;
  o.frames.body = r.place.largest_message();
  return o;
}

nlohmann::json result_json(const stip::StipService& service, const net::Server& server) {
  const stip::StipServiceCounts& c = service.counts();
  nlohmann::json json{{"requests", c.requests},   {"refusals", c.refusals}, {"sessions", c.sessions},
                      {"tokens", c.tokens},       {"passes", c.passes},     {"requests_in_passes", c.in_passes},
                      {"most_texts", c.most_rows}};
  add_counts(json, server.counts());
  return json;
}

int serve(const ServeRequest& r, const CommonOptions& common) {
  const net::ServerOptions where = r.place.options();
  stip::StipService service(stip::open_cloud(r.model, r.dtype == "f64" ? DType::f64 : DType::f32), options_of(r));
  net::Server server(service, where);
  tell_place(r.place, server);
  Progress progress(!common.quiet);
  service.on_trouble(report_trouble(progress));
  server.run(stop_flag(), [&] {
    const stip::StipServiceCounts& c = service.counts();
    progress.show_open(
        {{fmt::format("{} sessions", service.sessions()), 1},
         {fmt::format("{} tokens", c.tokens), 1},
         {fmt::format("{:.1f} MB of keys and values", static_cast<double>(service.cache_bytes()) / 1e6), 2},
         {fmt::format("{} refused", c.refusals + server.counts().refused.load()), 5},
         memory_field()});
  });
  progress.clear();
  write_json(common, result_json(service, server));
  const stip::StipServiceCounts& c = service.counts();
  if (common.talks())
    say(fmt::format("{} tokens of {} sessions in {} passes, up to {} texts in one\n", c.tokens, c.sessions, c.passes,
                    c.most_rows));
  return done;
}

} // namespace

Job declare_stip_serve(CLI::App& app, const CommonOptions& common) {
  auto r = std::make_shared<ServeRequest>();
  common.files->input(app.add_option("--model", r->model, "The cloud's folder, OUT/cloud of stip transform"))
      ->required()
      ->type_name("DIR");
  r->place.declare(app, common);
  app.add_option("--dtype", r->dtype, "f32 or f64: what is computed in, and what users must send (default f32)")
      ->check(one_of({"f32", "f64"}))
      ->type_name("TYPE");
  app.add_option("--sessions", r->sessions, "Most sessions at a time")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  app.add_option("--tokens", r->tokens, "Most tokens of one session, and of one pass")
      ->check(whole_number(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--cache-mb", r->cache_mb, "Keys and values of all sessions, MiB")
      ->check(whole_number(1, 1'048'576))
      ->capture_default_str();
  app.footer("Ctrl-C ends. The cloud sees hidden states in a permuted order of features, which is obfuscation, not\n"
             "encryption: docs/stip.md.");
  return [r, &common, &app]() -> int {
    if (app.count("--seed") > 0) throw UsageError("--seed has no effect on stip serve: the cloud draws nothing");
    return serve(*r, common);
  };
}

} // namespace eg::cli
