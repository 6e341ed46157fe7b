// The cloud of STIP: users beside each other, and users who are wrong, broken or hostile.

#include "stip/stip_models.h"
#include "support/message.h"
#include "support/refused.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace eg;
using namespace eg::net;
using namespace eg::stip;
using namespace eg::test;

namespace {

/// A user who says what it likes.
struct RawUser {
  StipService& service;
  Peer peer;
  std::uint64_t serial = 0, step = 0;

  RawUser(StipService& cloud, std::uint64_t number) : service(cloud), peer{.name = "user", .number = number} {}
  Message send(const Message& message) { return parse_frame(service.handle(peer, frame_of(message)), {}); }
  Message open(const std::string& text) {
    serial = step = 0;
    return send({.kind = MessageKind::open, .text = text});
  }
  Message open(std::uint64_t tokens) {
    return open(nlohmann::json{{"model", service.config().id}, {"tokens", tokens}}.dump());
  }
  Message next(const Tensor& z) const {
    return {.kind = MessageKind::advance, .serial = serial + 1, .step = step, .tensors = {{"z", z}}};
  }
  Message advance(const Tensor& z) {
    Message answer = send(next(z));
    ++serial;
    if (answer.kind == MessageKind::features) step += static_cast<std::uint64_t>(z.size(1));
    return answer;
  }
  Message evaluate(const Tensor& z, const Tensor& mask = {}) {
    Message m{.kind = MessageKind::evaluate, .serial = ++serial, .tensors = {{"z", z}}};
    if (mask.defined()) m.tensors.push_back({"mask", mask});
    return send(m);
  }
};

Tensor features(std::int64_t texts, std::int64_t tokens, std::int64_t dim, std::uint64_t seed) {
  return random_normal({texts, tokens, dim}, {seed, 0});
}

/// Asks for all users at once.
std::vector<Message> together(StipService& cloud, std::vector<RawUser>& users, const std::vector<Message>& messages) {
  std::vector<Bytes> frames;
  std::vector<Request> requests;
  for (const Message& m : messages) frames.push_back(frame_of(m));
  for (std::size_t i = 0; i < users.size(); ++i) requests.push_back({&users[i].peer, frames[i]});
  std::vector<Message> answers(users.size());
  cloud.handle_all(requests, [&](std::size_t i, Bytes frame) { answers[i] = parse_frame(frame, {}); });
  return answers;
}

} // namespace

TEST_CASE("stip service: the answer does not depend on who else is served, bit for bit") {
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const StipParties parties(family);
    StipService cloud = parties.service();
    const std::size_t count = 12; // more than skinny_gemm::most
    const std::vector<std::int64_t> prompts = {5, 9, 9, 3, 3, 3, 20, 1, 1, 40, 5, 9};
    std::vector<RawUser> users, alone;
    std::vector<Message> messages;
    for (std::size_t i = 0; i < count; ++i) {
      users.emplace_back(cloud, i + 1);
      alone.emplace_back(cloud, 100 + i);
      REQUIRE(users[i].open(60).kind == MessageKind::opened);
      REQUIRE(alone[i].open(60).kind == MessageKind::opened);
      messages.push_back(users[i].next(features(1, prompts[i], 48, i)));
    }
    for (int step = 0; step < 4; ++step) {
      const std::vector<Message> answers = together(cloud, users, messages);
      for (std::size_t i = 0; i < count; ++i) {
        CAPTURE(i);
        REQUIRE(answers[i].kind == MessageKind::features);
        const Tensor z = messages[i].tensors[0].value;
        const Message expected = alone[i].advance(z);
        REQUIRE(expected.kind == MessageKind::features);
        CHECK(same_bits(answers[i].tensors[0].value, expected.tensors[0].value));
        users[i].step += static_cast<std::uint64_t>(z.size(1));
        ++users[i].serial;
        messages[i] = users[i].next(features(1, 1, 48, 1000 + 100 * static_cast<std::uint64_t>(step) + i));
      }
    }
    CHECK(cloud.counts().most_rows > 1);
    CHECK(cloud.counts().passes < cloud.counts().in_passes);
  }
}

TEST_CASE("stip service: whole texts pass together, bit for bit as alone, with masks and without") {
  for (const char* family : {"bert", "vit"}) {
    CAPTURE(family);
    const StipParties parties(family);
    StipService cloud = parties.service();
    std::vector<RawUser> users;
    std::vector<Message> messages;
    for (std::uint64_t i = 0; i < 6; ++i) {
      users.emplace_back(cloud, i + 1);
      REQUIRE(users.back().open(std::uint64_t{0}).kind == MessageKind::opened);
      const std::int64_t texts = 1 + static_cast<std::int64_t>(i % 3);
      messages.push_back({.kind = MessageKind::evaluate, .serial = 1, .tensors = {{"z", features(texts, 12, 32, i)}}});
      if (family[0] == 'b' && i > 1) {
        Tensor mask = Tensor::ones({texts, 12}, DType::i64);
        mask.slice(1, 9, 12).copy_from(Tensor::zeros({texts, 3}, DType::i64));
        messages.back().tensors.push_back({"mask", mask});
      }
    }
    const std::vector<Message> answers = together(cloud, users, messages);
    for (std::size_t i = 0; i < users.size(); ++i) {
      users[i].serial = 1;
      const Message expected = users[i].evaluate(messages[i].tensor("z"), messages[i].tensor("mask"));
      REQUIRE(answers[i].kind == MessageKind::features);
      CHECK(same_bits(answers[i].tensors[0].value, expected.tensors[0].value));
    }
    CHECK(cloud.counts().most_rows > 3);
  }
}

TEST_CASE("stip service: what has no place is refused, and by what it is") {
  const StipParties parties("llama");
  StipServiceOptions options;
  options.tokens = 100;
  options.sessions = 2;
  options.frames.body = 1 << 20;
  StipService cloud = parties.service(options);
  RawUser user(cloud, 1);
  const Tensor z = features(1, 4, 48, 1);
  CHECK_REFUSED(user.advance(z), RefusalCode::unexpected); // no session
  CHECK_REFUSED(user.open("{"), RefusalCode::malformed);
  CHECK_REFUSED(user.open("{}"), RefusalCode::malformed);
  CHECK_REFUSED(user.open(R"({"model": 1, "tokens": 1})"), RefusalCode::malformed);
  CHECK_REFUSED(user.open(R"({"model": "x", "tokens": -1})"), RefusalCode::malformed);
  CHECK_REFUSED(user.open(R"({"model": "x", "tokens": 1})"), RefusalCode::other_model);
  CHECK_REFUSED(user.open(101), RefusalCode::too_large);
  CHECK_REFUSED(user.open(std::numeric_limits<std::uint64_t>::max()), RefusalCode::too_large);
  CHECK(cloud.sessions() == 0);
  REQUIRE(user.open(8).kind == MessageKind::opened);
  const auto bad = [&](const Tensor& value, RefusalCode code) { CHECK_REFUSED(user.advance(value), code); };
  bad(features(1, 4, 47, 1), RefusalCode::wrong_tensor);
  bad(features(2, 4, 48, 1), RefusalCode::wrong_tensor);
  bad(random_normal({4, 48}, {1, 0}), RefusalCode::wrong_tensor);
  bad(z.to(DType::f64), RefusalCode::wrong_tensor);
  bad(features(1, 9, 48, 1), RefusalCode::too_large);
  bad(features(1, 101, 48, 1), RefusalCode::too_large);
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Tensor broken = z.clone();
    broken.slice(2, 3, 4).copy_from(Tensor::full({1, 4, 1}, value));
    bad(broken, RefusalCode::not_finite);
  }
  CHECK_REFUSED(user.send({.kind = MessageKind::save, .serial = ++user.serial}), RefusalCode::unexpected);
  CHECK_REFUSED(user.send({.kind = MessageKind::done}), RefusalCode::unexpected);
  // Replays, and what was left out.
  const Message first = user.next(z);
  REQUIRE(user.advance(z).kind == MessageKind::features);
  CHECK_REFUSED(user.send(first), RefusalCode::out_of_order);
  user.step = 2;
  bad(z, RefusalCode::out_of_order);
  user.step = 4;
  // All of it changed nothing: the text goes on as one that nobody disturbed.
  RawUser honest(cloud, 2);
  REQUIRE(honest.open(8).kind == MessageKind::opened);
  REQUIRE(honest.advance(z).kind == MessageKind::features);
  const Tensor one = features(1, 1, 48, 2);
  CHECK(same_bits(user.advance(one).tensors.at(0).value, honest.advance(one).tensors.at(0).value));
  RawUser third(cloud, 3);
  CHECK_REFUSED(third.open(8), RefusalCode::no_room);
  cloud.leave(user.peer);
  CHECK(third.open(8).kind == MessageKind::opened);
  CHECK_REFUSED(third.evaluate(features(1, 4, 48, 1), Tensor::ones({1, 5})), RefusalCode::wrong_tensor);
  CHECK_REFUSED(third.evaluate(features(50, 3, 48, 1)), RefusalCode::too_large);
  const StipParties encoder("bert");
  StipService texts = encoder.service();
  RawUser reader(texts, 1);
  CHECK_REFUSED(reader.open(8), RefusalCode::unexpected); // an encoder has no text that grows
  REQUIRE(reader.open(std::uint64_t{0}).kind == MessageKind::opened);
  CHECK_REFUSED(reader.advance(features(1, 4, 32, 1)), RefusalCode::unexpected);
  CHECK_REFUSED(reader.evaluate(features(1, 41, 32, 1)), RefusalCode::too_large);
}

TEST_CASE("stip service: keys and values have a limit, checked before memory is taken, and go with their session") {
  const StipParties parties("gpt2");
  StipServiceOptions options;
  const std::uint64_t each = 2 * 3 * 48 * sizeof(float); // of a token
  options.cache_bytes = 300 * each;
  StipService cloud = parties.service(options);
  RawUser a(cloud, 1), b(cloud, 2);
  REQUIRE(a.open(200).kind == MessageKind::opened);
  CHECK(cloud.cache_bytes() == 200 * each);
  CHECK_REFUSED(b.open(101), RefusalCode::no_room);
  CHECK(b.open(100).kind == MessageKind::opened);
  REQUIRE(a.open(10).kind == MessageKind::opened); // in place of the text before
  CHECK(cloud.cache_bytes() == 110 * each);
  cloud.leave(a.peer);
  cloud.leave(b.peer);
  CHECK(cloud.cache_bytes() == 0);
}

TEST_CASE("stip service: who sends huge numbers, or nonsense, beside others changes nothing for them") {
  const StipParties parties("gpt2");
  StipService cloud = parties.service();
  std::vector<RawUser> users;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    users.emplace_back(cloud, i);
    REQUIRE(users.back().open(8).kind == MessageKind::opened);
  }
  const Tensor z = features(1, 2, 48, 1);
  RawUser alone(cloud, 9);
  REQUIRE(alone.open(8).kind == MessageKind::opened);
  const Message expected = alone.advance(z);
  const std::vector<Message> answers =
      together(cloud, users, {users[0].next(z), users[1].next(z * 3e37), users[2].next(features(1, 2, 5, 1))});
  CHECK(same_bits(answers[0].tensors.at(0).value, expected.tensors.at(0).value));
  CHECK(answers[2].kind == MessageKind::refused);
}

TEST_CASE("stip user: a cloud that answers something else is refused") {
  const StipParties parties("gpt2");
  const UserModel user = parties.user();
  /// Answers `open` rightly and everything else with what it was given.
  class Liar : public Service {
  public:
    explicit Liar(Message answer) : answer_(std::move(answer)) {}
    FrameLimits limits(const Peer&) const override { return {}; }
    Bytes handle(Peer&, ByteView frame) override {
      const Message m = parse_frame(frame, {});
      return frame_of(m.kind == MessageKind::open ? Message{.kind = MessageKind::opened} : answer_);
    }
    void leave(const Peer&) override {}

  private:
    Message answer_;
  };
  const auto says = [&](Message answer) {
    Liar cloud(std::move(answer));
    return message_of<ProtocolError>([&] {
      CloudSession session(connect_to(cloud, "user"), user, 8);
      session.advance(features(1, 2, 48, 1));
    });
  };
  const auto features_of = [](const Tensor& y, std::uint64_t serial = 1) {
    return Message{.kind = MessageKind::features, .serial = serial, .tensors = {{"y", y}}};
  };
  CHECK(says(features_of(features(1, 1, 48, 1))).empty());
  CHECK(!says(features_of(features(1, 1, 48, 1), 2)).empty());
  CHECK(!says(features_of(features(1, 2, 48, 1))).empty());
  CHECK(!says(features_of(features(1, 1, 48, 1).to(DType::f64))).empty());
  CHECK(!says(features_of(Tensor::full({1, 1, 48}, std::nan("")))).empty());
  CHECK(!says({.kind = MessageKind::done, .serial = 1}).empty());
  CHECK(says(refusal(1, RefusalCode::internal, "broken")).find("broken") != std::string::npos);
}
