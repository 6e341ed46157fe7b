// Where the edge's secrets are: in its own memory, and nowhere else. Files, output, dumps of crashes and the memory of
// both processes are searched.

#include "cli/serving.h"
#include "cli/traces.h"

#include "data/dataset.h"
#include "permute/blocks_key.h"
#include "permute/key.h"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

using namespace eg;
using namespace eg::test;

namespace {

constexpr std::int64_t dim = 48, layers = 2, images = 256;

/// By name, as bytes: the master key, the order of the features in both directions, the labels.
Secrets secrets_of(const std::string& key_path) {
  const permute::SecretKey key = permute::SecretKey::load(key_path);
  const nn::BlockConfig block{.dim = dim, .heads = 2, .mlp = 32};
  const permute::BlocksKey drawn =
      permute::BlocksKey::draw(block, layers, permute::KeyForm::decoupled, key.source("vit"));
  Secrets found;
  found["master key"] = read_text(key_path).substr(16, 32); // behind the head of the file
  add_order(found, "P_C", drawn.residual.gather());
  add_order(found, "P_C back", drawn.residual.inverse().gather());
  const data::ImageDataset train =
      data::open_dataset("shapes", "", data::Split::train, {.limit = images, .size = 16, .seed = 3});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < train.size(); ++i) labels.push_back(train.label(i));
  add_order(found, "labels", labels);
  return found;
}

} // namespace

TEST_CASE("split: the edge's secrets are in its memory alone; a crash of either side leaves none behind") {
  if (!has_net()) return;
  // The edge must forgo a dump that it could leave.
  const bool dumps = allow_core_dumps();
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return folder.path(name); };
  for (const char* own : {"edge", "cloud"}) std::filesystem::create_directories(at(own));
  REQUIRE(run_program({"certs", "--out", at("certs"), "--quiet"}).code == 0);
  REQUIRE(run_program({"keygen", "--out", at("secret.key"), "--quiet"}).code == 0);
  const Secrets secrets = secrets_of(at("secret.key"));
  ServingProgram serving({"cloud", "--listen", "127.0.0.1:0", "--model", "any", "--certs", at("certs"), "--out",
                          at("cloud/runs"), "--quiet"},
                         at("cloud"));
  RunningProgram& cloud = serving.program();
  RunningProgram edge({"edge",
                       "vit",
                       "--connect",
                       serving.place(),
                       "--certs",
                       at("certs"),
                       "--data",
                       "shapes",
                       "--train-limit",
                       std::to_string(images),
                       "--test-limit",
                       "64",
                       "--size",
                       "16",
                       "--patch",
                       "8",
                       "--dim",
                       std::to_string(dim),
                       "--layers",
                       "2",
                       "--heads",
                       "2",
                       "--mlp",
                       "32",
                       "--batch",
                       "16",
                       "--permute",
                       "both",
                       "--key",
                       at("secret.key"),
                       "--steps",
                       "100000",
                       "--seed",
                       "3",
                       "--init",
                       "cloud",
                       "--workers",
                       "0",
                       "--checkpoint-every",
                       "20",
                       "--out",
                       at("edge/run")},
                      at("edge"));
  REQUIRE(edge.wait_until([&] {
    return std::filesystem::exists(at("edge/run/checkpoints/step-00000040/state.json")) ||
           std::filesystem::exists(at("edge/run/checkpoints/step-00000060/state.json"));
  }));
  for (const RunningProgram* p : {&edge, &cloud}) p->signal(SIGSTOP);
  const std::string of_edge = memory_of(edge.pid()), of_cloud = memory_of(cloud.pid());
  for (const RunningProgram* p : {&edge, &cloud}) p->signal(SIGCONT);
  CHECK(of_edge.find(secrets.at("master key")) != std::string::npos); // the search finds what is there
  CHECK(of_edge.find(secrets.at("P_C")) != std::string::npos);
  CHECK(of_edge.find(secrets.at("labels, 32 bits")) != std::string::npos);
  CHECK(of_cloud.find("blocks.0.") != std::string::npos);
  check_none_in(secrets, of_cloud);
  edge.signal(SIGSEGV);
  cloud.signal(SIGABRT);
  const Outcome edge_end = edge.wait(), cloud_end = cloud.wait();
  CHECK(edge_end.code == 128 + SIGSEGV);
  CHECK(cloud_end.code == 128 + SIGABRT);
  // Where dumps go to the folder of who crashes, the cloud's is there: the edge's would be, too.
  if (dumps) CHECK(has_dump(at("cloud")));
  CHECK(!has_dump(at("edge")));
  // A dump of the edge's would hold P_C, as its memory does.
  const std::string left =
      files_of(at("edge")) + files_of(at("cloud")) + edge_end.out + edge_end.err + cloud_end.out + cloud_end.err;
  CHECK(left.find("blocks.0.") != std::string::npos);
  check_none_in(secrets, left);
}
