// equigrad stip query: the user's part.

#include "apps/cli/model_files.h"
#include "apps/cli/net/notices.h"
#include "apps/cli/net/place_flags.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/core_dumps.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/stip/stip.h"
#include "apps/cli/tensor_inputs.h"
#include "apps/cli/text_flags.h"

#include "apps/stip/user.h"
#include "data/safetensors.h"
#include "nn/decoder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace eg::cli {
namespace {

struct QueryRequest {
  std::string model, inputs, outputs, dtype = "f32";
  ConnectFlags place;
  TextFlags text;
  std::int64_t attempts = 20, message_mb = 256;
};

nlohmann::json as_json(const stip::StipTraffic& t) {
  return {{"bytes_sent", t.sent}, {"bytes_received", t.received}, {"requests", t.requests}, {"ms", 1e3 * t.seconds}};
}

double per(double amount, std::uint64_t count) {
  return amount / static_cast<double>(std::max<std::uint64_t>(count, 1));
}

nlohmann::json as_json(const QueryRequest& r, const stip::StipText& t) {
  const auto bytes = static_cast<double>(t.tokens.sent + t.tokens.received);
  return {{"model", r.model},
          {"prompt_ids", t.text.prompt_ids},
          {"ids", t.text.ids},
          {"text", t.text.text},
          {"ended", t.text.ended},
          {"prompt_ms", 1e3 * t.text.prompt_seconds},
          {"ms_per_token", per(1e3 * t.text.seconds, t.tokens.requests)},
          {"wire",
           {{"prompt", as_json(t.prompt)},
            {"tokens", as_json(t.tokens)},
            {"reconnects", t.reconnects},
            {"bytes_per_token", per(bytes, t.tokens.requests)},
            {"ms_per_token", per(1e3 * t.tokens.seconds, t.tokens.requests)}}}};
}

DType dtype_of(const QueryRequest& r) { return r.dtype == "f64" ? DType::f64 : DType::f32; }

net::RetryPolicy retry_policy_of(const QueryRequest& r, const CommonOptions& common) {
  return {.attempts = static_cast<int>(r.attempts),
          .stop = &stop_flag(),
          .on_pause = tell_waiting(common, LineBefore::text)};
}

net::FrameLimits frames_of(const QueryRequest& r) { return {.body = static_cast<std::uint64_t>(r.message_mb) << 20}; }

int continue_text(const QueryRequest& r, const CommonOptions& common) {
  TextToContinue text = text_to_continue(r.text, r.model, common.seed);
  const data::Tokenizer* const tokenizer = text.tokenizer ? &*text.tokenizer : nullptr;
  const stip::UserModel user(r.model, dtype_of(r));
  if (user.model().decoder() != nullptr) fit_positions(text, user.model().positions());
  const net::Connect connect = net::connect_over_tcp(r.place.options());
  TextStream stream(tokenizer != nullptr ? r.text.prompt : "", common);
  const stip::StipText result = stip::stip_generate(
      user, connect, tokenizer, text.prompt, text.options, r.text.stops,
      [&](std::string_view piece) { stream.show(piece); }, retry_policy_of(r, common), frames_of(r));
  stream.show(tokenizer != nullptr ? "\n" : fmt::format("{}\n", fmt::join(result.text.ids, ",")));
  if (common.talks())
    fmt::print(stderr, "{} tokens, ended by {}; prompt {:.0f} ms; a token {:.1f} ms, {:.0f} bytes{}\n",
               result.text.ids.size(), result.text.ended, 1e3 * result.text.prompt_seconds,
               per(1e3 * result.text.seconds, result.tokens.requests),
               per(static_cast<double>(result.tokens.sent + result.tokens.received), result.tokens.requests),
               result.reconnects > 0 ? fmt::format("; connected anew {} times", result.reconnects) : "");
  write_json(common, as_json(r, result));
  return done;
}

int compute_outputs(const QueryRequest& r, const CommonOptions& common) {
  const StopScope stopping;
  require_writable(r.outputs);
  const hub::Tensors inputs = read_tensor_inputs(r.inputs, dtype_of(r));
  const stip::UserModel user(r.model, dtype_of(r));
  const stip::StipOutputs result = stip::stip_forward(user, net::connect_over_tcp(r.place.options()), inputs,
                                                      retry_policy_of(r, common), frames_of(r));
  data::save_safetensors(r.outputs, result.outputs);
  nlohmann::json json{
      {"model", r.model}, {"architecture", user.model().architecture()}, {"wire", as_json(result.traffic)}};
  std::string lines;
  for (const auto& [name, tensor] : result.outputs) {
    json["outputs"][name] = std::vector<std::int64_t>(tensor.shape().dims().begin(), tensor.shape().dims().end());
    lines += fmt::format("  {} {}\n", name, tensor.shape().str());
  }
  if (common.talks())
    say(fmt::format("{}: {} bytes there, {} back, {:.0f} ms\n{}", r.outputs, result.traffic.sent,
                    result.traffic.received, 1e3 * result.traffic.seconds, lines));
  write_json(common, json);
  return done;
}

int query(const QueryRequest& r, const CommonOptions& common) {
  const bool text = !r.text.prompt.empty() || !r.text.ids.empty();
  if (text == !r.inputs.empty())
    throw UsageError("give one of --prompt, --ids (a text to continue) and --inputs (tensors to run)");
  if (r.inputs.empty() != r.outputs.empty()) throw UsageError("--inputs and --outputs go together");
  add_model(*common.files, r.text.tokenizer);
  common.files->check();
  return text ? continue_text(r, common) : compute_outputs(r, common);
}

} // namespace

Job declare_stip_query(CLI::App& app, const CommonOptions& common) {
  auto r = std::make_shared<QueryRequest>();
  common.files->input(app.add_option("--model", r->model, "The user's folder, OUT/user of stip transform"))
      ->required()
      ->type_name("DIR");
  r->place.declare(app, common);
  r->text.declare(app, common);
  common.files->input(app.add_option("--inputs", r->inputs, "Inputs by their usual names, as for infer"))
      ->type_name("IN.safetensors");
  common.files
      ->result(app.add_option("--outputs", r->outputs, "Receives last_hidden_state, pooler_output, logits, ..."))
      ->type_name("OUT.safetensors");
  app.add_option("--dtype", r->dtype, "f32 or f64, as the cloud serves (default f32)")
      ->check(one_of({"f32", "f64"}))
      ->type_name("TYPE");
  app.add_option(
         "--attempts", r->attempts,
         "To go on with a text whose connection is lost, or for which the cloud has no room, before it is given up")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--message-mb", r->message_mb, "Largest message, MiB: a longer prompt goes in parts")
      ->check(whole_number(1, 256))
      ->capture_default_str();
  app.footer(
      "Embeddings, head and key stay here. What the cloud gets is in a permuted order, which is obfuscation, not\n"
      "encryption: docs/stip.md says what undoes it.");
  return [r, &common, &app]() -> int {
    disable_core_dumps();
    r->text.settle(app);
    return query(*r, common);
  };
}

} // namespace eg::cli
