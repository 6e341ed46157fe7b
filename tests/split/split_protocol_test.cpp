// Peers that are wrong, broken or hostile, without a network: typed refusals, and runs that stay as they were.

#include "apps/split/last_answer.h"
#include "apps/split/recipe.h"
#include "core/base/bytes.h"
#include "core/random.h"
#include "nlohmann/json.hpp"
#include "split/split_channels.h"
#include "support/message.h"
#include "support/refused.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

using namespace eg;
using namespace eg::net;
using namespace eg::split_learning;
using namespace eg::test;

namespace {

constexpr std::int64_t dim = 8;
const std::string run_name(32, 'a');

training::EncoderRecipe tiny() {
  training::EncoderRecipe r;
  r.layers = 1;
  r.block.dim = dim;
  r.block.heads = 2;
  r.block.mlp = 16;
  r.run.steps = 100;
  r.run.optimizer = "sgd";
  return r;
}

std::string opening(const std::string& run, const std::string& how, std::uint64_t next,
                    const training::EncoderRecipe& recipe = tiny()) {
  return nlohmann::ordered_json{{"run", run}, {"how", how}, {"next", next}, {"recipe", recipe_json(recipe)}}.dump();
}

/// An edge that says what it likes.
struct RawEdge {
  EncoderService& service;
  Peer peer;
  std::uint64_t serial = 0;

  Message send(const Message& message) { return parse_frame(service.handle(peer, frame_of(message)), {}); }
  Message ask(Message message) {
    message.serial = ++serial;
    return send(message);
  }
  Message open(const std::string& text, std::uint64_t step = 0) {
    return send({.kind = MessageKind::open, .step = step, .text = text});
  }
  void begin() {
    REQUIRE(open(opening(run_name, "new", 1)).kind == MessageKind::opened);
    REQUIRE(ask({.kind = MessageKind::begin, .text = "draw"}).kind == MessageKind::done);
  }
  Message forward(std::uint64_t step, const Tensor& z) {
    return ask({.kind = MessageKind::forward, .step = step, .tensors = {{"z", z}}});
  }
  Message backward(std::uint64_t step, const Tensor& dy) {
    return ask({.kind = MessageKind::backward, .step = step, .tensors = {{"dy", dy}}});
  }
};

Tensor features(std::uint64_t seed = 1) { return random_normal({2, 3, dim}, {seed, 0}); }

nn::StateDict weights_of(const EncoderService& service) {
  nn::StateDict all;
  for (const char* name : {"blocks.0.attention.qkv.weight", "blocks.0.mlp.fc1.weight", "blocks.0.norm1.bias"})
    all.emplace_back(name, service.run(run_name)->weight(name).clone());
  return all;
}

bool same(const nn::StateDict& a, const nn::StateDict& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i].second, b[i].second)) return false;
  return true;
}

} // namespace

TEST_CASE("split protocol: what has no place is refused, and by what it is") {
  EncoderService service{ServiceOptions{}};
  RawEdge edge{service, {.name = "edge", .number = 1}};
  CHECK_REFUSED(edge.ask({.kind = MessageKind::save}), RefusalCode::unexpected);
  edge.serial = 0;
  CHECK_REFUSED(edge.open("{"), RefusalCode::malformed);
  CHECK_REFUSED(edge.open("{}"), RefusalCode::malformed);
  CHECK_REFUSED(edge.open(opening("../../etc", "new", 1)), RefusalCode::malformed);
  CHECK_REFUSED(edge.open(opening(run_name, "anew", 1)), RefusalCode::malformed);
  CHECK_REFUSED(edge.open(opening(run_name, "continue", 1)), RefusalCode::unknown_run);
  training::EncoderRecipe odd = tiny();
  odd.block.heads = 3;
  CHECK_REFUSED(edge.open(opening(run_name, "new", 1, odd)), RefusalCode::other_recipe);
  odd = tiny();
  odd.block.dim = odd.block.mlp = 1 << 20;
  CHECK_REFUSED(edge.open(opening(run_name, "new", 1, odd)), RefusalCode::too_large);
  CHECK(service.runs() == 0);
  CHECK(edge.open(opening(run_name, "new", 1)).kind == MessageKind::opened);
  CHECK_REFUSED(edge.forward(0, features()), RefusalCode::unexpected); // no weights yet
  CHECK_REFUSED(edge.ask({.kind = MessageKind::begin, .text = "put"}), RefusalCode::unexpected);
  CHECK_REFUSED(edge.ask({.kind = MessageKind::put, .tensors = {{"blocks.7.x", features()}}}),
                RefusalCode::wrong_tensor);
  CHECK_REFUSED(edge.ask({.kind = MessageKind::put, .tensors = {{"blocks.0.norm1.bias", features()}}}),
                RefusalCode::wrong_tensor);
  CHECK(edge.ask({.kind = MessageKind::begin, .text = "draw"}).kind == MessageKind::done);
  CHECK_REFUSED(edge.ask({.kind = MessageKind::begin, .text = "draw"}), RefusalCode::unexpected);
  CHECK_REFUSED(edge.ask({.kind = MessageKind::fetch, .text = "no.such"}), RefusalCode::wrong_tensor);
  CHECK_REFUSED(edge.send({.kind = MessageKind::done, .serial = 3}), RefusalCode::unexpected);
}

TEST_CASE("split protocol: wrong shapes, NaN and infinities change nothing, and the step can still be taken") {
  EncoderService service{ServiceOptions{}};
  RawEdge edge{service, {.name = "edge", .number = 1}};
  edge.begin();
  const nn::StateDict before = weights_of(service);
  CHECK_REFUSED(edge.forward(0, random_normal({2, dim}, {1, 0})), RefusalCode::wrong_tensor);
  CHECK_REFUSED(edge.forward(0, random_normal({2, 3, dim + 1}, {1, 0})), RefusalCode::wrong_tensor);
  CHECK_REFUSED(edge.forward(0, features().to(DType::f64)), RefusalCode::wrong_tensor);
  CHECK_REFUSED(
      edge.ask({.kind = MessageKind::forward, .tensors = {{"z", features()}, {"mask", Tensor::ones({2, 2})}}}),
      RefusalCode::wrong_tensor);
  CHECK_REFUSED(edge.backward(0, features()), RefusalCode::no_forward);
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Tensor z = features().clone();
    z.mutable_data<float>()[5] = static_cast<float>(bad);
    CHECK_REFUSED(edge.forward(0, z), RefusalCode::not_finite);
  }
  CHECK(edge.forward(0, features()).kind == MessageKind::features);
  Tensor dy = features(2).clone();
  dy.mutable_data<float>()[0] = std::nanf("");
  CHECK_REFUSED(edge.backward(0, dy), RefusalCode::not_finite);
  CHECK_REFUSED(edge.backward(0, random_normal({2, 3}, {1, 0})), RefusalCode::wrong_tensor);
  CHECK_REFUSED(edge.backward(1, features(2)), RefusalCode::no_forward);
  CHECK(same(before, weights_of(service)));
  CHECK(edge.backward(0, features(2)).kind == MessageKind::gradients);
  CHECK(!same(before, weights_of(service)));
}

TEST_CASE("split protocol: repeated requests are done once; altered, replayed and reordered ones not at all") {
  EncoderService service{ServiceOptions{}};
  RawEdge edge{service, {.name = "edge", .number = 1}};
  edge.begin();
  const Message forward{.kind = MessageKind::forward, .serial = 2, .tensors = {{"z", features()}}};
  const Bytes answer = service.handle(edge.peer, frame_of(forward));
  CHECK(answer == service.handle(edge.peer, frame_of(forward)));
  const Message backward{.kind = MessageKind::backward, .serial = 3, .tensors = {{"dy", features(2)}}};
  const Bytes gradients = service.handle(edge.peer, frame_of(backward));
  const nn::StateDict after = weights_of(service);
  for (int i = 0; i < 3; ++i) CHECK(gradients == service.handle(edge.peer, frame_of(backward)));
  CHECK(same(after, weights_of(service)));
  CHECK(service.counts().steps == 1);
  CHECK(service.counts().repeated == 4);
  Message altered = backward;
  altered.tensors[0].value = features(3);
  CHECK_REFUSED(edge.send(altered), RefusalCode::altered);
  CHECK_REFUSED(edge.send(forward), RefusalCode::out_of_order); // an old one again
  Message early = backward;
  early.serial = 5;
  CHECK_REFUSED(edge.send(early), RefusalCode::out_of_order);
  Message ahead{.kind = MessageKind::forward, .serial = 4, .step = 7, .tensors = {{"z", features()}}};
  CHECK_REFUSED(edge.send(ahead), RefusalCode::out_of_order); // a step that is not the next one
  CHECK(same(after, weights_of(service)));
  edge.serial = 4;
  CHECK(edge.forward(1, features()).kind == MessageKind::features);
  CHECK(edge.forward(2, features()).kind == MessageKind::features); // step 1 is skipped
  CHECK_REFUSED(edge.backward(1, features(2)), RefusalCode::no_forward);
  CHECK(edge.backward(2, features(2)).kind == MessageKind::gradients);
  CHECK(service.run(run_name)->step() == 3);
}

TEST_CASE("split protocol: a run is its edge's alone, and of its newest connection") {
  EncoderService service{ServiceOptions{}};
  RawEdge edge{service, {.name = "edge", .number = 1}}, other{service, {.name = "mallory", .number = 2}};
  edge.begin();
  for (const char* how : {"continue", "resume"})
    CHECK_REFUSED(other.open(opening(run_name, how, 1)), RefusalCode::unknown_run);
  CHECK_REFUSED(other.open(opening(run_name, "new", 1)), RefusalCode::run_exists);
  CHECK_REFUSED(other.ask({.kind = MessageKind::fetch, .text = "blocks.0.norm1.bias"}), RefusalCode::unexpected);
  RawEdge again{service, {.name = "edge", .number = 3}, edge.serial};
  CHECK(again.open(opening(run_name, "continue", edge.serial + 1)).kind == MessageKind::opened);
  CHECK_REFUSED(edge.forward(0, features()), RefusalCode::replaced);
  service.leave(edge.peer); // the older connection's end does not end the newer one's run
  CHECK(again.forward(0, features()).kind == MessageKind::features);
  CHECK_REFUSED(again.open(opening(run_name, "continue", 77)), RefusalCode::out_of_order);
}

TEST_CASE("split protocol: a run stays its edge's and its recipe's when the cloud was started again") {
  const TemporaryFolder folder;
  ServiceOptions options;
  options.out = folder.path("runs");
  {
    EncoderService before(options);
    RawEdge edge{before, {.name = "edge", .number = 1}};
    edge.begin();
    REQUIRE(edge.ask({.kind = MessageKind::save, .step = 0}).kind == MessageKind::done);
  }
  EncoderService service(options);
  RawEdge edge{service, {.name = "edge", .number = 1}}, other{service, {.name = "mallory", .number = 2}};
  for (const char* how : {"continue", "resume"})
    CHECK_REFUSED(other.open(opening(run_name, how, 1)), RefusalCode::unknown_run);
  training::EncoderRecipe faster = tiny();
  faster.run.lr = 0.5;
  CHECK_REFUSED(edge.open(opening(run_name, "resume", 1, faster)), RefusalCode::other_recipe);
  CHECK(service.runs() == 0);
  CHECK(edge.open(opening(run_name, "resume", 1)).kind == MessageKind::opened);
  // A step without a checkpoint is refused, and the run in memory stays as it is.
  CHECK_REFUSED(edge.open(opening(run_name, "resume", 1), 7), RefusalCode::no_checkpoint);
  CHECK(edge.forward(0, features()).kind == MessageKind::features);
  // A damaged checkpoint is none.
  service.leave(edge.peer);
  ServiceOptions elsewhere;
  elsewhere.out = folder.path("copy");
  EncoderService third(elsewhere);
  std::filesystem::copy(folder.path("runs"), folder.path("copy"), std::filesystem::copy_options::recursive);
  write_file(folder.path("copy/" + run_name + "/checkpoints/step-00000000/state.json"), std::string_view("{}"));
  RawEdge late{third, {.name = "edge", .number = 1}};
  CHECK_REFUSED(late.open(opening(run_name, "resume", 1)), RefusalCode::no_checkpoint);
}

TEST_CASE("split protocol: what is refused sends no other run away") {
  ServiceOptions options;
  options.runs = 1;
  EncoderService service(options);
  RawEdge edge{service, {.name = "edge", .number = 1}}, other{service, {.name = "mallory", .number = 2}};
  REQUIRE(edge.open(opening(run_name, "new", 1)).kind == MessageKind::opened);
  service.leave(edge.peer); // not begun, and nobody is connected: the first to go
  CHECK_REFUSED(other.open(opening(std::string(32, 'b'), "continue", 1)), RefusalCode::unknown_run);
  CHECK(service.run(run_name) != nullptr);
  CHECK(other.open(opening(std::string(32, 'b'), "new", 1)).kind == MessageKind::opened);
  CHECK(service.run(run_name) == nullptr);
}

TEST_CASE("split protocol: one connection holds one run at a time, so that it cannot fill the cloud for good") {
  ServiceOptions options;
  options.runs = 2;
  EncoderService service(options);
  RawEdge edge{service, {.name = "edge", .number = 1}}, other{service, {.name = "other", .number = 2}};
  for (const char letter : {'a', 'b', 'c'})
    CHECK(edge.open(opening(std::string(32, letter), "new", 1)).kind == MessageKind::opened);
  CHECK(service.run(std::string(32, 'a')) == nullptr);
  service.leave(edge.peer);
  for (const char letter : {'d', 'e'})
    CHECK(other.open(opening(std::string(32, letter), "new", 1)).kind == MessageKind::opened);
}

TEST_CASE("split protocol: a refused resumption leaves the run in memory as it is; a save names what stays") {
  const TemporaryFolder folder;
  ServiceOptions options;
  options.out = folder.path("runs");
  EncoderService service(options);
  RawEdge edge{service, {.name = "edge", .number = 1}};
  edge.begin();
  REQUIRE(edge.ask({.kind = MessageKind::save, .step = 0}).kind == MessageKind::done);
  REQUIRE(edge.forward(0, features()).kind == MessageKind::features);
  REQUIRE(edge.backward(0, features(2)).kind == MessageKind::gradients);
  CHECK_REFUSED(edge.ask({.kind = MessageKind::save, .step = 1, .text = "no step"}), RefusalCode::malformed);
  CHECK_REFUSED(edge.ask({.kind = MessageKind::save, .step = 1, .text = "-3"}), RefusalCode::malformed);
  const nn::StateDict after = weights_of(service);
  const std::uint64_t next = edge.serial + 1;
  training::EncoderRecipe faster = tiny();
  faster.run.lr = 0.5;
  CHECK_REFUSED(edge.open(opening(run_name, "resume", next, faster)), RefusalCode::other_recipe);
  write_file(folder.path("runs/" + run_name + "/checkpoints/step-00000000/model.safetensors"), std::string_view("{}"));
  CHECK_REFUSED(edge.open(opening(run_name, "resume", next)), RefusalCode::no_checkpoint);
  REQUIRE(service.run(run_name) != nullptr);
  CHECK(service.run(run_name)->step() == 1);
  CHECK(same(after, weights_of(service)));
}

TEST_CASE("split protocol: a fixed recipe names the fields that differ; memory and runs have an end") {
  ServiceOptions options;
  options.recipe = tiny();
  options.runs = 2;
  EncoderService service(options);
  RawEdge edge{service, {.name = "edge", .number = 1}};
  training::EncoderRecipe other = tiny();
  other.run.lr = 0.5;
  other.layers = 2;
  const Message refused = edge.open(opening(run_name, "new", 1, other));
  CHECK_REFUSED(refused, RefusalCode::other_recipe);
  CHECK(refused.text.find("layers 1 (there 2)") != std::string::npos);
  CHECK(refused.text.find("lr 0.001 (there 0.5)") != std::string::npos);
  for (const char letter : {'a', 'b'})
    CHECK(edge.open(opening(std::string(32, letter), "new", 1)).kind == MessageKind::opened);
  // The run 'a' has no connection any more, and had not begun: it goes. The next two are connected.
  RawEdge second{service, {.name = "edge", .number = 2}}, third{service, {.name = "edge", .number = 3}};
  service.leave({.name = "edge", .opened = std::string(32, 'a'), .number = 1});
  CHECK(second.open(opening(std::string(32, 'c'), "new", 1)).kind == MessageKind::opened);
  CHECK_REFUSED(third.open(opening(std::string(32, 'd'), "new", 1)), RefusalCode::no_room);
  CHECK(service.runs() == 2);
}

TEST_CASE("split protocol: a last answer comes back whole or not at all") {
  const TemporaryFolder folder;
  const std::string where = folder.path(), path = folder.path("last_answer");
  CHECK(!read_last_answer(where));
  LastAnswer last{.step = 7, .serial = 31, .digest = {}, .answer = {1, 2, 3, 250}};
  last.digest[5] = 9;
  write_last_answer(where, last);
  const auto back = read_last_answer(where);
  REQUIRE(back);
  CHECK(back->step == 7);
  CHECK(back->serial == 31);
  CHECK(back->digest == last.digest);
  CHECK(back->answer == last.answer);
  const Bytes good = read_file(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes damaged = good;
    damaged[i] ^= 0x40U;
    write_file(path, ByteView(damaged));
    CHECK(!read_last_answer(where));
    write_file(path, ByteView(good).first(i));
    CHECK(!read_last_answer(where));
  }
}

TEST_CASE("split protocol: bytes that are no message") {
  EncoderService service{ServiceOptions{}};
  Peer peer{.name = "edge", .number = 1};
  const auto answer = [&](const Bytes& bytes) { return parse_frame(service.handle(peer, bytes), {}); };
  const Bytes good = frame_of({.kind = MessageKind::open, .text = opening(run_name, "new", 1)});
  CHECK_REFUSED(answer({}), RefusalCode::malformed);
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(answer({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)}).kind == MessageKind::refused);
  Bytes longer = good;
  longer.push_back(0);
  CHECK_REFUSED(answer(longer), RefusalCode::malformed);
  Bytes version = good;
  version[4] = 9;
  CHECK_REFUSED(answer(version), RefusalCode::version);
  Bytes huge = good;
  std::memset(huge.data() + 8, 0x7f, 8);
  CHECK_REFUSED(answer(huge), RefusalCode::too_large);
  Bytes kind = good;
  kind[6] = 200;
  CHECK_REFUSED(answer(kind), RefusalCode::malformed);
  CHECK(service.runs() == 0);
  // A tensor that says it has 2^60 elements in a frame of a few bytes.
  Bytes tensor = frame_of({.kind = MessageKind::weight, .serial = 1, .tensors = {{"w", Tensor::ones({4, 2})}}});
  const std::size_t extent = header_bytes + 8 + 8 + 2 + 4 + 2 + 2 + 1 + 1 + 1;
  std::uint64_t many = std::uint64_t{1} << 60;
  std::memcpy(tensor.data() + extent, &many, sizeof many);
  CHECK(message_of<ProtocolError>([&] { parse_frame(tensor, {}); }).find("larger than its message") !=
        std::string::npos);
}

TEST_CASE("split protocol: every kind of message comes back as it was sent") {
  const std::vector<Message> messages = {
      {.kind = MessageKind::open, .step = 3, .text = "{\"a\": 1}"},
      {.kind = MessageKind::forward,
       .serial = 9,
       .step = 4,
       .tensors = {{"z", features()}, {"mask", Tensor::ones({2, 3}, DType::i64)}}},
      {.kind = MessageKind::refused, .serial = 2, .code = RefusalCode::no_room, .text = "words"},
      {.kind = MessageKind::weight,
       .serial = 2,
       .tensors = {{"blocks.0.x", random_normal({3, 2}, {1, 0}, 0, 1, DType::f64).transpose()}}},
  };
  for (const Message& m : messages) {
    const Message back = parse_frame(frame_of(m), {});
    CHECK(back.kind == m.kind);
    CHECK(back.serial == m.serial);
    CHECK(back.step == m.step);
    CHECK(back.code == m.code);
    CHECK(back.text == m.text);
    REQUIRE(back.tensors.size() == m.tensors.size());
    for (std::size_t i = 0; i < m.tensors.size(); ++i) {
      CHECK(back.tensors[i].name == m.tensors[i].name);
      CHECK(same_bits(back.tensors[i].value, m.tensors[i].value.contiguous()));
    }
  }
}
