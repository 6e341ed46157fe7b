#pragma once
// Declares the options of a training run, one row each.
//
// A row says all there is to say of an option: its key, its member, its meaning, what is wrong with a value, when it is
// idle, what a split run refuses, whether it may change on resume. JSON, flags, --help, checks and the comparison of a
// resumed run read the rows; other code names an option by its member (option_key), never by its key.
//
//   OptionTable<O> t;
//   t.add("lr", &O::lr, "Learning rate").must(positive).in_recipe();
//   t.word("schedule", &O::schedule, optim::schedule_named, "constant, linear, ...").in_recipe();
//   t.add("dim", member(&O::model, &Model::dim), "Width").must(positive, at_most(1 << 16)).idle(has_own_sizes);
//   t.append(run_options(help));
//
// Each struct of options has const OptionTable<O>& option_table(const O&), found by its argument's namespace.

#include "core/base/error.h"
#include "training/option_info.h"
#include "training/option_reader.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace eg::training {

/// A row of a table for options of the struct O; OptionTable makes it.
template <class O> struct Option : OptionInfo {
  using Reason = std::function<std::string(const O&)>; ///< "" for none

  std::function<const void*(const O&)> at; ///< the member's address
  std::function<nlohmann::ordered_json(const O&)> write;
  std::function<void(O&, OptionReader&)> read;
  std::function<bool(const O&)> exists = [](const O&) { return true; };
  std::function<bool(const O&)> checked = [](const O&) { return true; };
  std::vector<Reason> faults, idle, split;
};

/// Says more of a row; every call returns *this.
template <class O, class Field> class OptionRow {
public:
  using T = std::remove_cvref_t<std::invoke_result_t<Field, O&>>;

  OptionRow(Option<O>& row, Field field) : row_(row), field_(field) {}
  /// Each: of the value, or of all options: what is wrong, after the key; "" for nothing. Called in this order.
  template <class... Faults> OptionRow& must(Faults... faults) { return (add(row_.faults, faults), ...); }
  /// The values are looked at only where this holds of the options.
  template <class Holds> OptionRow& checked_if(Holds holds) { return row_.checked = holds, *this; }
  /// There is such an option only where this holds of the options.
  template <class Holds> OptionRow& exists_if(Holds holds) { return row_.exists = holds, *this; }
  /// Each: of all options: why the option would change nothing; "" when it does its work.
  template <class... Reasons> OptionRow& idle(Reasons... reasons) { return (add(row_.idle, reasons), ...); }
  /// What the value must be where another party holds the blocks, and why (after the key).
  OptionRow& split(T value, const char* why) {
    return split_if([field = field_, value](const O& o) { return std::invoke(field, o) == value; }, why);
  }
  template <class Holds> OptionRow& split_if(Holds holds, const char* why) {
    row_.split.push_back([holds, why](const O& o) { return holds(o) ? std::string() : std::string(why); });
    return *this;
  }
  OptionRow& names(OptionPath path, OnResume how) { return row_.path = path, resumes(how); }
  OptionRow& resumes(OnResume how) { return row_.resume = how, *this; }
  OptionRow& in_recipe() { return row_.recipe = true, *this; }
  OptionRow& no_flag() { return row_.flag = false, *this; }
  OptionRow& completed_by_run() { return row_.completed = true, *this; }

private:
  template <class Of> OptionRow& add(std::vector<typename Option<O>::Reason>& list, Of of) {
    if constexpr (std::is_invocable_v<Of, const T&>)
      list.push_back([field = field_, of](const O& o) { return of(std::invoke(field, o)); });
    else
      list.push_back(of);
    return *this;
  }

  Option<O>& row_;
  Field field_;
};

/// A field behind members of members: member(&O::model, &Model::dim).
template <class First, class... Rest> constexpr auto member(First first, Rest... rest) {
  return [=](auto& o) -> auto& {
    if constexpr (sizeof...(Rest) == 0)
      return o.*first;
    else
      return member(rest...)(o.*first);
  };
}

/// The rows of a struct of options, in the order of its JSON.
template <class O> class OptionTable {
public:
  /// A row with a text, a truth value or a number. `field`: pointer to member, or member(...).
  template <class Field> OptionRow<O, Field> add(const char* key, Field field, const char* help) {
    return row(
        key, field, help, [field](const O& o) { return nlohmann::ordered_json(std::invoke(field, o)); },
        [key, field](O& o, OptionReader& reader) { reader(key, std::invoke(field, o)); });
  }
  /// A row with one of a set of words: name_of(value) is the word, named(word) the value or ValueError.
  template <class Field, class Named>
  OptionRow<O, Field> word(const char* key, Field field, Named named, const char* help) {
    return row(
        key, field, help, [field](const O& o) { return std::string(name_of(std::invoke(field, o))); },
        [key, field, named](O& o, OptionReader& reader) {
          reader.word(key, [&](const std::string& word) { std::invoke(field, o) = named(word); });
        });
  }
  /// A row with a list of them.
  template <class Field, class Named>
  OptionRow<O, Field> words(const char* key, Field field, Named named, const char* help) {
    return row(
        key, field, help,
        [field](const O& o) {
          nlohmann::ordered_json list = nlohmann::ordered_json::array();
          for (const auto& one : std::invoke(field, o)) list.push_back(std::string(name_of(one)));
          return list;
        },
        [key, field, named](O& o, OptionReader& reader) {
          reader.words(key, [&](const std::vector<std::string>& words) {
            auto& list = std::invoke(field, o);
            list.clear();
            for (const std::string& one : words) list.push_back(named(one));
          });
        });
  }
  /// The rows of options that `field` of these is: of a base, unless one is given. `wanted`: which of them.
  template <class B, class Field = std::identity>
  void append(const OptionTable<B>& others, Field field = {}, bool (*wanted)(const OptionInfo&) = nullptr) {
    for (const Option<B>& b : others.rows())
      if (wanted == nullptr || wanted(b)) rows_.push_back(lifted(b, field));
  }
  const std::vector<Option<O>>& rows() const { return rows_; }

  nlohmann::ordered_json& write(const O& o, nlohmann::ordered_json& out) const {
    each(o, [&](const Option<O>& row) { out[row.key] = row.write(o); });
    return out;
  }
  void read(O& o, OptionReader& reader) const {
    each(o, [&](const Option<O>& row) { row.read(o, reader); });
  }
  /// Throws ValueError "train: KEY ..." for the first value that is wrong.
  void check(const O& o) const {
    each(o, [&](const Option<O>& row) {
      if (row.checked(o)) refuse(row.key, first(row.faults, o));
    });
  }
  /// The same for what a run cannot have whose blocks another party holds.
  void check_split(const O& o) const {
    each(o, [&](const Option<O>& row) { refuse(row.key, first(row.split, o)); });
  }
  /// Why the option would change nothing; "" when it does its work.
  std::string idle(const O& o, std::string_view key) const {
    std::string why;
    each(o, [&](const Option<O>& row) {
      if (row.key == key) why = first(row.idle, o);
    });
    return why;
  }
  std::vector<OptionInfo> infos(const O& o) const {
    std::vector<OptionInfo> found;
    each(o, [&](const Option<O>& row) { found.push_back(row); });
    return found;
  }
  /// The key of the option that lies at `member` of `o`. Throws std::logic_error when none does.
  const char* key_at(const O& o, const void* member) const {
    for (const Option<O>& row : rows_)
      if (row.at(o) == member) return row.key;
    throw std::logic_error("option_key: no option has this member");
  }

private:
  template <class Each> void each(const O& o, Each&& visit) const {
    for (const Option<O>& row : rows_)
      if (row.exists(o)) visit(row);
  }
  static std::string first(const std::vector<typename Option<O>::Reason>& reasons, const O& o) {
    for (const auto& reason : reasons)
      if (std::string found = reason(o); !found.empty()) return found;
    return {};
  }
  static void refuse(const char* key, const std::string& fault) {
    if (!fault.empty()) throw ValueError(fmt::format("train: {} {}", key, fault));
  }
  template <class Field, class Write, class Read>
  OptionRow<O, Field> row(const char* key, Field field, const char* help, Write write, Read read) {
    Option<O>& made = rows_.emplace_back();
    made.key = key;
    made.help = help;
    made.at = [field](const O& o) { return static_cast<const void*>(&std::invoke(field, o)); };
    made.write = write;
    made.read = read;
    return {made, field};
  }
  template <class B, class Field> static Option<O> lifted(const Option<B>& b, Field field) {
    const auto lift = [field](const auto& f) { return [field, f](const O& o) { return f(std::invoke(field, o)); }; };
    Option<O> row;
    static_cast<OptionInfo&>(row) = b;
    row.at = lift(b.at);
    row.write = lift(b.write);
    row.read = [field, f = b.read](O& o, OptionReader& reader) { f(std::invoke(field, o), reader); };
    row.exists = lift(b.exists);
    row.checked = lift(b.checked);
    for (const auto& [to, from] : {std::pair{&row.faults, &b.faults}, {&row.idle, &b.idle}, {&row.split, &b.split}})
      for (const auto& f : *from) to->push_back(lift(f));
    return row;
  }

  std::vector<Option<O>> rows_;
};

/// The key of the option that a member of `options` is: option_key(o, o.lr).
template <class O, class T> const char* option_key(const O& options, const T& member) {
  return option_table(options).key_at(options, &member);
}
/// The same without options at hand: option_key(&RunOptions::lr).
template <class O, class T> const char* option_key(T O::*member) {
  static const O usual;
  return option_key(usual, usual.*member);
}

/// For checks that several options share: throws ValueError "train: KEY what" unless it holds.
template <class O, class T> void need(bool holds, const O& options, const T& member, const std::string& what) {
  if (!holds) throw ValueError(fmt::format("train: {} {}", option_key(options, member), what));
}

/// "" where it holds, else the formatted words: what OptionRow takes.
template <class... Args> std::string unless(bool holds, fmt::format_string<Args...> words, Args&&... args) {
  return holds ? std::string() : fmt::format(words, std::forward<Args>(args)...);
}

// Faults of values.
inline constexpr auto positive = [](auto v) {
  return unless(v > 0 && std::isfinite(v), "must be positive, not {}", v);
};
inline constexpr auto not_negative = [](auto v) { return unless(v >= 0, "must not be negative, not {}", v); };
inline constexpr auto probability = [](double v) {
  return unless(v >= 0.0 && v < 1.0, "must be in [0, 1), not {}", v);
};
inline constexpr auto inner_share = [](double v) { return unless(v > 0.0 && v < 1.0, "must be in (0, 1), not {}", v); };
inline constexpr auto factor = [](double v) { return unless(v > 0.0 && v <= 1.0, "must be in (0, 1], not {}", v); };
/// Limits far beyond what a machine can do, so that no product of counts overflows 64 bits.
constexpr auto at_most(std::int64_t most) {
  return [most](std::int64_t v) { return unless(v <= most, "must be at most {}, not {}", most, v); };
}
constexpr auto from_to(std::int64_t least, std::int64_t most) {
  return
      [=](std::int64_t v) { return unless(v >= least && v <= most, "must be from {} to {}, not {}", least, most, v); };
}
constexpr auto within(double least, double most) {
  return [=](double v) { return unless(v >= least && v <= most, "must be in [{}, {}], not {}", least, most, v); };
}

} // namespace eg::training
