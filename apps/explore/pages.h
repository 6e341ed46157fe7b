#pragma once
// Lists what answers the questions of each page, and what a session remembers between them.

#include "apps/explore/question.h"
#include "apps/explore/reply.h"

#include <memory>
#include <string>

namespace eg::explore {

class Twins;     // twins.cpp
class OpenModel; // yours.cpp

/// What lasts between questions.
struct Session {
  explicit Session(std::string where);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::string folder;
  std::unique_ptr<Twins> twins;
  std::unique_ptr<OpenModel> model;
};

using Page = void (*)(Question& question, Reply& reply, Session& session);

void ask_about(Question& question, Reply& reply, Session& session);     ///< "about"
void ask_tokens(Question& question, Reply& reply, Session& session);    ///< "tokens"
void ask_features(Question& question, Reply& reply, Session& session);  ///< "features"
void ask_gradients(Question& question, Reply& reply, Session& session); ///< "gradients"
void start_twins(Question& question, Reply& reply, Session& session);   ///< "twins.start"
void step_twins(Question& question, Reply& reply, Session& session);    ///< "twins.step"
void ask_mask(Question& question, Reply& reply, Session& session);      ///< "mask"
void ask_thief(Question& question, Reply& reply, Session& session);     ///< "thief"
void sample_yours(Question& question, Reply& reply, Session& session);  ///< "yours.sample"
void open_yours(Question& question, Reply& reply, Session& session);    ///< "yours.open"
void check_yours(Question& question, Reply& reply, Session& session);   ///< "yours.check"
void attend_yours(Question& question, Reply& reply, Session& session);  ///< "yours.attention"
void move_yours(Question& question, Reply& reply, Session& session);    ///< "yours.permute"
void list_rows(Question& question, Reply& reply, Session& session);     ///< "catalogue.list"
void run_row(Question& question, Reply& reply, Session& session);       ///< "catalogue.run"
void ask_tape(Question& question, Reply& reply, Session& session);      ///< "tape"

} // namespace eg::explore
