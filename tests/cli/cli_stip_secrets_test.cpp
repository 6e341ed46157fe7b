// Where the secrets of a user of STIP are: in the user's own memory, and nowhere else. Files, output, dumps of crashes
// and the memory of both processes are searched.

#include "cli/serving.h"
#include "cli/traces.h"

#include "permute/key.h"
#include "support/byte_tokenizer.h"
#include "support/small_models.h"

#include <csignal>
#include <filesystem>

using namespace eg;
using namespace eg::test;

namespace {

constexpr std::int64_t positions = 200'000; // a text that does not end before the test does

/// The master key, pi in both directions, the text that is continued.
Secrets secrets_of(const std::string& user, const std::string& prompt) {
  const std::string path = user + "/residual.key";
  const auto about = nlohmann::json::parse(read_text(user + "/stip.json"));
  const permute::Permutation pi = permute::SecretKey::load(path).source(about["id"].get<std::string>())(
      about["dim"].get<std::int64_t>(), "residual");
  Secrets found{{"master key", read_text(path).substr(16, 32)}, {"prompt", prompt}};
  add_order(found, "pi", pi.gather());
  add_order(found, "pi back", pi.inverse().gather());
  add_order(found, "prompt's tokens", {prompt.begin(), prompt.end()}); // a byte is a token
  return found;
}

} // namespace

TEST_CASE("stip: the user's secrets are in their memory alone; a crash of either side leaves none behind") {
  if (!has_net()) return;
  const bool dumps = allow_core_dumps();
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return folder.path(name); };
  for (const char* own : {"user", "cloud"}) std::filesystem::create_directories(at(own));
  nlohmann::json config = small_config("llama");
  config["max_position_embeddings"] = positions;
  const auto model = hub::make_model(config, {1, 0});
  draw_all(model->module(), {1, 1});
  hub::save_model(*model, at("model"));
  write_byte_tokenizer(at("model"));
  REQUIRE(run_program({"certs", "--out", at("certs"), "--quiet"}).code == 0);
  REQUIRE(run_program({"stip", "transform", "--model", at("model"), "--out", at("out"), "--quiet"}).code == 0);
  const std::string prompt = "What nobody else must read: the cipher of the day";
  const Secrets secrets = secrets_of(at("out") + "/user", prompt);
  ServingProgram serving({"stip", "serve", "--model", at("out") + "/cloud", "--listen", "127.0.0.1:0", "--certs",
                          at("certs"), "--tokens", std::to_string(positions)},
                         at("cloud"));
  RunningProgram& cloud = serving.program();
  RunningProgram user({"stip", "query", "--model", at("out") + "/user", "--connect", serving.place(), "--certs",
                       at("certs"), "--prompt", prompt, "--max-new-tokens", std::to_string(positions - 100),
                       "--ignore-end"},
                      at("user"), at("user") + "/text");
  REQUIRE(user.wait_until([&] { return read_text(at("user") + "/text").size() > prompt.size() + 40; }));
  for (const RunningProgram* p : {&user, &cloud}) p->signal(SIGSTOP);
  const std::string of_user = memory_of(user.pid()), of_cloud = memory_of(cloud.pid());
  for (const RunningProgram* p : {&user, &cloud}) p->signal(SIGCONT);
  for (const char* name : {"pi", "prompt"}) // the search finds what is there; the master key is gone once pi is drawn
    CHECK(of_user.find(secrets.at(name)) != std::string::npos);
  CHECK(of_cloud.find("blocks.0.") != std::string::npos);
  check_none_in(secrets, of_cloud);
  user.signal(SIGSEGV);
  cloud.signal(SIGABRT);
  const Outcome user_end = user.wait(), cloud_end = cloud.wait();
  CHECK(user_end.code == 128 + SIGSEGV);
  CHECK(cloud_end.code == 128 + SIGABRT);
  if (dumps) CHECK(has_dump(at("cloud")));
  CHECK(!has_dump(at("user")));
  const std::string left = files_of(at("cloud")) + files_of(at("out") + "/cloud");
  CHECK(left.find("blocks.0.") != std::string::npos); // the search sees what is there
  check_none_in(secrets, left + user_end.err + cloud_end.out + cloud_end.err);
}
