// Tables with two labels: which columns, how they are coded, what is refused with file and line.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/text/table.h"
#include "data/text/tabular.h"
#include "support/message.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// Forty rows; `city` and `income` may be empty.
std::string people() {
  std::string text = "id,city,bought,income,age\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format("r{},{},{},{},{}\n", i,
                        i % 5 == 0   ? ""
                        : i == 7     ? "Ulm"
                        : i % 2 == 0 ? "Rome"
                                     : "Oslo",
                        i % 3 == 0 ? "yes" : "no", i % 4 == 0 ? "" : std::to_string(100 * i), 20 + i);
  return text;
}

TabularOptions wanted() {
  TabularOptions o;
  o.label = "bought";
  o.dense = "income..age";
  o.categorical = "city";
  o.held_out = 0.25;
  return o;
}

std::size_t held_out_rows(int rows, double share) {
  std::size_t count = 0;
  for (int i = 0; i < rows; ++i) count += row_is_held_out(static_cast<std::uint64_t>(i), share) ? 1 : 0;
  return count;
}

} // namespace

TEST_CASE("tables: columns by name and range, numbers scaled by the training rows, unknown categories have one id") {
  const TemporaryFolder folder;
  write_file(folder.path("people.csv"), std::string_view(people()));
  TabularOptions o = wanted();
  const Tabular t = open_tabular(folder.path("people.csv"), "", o);
  CHECK(static_cast<std::size_t>(t.test.size()) == held_out_rows(40, 0.25));
  CHECK(t.train.size() + t.test.size() == 40);
  CHECK(t.code.negative == "no");
  CHECK(t.code.positive == "yes");
  REQUIRE(t.code.categorical.size() == 1);
  CHECK(t.code.categorical[0].values == std::vector<std::string>{"", "Oslo", "Rome"}); // Ulm stands there once
  CHECK(t.code.id(0, "Ulm") == 0);
  CHECK(t.code.id(0, "Rome") == 3);
  CHECK(t.code.vocabularies() == std::vector<std::int64_t>{4});

  // The numbers of the training rows have mean 0 and deviation 1 after the logarithm; missing ones are 0.
  for (std::int64_t column = 0; column < 2; ++column) {
    double sum = 0.0, squares = 0.0, count = 0.0;
    int row = -1;
    for (std::int64_t i = 0; i < t.train.size(); ++i) {
      do ++row;
      while (row_is_held_out(static_cast<std::uint64_t>(row), 0.25));
      const double x = t.train.numbers[static_cast<std::size_t>(2 * i + column)];
      if (column == 0 && row % 4 == 0) {
        CHECK(x == 0.0);
        continue;
      }
      sum += x, squares += x * x, count += 1.0;
      const double raw = std::log1p(column == 0 ? 100.0 * row : 20.0 + row);
      CHECK(x == doctest::Approx((raw - t.code.dense[static_cast<std::size_t>(column)].mean) /
                                 t.code.dense[static_cast<std::size_t>(column)].deviation));
      CHECK(t.train.labels[static_cast<std::size_t>(i)] == (row % 3 == 0 ? 1 : 0));
    }
    CHECK(sum / count == doctest::Approx(0.0));
    CHECK(squares / count == doctest::Approx(1.0));
  }
  o.scale = NumberScale::none;
  CHECK(open_tabular(folder.path("people.csv"), "", o).train.numbers[1] == 20.0);
  CHECK(t.code.number(0, -5.0) < t.code.number(0, 0.0)); // the logarithm keeps signs
}

TEST_CASE("tables: columns are guessed where none is named, and hashing needs no list") {
  const TemporaryFolder folder;
  write_file(folder.path("people.csv"), std::string_view(people()));
  TabularOptions o = wanted();
  o.dense = o.categorical = "";
  o.buckets = 7;
  const Tabular t = open_tabular(folder.path("people.csv"), "", o);
  REQUIRE(t.code.dense.size() == 2);
  CHECK(t.code.dense[0].column == "income");
  REQUIRE(t.code.categorical.size() == 2);
  CHECK(t.code.categorical[0].column == "id");
  CHECK(t.code.vocabularies() == std::vector<std::int64_t>{7, 7});
  CHECK(std::all_of(t.train.ids.begin(), t.train.ids.end(), [](std::int64_t id) { return id >= 0 && id < 7; }));
  CHECK(t.code.id(0, "a") == static_cast<std::int64_t>(0xaf63dc4c8601ec8cu % 7)); // FNV-1a of "a", as published
}

TEST_CASE("tables: without a header columns are numbers; tabs; another file to test on; one label against the rest") {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 12; ++i) rows += fmt::format(" {}\t{}\tx{}\n", i % 3, i, i % 2);
  write_file(folder.path("a.data"), std::string_view(rows));
  write_file(folder.path("b.data"), std::string_view("2\t5\tx0\n7\t6\tnew\n"));
  TabularOptions o;
  o.header = false;
  o.label = "1";
  o.positive = "2";
  o.dense = "2";
  o.categorical = "3";
  o.validation = folder.path("b.data");
  const Tabular t = open_tabular(folder.path("a.data"), "", o);
  CHECK(t.train.size() == 12);
  CHECK(t.test.labels == std::vector<std::uint8_t>{1, 0});
  CHECK(t.test.ids == std::vector<std::int64_t>{1, 0});
  const std::vector<std::int64_t> places = {2, 0};
  const TabularRows::Batch batch = t.train.batch(places, DType::f64);
  CHECK(batch.labels.to_vector<double>() == std::vector<double>{1.0, 0.0});
  CHECK(batch.ids.shape() == Shape{2, 1});
  CHECK(batch.numbers.dtype() == DType::f64);
}

TEST_CASE("tables: a limit draws rows, so that a table sorted by its label keeps both") {
  const TemporaryFolder folder;
  std::string sorted = "label,x\n";
  for (int i = 0; i < 400; ++i) sorted += (i < 200 ? "0," : "1,") + std::to_string(i) + "\n";
  const std::string path = folder.path("sorted.csv");
  write_file(path, std::string_view(sorted));
  TabularOptions o;
  o.train_limit = 60;
  o.test_limit = 12;
  const Tabular table = open_tabular(path, "", o);
  CHECK(table.train.size() == 60);
  CHECK(table.test.size() == 12);
  const auto ones = std::count(table.train.labels.begin(), table.train.labels.end(), 1);
  CHECK(ones > 15);
  CHECK(ones < 45);
  CHECK(std::is_sorted(table.train.labels.begin(), table.train.labels.end())); // in the file's order
  o.validation = path;
  o.test_limit = 30;
  const Tabular beside = open_tabular(path, "", o);
  CHECK(beside.train.size() == 60);
  CHECK(beside.test.size() == 30);
  CHECK(open_tabular(path, "").train.size() + open_tabular(path, "").test.size() == 400);
}

TEST_CASE("tables: what is wrong is named with its line") {
  const TemporaryFolder folder;
  const std::string path = folder.path("people.csv");
  const auto refused = [&](const std::string& text, const TabularOptions& o) {
    write_file(path, std::string_view(text));
    const std::string what = message_of([&] { open_tabular(path, "", o); });
    return what.starts_with(path + ": ") ? what.substr(path.size() + 2) : what;
  };
  CHECK(refused(people() + "r40,Rome,yes,5\n", wanted()) == "line 42 has 4 columns, the header has 5");
  CHECK(refused(people() + "r40,Rome,yes,much,5\n", wanted()) ==
        "line 42: column 'income' holds 'much', which is no number");
  CHECK(refused(people() + "r40,Rome,yes,1e999,5\n", wanted()).find("holds '1e999', which is no number") !=
        std::string::npos);
  TabularOptions o = wanted();
  o.validation = folder.path("more.csv");
  write_file(o.validation, std::string_view("id,city,bought,income,age\na,Rome,maybe,1,2\n"));
  CHECK(refused(people(), o) == o.validation + ": line 2: label 'maybe' is not one of the training part's: no, yes");
  write_file(o.validation, std::string_view("id,city,bought,income,age\na,Rome,yes,1,2\n"));
  CHECK(refused(people(), o) == o.validation + ": all 1 rows to test on have label 1; both are needed");
  std::string many = "id,label,x\n"; // the label that counts comes after a hundred others
  for (int i = 0; i < 120; ++i) many += fmt::format("{},l{:03},{}\n", i, i, i);
  TabularOptions last;
  last.positive = "l119";
  last.held_out = 1e-9;
  last.dense = "x";
  CHECK(refused(many, last).find("no training row is labelled") == std::string::npos);
  last.positive = "l200";
  CHECK(refused(many, last).starts_with("no training row is labelled 'l200'"));
  o = wanted();
  o.dense = "incom";
  CHECK(refused(people(), o) == "no column is called 'incom', which dense names; did you mean income?");
  o.dense = "age..income";
  CHECK(refused(people(), o) == "dense: age..income stands behind income");
  o.dense = "city";
  CHECK(refused(people(), o) == "columns: 'city' is named twice, among label, dense and categorical");
  o = wanted();
  o.label = "age";
  CHECK(refused(people(), o).find("labels: 20, 2") != std::string::npos);
  o = wanted();
  o.positive = "perhaps";
  CHECK(refused(people(), o) == "no training row is labelled 'perhaps'; there are no, yes");
  CHECK(refused("a,b,a\n1,2,3\n", wanted()) == "line 1: two columns are called 'a'");
  CHECK(refused("\n", wanted()) == "has no rows");
  CHECK(message_of([&] {
          open_tabular(folder.path("none.csv"), "", wanted());
        }).find("no such data: give criteo, or a .csv or .tsv file") != std::string::npos);
}

TEST_CASE("tabular: messages show fields whole, whatever is in them") {
  const TemporaryFolder folder;
  const std::string path = folder.path("t.csv");
  const auto refusal = [&](const std::string& text) {
    write_file(path, text);
    TabularOptions o;
    o.label = "y";
    o.dense = "x";
    return message_of<Error>([&] { open_tabular(path, "", o); });
  };
  std::string rows = "x,y\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{}\n", i, i % 2);
  CHECK(refusal(rows + std::string("1\0002,1\n", 6)) ==
        path + ": line 42: column 'x' holds '1\\x002', which is no number");
  CHECK(refusal(std::string("x,a\0b\n1,1\n", 10)) == path +
                                                         ": no column is called 'y', which label names; there are x, "
                                                         "a\\x00b");
  CHECK(refusal(rows + std::string(1000, 'q') + ",1\n") ==
        path + ": line 42: column 'x' holds '" + std::string(40, 'q') + "...', which is no number");
}
