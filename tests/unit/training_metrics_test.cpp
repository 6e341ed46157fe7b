// What a run writes of its steps: metrics.jsonl, metrics.csv and TensorBoard's event files, each step once.

#include "core/base/append_file.h"
#include "core/base/bytes.h"
#include "core/base/crc32c.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "training/event_files.h"
#include "training/event_record.h"
#include "training/metrics_log.h"
#include "training_small_run.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

using namespace eg;
using namespace eg::training;
using namespace eg::test;
using Json = nlohmann::ordered_json;

namespace {

std::string text_of(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream in(text_of(path));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// CRC-32C a bit at a time.
std::uint32_t slow_crc32c(ByteView bytes) {
  std::uint32_t crc = ~0U;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? 0x82F63B78U ^ (crc >> 1) : crc >> 1;
  }
  return ~crc;
}

std::uint64_t little(ByteView bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

std::uint32_t mask(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

/// The data of every frame, lengths and checksums checked by code of this test alone.
std::vector<ByteView> frames_of(ByteView file) {
  std::vector<ByteView> frames;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t size = little(file.subspan(at, 8));
    CHECK(little(file.subspan(at + 8, 4)) == mask(slow_crc32c(file.subspan(at, 8))));
    frames.push_back(file.subspan(at + 12, size));
    CHECK(little(file.subspan(at + 12 + size, 4)) == mask(slow_crc32c(frames.back())));
    at += 16 + size;
  }
  return frames;
}

std::vector<std::string> event_files(const std::string& run) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(run))
    if (is_event_file(entry.path().filename().string())) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// Every value of all event files by tag and step, each of which must come once.
std::map<std::string, std::map<std::int64_t, float>> scalars_of(const std::string& run) {
  std::map<std::string, std::map<std::int64_t, float>> found;
  for (const std::string& file : event_files(run)) {
    const Bytes bytes = read_file(file);
    std::size_t count = 0, end = 0;
    each_event(bytes, [&](const EventRead& event) {
      ++count;
      end = event.end;
      for (const auto& [tag, value] : event.values) CHECK(found[tag].emplace(event.step, value).second);
    });
    CHECK(end == bytes.size());
    CHECK(count == frames_of(bytes).size());
  }
  return found;
}

/// Runs until `stop_at` steps are done, as if somebody had pressed Ctrl-C there.
void run_until(const training::VitOptions& o, std::int64_t stop_at) {
  std::atomic<bool> stop = false;
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Record& r) { stop = r.step == stop_at; };
  CHECK_THROWS_AS(training::VitTrainer(o).run(callbacks, &stop), Interrupted);
}

} // namespace

TEST_CASE("metrics: CRC-32C of the published vectors, and in parts") {
  const auto view = [](std::string_view text) {
    return ByteView(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  };
  CHECK(crc32c(view("123456789")) == 0xE3069283U); // RFC 3720's check value
  const Bytes zeros(32, 0), ones(32, 0xff);
  CHECK(crc32c(zeros) == 0x8A9136AAU); // RFC 3720, B.4
  CHECK(crc32c(ones) == 0x62A8AB43U);
  CHECK(crc32c(view("56789"), crc32c(view("1234"))) == 0xE3069283U);
  CHECK(crc32(view("123456789")) == 0xCBF43926U);
  Bytes odd(1003);
  for (std::size_t i = 0; i < odd.size(); ++i) odd[i] = static_cast<std::uint8_t>(i * 37);
  CHECK(crc32c(odd) == slow_crc32c(odd));
}

TEST_CASE("metrics: events are the bytes that TensorBoard's own library writes") {
  const auto hex = [](std::string_view bytes) {
    std::string out;
    for (const char c : bytes) out += fmt::format("{:02x}", static_cast<std::uint8_t>(c));
    return out;
  };
  // tensorboard 2.21: RecordWriter.write(Event(...).SerializeToString())
  CHECK(hex(version_event(1.5)) == "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  CHECK(hex(start_event(1.5, 301)) == "100000000000000095fbfe1809000000000000f83f10ad023a020801d17949d4");
  CHECK(hex(scalars_event(2.25, 7, {{"train/loss", 0.5F}, {"train/lr", -1e-3F}})) ==
        "31000000000000009d8383e909000000000000024010072a240a110a0a747261696e2f6c6f7373150000003f0a0f0a"
        "08747261696e2f6c72156f1283ba0929c57a");
}

TEST_CASE("metrics: damage anywhere in a record ends the reading before it") {
  const std::string first = scalars_event(1.0, 1, {{"a", 1.0F}}), second = scalars_event(1.0, 2, {{"a", 2.0F}});
  const auto steps = [](const std::string& file) {
    std::vector<std::int64_t> found;
    each_event({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()},
               [&](const EventRead& event) { found.push_back(event.step); });
    return found;
  };
  CHECK(steps(first + second) == std::vector<std::int64_t>{1, 2});
  for (std::size_t i = 0; i < second.size(); ++i) {
    CAPTURE(i);
    std::string damaged = first + second;
    damaged[first.size() + i] = static_cast<char>(damaged[first.size() + i] ^ 1);
    CHECK(steps(damaged) == std::vector<std::int64_t>{1});
    CHECK(steps(first + second.substr(0, i)) == std::vector<std::int64_t>{1});
  }
  // Frames that are whole with something else in them.
  CHECK(steps(first + event_frame("\x0f") + second) == std::vector<std::int64_t>{1});
  CHECK(steps(first + event_frame("\x2a\x7f") + second) == std::vector<std::int64_t>{1});
}

TEST_CASE("metrics: the table gets a column when a record brings one, and cells are quoted") {
  const TemporaryFolder folder;
  RunOptions o;
  o.out = folder.path();
  MetricsLog log(o, {});
  log.write(Json{{"split", "train"}, {"step", 1}, {"loss", 0.25}});
  CHECK(lines_of(folder.path("metrics.csv")).front() == "split,step,loss,seconds");
  log.write(Json{{"split", "train"}, {"step", 2}, {"loss", nullptr}, {"note", "a \"b\", c"}});
  log.write(Json{{"split", "test"}, {"step", 2}, {"variants", {{"rows", {{"loss", 1.5}}}}}});
  const std::vector<std::string> lines = lines_of(folder.path("metrics.csv"));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "split,step,loss,seconds,note,variants.rows.loss");
  CHECK(lines[1].starts_with("train,1,0.25,0"));
  CHECK(lines[2].starts_with("train,2,,0"));
  CHECK(lines[2].ends_with(",\"a \"\"b\"\", c\","));
  CHECK(lines[3].starts_with("test,2,,0"));
  CHECK(lines[3].ends_with(",,1.5"));
  CHECK(scalars_of(folder.path())["test/variants/rows/loss"][2] == 1.5F);
}

TEST_CASE("metrics: a run that is cut and resumed holds each step once in every file") {
  const TemporaryFolder folder;
  training::VitOptions o = small();
  o.permute = permute::PermuteMode::rows;
  o.twin = true;
  o.evaluate_every = 4;
  o.checkpoint_every = 3;
  o.out = folder.path("run");
  run_until(o, 5);
  {
    // A killed process: steps that no checkpoint holds, and a record that is torn.
    KeptMetrics kept{.through = 5};
    MetricsLog log(o, kept);
    for (int step = 6; step < 8; ++step)
      log.write(Json{{"split", "train"}, {"step", step}, {"epoch", 0}, {"loss", -1.0}, {"accuracy", 0.0}, {"lr", 0.0}});
    AppendFile(event_files(o.out).back()).append("torn");
    AppendFile(o.out + "/metrics.jsonl").append("{\"split\": \"tr");
  }
  o.resume = o.out;
  run_until(o, 7);
  training::VitTrainer(o).run();
  o.steps = 8;
  training::VitTrainer(o).run(); // tests once more

  std::multiset<std::pair<std::string, std::int64_t>> rows;
  std::map<std::int64_t, double> losses;
  double seconds = 0.0;
  for (const std::string& line : lines_of(o.out + "/metrics.jsonl")) {
    const Json record = Json::parse(line);
    rows.emplace(record["split"], record["step"]);
    if (record["split"] == "train") losses[record["step"]] = record["loss"];
    CHECK(record["seconds"].get<double>() >= seconds); // goes on where the process before ended
    seconds = record["seconds"];
  }
  CHECK(rows.size() == 8 + 2);
  for (std::int64_t step = 1; step <= 8; ++step) CHECK(rows.count({"train", step}) == 1);
  CHECK(rows.count({"test", 4}) == 1);
  CHECK(rows.count({"test", 8}) == 1);

  CHECK(lines_of(o.out + "/metrics.csv").size() == 1 + rows.size());
  CHECK(lines_of(o.out + "/metrics.csv").front().find("variants.rows.drift") != std::string::npos);
  CHECK(event_files(o.out).size() == 4); // one a process; what the killed one wrote was dropped
  auto scalars = scalars_of(o.out);
  REQUIRE(scalars["train/loss"].size() == 8);
  for (const auto& [step, loss] : losses) CHECK(scalars["train/loss"][step] == static_cast<float>(loss));
  CHECK(scalars["test/accuracy"].size() == 2);
  CHECK(scalars["train/variants/none/loss"].size() == 8);
  CHECK(scalars.count("train/step") == 0);
}

TEST_CASE("metrics: table and events can be left out, and then none of an earlier process stays behind the run") {
  const TemporaryFolder folder;
  training::VitOptions o = small();
  o.out = folder.path("run");
  run_until(o, 3);
  CHECK(file_exists(o.out + "/metrics.csv"));
  o.resume = o.out;
  o.csv = o.tensorboard = false; // may differ from what the checkpoint says
  training::VitTrainer(o).run();
  CHECK_FALSE(file_exists(o.out + "/metrics.csv"));
  CHECK(scalars_of(o.out)["train/loss"].size() == 3);
  o.resume.clear();
  o.overwrite = true;
  training::VitTrainer(o).run();
  CHECK(event_files(o.out).empty());
  CHECK(lines_of(o.out + "/metrics.jsonl").size() == 9);
}

TEST_CASE("metrics: names of event files, and a file that is none of ours") {
  CHECK(is_event_file("events.out.tfevents.1700000000.equigrad.000"));
  CHECK_FALSE(is_event_file("events.out.tfevents.1700000000.host.123.0"));
  CHECK_FALSE(is_event_file("events.out.tfevents.x.equigrad.0"));
  const TemporaryFolder folder;
  RunOptions o;
  o.out = folder.path();
  write_file(folder.path("events.out.tfevents.1700000000.host.123.0"), std::string_view("mine"));
  write_file(folder.path("events.out.tfevents.99999999999.equigrad.007"),
             version_event(1.0) + scalars_event(1.0, 1, {{"a", 1.0F}}));
  MetricsLog(o, {.through = 1}).write(Json{{"split", "train"}, {"step", 2}, {"loss", 1.0}});
  CHECK(text_of(folder.path("events.out.tfevents.1700000000.host.123.0")) == "mine");
  // A clock that goes back does not put the new file before the old one.
  CHECK(event_files(o.out).back() == folder.path("events.out.tfevents.99999999999.equigrad.008"));
}

TEST_CASE("training: the progress callback of tests is removed when a run ends or throws") {
  VitTrainer trainer(small());
  int told = 0;
  training::Callbacks calls;
  calls.testing = [&](double) { ++told; };
  calls.step = [](const training::Record&) { throw ValueError("mine"); };
  CHECK_THROWS_WITH_AS(trainer.run(calls), "mine", ValueError);
  trainer.test();
  CHECK(told == 0);
  calls.step = {};
  trainer.run(calls);
  CHECK(told > 0);
  const int before = told;
  trainer.test();
  CHECK(told == before);
}
