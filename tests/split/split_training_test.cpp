// Split learning: the same weights as in one process, whatever is lost on the way; what the cloud sees.

#include "core/base/bytes.h"
#include "core/memory/allocator.h"
#include "data/loader.h"
#include "data/safetensors.h"
#include "permute/key.h"
#include "split/split_channels.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "training/checkpoint.h"
#include "training/vit_trainer.h"
#include "unit/training_small_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace eg;
using namespace eg::net;
using namespace eg::permute;
using namespace eg::split_learning;
using namespace eg::test;
using namespace eg::training;

namespace {

VitOptions fifty_steps(PermuteMode mode) {
  VitOptions o = small();
  o.permute = mode;
  o.steps = 50;
  o.schedule = optim::Schedule::Kind::cosine;
  o.warmup = 3;
  o.weight_decay = 0.01;
  o.augment = true;
  o.model.encoder.dropout = 0.1;
  return o;
}

SplitTraining split_with(std::shared_ptr<CloudEncoder> encoder, FinalWeights final_weights = FinalWeights::encrypted) {
  return {.encoder = std::move(encoder), .final_weights = final_weights, .next_key = {}};
}

std::shared_ptr<CloudEncoder> edge_of(EncoderService& cloud, std::function<Fate(ByteView)> fate = {},
                                      Traffic* traffic = nullptr) {
  return std::make_shared<CloudEncoder>(connect_to(cloud, "edge", std::move(fate), traffic), at_once());
}

bool same_weights(const nn::StateDict& a, nn::StateDict b) {
  if (a.size() != b.size()) return false;
  for (const auto& one : a) {
    const auto other = std::find_if(b.begin(), b.end(), [&](const auto& entry) { return entry.first == one.first; });
    if (other == b.end() || !same_bits(one.second, other->second)) return false;
  }
  return true;
}

ServiceOptions service_options(std::uint64_t seed, const std::string& out = "") {
  ServiceOptions o;
  o.seed = seed;
  o.out = out;
  return o;
}

EncoderService cloud_of(std::uint64_t seed) { return EncoderService(service_options(seed)); }

/// A run in one process, and the same one with its blocks at a cloud.
struct BothWays {
  explicit BothWays(const VitOptions& o)
      : here(o), one(here.run()), cloud(service_options(o.seed)), edge(edge_of(cloud)),
        there(o, nullptr, split_with(edge)), two(there.run()) {}

  VitTrainer here;
  training::Result one;
  EncoderService cloud;
  std::shared_ptr<CloudEncoder> edge;
  VitTrainer there;
  training::Result two;
};

/// Every frame is lost once on the way there and once on the way back before it arrives, also those that open a run.
struct EveryBoundary {
  std::uint64_t cuts = 0;
  std::map<std::size_t, int> times; ///< by the frame's hash
  Fate operator()(ByteView frame) {
    const int time =
        ++times[std::hash<std::string_view>()({reinterpret_cast<const char*>(frame.data()), frame.size()})];
    if (time > 2) return Fate::arrives;
    ++cuts;
    return time == 1 ? Fate::lost : Fate::answer_lost;
  }
};

/// A cloud that has too little memory for every third request: from none to nearly enough.
class ShortOfMemory : public Service {
public:
  explicit ShortOfMemory(EncoderService& cloud) : cloud_(cloud) {}
  FrameLimits limits(const Peer& peer) const override { return cloud_.limits(peer); }
  Bytes handle(Peer& peer, ByteView frame) override {
    if (++requests_ % 3 != 0) return cloud_.handle(peer, frame);
    const std::size_t whole = allocator::limit();
    allocator::set_limit(allocator::stats().live_bytes + requests_ * 1024 % (1 << 18));
    Bytes answer = cloud_.handle(peer, frame);
    allocator::set_limit(whole);
    if (parse_frame(answer, {}).code == RefusalCode::no_room) ++refused;
    return answer;
  }
  void leave(const Peer& peer) override { cloud_.leave(peer); }

  int refused = 0;

private:
  EncoderService& cloud_;
  std::size_t requests_ = 0;
};

bool contains(const Bytes& where, const void* what, std::size_t size) {
  const auto* first = static_cast<const std::uint8_t*>(what);
  return std::search(where.begin(), where.end(), first, first + size) != where.end();
}

} // namespace

TEST_CASE("split: 50 steps give the weights of one process, bit for bit") {
  for (const PermuteMode mode : {PermuteMode::none, PermuteMode::rows, PermuteMode::columns, PermuteMode::both}) {
    CAPTURE(name_of(mode));
    BothWays ran(fifty_steps(mode));
    CHECK(same_weights(ran.here.weights(0), ran.there.weights(0)));
    CHECK(ran.one.test.variants[0].loss == ran.two.test.variants[0].loss);
    CHECK(ran.one.test.variants[0].accuracy == ran.two.test.variants[0].accuracy);
    CHECK(ran.edge->counts().steps == 50);
    CHECK(ran.edge->counts().reconnects == 0);
    CHECK(ran.there.model(0).parameter_count() < ran.here.model(0).parameter_count());
    const std::atomic<bool> stop = true;
    CHECK_THROWS_AS(ran.there.test_without_key(&stop), Interrupted);
  }
}

TEST_CASE("split: a step that the spike guard skips is taken by neither side") {
  VitOptions o = fifty_steps(PermuteMode::both);
  o.lr = 0.1; // so that losses jump
  o.spike_guard = 1.02;
  o.skip_limit = 50;
  const BothWays ran(o);
  CHECK(ran.one.skipped > 2);
  CHECK(ran.two.skipped == ran.one.skipped);
  CHECK(ran.edge->counts().steps == 50 - static_cast<std::uint64_t>(ran.one.skipped));
  CHECK(same_weights(ran.here.weights(0), ran.there.weights(0)));
}

TEST_CASE("split: the checkpoint that did best stays on both sides") {
  const TemporaryFolder folder;
  VitOptions o = fifty_steps(PermuteMode::both);
  o.steps = 12;
  o.warmup = 0;
  o.schedule = optim::Schedule::Kind::constant;
  o.evaluate_every = o.checkpoint_every = 1;
  o.keep = 1;
  const auto best_at = [&](double lr) { // losses that jump have their least before the end
    VitOptions here = o;
    here.lr = lr;
    here.out = folder.path("here-" + std::to_string(lr));
    return VitTrainer(here).run().best.value_or(12);
  };
  for (const double lr : {0.02, 0.05, 0.1, 0.2, 0.5}) {
    o.lr = lr;
    if (best_at(lr) < 10) break;
  }
  o.out = folder.path("edge");
  ServiceOptions kept = service_options(o.seed, folder.path("cloud"));
  kept.keep = 1;
  EncoderService cloud(kept);
  std::optional<std::int64_t> best;
  {
    VitTrainer trainer(o, nullptr, split_with(edge_of(cloud)));
    best = trainer.run().best;
  }
  REQUIRE(best);
  REQUIRE(*best < 10);
  VitOptions again = o;
  again.resume = folder.path("edge/checkpoints/" + training::checkpoint_name(*best));
  again.out = folder.path("from the best");
  VitTrainer trainer(again, nullptr, split_with(edge_of(cloud)));
  CHECK(trainer.step() == *best);
  trainer.train_step();
}

TEST_CASE("split: with another key the weights are others (negative control)") {
  VitOptions o = fifty_steps(PermuteMode::columns);
  o.steps = 3;
  EncoderService cloud = cloud_of(o.seed);
  const TemporaryFolder folder;
  const auto trained_with = [&](const char* key) {
    VitOptions keyed = o;
    keyed.key = folder.path(key);
    if (!file_exists(keyed.key)) SecretKey::generate().save(keyed.key);
    VitTrainer trainer(keyed, nullptr, split_with(edge_of(cloud)));
    trainer.run();
    return trainer.weights(0);
  };
  const nn::StateDict one = trained_with("one.key"), again = trained_with("one.key"), two = trained_with("two.key");
  CHECK(same_weights(one, again));
  CHECK(!same_weights(one, two));
}

TEST_CASE("split: a connection that breaks at every message changes nothing") {
  const VitOptions o = fifty_steps(PermuteMode::both);
  VitTrainer here(o);
  here.run();
  EncoderService cloud = cloud_of(o.seed);
  const auto fate = std::make_shared<EveryBoundary>();
  const auto edge = edge_of(cloud, [fate](ByteView frame) { return (*fate)(frame); });
  VitTrainer there(o, nullptr, split_with(edge));
  there.run();
  CHECK(same_weights(here.weights(0), there.weights(0)));
  CHECK(fate->cuts > 200);
  CHECK(edge->counts().reconnects > 100);
  CHECK(cloud.counts().repeated > 100);
  CHECK(cloud.counts().steps == 50);
}

TEST_CASE("split: a cloud without room is asked again, which changes nothing; one that never has any is given up") {
  VitOptions o = fifty_steps(PermuteMode::both);
  o.workers = 0;                                                 // batches are not made while memory is short
  for (const char* optimizer : {"adafactor", "muon", "adamw"}) { // which take memory while they step, or do not
    CAPTURE(optimizer);
    o.optimizer = optimizer;
    VitTrainer here(o);
    here.run();
    EncoderService inner = cloud_of(o.seed);
    ShortOfMemory cloud(inner);
    std::vector<std::string> heard;
    inner.on_trouble([&](const std::string& words) { heard.push_back(words); });
    const auto edge = std::make_shared<CloudEncoder>(connect_to(cloud, "edge"), at_once());
    VitTrainer there(o, nullptr, split_with(edge));
    there.run();
    CHECK(same_weights(here.weights(0), there.weights(0)));
    CHECK(inner.counts().steps == 50);
    CHECK(cloud.refused > 20);
    CHECK(static_cast<int>(heard.size()) == cloud.refused); // who runs the cloud is told each time
    CHECK(heard.front().find("more bytes do not fit") != std::string::npos);
  }
  ServiceOptions full = service_options(o.seed);
  full.runs = 0;
  EncoderService closed(full);
  RemoteOptions few = at_once();
  few.retry_policy.attempts = 3;
  int reports = 0;
  few.retry_policy.on_pause = [&](const ConnectionError&, std::chrono::milliseconds) { ++reports; };
  const std::string words = message_of<ConnectionError>([&] {
    VitTrainer(o, nullptr, split_with(std::make_shared<CloudEncoder>(connect_to(closed, "edge"), few))).run();
  });
  CHECK(words.find("no room for more (after 3 attempts)") != std::string::npos);
  CHECK(reports == 2);
}

TEST_CASE("split: both sides go on from checkpoints, and a restarted cloud from its own") {
  const TemporaryFolder folder;
  VitOptions o = fifty_steps(PermuteMode::both);
  VitTrainer here(o);
  here.run();
  o.out = folder.path("edge");
  const ServiceOptions kept = service_options(o.seed, folder.path("cloud"));
  {
    EncoderService cloud(kept);
    VitTrainer first(o, nullptr, split_with(edge_of(cloud)));
    for (int i = 0; i < 20; ++i) first.train_step();
    first.save_checkpoint();
    for (int i = 0; i < 3; ++i) first.train_step(); // lost with the edge
  }
  auto cloud = std::make_unique<EncoderService>(kept);
  VitOptions again = o;
  again.resume = o.out;
  bool restart = false;
  const auto connect = [&]() -> std::unique_ptr<Channel> { return connect_to(*cloud, "edge")(); };
  const Connect breaking = [&]() -> std::unique_ptr<Channel> {
    struct Breaking : Channel {
      std::unique_ptr<Channel> inner;
      bool* restart;
      void send(ByteView frame) override {
        if (*restart && parse_frame(frame, {}).kind == MessageKind::backward) throw ConnectionError("test: cut");
        inner->send(frame);
      }
      Bytes receive() override { return inner->receive(); }
    };
    if (restart) { // between a forward pass and its gradients
      cloud->save_all();
      cloud.reset();
      cloud = std::make_unique<EncoderService>(kept);
      restart = false;
    }
    auto channel = std::make_unique<Breaking>();
    channel->inner = connect();
    channel->restart = &restart;
    return channel;
  };
  const auto edge = std::make_shared<CloudEncoder>(breaking, at_once());
  VitTrainer second(again, nullptr, split_with(edge));
  CHECK(second.step() == 20);
  for (int i = 0; i < 5; ++i) second.train_step();
  restart = true;
  second.run();
  CHECK(edge->counts().reconnects == 1);
  CHECK(same_weights(here.weights(0), second.weights(0)));
}

namespace {

/// A cloud that can be ended and started again on the same folder.
class RestartedCloud : public Service {
public:
  explicit RestartedCloud(ServiceOptions options) : options_(std::move(options)) { cloud_.emplace(options_); }
  FrameLimits limits(const Peer& peer) const override { return cloud_->limits(peer); }
  Bytes handle(Peer& peer, ByteView frame) override { return cloud_->handle(peer, frame); }
  void leave(const Peer& peer) override { cloud_->leave(peer); }
  void restart() {
    cloud_->save_all();
    cloud_.emplace(options_);
  }

private:
  ServiceOptions options_;
  std::optional<EncoderService> cloud_;
};

} // namespace

TEST_CASE("split: a cloud that is ended and started again at any message goes on, whether its answer arrived or not") {
  VitOptions o = fifty_steps(PermuteMode::both);
  o.steps = 2;
  o.test_limit = 4;
  VitTrainer here(o);
  here.run();
  int messages = 100;
  for (int at = 1; at < messages; ++at)
    for (const Fate fate : {Fate::lost, Fate::answer_lost}) {
      CAPTURE(at);
      const TemporaryFolder folder;
      RestartedCloud cloud(service_options(o.seed, folder.path("cloud")));
      int count = 0;
      const auto edge = std::make_shared<CloudEncoder>(connect_to(cloud, "edge",
                                                                  [&](ByteView) {
                                                                    ++count;
                                                                    if (count == at + 1) cloud.restart();
                                                                    return count == at ? fate : Fate::arrives;
                                                                  }),
                                                       at_once());
      VitTrainer there(o, nullptr, split_with(edge));
      there.run();
      CHECK(same_weights(here.weights(0), there.weights(0)));
      messages = std::min(messages, count - 1);
    }
  CHECK(messages > 30);
}

TEST_CASE("split: a step that is left out is left out by the next cloud too") {
  VitOptions o = fifty_steps(PermuteMode::both);
  o.lr = 0.1; // so that losses jump
  o.spike_guard = 1.02;
  o.skip_limit = 50;
  VitTrainer here(o);
  REQUIRE(here.run().skipped > 2);
  const TemporaryFolder folder;
  RestartedCloud cloud(service_options(o.seed, folder.path("cloud")));
  int restarts = 0;
  std::uint64_t count = 0;
  bool ended = false;
  const auto edge = std::make_shared<CloudEncoder>(connect_to(cloud, "edge",
                                                              [&](ByteView) {
                                                                if (std::exchange(ended, false)) {
                                                                  cloud.restart();
                                                                  ++restarts;
                                                                }
                                                                ended = ++count > 40 && count % 7 == 0;
                                                                return ended ? Fate::lost : Fate::arrives;
                                                              }),
                                                   at_once());
  VitTrainer there(o, nullptr, split_with(edge));
  there.run();
  CHECK(restarts > 10);
  CHECK(same_weights(here.weights(0), there.weights(0)));
}

TEST_CASE("split: what a cloud writes when it is ended takes the place of no checkpoint that the edge has") {
  const TemporaryFolder folder;
  VitOptions o = fifty_steps(PermuteMode::both);
  VitTrainer here(o);
  here.run();
  o.out = folder.path("edge");
  ServiceOptions options = service_options(o.seed, folder.path("cloud"));
  options.keep = 2;
  RestartedCloud cloud(options);
  bool end = false;
  const auto edge = std::make_shared<CloudEncoder>(connect_to(cloud, "edge",
                                                              [&](ByteView) {
                                                                if (!std::exchange(end, false)) return Fate::arrives;
                                                                cloud.restart();
                                                                return Fate::lost;
                                                              }),
                                                   at_once());
  std::string run;
  {
    VitTrainer first(o, nullptr, split_with(edge));
    for (int i = 0; i < 20; ++i) first.train_step();
    first.save_checkpoint();
    run = folder.path("cloud/" + edge->run());
    for (int i = 0; i < 5; ++i) {
      end = true; // at the next message
      first.train_step();
    }
    CHECK(training::checkpoint_steps(run) == std::vector<std::int64_t>{20, 24});
  } // the edge is lost
  VitOptions again = o;
  again.resume = o.out;
  const auto next = std::make_shared<CloudEncoder>(connect_to(cloud, "edge"), at_once());
  VitTrainer second(again, nullptr, split_with(next));
  CHECK(second.step() == 20);
  second.run();
  CHECK(same_weights(here.weights(0), second.weights(0)));
}

TEST_CASE("split: the endings keep the plain weights, the trained ones, or another holder's") {
  const TemporaryFolder folder;
  VitOptions o = fifty_steps(PermuteMode::both);
  o.steps = 4;
  SecretKey::generate().save(folder.path("key"));
  SecretKey::generate().save(folder.path("next"));
  o.key = folder.path("key");
  EncoderService cloud = cloud_of(o.seed);
  const auto ended = [&](FinalWeights final_weights, const std::string& out) {
    VitOptions mine = o;
    mine.out = folder.path(out);
    SplitTraining split = split_with(edge_of(cloud), final_weights);
    split.next_key = folder.path("next");
    VitTrainer trainer(mine, nullptr, split);
    trainer.run();
    return read_file(folder.path(out + "/model.safetensors"));
  };
  const Bytes plain = ended(FinalWeights::decrypted, "a"), trained = ended(FinalWeights::encrypted, "b"),
              next = ended(FinalWeights::rekeyed, "c");
  CHECK(plain != trained);
  CHECK(next != trained);
  CHECK(next != plain);
  VitOptions one = o;
  one.out = folder.path("one");
  VitTrainer here(one);
  here.run();
  CHECK(read_file(folder.path("one/model.safetensors")) == trained);
  // Moved to the next key by hand.
  const BlocksKey key =
      BlocksKey::draw(o.model.encoder, o.model.layers, o.key_form, SecretKey::load(folder.path("next")).source("vit"));
  nn::VitConfig config = here.options().model;
  const nn::StateDict moved = transform(data::load_safetensors(folder.path("a/model.safetensors")).tensors,
                                        vit_axes(config, KeyScope::encoder), key.permutations(config.encoder));
  CHECK(same_weights(moved, data::load_safetensors(folder.path("c/model.safetensors")).tensors));
}

TEST_CASE("split: no label, no key and no seed is in what the cloud gets") {
  const TemporaryFolder folder;
  VitOptions o = fifty_steps(PermuteMode::both);
  o.steps = 5;
  o.seed = 0x1f2e3d4c5b6a7988;
  o.model.encoder.dropout = 0.0;
  SecretKey::generate().save(folder.path("key"));
  o.key = folder.path("key");
  o.out = folder.path("edge");
  Traffic traffic;
  EncoderService cloud(service_options(99, folder.path("cloud")));
  VitTrainer trainer(o, nullptr, split_with(edge_of(cloud, {}, &traffic)));
  const Tensor first_weight = trainer.weights(0).at(0).second; // not of the encoder
  trainer.run();
  Bytes all = traffic.sent;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path("cloud")))
    if (entry.is_regular_file()) {
      const Bytes bytes = read_file(entry.path().string());
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  // What it does get is found (positive control).
  for (const auto& one : trainer.weights(0)) {
    const std::string& name = one.first;
    const Tensor& value = one.second;
    CAPTURE(name);
    if (name.ends_with("fc1.weight")) CHECK(contains(all, value.bytes(), value.nbytes()));
    if (!name.starts_with("blocks.") && value.nbytes() > 64) CHECK(!contains(all, value.bytes(), value.nbytes()));
  }
  CHECK(!contains(all, first_weight.bytes(), first_weight.nbytes()));
  const Bytes key_file = read_file(o.key);
  for (std::size_t at = 16; at < 48; at += 8) CHECK(!contains(all, key_file.data() + at, 8));
  const Permutation& residual = trainer.column_key()->residual;
  for (const Permutation& p : {residual, residual.inverse()}) {
    const Tensor order = p.tensor();
    CHECK(!contains(all, order.bytes(), order.nbytes()));
    const Tensor bytes = order.to(DType::u8);
    CHECK(!contains(all, bytes.bytes(), bytes.nbytes()));
  }
  CHECK(!contains(all, &o.seed, sizeof o.seed));
  data::LoaderOptions l;
  l.batch_size = o.batch;
  l.drop_last = true;
  l.seed = o.seed;
  data::Loader batches(trainer.train_data(), l);
  for (int i = 0; i < 5; ++i) {
    const Tensor labels = batches.next().labels, small_labels = labels.to(DType::u8);
    CHECK(!contains(all, labels.bytes(), labels.nbytes()));
    CHECK(!contains(all, small_labels.bytes(), small_labels.nbytes()));
  }
}

TEST_CASE("split: with first weights that the cloud draws nothing of the encoder is sent, and it learns") {
  VitOptions o = fifty_steps(PermuteMode::both);
  Traffic traffic;
  EncoderService cloud = cloud_of(8);
  RemoteOptions options = at_once();
  options.cloud_draws_weights = true;
  const auto edge = std::make_shared<CloudEncoder>(connect_to(cloud, "edge", {}, &traffic), options);
  VitTrainer trainer(o, nullptr, split_with(edge));
  CHECK(traffic.sent.size() < 4096);
  const nn::StateDict first = trainer.weights(0);
  const double before = trainer.test().variants[0].loss;
  CHECK(trainer.run().test.variants[0].loss < before);
  CHECK(!same_weights(first, trainer.weights(0)));
  CHECK(trainer.test_without_key().loss > trainer.test().variants[0].loss);
}

TEST_CASE("split: what cannot be split is refused by name") {
  EncoderService cloud = cloud_of(1);
  const auto refused = [&](auto change, const char* words) {
    VitOptions o = fifty_steps(PermuteMode::none);
    change(o);
    CHECK(message_of([&] { VitTrainer(o, nullptr, split_with(edge_of(cloud))); }).find(words) != std::string::npos);
  };
  refused([](VitOptions& o) { o.clip = 1.0; }, "clip");
  refused([](VitOptions& o) { o.ema = 0.9; }, "ema");
  refused([](VitOptions& o) { o.layer_decay = 0.9; }, "layer_decay");
  refused([](VitOptions& o) { o.accumulate = 2; }, "accumulate");
  refused([](VitOptions& o) { o.on_divergence = training::OnDivergence::skip; }, "on_divergence");
  refused([](VitOptions& o) { o.permute = PermuteMode::rows, o.twin = true, o.model.encoder.dropout = 0.0; }, "twin");
}
