// Training runs: the trainers of the program, with their options by name.

#include "core/base/words.h"
#include "training/fine_tuning.h"
#include "training/language/classify.h"
#include "training/language/difm_task.h"
#include "training/language/dropout_note.h"
#include "training/language/language.h"
#include "training/new_run.h"
#include "training/vision_model.h"
#include "training/vit_trainer.h"

#include "bindings.h"
#include "path.h"
#include "stoppable.h"

#include <fmt/format.h>
#include <nanobind/stl/unique_ptr.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <exception>

namespace eg::python {
namespace {

using training::OptionInfo;
using training::RunOptions;
using training::Trainer;

/// What is asked for.
struct Request {
  std::string model;                                          ///< one of models()
  nlohmann::json config;                                      ///< options by key, as a run's config.json has them
  nlohmann::json given;                                       ///< those of the call, which go before them
  std::string resume;                                         ///< run or checkpoint folder, "" for none
  bool nowhere = false;                                       ///< no run folder
  const data::ImageDataset *train = nullptr, *test = nullptr; ///< images in memory, in the place of options.data
};

/// A trainer and its run folder, "" for none.
struct Opened {
  std::unique_ptr<Trainer> trainer;
  std::string out;
};

/// A kind of model that can be trained, and its options.
struct Kind {
  std::string name;
  nlohmann::ordered_json defaults;
  std::vector<OptionInfo> options;
  std::function<Opened(const Request&, StopFlag)> open;

  bool has(const std::string& key) const { return defaults.contains(key); }
};

const std::vector<Kind>& kinds();

const Kind& kind_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  throw ValueError(fmt::format("train: there is no model '{}'{}; there are {}", name, did_you_mean(name, names),
                               fmt::join(names, ", ")));
}

/// Throws ValueError for an option that the model has not: whose it is, or the nearest name.
void check_names(const Request& r, const nlohmann::json& options) {
  const Kind& kind = kind_named(r.model);
  std::vector<std::string> known;
  for (const OptionInfo& option : kind.options) known.emplace_back(option.key);
  for (const auto& [key, value] : options.items()) {
    if (kind.has(key) && key != "model") continue;
    std::vector<std::string> owners;
    for (const Kind& other : kinds())
      if (key != "model" && other.has(key)) owners.push_back(other.name);
    if (!owners.empty())
      throw ValueError(fmt::format("train: '{}' is an option of {}, not of {}", key, fmt::join(owners, ", "), r.model));
    const std::string hint = did_you_mean(key, known);
    throw ValueError(fmt::format("train: there is no option '{}'{}", key,
                                 hint.empty() ? fmt::format("; eg.train_options('{}') lists them", r.model) : hint));
  }
}

/// The options of a request: those of the resumed run, or the defaults; then what was given. Throws ValueError.
template <class O, class OfRun> O options_for(const Request& r, O options, OfRun&& of_run) {
  check_names(r, r.config);
  check_names(r, r.given);
  if (!r.resume.empty()) options = of_run(r.resume);
  apply_options(options, r.config, "train: config");
  const bool steps = r.given.contains(training::option_key(&RunOptions::steps));
  const bool epochs = r.given.contains(training::option_key(&RunOptions::epochs));
  // The one that is given replaces the other one of a config or of the resumed run.
  if (steps && !epochs) options.epochs = 0;
  if (epochs && !steps) options.steps = 0;
  apply_options(options, r.given, "train");
  for (const auto& [key, value] : r.given.items()) {
    if (value == false) continue; // asks for nothing
    if (const std::string why = option_table(options).idle(options, key); !why.empty())
      throw ValueError(fmt::format("train: {} has no effect: {}", key, why));
  }
  if (r.given.contains(training::option_key(&RunOptions::warmup))) training::require_warmup_in_run(options);
  if (r.nowhere) options.out.clear();
  check(options);
  return options;
}

/// Limits the default maximum length to that of the model that the run starts from.
template <class O> void fit_context(const Request& r, O& o) {
  const bool asked = r.given.contains(training::option_key(o, o.context)) || !r.resume.empty() || !r.config.empty();
  if (asked || !o.start.begins()) return;
  if (const std::int64_t most = training::positions_of_start(o.start); most > 0) o.context = std::min(o.context, most);
}

/// Makes a trainer in the run folder of `options`.
template <class O, class Make> Opened opened(const Request& r, const std::string& name, O& options, Make&& make) {
  Opened found;
  const auto open = [&] {
    std::unique_ptr<Trainer> trainer = make(options); // which goes, and frees its folder, where it is refused
    // Where the run is given in epochs, its data alone says how many steps it has.
    RunOptions known = options;
    known.steps = trainer->total_steps();
    if (r.given.contains(training::option_key(&RunOptions::warmup))) training::require_warmup_in_run(known);
    found.trainer = std::move(trainer);
  };
  if (r.nowhere)
    open();
  else
    training::in_run_folder(name, options, nullptr, open);
  found.out = options.out;
  return found;
}

template <class O>
Kind kind(const char* name, const O& defaults, std::function<Opened(const Request&, StopFlag)> open) {
  return {name, options_json(defaults), option_table(defaults).infos(defaults), std::move(open)};
}

Kind vision_kind(const char* name, const training::VitOptions& defaults) {
  return kind(name, defaults, [defaults](const Request& r, StopFlag stop) {
    using training::VitOptions;
    VitOptions options =
        options_for(r, defaults, [&](const std::string& folder) { return training::options_of_run(folder, defaults); });
    return opened(r, r.model, options, [&](const VitOptions& o) -> std::unique_ptr<Trainer> {
      if (r.train != nullptr) return std::make_unique<training::VitTrainer>(o, *r.train, *r.test);
      return std::make_unique<training::VitTrainer>(o, stop);
    });
  });
}

Kind text_kind(const char* name, training::LanguageModel model) {
  return kind(name, training::language_defaults(model), [model](const Request& r, StopFlag stop) {
    using training::LanguageOptions;
    LanguageOptions options = options_for(r, training::language_defaults(model), [&](const std::string& folder) {
      return training::language_options_of_run(folder, model);
    });
    fit_context(r, options);
    return opened(r, r.model, options, [&](const LanguageOptions& o) { return training::language_trainer(o, stop); });
  });
}

Kind bert_kind(const char* name, training::BertTask task) {
  training::ClassifyOptions defaults;
  defaults.task = task;
  return kind(name, defaults, [defaults](const Request& r, StopFlag stop) {
    using training::ClassifyOptions;
    ClassifyOptions options = options_for(r, defaults, training::classify_options_of_run);
    fit_context(r, options);
    return opened(r, "bert", options, [&](const ClassifyOptions& o) { return training::bert_trainer(o, stop); });
  });
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {
      vision_kind("vit", training::VitOptions()),
      vision_kind("deit", training::deit_defaults()),
      bert_kind("bert", training::BertTask::classify),
      bert_kind("mlm", training::BertTask::mlm),
      text_kind("gpt2", training::LanguageModel::gpt2),
      text_kind("llama", training::LanguageModel::llama),
      kind("difm", training::DifmOptions(),
           [](const Request& r, StopFlag stop) {
             using training::DifmOptions;
             DifmOptions options = options_for(r, DifmOptions(), training::difm_options_of_run);
             return opened(r, r.model, options, [&](const DifmOptions& o) { return training::difm_trainer(o, stop); });
           }),
  };
  return table;
}

/// A trainer owned by Python. It reports every event of a run by one callback: tell(what, value).
class PyTrainer {
public:
  explicit PyTrainer(Opened opened) : opened_(std::move(opened)) {}
  Trainer& trainer() { return *there(); }
  const Trainer& trainer() const { return *there(); }
  /// Ends the trainer and frees its folder; whoever still holds this is refused.
  void close() { opened_.trainer.reset(); }
  const std::string& out() const { return opened_.out; }
  /// The run ends after the present step, or after the first one where none was taken yet. From any thread.
  void end() { ends_ = true; }

  /// Trains to the end on this thread, without the interpreter's lock but in tell(). What a signal's handler or tell()
  /// raises ends the run after the present step, with a checkpoint, and is thrown then.
  std::string run(nb::handle tell) {
    const nb::gil_scoped_release unlocked;
    Teller teller{tell, stop_};
    stop_ = false; // ends_ stays: a wish from before the first step holds
    training::Callbacks calls;
    calls.step = [&](const training::Record& r) { teller("step", record_text(r)); };
    calls.test = [&](const training::Record& r) { teller("test", record_text(r)); };
    calls.checkpoint = [&](const std::string& folder) { teller("checkpoint", folder); };
    calls.skipped = [&](const std::string& why) { teller("skipped", why); };
    calls.testing = [&](double share) { teller("testing", fmt::format("{}", share)); };
    calls.epoch = [&] { teller("epoch", ""); };
    calls.ends = [&] { return ends_.load(); };
    std::string result;
    try {
      result = result_text(trainer().run(calls, &stop_));
    } catch (const Interrupted&) {
      if (!teller.raised) throw;
    }
    if (teller.raised) std::rethrow_exception(teller.raised);
    return result;
  }

private:
  Trainer* there() const {
    if (opened_.trainer == nullptr) throw ValueError("train: the run is over");
    return opened_.trainer.get();
  }

  /// Calls tell(what, value) with the lock, after signals were looked at; the first that raises stops the run.
  struct Teller {
    nb::handle tell;
    std::atomic<bool>& stop;
    std::exception_ptr raised = {};

    void operator()(const char* what, const std::string& value) {
      if (raised) return;
      try {
        if (handles_signals()) look_at_signals();
        const nb::gil_scoped_acquire locked;
        tell(what, value);
      } catch (...) {
        raised = std::current_exception();
        stop = true;
      }
    }
  };

  std::string record_text(const training::Record& r) const { return training::record_json(r, trainer().unit()).dump(); }
  std::string result_text(const training::Result& r) const {
    nlohmann::ordered_json json = {
        {"steps", r.steps}, {"seconds", r.seconds}, {"per_s", r.per_s}, {"skipped", r.skipped}, {"best", nullptr}};
    if (r.best) json["best"] = *r.best;
    json["test"] = training::record_json(r.test, trainer().unit());
    return json.dump();
  }

  Opened opened_;
  std::atomic<bool> stop_ = false, ends_ = false;
};

nlohmann::json parsed(const std::string& text) { return nlohmann::json::parse(text); }

/// The kind of model that a run or checkpoint folder trained.
std::string model_of_run(const std::string& folder) {
  for (const Kind& kind : kinds()) {
    try {
      std::string found = kind.name;
      training::read_options_of_run(folder, kind.name == "mlm" ? "bert" : kind.name,
                                    [&](const nlohmann::json& options, const std::string&) {
                                      if (kind.name == "bert" && options.value("task", "") == "mlm") found = "mlm";
                                    });
      return found;
    } catch (const ValueError&) { // of another model
    }
  }
  throw ValueError(fmt::format("train: {} is a run of no model that can be trained", folder));
}

std::unique_ptr<PyTrainer> open_trainer(const std::string& model, const std::string& options, const std::string& resume,
                                        bool nowhere, const data::ImageDataset* train, const data::ImageDataset* test) {
  const nlohmann::json wishes = parsed(options);
  const nlohmann::json none = nlohmann::json::object();
  const Request request{model, wishes.value("config", none), wishes.value("given", none), resume, nowhere, train, test};
  const Kind& kind = kind_named(model);
  return std::make_unique<PyTrainer>(stoppable([&](StopFlag stop) { return kind.open(request, stop); }));
}

std::string option_table_text() {
  nlohmann::ordered_json models = nlohmann::ordered_json::object();
  for (const Kind& kind : kinds()) {
    nlohmann::ordered_json& rows = models[kind.name] = nlohmann::ordered_json::array();
    for (const OptionInfo& option : kind.options)
      rows.push_back({{"name", option.key},
                      {"default", kind.defaults.at(option.key)},
                      {"help", option.help},
                      {"path", option.path != training::OptionPath::none}});
  }
  return models.dump();
}

/// Writes a ViT or DeiT as a model folder. Throws ValueError for one that no other library has.
void save_vit(const nn::Vit& model, const std::vector<std::string>& classes, const std::vector<double>& mean,
              const std::vector<double>& deviation, const Path& folder) {
  if (std::ssize(classes) != model.config.classes)
    throw ValueError(
        fmt::format("save: the model has {} classes, {} names were given", model.config.classes, classes.size()));
  const data::Normalization pixels{mean, deviation};
  const auto config = training::vision_config(model.config, classes, pixels);
  if (!config)
    throw ValueError("save: neither transformers nor timm has such a ViT (positions that are not learned, post-norm "
                     "blocks, or heads that do not share dim evenly); eg.save(model, path) keeps its weights");
  released([&, path = folder.str()] { training::save_vision_model(model, *config, pixels, path); });
}

} // namespace

void bind_training(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("training", "The trainers of the program; eg.train is made of them.");
  nb::class_<PyTrainer>(m, "Trainer", "A run that is open: it holds the lock of its run folder.")
      .def("run", &PyTrainer::run, "tell"_a, "Trains to the end; tell(what, value) is called on the way.",
           nb::sig("def run(self, tell: collections.abc.Callable[[str, str], typing.Any]) -> str"))
      .def("close", &PyTrainer::close, "Frees the run folder.")
      .def("end", &PyTrainer::end, "Ends the run after the present step.")
      .def(
          "test",
          [](PyTrainer& self) {
            const auto found = stoppable([&](StopFlag stop) { return self.trainer().test(stop); });
            return training::record_json(found, self.trainer().unit()).dump();
          },
          "Measures on the test data.")
      .def_prop_ro("out", &PyTrainer::out)
      .def_prop_ro("step", [](const PyTrainer& self) { return self.trainer().step(); })
      .def_prop_ro("total_steps", [](const PyTrainer& self) { return self.trainer().total_steps(); })
      .def_prop_ro("steps_per_epoch", [](const PyTrainer& self) { return self.trainer().steps_per_epoch(); })
      .def_prop_ro("unit", [](const PyTrainer& self) { return std::string(self.trainer().unit()); })
      .def_prop_ro("summary",
                   [](const PyTrainer& self) { return self.trainer().summary() + self.trainer().step_words(); })
      .def_prop_ro("notes",
                   [](const PyTrainer& self) {
                     std::vector<std::string> notes = self.trainer().notes();
                     if (std::string note = training::dropout_note(self.trainer().options_json()); !note.empty())
                       notes.push_back(std::move(note));
                     return notes;
                   })
      .def_prop_ro("options", [](const PyTrainer& self) { return self.trainer().options_json().dump(); })
      .def_prop_ro("modes",
                   [](const PyTrainer& self) {
                     std::vector<std::string> modes;
                     for (std::size_t i = 0; i < self.trainer().variants(); ++i)
                       modes.emplace_back(name_of(self.trainer().mode(i)));
                     return modes;
                   })
      .def(
          "module",
          [](PyTrainer& self, std::size_t variant) {
            return const_cast<nn::Module*>(&self.trainer().module(variant)); // for a copy
          },
          "variant"_a, nb::rv_policy::reference_internal, nb::sig("def module(self, variant: int) -> typing.Any"))
      .def(
          "plain_weights",
          [](const PyTrainer& self, std::size_t variant) { return dict_of(self.trainer().plain_weights(variant)); },
          "variant"_a, nb::sig("def plain_weights(self, variant: int) -> dict[str, equigrad._core.Tensor]"));
  m.def("open", &open_trainer, "model"_a, "options"_a, "resume"_a = "", "nowhere"_a = false,
        "train"_a.none() = nb::none(), "test"_a.none() = nb::none(), "Opens a run, new or resumed.",
        nb::sig("def open(model: str, options: str, resume: str = '', nowhere: bool = False, train: "
                "equigrad._core.data.ImageDataset | None = None, test: equigrad._core.data.ImageDataset | None = None) "
                "-> Trainer"));
  m.def("save_vit", &save_vit, "model"_a, "classes"_a, "mean"_a, "std"_a, "folder"_a,
        nb::sig("def save_vit(model: equigrad._core.nn.Vit, classes: collections.abc.Sequence[str], mean: "
                "collections.abc.Sequence[float], std: collections.abc.Sequence[float], folder: str | os.PathLike) -> "
                "None"));
  m.def("model_of_run", &model_of_run, "folder"_a, "Which model a run or checkpoint folder trained.");
  m.def("options", &option_table_text, "The options of every model, as JSON.");
}

} // namespace eg::python
