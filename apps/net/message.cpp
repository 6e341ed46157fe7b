#include "apps/net/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace eg::net {
namespace {

/// Which fields a kind has.
struct Form {
  MessageKind kind;
  std::string_view name;
  bool request = false;
  bool text = false;
  std::string_view tensor = {};   ///< the one it needs; "*": one of any name
  std::string_view optional = {}; ///< and one that may accompany it
};

constexpr std::array forms = {
    Form{MessageKind::open, "open", true, true},
    Form{MessageKind::opened, "opened"},
    Form{MessageKind::put, "put", true, false, "*"},
    Form{MessageKind::begin, "begin", true, true},
    Form{MessageKind::forward, "forward", true, false, "z", "mask"},
    Form{MessageKind::backward, "backward", true, false, "dy"},
    Form{MessageKind::evaluate, "evaluate", true, false, "z", "mask"},
    Form{MessageKind::save, "save", true, true},
    Form{MessageKind::fetch, "fetch", true, true},
    Form{MessageKind::features, "features", false, false, "y"},
    Form{MessageKind::gradients, "gradients", false, false, "dz"},
    Form{MessageKind::weight, "weight", false, false, "*"},
    Form{MessageKind::done, "done"},
    Form{MessageKind::refused, "refused", false, true},
    Form{MessageKind::advance, "advance", true, false, "z"},
};

const Form* form_of(MessageKind kind) {
  const auto found = std::find_if(forms.begin(), forms.end(), [&](const Form& f) { return f.kind == kind; });
  return found == forms.end() ? nullptr : &*found;
}

bool tensors_fit(const Form& form, const std::vector<NamedTensor>& tensors) {
  if (form.tensor.empty()) return tensors.empty();
  if (tensors.empty() || tensors.size() > (form.optional.empty() ? 1U : 2U)) return false;
  if (form.tensor != "*" && tensors[0].name != form.tensor) return false;
  return tensors.size() == 1 || tensors[1].name == form.optional;
}

} // namespace

std::string_view name_of(RefusalCode code) {
  constexpr std::array<std::string_view, 18> names = {
      "?",          "version",       "malformed",    "too_large", "unexpected", "unknown_run",
      "run_exists", "other_recipe",  "out_of_order", "altered",   "no_forward", "wrong_tensor",
      "not_finite", "no_checkpoint", "no_room",      "replaced",  "internal",   "other_model"};
  const auto at = static_cast<std::size_t>(code);
  return at < names.size() ? names[at] : names[0];
}

std::string_view name_of(MessageKind kind) {
  const Form* form = form_of(kind);
  return form == nullptr ? "?" : form->name;
}

bool is_request(MessageKind kind) {
  const Form* form = form_of(kind);
  return form != nullptr && form->request;
}

Tensor Message::tensor(std::string_view name) const {
  for (const NamedTensor& t : tensors)
    if (t.name == name) return t.value;
  return {};
}

void require_not_refused(const Message& answer) {
  if (answer.kind != MessageKind::refused) return;
  const std::string words = "the cloud refuses: " + answer.text;
  if (answer.code == RefusalCode::no_room) throw NoRoomError(words);
  throw ProtocolError(answer.code, words);
}

void check_form(const Message& m) {
  const auto refuse = [&](const char* what) {
    throw ProtocolError(RefusalCode::malformed, fmt::format("net: a message {} {}", name_of(m.kind), what));
  };
  const Form* form = form_of(m.kind);
  if (form == nullptr)
    throw ProtocolError(RefusalCode::malformed,
                        fmt::format("net: there is no message of kind {}", static_cast<int>(m.kind)));
  if (!form->text && !m.text.empty()) refuse("has text");
  if (!tensors_fit(*form, m.tensors)) refuse("has other tensors than it should");
  if ((m.kind == MessageKind::refused) != (static_cast<int>(m.code) != 0)) refuse("has a code that does not fit");
  if (form->request && (m.kind == MessageKind::open) != (m.serial == 0)) refuse("has a serial that does not fit");
}

} // namespace eg::net
