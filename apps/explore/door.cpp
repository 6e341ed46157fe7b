#include "apps/explore/door.h"

#include "apps/explore/pages.h"
#include "apps/explore/twins.h"

#include "core/base/error.h"
#include "core/base/words.h"
#include "core/registry.h"
#include "core/simd/simd.h"
#include "permute/catalogue/catalogue.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace eg::explore {

using nlohmann::json;

namespace {

struct Row {
  std::string_view name;
  Page page;
};

constexpr Row rows[] = {{"about", ask_about},
                        {"tokens", ask_tokens},
                        {"features", ask_features},
                        {"gradients", ask_gradients},
                        {"twins.start", start_twins},
                        {"twins.step", step_twins},
                        {"mask", ask_mask},
                        {"thief", ask_thief},
                        {"yours.sample", sample_yours},
                        {"yours.open", open_yours},
                        {"yours.check", check_yours},
                        {"yours.attention", attend_yours},
                        {"yours.permute", move_yours},
                        {"catalogue.list", list_rows},
                        {"catalogue.run", run_row},
                        {"tape", ask_tape}};

constexpr auto names = [] {
  std::array<std::string_view, std::size(rows)> list;
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = rows[i].name;
  return list;
}();

Answer refused(std::string_view why) {
  return {json{{"error", printable(why)}}.dump(-1, ' ', true, json::error_handler_t::replace), {}};
}

} // namespace

void ask_about(Question& question, Reply& reply, Session&) {
  question.finish();
  reply.body["operations"] = registry().size();
  reply.body["rows"] = permute::catalogue().size();
  reply.body["target"] = simd::target();
}

struct Door::State {
  explicit State(std::string folder) : session(std::move(folder)) {}
  Session session;
};

Door::Door(std::string folder) : state_(std::make_unique<State>(std::move(folder))) {}
Door::~Door() = default;

std::span<const std::string_view> Door::questions() { return names; }

Answer Door::ask(std::string_view text) {
  try {
    Question question(text);
    const auto row =
        std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.name == question.ask(); });
    if (row == std::end(rows))
      throw ValueError(fmt::format("there is no question '{}'; there are {}", question.ask(), fmt::join(names, ", ")));
    Reply reply;
    row->page(question, reply, state_->session);
    return {reply.body.dump(-1, ' ', true, json::error_handler_t::replace), std::move(reply.numbers)};
  } catch (const std::bad_alloc&) {
    return refused("there is not enough memory for this");
  } catch (const std::exception& error) {
    return refused(error.what());
  }
}

} // namespace eg::explore
