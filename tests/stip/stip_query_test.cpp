// STIP end to end in one thread: what the user gets is what the plain model gives.

#include "core/base/bytes.h"
#include "data/safetensors.h"
#include "nn/hub/llama2c.h"
#include "permute/key.h"
#include "stip/stip_models.h"
#include "support/message.h"
#include "support/skip.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

using namespace eg;
using namespace eg::net;
using namespace eg::permute;
using namespace eg::stip;
using namespace eg::test;

namespace {

const std::vector<std::int64_t> prompt = {84, 104, 101, 32, 101, 110, 100};

nn::GenerateOptions tokens(std::int64_t count, double temperature = 0.0) {
  nn::GenerateOptions o;
  o.max_new_tokens = count;
  o.sampling.temperature = temperature;
  o.key = {3, 0};
  return o;
}

std::vector<std::int64_t> queried(const UserModel& user, StipService& cloud, const nn::GenerateOptions& options,
                                  Traffic* traffic = nullptr, StipText* result = nullptr) {
  const StipText text = stip_generate(user, connect_to(cloud, "user", {}, traffic), nullptr, prompt, options, {},
                                      [](std::string_view) {});
  if (result != nullptr) *result = text;
  return text.text.ids;
}

bool contains(const Bytes& all, const void* part, std::size_t size) {
  const auto* first = static_cast<const std::uint8_t*>(part);
  return std::search(all.begin(), all.end(), first, first + size) != all.end();
}

/// All bytes of a folder's files.
Bytes bytes_of(const std::string& folder) {
  Bytes all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const Bytes bytes = read_file(entry.path().string());
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

} // namespace

TEST_CASE("stip: 200 tokens are those of the plain model, greedy and sampled, under both schemes") {
  for (const char* family : {"gpt2", "llama"})
    for (const Scheme scheme : {Scheme::stip1, Scheme::stip2}) {
      CAPTURE(family);
      CAPTURE(info_of(scheme).name);
      const StipParties parties(family, scheme);
      // In f64: the key is drawn anew, and one run in ten has a tie of two tokens within f32's rounding.
      const auto plain = hub::load_model(parties.path("model"), {.dtype = DType::f64}).model;
      StipService cloud = parties.service({}, DType::f64);
      const UserModel user = parties.user(DType::f64);
      for (const double temperature : {0.0, 0.8}) {
        const auto expected = nn::generate(*plain->decoder(), prompt, tokens(200, temperature));
        CHECK(expected.size() == 200);
        CHECK(queried(user, cloud, tokens(200, temperature)) == expected);
      }
      CHECK(cloud.sessions() == 0); // they went with their connections
      CHECK(cloud.cache_bytes() == 0);
    }
}

TEST_CASE("stip: a trained Llama says what it says") {
  const auto folder = data_or_skip("stip: llama2.c", "weights/llama2c-aidreams260K");
  if (folder.empty()) return;
  const TemporaryFolder out;
  const std::string file = (folder / "aidreams260K.bin").string();
  const auto plain = hub::load_llama2c(file);
  transform_for_stip({.model = file, .out = out.path("out")});
  StipService cloud(open_cloud(out.path("out/cloud")));
  const UserModel user(out.path("out/user"));
  const std::vector<std::int64_t> start = {1};
  const StipText text =
      stip_generate(user, connect_to(cloud, "user"), nullptr, start, tokens(127), {}, [](std::string_view) {});
  CHECK(text.text.ids == nn::generate(*plain->decoder(), start, tokens(127)));
}

TEST_CASE("stip: a connection that is lost at every message costs time and not a bit") {
  const StipParties parties("llama");
  StipService cloud = parties.service();
  const UserModel user = parties.user();
  const RetryPolicy at_once{.attempts = 4, .pause = {}, .longest_pause = {}};
  const auto said = [&](std::function<Fate(ByteView)> fate, std::int64_t count) {
    const StipText text = stip_generate(
        user, connect_to(cloud, "user", std::move(fate)), nullptr, prompt, tokens(count, 0.8), {},
        [](std::string_view) {}, at_once);
    return std::pair{text.text.ids, text.reconnects};
  };
  constexpr std::int64_t count = 12;
  const auto whole = said({}, count);
  CHECK(whole.second == 0);
  // Opening, prompt and tokens are 1 + count messages; message `lost` goes missing, there or on the way back.
  for (const Fate fate : {Fate::lost, Fate::answer_lost})
    for (int lost = 1; lost <= count; ++lost) {
      CAPTURE(lost);
      int sent = 0;
      const auto found = said([&](ByteView) { return sent++ == lost ? fate : Fate::arrives; }, count);
      CHECK(found.first == whole.first);
      CHECK(found.second == 1);
    }
  CHECK(cloud.sessions() == 0);
  // A cloud that is gone for good; one that was never there is not waited for.
  int sent = 0;
  CHECK(message_of<ConnectionError>([&] {
          said([&](ByteView) { return ++sent > 5 ? Fate::lost : Fate::arrives; }, count);
        }).find("(after 4 attempts)") != std::string::npos);
  CHECK(sent == 5 + 4);
  sent = 0;
  CHECK_THROWS_AS(said(
                      [&](ByteView) {
                        ++sent;
                        return Fate::lost;
                      },
                      count),
                  ConnectionError);
  CHECK(sent == 1);
}

TEST_CASE("stip: a cloud without room is asked again; a long prompt goes in parts; both say the same text") {
  const StipParties parties("llama");
  StipServiceOptions one;
  one.sessions = 1;
  // f64: parts of a prompt are other products than the whole, and some keys have a tie within f32's rounding.
  StipService cloud = parties.service(one, DType::f64);
  const UserModel user = parties.user(DType::f64);
  std::optional<CloudSession> other(std::in_place, connect_to(cloud, "other"), user, 8);
  int reports = 0;
  RetryPolicy retry_policy{.attempts = 4, .pause = {}, .longest_pause = {}};
  retry_policy.on_pause = [&](const ConnectionError&, std::chrono::milliseconds) {
    if (++reports == 3) other.reset(); // its text has ended
  };
  const auto said = [&](const FrameLimits& frames) {
    const StipText text = stip_generate(
        user, connect_to(cloud, "user"), nullptr, prompt, tokens(12, 0.8), {}, [](std::string_view) {}, retry_policy,
        frames);
    return std::pair{text.text.ids, text.prompt.requests};
  };
  const auto waited = said({});
  CHECK(reports == 3);
  CHECK(waited.second == 2);
  const std::uint64_t two_tokens = 2 * 48 * sizeof(double) + 2 * frame_overhead;
  const auto in_parts = said({.body = two_tokens});
  CHECK(in_parts.second == 1 + (prompt.size() + 1) / 2);
  CHECK(in_parts.first == waited.first);
  CHECK(reports == 3);
  other.emplace(connect_to(cloud, "other"), user, 8);
  reports = 3;
  CHECK(message_of<ConnectionError>([&] { said({}); }).find("(after 4 attempts)") != std::string::npos);
}

TEST_CASE("stip: outputs of a pass, every family, within rounding") {
  for (const char* family : {"vit", "deit", "bert", "gpt2", "llama"})
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(family);
      CAPTURE(name_of(dtype));
      const StipParties parties(family);
      const auto plain = hub::load_model(parties.path("model"), {.dtype = dtype}).model;
      StipService cloud = parties.service({}, dtype);
      const hub::Tensors inputs = small_inputs(*plain, dtype), expected = plain->forward(inputs);
      const StipOutputs found = stip_forward(parties.user(dtype), connect_to(cloud, "user"), inputs);
      REQUIRE(found.outputs.size() == expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(found.outputs[i].first == expected[i].first);
        CHECK(relative_error(found.outputs[i].second, expected[i].second) < (dtype == DType::f32 ? 2e-5 : 1e-13));
      }
      // Another user's key is of no use (negative control).
      parties.transform(Scheme::stip2, "other");
      const UserModel stranger(parties.path("other/user"), dtype);
      CHECK(message_of<ProtocolError>([&] {
              stip_forward(stranger, connect_to(cloud, "user"), inputs);
            }).find("another model") != std::string::npos);
    }
}

TEST_CASE("stip: outputs of a pass come as well when connections are lost on the way, and messages have a size") {
  const StipParties parties("bert");
  const auto plain = hub::load_model(parties.path("model")).model;
  StipService cloud = parties.service();
  const UserModel user = parties.user();
  const hub::Tensors inputs = small_inputs(*plain);
  const hub::Tensors whole = stip_forward(user, connect_to(cloud, "user"), inputs).outputs;
  const RetryPolicy at_once{.attempts = 4, .pause = {}, .longest_pause = {}};
  for (const int losses : {1, 3, 4}) {
    int sent = 0;
    const auto passed = [&] {
      const auto fate = [&](ByteView) { return sent++ < losses ? Fate::lost : Fate::arrives; };
      return stip_forward(user, connect_to(cloud, "user", fate), inputs, at_once).outputs;
    };
    if (losses < 4)
      CHECK(same_bits(passed()[0].second, whole[0].second));
    else
      CHECK_THROWS_AS(passed(), ConnectionError);
  }
  CHECK_THROWS_AS(stip_forward(user, connect_to(cloud, "user"), inputs, at_once, {.body = 64}), Error);
}

TEST_CASE("stip: features that the user's key did not permute give other outputs") {
  const StipParties parties("bert");
  const auto plain = hub::load_model(parties.path("model")).model;
  StipService cloud = parties.service();
  const UserModel user = parties.user();
  const hub::Tensors inputs = small_inputs(*plain);
  const hub::Tensors unpermuted = user.model().forward_around(inputs, [&](const Tensor& z, const Tensor& mask) {
    CloudSession session(connect_to(cloud, "user"), user, 0);
    return session.evaluate(z, mask);
  });
  CHECK(relative_error(unpermuted[0].second, plain->forward(inputs)[0].second) > 1e-2);
}

TEST_CASE("stip: the cloud's folder holds blocks alone, the user's everything else") {
  for (const char* family : {"vit", "bert", "gpt2", "llama"}) {
    CAPTURE(family);
    const StipParties parties(family);
    const auto plain = hub::load_model(parties.path("model")).model;
    const Bytes cloud = bytes_of(parties.path("out/cloud"));
    const data::TensorReader weights = data::open_tensors(parties.path("out/cloud/model.safetensors"));
    for (const data::TensorInfo& info : weights.tensors()) CHECK(info.name.starts_with("blocks."));
    const nn::StateDict state = plain->module().state_dict();
    for (const auto& one : state) {
      const std::string& name = one.first;
      const Tensor& value = one.second;
      if (value.numel() < 8) continue;
      CAPTURE(name);
      CHECK(!contains(cloud, value.bytes(), value.nbytes())); // neither the rest nor a plain block
      const Tensor packed = value;
      // A value that is not the blocks' is not there in any order: its largest number is nowhere.
      if (name.starts_with("blocks.")) continue;
      const Tensor largest = max(value.reshape({value.numel()}), 0);
      CHECK(!contains(cloud, largest.bytes(), largest.nbytes()));
    }
    const UserModel user = parties.user();
    for (const auto& [name, value] : user.model().module().state_dict()) CHECK(!name.starts_with("blocks."));
    const auto mode = std::filesystem::status(parties.path("out/user/residual.key")).permissions();
    CHECK(mode == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  }
}

TEST_CASE("stip: the first version leaves inner axes as they are, the second moves them") {
  StipParties parties("gpt2", Scheme::stip1);
  parties.transform(Scheme::stip2, "second");
  const auto plain = hub::load_model(parties.path("model")).model;
  const Tensor bias = plain->blocks().front()->mlp.fc1.bias;
  CHECK(same_bits(open_cloud(parties.path("out/cloud")).blocks.front()->mlp.fc1.bias, bias));
  const Tensor moved = open_cloud(parties.path("second/cloud")).blocks.front()->mlp.fc1.bias;
  CHECK(!same_bits(moved, bias));
  CHECK(same_bits(sort(moved, 0).values, sort(bias, 0).values));
}

TEST_CASE("stip: neither key nor permutation, embedding, prompt or text is in the cloud's folder or in what is sent") {
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const StipParties parties(family);
    StipService cloud = parties.service();
    const UserModel user = parties.user();
    Traffic traffic;
    StipText text;
    queried(user, cloud, tokens(20), &traffic, &text);
    const Bytes folder = bytes_of(parties.path("out/cloud"));
    Bytes all = traffic.sent;
    all.insert(all.end(), traffic.received.begin(), traffic.received.end());
    all.insert(all.end(), folder.begin(), folder.end());
    // What it does get is found (positive control).
    const Tensor z = user.model().decoder()->embed({.ids = Tensor::from<std::int64_t>(prompt, {1, 7})});
    const Tensor entered = user.hidden(z);
    CHECK(contains(traffic.sent, entered.bytes(), entered.nbytes()));
    for (std::int64_t t = 0; t < 7; ++t) {
      const Tensor row = z.select(1, t).contiguous();
      CHECK(!contains(all, row.bytes(), row.nbytes()));
    }
    const std::string key_path = parties.path("out/user/residual.key");
    const Bytes key = read_file(key_path);
    for (std::size_t at = 16; at < 48; at += 8) CHECK(!contains(all, key.data() + at, 8));
    const permute::SecretKey secret = permute::SecretKey::load(key_path);
    const permute::Permutation pi = secret.source(user.id())(user.dim(), "residual");
    for (const permute::Permutation& p : {pi, pi.inverse()})
      for (const DType dtype : {DType::i64, DType::u8, DType::f32}) {
        const Tensor order = p.tensor().to(dtype);
        CHECK(!contains(all, order.bytes(), order.nbytes()));
      }
    const std::string fingerprint = secret.fingerprint();
    CHECK(!contains(all, fingerprint.data(), fingerprint.size()));
    CHECK(!contains(all, prompt.data(), prompt.size() * sizeof(std::int64_t)));
    CHECK(!contains(all, text.text.ids.data(), 8 * sizeof(std::int64_t)));
    // A token costs its features there and back, and two headers.
    const auto row = static_cast<std::uint64_t>(user.dim()) * sizeof(float);
    CHECK(text.tokens.requests == 19);
    CHECK(text.tokens.sent < 19 * (row + 120));
    CHECK(text.tokens.received < 19 * (row + 120));
    CHECK(text.prompt.requests == 2); // the session, and the prompt in one message
  }
}

TEST_CASE("stip: what cannot be transformed or opened is said") {
  const StipParties parties("bert");
  const auto refused = [](const char* words, auto&& action) {
    const std::string message = message_of(action);
    INFO(message);
    CHECK(message.find(words) != std::string::npos);
  };
  refused("is there already", [&] { parties.transform(Scheme::stip2); });
  refused("not one of stip1, stip2", [&] { parties.transform(Scheme::row, "row"); });
  CHECK(!std::filesystem::exists(parties.path("row")));
  refused("there is no stip.json", [&] { UserModel user(parties.path("model")); });
  refused("stip.json", [&] { open_cloud(parties.path("out/user")); });
  const std::string key = parties.path("out/user/residual.key");
  std::filesystem::permissions(key, std::filesystem::perms::group_read, std::filesystem::perm_options::add);
  refused("open to others", [&] { parties.user(); });
  std::filesystem::remove(key);
  permute::SecretKey::generate("for something else").save(key);
  refused("is not this model's", [&] { parties.user(); });
  // A config that asks for more than the file holds.
  const std::string config = parties.path("out/cloud/stip.json");
  const auto with = [&](const char* field, const nlohmann::json& value) {
    nlohmann::json json = nlohmann::json::parse(read_file(config));
    json[field] = value;
    write_file(parties.path("out/cloud/stip.json"), std::string_view(json.dump()));
    const std::string message = message_of([&] { open_cloud(parties.path("out/cloud")); });
    return message;
  };
  CHECK(with("mlp", 1 << 16).find("asks for at least") != std::string::npos);
  CHECK(with("mlp", 32).find("not [") != std::string::npos);
  CHECK(with("heads", 0).find("heads") != std::string::npos);
  // A config that leaves out what the file holds.
  parties.transform(Scheme::stip2, "bare");
  nlohmann::json bare = nlohmann::json::parse(read_file(parties.path("bare/cloud/stip.json")));
  bare["qkv_bias"] = false;
  write_file(parties.path("bare/cloud/stip.json"), std::string_view(bare.dump()));
  CHECK(message_of([&] { open_cloud(parties.path("bare/cloud")); }).find("tensors, where") != std::string::npos);
  CHECK(with("surprise", 1).find("not supported") != std::string::npos);
  const StipParties decoder("llama");
  StipService cloud = decoder.service();
  const UserModel user = decoder.user();
  hub::Tensors inputs = small_inputs(user.model());
  inputs.emplace_back("position_ids", Tensor::zeros({2, 12}, DType::i64));
  refused("position_ids", [&] { stip_forward(user, connect_to(cloud, "user"), inputs); });
  refused("positions", [&] { queried(user, cloud, tokens(300)); });
}
