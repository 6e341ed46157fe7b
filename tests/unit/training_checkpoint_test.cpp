// Run folders under adverse conditions: locks, files that are not what was written, rotation, what killed processes
// leave, runs that diverge.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "data/text/text.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "training/checkpoint.h"
#include "training/checkpoint_state.h"
#include "training/records.h"
#include "training/run_lock.h"
#include "training/vit_trainer.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace eg;
using namespace eg::permute;
using namespace eg::test;
using namespace eg::training;

namespace {

VitOptions small(const std::string& out) {
  VitOptions o;
  o.data = "shapes";
  o.size = 16;
  o.train_limit = 48;
  o.test_limit = 16;
  o.model.patch = 8;
  o.model.layers = 1;
  o.model.encoder = {.dim = 8, .heads = 2, .mlp = 8};
  o.steps = 8;
  o.batch = 8;
  o.schedule = optim::Schedule::Kind::constant;
  o.out = out;
  return o;
}

/// Leaves checkpoints of steps 6 and 8.
VitOptions finished(const std::string& out) {
  VitOptions o = small(out);
  o.checkpoint_every = 2;
  VitTrainer(o).run();
  return o;
}

nlohmann::json state_of(const std::string& checkpoint) { return read_json(checkpoint + "/state.json"); }

/// For as long as it lives the process has no more rights than anybody; root may read every file.
class Nobody {
public:
  Nobody() {
    if (::geteuid() == 0) changed_ = ::seteuid(65534) == 0;
  }
  ~Nobody() {
    if (changed_) static_cast<void>(::seteuid(0) == 0);
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

private:
  bool changed_ = false;
};

} // namespace

TEST_CASE("run lock: a folder with a pipe or device in it is refused, where a read or write could wait for ever") {
  const TemporaryFolder folder;
  for (const char* name : {"metrics.csv", "checkpoints/best.json"}) {
    const std::string run = folder.path("run");
    const std::string path = join_path(run, name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(message_of<FileError>([&] { RunLock{run}; }) ==
          path + ": is a pipe, socket or device; a run folder holds files and folders");
    CHECK_FALSE(run_is_locked(run));
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/dev/null", path);
    CHECK(message_of<FileError>([&] { RunLock{run}; }).starts_with(path + ": is a pipe"));
    std::filesystem::remove(path);
    const RunLock lock(run);
    CHECK(run_is_locked(run));
  }
}

TEST_CASE("run lock: one at a time, and gone with its holder") {
  const TemporaryFolder folder;
  const std::string run = folder.path("a/b");
  {
    const RunLock lock(run);
    CHECK(run_is_locked(run));
    CHECK(message_of<FileError>([&] { RunLock{run}; }) ==
          fmt::format("{}: another training is using this run folder (process {}): wait for it or give another --out",
                      run, ::getpid()));
    CHECK(message_of<FileError>([&] { VitTrainer{small(run)}; }).starts_with(run + ": another training is using"));
  }
  CHECK_FALSE(run_is_locked(run));
  CHECK_FALSE(folder_exists(folder.path("a"))); // nothing was put in
  CHECK(folder_exists(folder.path()));

  // A process that is killed leaves the file but not the lock.
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const RunLock lock(run);
      ::raise(SIGKILL);
    } catch (...) {
    }
    ::_exit(1); // this copy of the test must not go on
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(file_exists(run + "/run.lock"));
  CHECK_FALSE(run_is_locked(run));
  VitTrainer trainer(small(run));
  CHECK(run_is_locked(run));
  trainer.run();
}

TEST_CASE("checkpoint: files of another run of equal shapes are not taken for its own") {
  const TemporaryFolder folder;
  finished(folder.path("run"));
  VitOptions other = small(folder.path("other"));
  other.seed = 6;
  VitTrainer(other).run();
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    CAPTURE(name);
    const std::string checkpoint = folder.path("run/checkpoints/step-00000008");
    const std::string file = checkpoint + "/" + name;
    const Bytes own = read_file(file);
    const Bytes foreign = read_file(folder.path("other/checkpoints/step-00000008/") + name);
    REQUIRE(own.size() == foreign.size());
    write_file(file, ByteView(foreign));
    VitOptions again = options_of_run(checkpoint);
    CHECK(message_of<FileError>([&] { VitTrainer{again}; }) ==
          file + ": not the file that was written: its checksum is another one");
    write_file(file, ByteView(foreign).subspan(1));
    CHECK(message_of<FileError>([&] { VitTrainer{again}; }) ==
          fmt::format("{}: {} bytes, but {} were written", file, own.size() - 1, own.size()));
    write_file(file, ByteView(own));
    CHECK(VitTrainer(again).step() == 8);
  }
  const std::string checkpoint = folder.path("run/checkpoints/step-00000008");
  nlohmann::json state = state_of(checkpoint);
  state["files"].erase("optimizer.safetensors");
  write_json(checkpoint + "/state.json", state);
  VitOptions again = options_of_run(checkpoint);
  CHECK(message_of<FileError>([&] { VitTrainer{again}; }) ==
        checkpoint + "/state.json: does not record 'optimizer.safetensors'");
}

TEST_CASE("checkpoint: a run that goes on behind a line that could not be written keeps and makes up every test") {
  const TemporaryFolder folder;
  VitOptions o = small(folder.path("run"));
  o.evaluate_every = 1;
  o.checkpoint_every = 2;
  o.keep = 8;
  VitTrainer(o).run();
  const std::string metrics = folder.path("run/metrics.jsonl");
  const auto tests = [&] {
    std::vector<std::int64_t> steps;
    std::istringstream lines(data::read_text(metrics));
    for (std::string line; std::getline(lines, line);)
      if (const auto record = nlohmann::json::parse(line); record["split"] == "test") steps.push_back(record["step"]);
    return steps;
  };
  const std::vector<std::int64_t> all = tests();
  REQUIRE(all.size() == 8);
  for (const std::int64_t step : {8, 6}) {
    CAPTURE(step);
    const std::string checkpoint = folder.path("run/checkpoints/step-0000000" + std::to_string(step));
    REQUIRE(folder_exists(checkpoint));
    nlohmann::json state = state_of(checkpoint);
    state["unwritten"] = nlohmann::json{{"split", "train"}, {"step", step}, {"loss", 1.0}}.dump();
    write_json(checkpoint + "/state.json", state);
    VitTrainer again(options_of_run(checkpoint));
    CHECK(again.step() == step);
    again.run();
    CHECK(tests() == all);
  }
}

TEST_CASE("checkpoint: going back to a step that is the last one asked for gives up the later ones as well") {
  const TemporaryFolder folder;
  const VitOptions o = finished(folder.path("run"));
  VitOptions back = options_of_run(folder.path("run/checkpoints/step-00000006"));
  back.steps = 6;
  VitTrainer(back).run();
  CHECK(checkpoint_steps(o.out) == std::vector<std::int64_t>{6});
  CHECK(data::read_text(folder.path("run/checkpoints/latest")) == "step-00000006\n");
}

TEST_CASE("checkpoint: its run is found however its path is written") {
  const TemporaryFolder folder;
  finished(folder.path("run"));
  const std::string checkpoint = folder.path("run/checkpoints/step-00000008");
  for (const std::string& path : {checkpoint, checkpoint + "/", folder.path("run/./checkpoints//step-00000008//"),
                                  folder.path("run/checkpoints/../checkpoints/step-00000008")})
    CHECK(options_of_run(path).out == folder.path("run"));
  const std::filesystem::path before = std::filesystem::current_path();
  for (const char* place :
       {"run/checkpoints", "run", "run/checkpoints/step-00000008", "run/checkpoints/step-00000006"}) {
    std::filesystem::current_path(folder.path(place));
    const std::filesystem::path relative = std::filesystem::relative(checkpoint);
    CAPTURE(relative);
    CHECK(std::filesystem::equivalent(options_of_run(relative.string()).out, folder.path("run")));
  }
  std::filesystem::current_path(before);
}

TEST_CASE("checkpoint: one that a person has renamed is not removed unasked") {
  const TemporaryFolder folder;
  const VitOptions o = finished(folder.path("run"));
  const std::string root = folder.path("run/checkpoints/");
  std::filesystem::rename(root + "step-00000008", root + "mine");
  std::filesystem::remove_all(root + "step-00000006");
  for (const char* result : {"model", "model.safetensors"}) std::filesystem::remove_all(folder.path("run/") + result);
  CHECK(message_of<ValueError>([&] { VitTrainer{small(folder.path("run"))}; }).find("already holds a run") !=
        std::string::npos);
  CHECK(folder_exists(root + "mine"));
}

TEST_CASE("checkpoint: a damaged one takes no place of a good one") {
  const TemporaryFolder folder;
  VitOptions o = finished(folder.path("run"));
  const std::string root = folder.path("run/checkpoints/");
  Bytes bytes = read_file(root + "step-00000008/model.safetensors");
  bytes.back() ^= 1; // of equal size, and still a safetensors file
  write_file(root + "step-00000008/model.safetensors", ByteView(bytes));
  prune_checkpoints(o.out, 8, 1, 8);
  CHECK(checkpoint_steps(o.out) == std::vector<std::int64_t>{6, 8}); // the best one stays, and counts for none
  prune_checkpoints(o.out, 8, 1);
  CHECK(checkpoint_steps(o.out) == std::vector<std::int64_t>{6});
  o = options_of_run(o.out);
  CHECK(VitTrainer(o).step() == 6);
}

TEST_CASE("checkpoint: a line of metrics or a description of data that is none is damage") {
  const TemporaryFolder folder;
  VitOptions o = finished(folder.path("run"));
  const std::string checkpoint = folder.path("run/checkpoints/step-00000008");
  const nlohmann::json sound = state_of(checkpoint);
  const auto resumes_at = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json state = sound;
    state[key] = value;
    write_json(checkpoint + "/state.json", state);
    return VitTrainer(options_of_run(o.out)).step();
  };
  for (const char* text :
       {"5", "{}", "no JSON", R"({"split": "train", "step": 7})", R"({"split": "train", "step": "8"})"})
    CHECK(resumes_at("unwritten", text) == 6);
  CHECK(resumes_at("unwritten", 5) == 6);
  CHECK(resumes_at("data", 5) == 6);
  CHECK(resumes_at("unwritten", R"({"split": "train", "step": 8, "loss": 1.0})") == 8);
}

TEST_CASE("checkpoint: resuming with other shards is said, and shards that are no count are damage") {
  const TemporaryFolder folder;
  VitOptions o = finished(folder.path("run"));
  const std::string path = folder.path("run/checkpoints/step-00000008/state.json");
  nlohmann::json state = read_json(path);
  o.resume = o.out;
  const auto notes_with = [&](std::int64_t now, const nlohmann::json& then) {
    state["options"]["shards"] = then;
    write_json(path, state);
    o.shards = now;
    return fmt::format("{}", fmt::join(VitTrainer(o).notes(), "\n"));
  };
  const std::string said = "a batch has 2 shards from here on, and had {} before";
  CHECK(notes_with(2, 0).find(fmt::format(fmt::runtime(said), 1)) != std::string::npos);
  CHECK(notes_with(2, 4).find(fmt::format(fmt::runtime(said), 4)) != std::string::npos);
  for (const std::int64_t same : {0, 1, 2})
    CHECK(notes_with(same, std::max<std::int64_t>(same, 1)).find("a batch has") == std::string::npos);
  for (const nlohmann::json& wrong : {nlohmann::json("2"), nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json()})
    CHECK(notes_with(2, wrong).find(fmt::format("shards is {}, not a count", wrong.dump())) != std::string::npos);
}

TEST_CASE("checkpoint: one of a newer equigrad or without permission is an error and stays") {
  const TemporaryFolder folder;
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  const VitOptions o = finished(folder.path("run"));
  const std::string checkpoint = folder.path("run/checkpoints/step-00000008"), path = checkpoint + "/state.json";
  REQUIRE(::chmod(path.c_str(), 0) == 0);
  {
    const Nobody rights;
    CHECK(message_of<FileError>([&] { options_of_run(o.out); }) == path + ": cannot open: Permission denied");
  }
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  REQUIRE(::chmod(checkpoint.c_str(), 0) == 0);
  {
    const Nobody rights;
    CHECK(message_of<FileError>([&] { options_of_run(o.out); }) == path + ": cannot look at it: Permission denied");
  }
  REQUIRE(::chmod(checkpoint.c_str(), 0755) == 0);
  nlohmann::json state = state_of(checkpoint);
  state["version"] = 2;
  state["files"] = "told in another way";
  write_json(path, state);
  CHECK(message_of<FileError>([&] { options_of_run(o.out); }) ==
        path + ": written by a newer equigrad: checkpoint version 2, this program reads version 1");
  prune_checkpoints(o.out, 8, 1);
  CHECK(checkpoint_steps(o.out) == std::vector<std::int64_t>{6, 8}); // neither counted nor removed
}

TEST_CASE("checkpoint: a loop of links is one clear message") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.path("loop"));
  const std::string loop = folder.path("loop");
  CHECK(message_of<FileError>([&] { options_of_run(loop); }) ==
        loop + ": cannot look at it: Too many levels of symbolic links");
  CHECK(message_of<FileError>([&] { VitTrainer{small(loop)}; }).starts_with(loop + ": cannot make the folder"));
  std::filesystem::create_directory(folder.path("images"));
  std::filesystem::create_symlink("cat", folder.path("images/cat"));
  CHECK(message_of<FileError>([&] { data::read_image_folder(folder.path("images"), "images"); }) ==
        folder.path("images/cat") + ": cannot look at it: Too many levels of symbolic links");
}

TEST_CASE("training: what a killed process left goes when the run folder is opened again") {
  const TemporaryFolder folder;
  const VitOptions o = finished(folder.path("run"));
  const std::string run = o.out + "/", root = run + "checkpoints/";
  const std::vector<std::string> left = {run + "model.safetensors.tmp-12-0", run + "metrics.jsonl.tmp-12-3",
                                         root + "latest.tmp-12-0", root + ".step-00000002.tmp-12",
                                         root + ".step-00000002.tmp-12.old"};
  const std::vector<std::string> others = {run + "notes.tmp-12-0", run + "model.safetensors.tmp-", run + "a.tmp"};
  for (const std::string& path : left) write_file(path, std::string_view("half"));
  for (const std::string& path : others) write_file(path, std::string_view("mine"));
  const VitTrainer trainer(options_of_run(o.out));
  for (const std::string& path : left) CHECK_MESSAGE(!std::filesystem::exists(path), path);
  for (const std::string& path : others) CHECK_MESSAGE(std::filesystem::exists(path), path);
}

TEST_CASE("training: a run that diverged says how to go on and does not block the next") {
  const TemporaryFolder folder;
  VitOptions o = small(folder.path("run"));
  o.optimizer = "sgd";
  o.lr = 1e30;
  CHECK(message_of<ValueError>([&] { VitTrainer(o).run(); })
            .ends_with(fmt::format("use a smaller lr or clip; {0} holds no checkpoint, so that --out {0} can be used "
                                   "again",
                                   o.out)));
  CHECK(file_exists(o.out + "/metrics.jsonl"));
  VitOptions again = o;
  again.lr = 1e-3;
  {
    VitTrainer retry(again);
    REQUIRE(retry.notes().size() == 1);
    CHECK(retry.notes()[0] ==
          o.out + " holds the metrics of a run that ended before its first checkpoint, which are replaced");
    CHECK(retry.run().steps == 8);
  }
  const std::vector<training::Record> records =
      training::read_records(o.out + "/metrics.jsonl", 8, PermuteMode::none, "images");
  CHECK(records.size() == 9); // nothing of the first run

  o.out = folder.path("later");
  o.checkpoint_every = 1;
  CHECK(message_of<ValueError>([&] { VitTrainer(o).run(); }).find("give another --out, or --overwrite") !=
        std::string::npos);
}

TEST_CASE("training: resuming a finished run says so and tests it once more") {
  const TemporaryFolder folder;
  const VitOptions o = finished(folder.path("run"));
  const Bytes weights = read_file(o.out + "/model.safetensors");
  for (int i = 0; i < 2; ++i) {
    VitTrainer again(options_of_run(o.out));
    REQUIRE(again.notes().size() == 1);
    CHECK(again.notes()[0] ==
          o.out + ": training is already complete (step 8 of 8); to train further, give more steps or epochs");
    CHECK(again.run().steps == 8);
  }
  CHECK(read_file(o.out + "/model.safetensors") == weights);
  CHECK(training::read_records(o.out + "/metrics.jsonl", 8, PermuteMode::none, "images").size() ==
        9); // one test, not three
}

TEST_CASE("training: going back to an earlier checkpoint says what is given up") {
  const TemporaryFolder folder;
  finished(folder.path("run"));
  VitOptions back = options_of_run(folder.path("run/checkpoints/step-00000006"));
  REQUIRE(back.out == folder.path("run"));
  {
    VitTrainer trainer(back);
    REQUIRE(trainer.notes().size() == 1);
    CHECK(trainer.notes()[0] ==
          fmt::format("going back to step 6: what {} holds of later steps, up to 8, is given up", back.out));
    trainer.run();
  }
  // What is kept beside the run describes one from its beginning.
  const nlohmann::json config = read_json(back.out + "/config.json");
  CHECK(config["resume"] == "");
  CHECK(config["out"] == back.out);
  back.out = folder.path("elsewhere"); // nothing is given up
  CHECK(VitTrainer(back).notes().empty());

  // A run whose only checkpoint was given another name.
  const std::string checkpoints = folder.path("run/checkpoints/");
  std::filesystem::rename(checkpoints + "step-00000006", checkpoints + "mine");
  std::filesystem::remove_all(checkpoints + "step-00000008");
  back = options_of_run(checkpoints + "mine");
  back.out = folder.path("run");
  CHECK(VitTrainer(back).step() == 6);
}

TEST_CASE("training: which interrupted run the same options go on with") {
  const TemporaryFolder folder;
  VitOptions o = small(folder.path("run"));
  o.variants = {PermuteMode::none, PermuteMode::both};
  o.drift_every = 2;
  CHECK_FALSE(unfinished_run(o));
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  std::vector<training::Record> seen;
  callbacks.step = [&](const training::Record& record) {
    seen.push_back(record);
    stop = record.step == 5;
  };
  CHECK_THROWS_AS(VitTrainer(o).run(callbacks, &stop), Interrupted);
  CHECK(unfinished_run(o));
  VitOptions other = o;
  other.seed = 9;
  CHECK_FALSE(unfinished_run(other));
  other = o;
  other.steps = 9;
  CHECK_FALSE(unfinished_run(other));

  o.resume = o.out;
  {
    VitTrainer again(o);
    const std::vector<training::Record> history = again.history();
    REQUIRE(history.size() == 5);
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(record_json(history[i], "images") ==
            record_json(seen[i], "images")); // every number, the drift and the order of the variants
    again.run();
  }
  CHECK_FALSE(unfinished_run(o));
}

TEST_CASE("training: reading the data can be interrupted") {
  const TemporaryFolder folder;
  const std::atomic<bool> stop = true;
  CHECK(message_of<Interrupted>([&] { VitTrainer(small(folder.path("run")), &stop); }) ==
        "interrupted while reading the data");
  CHECK_FALSE(folder_exists(folder.path("run")));
  const data::Image image{8, 8, 3, std::vector<std::uint8_t>(192, 7)};
  write_file(folder.path("cat/1.png", true), data::encode_png(image));
  CHECK_THROWS_AS(data::read_image_folder(folder.path(), "cats", 0, 0, &stop), Interrupted);
  write_file(folder.path("records"), ByteView(Bytes(3073)));
  CHECK_THROWS_AS(data::read_cifar10_records({folder.path("records")}, "records", &stop), Interrupted);
}
