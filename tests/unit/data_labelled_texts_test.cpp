// Labelled texts: tables, JSON lines, class folders, named sets, and what is refused.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/text/labelled_texts.h"
#include "data/text/table.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_building.h"
#include "support/message.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

std::string put(const TemporaryFolder& folder, const std::string& name, std::string_view text) {
  const std::string path = folder.path(name, true);
  write_file(path, text);
  return path;
}

std::vector<TableRow> rows_of(std::string_view text, TableReader::Kind kind) {
  TableReader reader(text, kind, "table");
  std::vector<TableRow> rows;
  for (TableRow row; reader.next(row);) rows.push_back(row);
  return rows;
}

using Fields = std::vector<std::string>;

} // namespace

TEST_CASE("labelled texts: CSV and TSV fields with and without quotes") {
  const auto csv = rows_of("a,b\r\n\"x, \"\"y\"\"\nz\",\n\n,last", TableReader::Kind::csv);
  REQUIRE(csv.size() == 3);
  CHECK(csv[0].fields == Fields{"a", "b"});
  CHECK(csv[1].fields == Fields{"x, \"y\"\nz", ""});
  CHECK(csv[1].line == 2);
  CHECK(csv[2].fields == Fields{"", "last"});
  CHECK(csv[2].line == 5);
  const auto tsv =
      rows_of("0\t\"so \"\"good\"\"\"\n1\t\"Bad\", he said\n1\tsay \"no\"\n0\t\"\n", TableReader::Kind::tsv);
  REQUIRE(tsv.size() == 4);
  CHECK(tsv[0].fields == Fields{"0", "so \"good\""});
  CHECK(tsv[1].fields == Fields{"1", "\"Bad\", he said"});
  CHECK(tsv[2].fields == Fields{"1", "say \"no\""});
  CHECK(tsv[3].fields == Fields{"0", "\""});
  CHECK(message_of<FileError>([] { rows_of("a,b\n1,\"open\n2,x\n", TableReader::Kind::csv); }) ==
        "table: line 2: a quote is not closed");
  CHECK(message_of<FileError>([] { rows_of("1,\"a\" b\n", TableReader::Kind::csv); }) ==
        "table: line 1: text follows a quoted field");
}

TEST_CASE("labelled texts: files of rows, with and without header, single and in pairs") {
  const TemporaryFolder folder;
  const auto rows = read_labelled_texts(put(folder, "a.csv", "index,Label,sentence2,sentence1\n0,yes,B,A\n1,no,D,C\n"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].label == "no");
  CHECK(rows[1].text == "C");
  CHECK(rows[1].pair == "D");
  CHECK(rows[1].line == 3);
  const auto bare = read_labelled_texts(put(folder, "b.tsv", "1\tfine\n0\tpoor\n"));
  REQUIRE(bare.size() == 2);
  CHECK(bare[0].text == "fine");
  const auto json = read_labelled_texts(
      put(folder, "c.jsonl", "{\"label\": 3, \"text\": \"x\"}\n\n{\"text\": \"y\", \"label\": true}\n"));
  REQUIRE(json.size() == 2);
  CHECK(json[0].label == "3");
  CHECK(json[1].label == "true");
  CHECK(json[1].line == 3);

  const auto refused = [&](const char* name, std::string_view text) {
    const std::string path = put(folder, name, text);
    const std::string message = message_of<FileError>([&] { read_labelled_texts(path); });
    return message.starts_with(path) ? message.substr(path.size()) : message;
  };
  CHECK(refused("d.csv", "label,text\n1,a\n1,b,c\n") == ": line 3 has 3 columns, the first line has 2");
  CHECK(refused("e.csv", "label,body\n1,a\n").starts_with(": line 1: no column is called text or sentence"));
  CHECK(refused("f.tsv", "a\tb\tc\td\n").starts_with(": line 1 has 4 columns and is no header"));
  CHECK(refused("g.jsonl", "{\"label\": 1.5, \"text\": \"x\"}\n") ==
        ": line 1: 'label' must be a text, a whole number, true or false, not 1.5");
  CHECK(refused("h.jsonl", "{\"text\": \"x\"}\n") == ": line 1: is no object with a 'label'");
  CHECK(refused("i.jsonl", "{\"label\": 1}\n") == ": line 1: has no 'text' or 'sentence', and no pair of texts");
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += i % 3 == 0 ? "good,x\n" : "bad,y\n";
  CHECK(refused("k.csv", "sentiment,review\n" + lines)
            .starts_with(": line 1 looks like a header, as no other row is labelled 'sentiment', but no column"));
  CHECK(read_labelled_texts(put(folder, "l.csv", lines)).size() == 12);
  CHECK(read_labelled_texts(put(folder, "m.csv", "label,text\nonce,x\n" + lines)).size() == 13);
  CHECK(refused("n.csv", "label;text\n1;a\n")
            .ends_with("; its fields seem to be separated by ';', and in a .csv a comma does that"));
  CHECK(refused("o.csv", "label\ttext\n1\ta\n").ends_with("separated by tabs, and in a .csv a comma does that"));
  CHECK(refused("p.tsv", "label,text\n1,a\n").ends_with("separated by ',', and in a .tsv a tab does that"));
  std::string swapped;
  for (int i = 0; i < 12; ++i) swapped += "text " + std::to_string(i) + (i % 3 == 0 ? ",good\n" : ",bad\n");
  CHECK(refused("q.csv", swapped)
            .starts_with(": the first column holds 12 different labels in 12 rows, the second 2 different texts"));
  CHECK(read_labelled_texts(put(folder, "r.csv", "label,text\n" + swapped)).size() == 12);
  CHECK(refused("j.txt", "x").starts_with(": is neither .tsv, .csv nor .jsonl"));
}

TEST_CASE("labelled texts: classes are the training part's, numbers in their order") {
  const TemporaryFolder folder;
  std::string text = "label,text\n";
  for (int i = 0; i < 30; ++i) text += std::to_string(i % 3 == 2 ? 10 : i % 3) + ",t" + std::to_string(i) + "\n";
  const std::string path = put(folder, "a.csv", text);
  const auto [train, test] = open_labelled_texts(path, "", {.validation = {}, .held_out = 0.2});
  CHECK(train.class_names == Fields{"0", "1", "10"});
  CHECK(train.size() + test.size() == 30);
  CHECK(test.size() > 2);
  CHECK(test.size() < 12);
  for (const LabelledTexts* part : {&train, &test})
    for (std::size_t i = 0; i < part->texts.size(); ++i)
      CHECK(part->labels[i] == std::stoi(part->texts[i].substr(1)) % 3);
  const std::string longer = put(folder, "longer.csv", text + "0,t30\n"); // what was learnt from is not tested on
  CHECK(open_labelled_texts(longer, "", {.validation = {}, .held_out = 0.2}).first.texts[0] == train.texts[0]);
  const auto [few, none] = open_labelled_texts(path, "", {.validation = {}, .train_limit = 5, .test_limit = 1});
  CHECK(few.size() == 5);
  CHECK(none.size() == 1);
  std::string sorted = "label,text\n"; // the first rows are all of one class
  for (int i = 0; i < 200; ++i) sorted += (i < 100 ? "0,t" : "1,t") + std::to_string(i) + "\n";
  const std::string by_class = put(folder, "sorted.csv", sorted);
  const LabelledTexts some = open_labelled_texts(by_class, "", {.validation = {}, .train_limit = 40}).first;
  CHECK(some.size() == 40);
  const auto ones = std::count(some.labels.begin(), some.labels.end(), 1);
  CHECK(ones > 10);
  CHECK(ones < 30);
  CHECK(std::is_sorted(some.labels.begin(), some.labels.end())); // in the file's order
  const std::string other = put(folder, "b.csv", "label,text\n0,x\n7,y\n");
  CHECK(message_of<FileError>([&] { open_labelled_texts(path, "", {.validation = other}); }) ==
        other + ": line 3: label '7' is not one of the training part's: 0, 1, 10");
  const std::string one = put(folder, "c.csv", "label,text\n0,x\n0,y\n0,z\n");
  CHECK(message_of<FileError>([&] { open_labelled_texts(one, "", {.validation = {}, .held_out = 0.4}); }) ==
        one + ": all texts are labelled '0'; there must be two classes");
  CHECK(message_of<FileError>([&] { open_labelled_texts(folder.path("no.csv"), ""); }).find("no such data") !=
        std::string::npos);
  CHECK(message_of<FileError>([&] { open_labelled_texts("imdb", folder.path()); }).find("imdb/imdb_train.tsv.xz") !=
        std::string::npos);
}

TEST_CASE("labelled texts: a file that comes into a class folder moves no other one between the parts") {
  const TemporaryFolder folder;
  for (int i = 10; i < 60; ++i)
    put(folder, (i % 2 == 0 ? "set/neg/" : "set/pos/") + std::to_string(i) + ".txt", "text " + std::to_string(i));
  const Fields before = open_labelled_texts(folder.path("set"), "", {.validation = {}, .held_out = 0.3}).second.texts;
  put(folder, "set/neg/0.txt", "text 0");
  Fields after = open_labelled_texts(folder.path("set"), "", {.validation = {}, .held_out = 0.3}).second.texts;
  std::erase(after, "text 0");
  CHECK(before.size() > 5);
  CHECK(after == before);
}

TEST_CASE("labelled texts: pairs are not tested on single texts") {
  const TemporaryFolder folder;
  const std::string pairs = put(folder, "pairs.csv", "label,text,pair\n0,a,b\n1,c,d\n");
  const std::string singles = put(folder, "singles.csv", "label,text\n0,a\n1,c\n");
  CHECK(message_of<FileError>([&] { open_labelled_texts(pairs, "", {.validation = singles}); }) ==
        singles + ": has single texts, where " + pairs + " has pairs of texts");
}

TEST_CASE("labelled texts: class folders") {
  const TemporaryFolder folder;
  for (const char* part : {"train", "test"})
    for (const char* kind : {"neg", "pos"})
      put(folder, std::string("set/") + part + "/" + kind + "/1.txt", std::string(part) + " " + kind);
  put(folder, "set/train/unsup/1.txt", "left out");
  const auto [train, test] = open_labelled_texts(folder.path("set"), "");
  CHECK(train.class_names == Fields{"neg", "pos"});
  CHECK(train.texts == Fields{"train neg", "train pos"});
  CHECK(test.texts == Fields{"test neg", "test pos"});
  put(folder, "set/test/odd/1.txt", "x");
  CHECK(message_of<FileError>([&] {
          open_labelled_texts(folder.path("set"), "");
        }).ends_with("label 'odd' is not one of the training part's: neg, pos"));
  put(folder, "set/train/new/readme.md", "x");
  CHECK(message_of<FileError>([&] {
          open_labelled_texts(folder.path("set"), "");
        }).ends_with("train/new: the class has no .txt file"));
}

TEST_CASE("labelled texts: of class folders alone a share is for testing; parts of their own take no other file") {
  const TemporaryFolder folder;
  for (int i = 0; i < 60; ++i)
    put(folder, fmt::format("all/{}/{}.txt", i % 2 == 0 ? "neg" : "pos", i), fmt::format("text {}", i));
  const auto tested = [&](double share) {
    LabelledTextOptions o;
    o.held_out = share;
    const auto [train, test] = open_labelled_texts(folder.path("all"), "", o);
    CHECK(train.size() + test.size() == 60);
    return test.size();
  };
  CHECK(tested(0.5) > 18);
  CHECK(tested(0.1) < 18);
  LabelledTextOptions other;
  other.validation = folder.path("b.csv");
  CHECK(message_of<ValueError>([&] {
          open_labelled_texts(folder.path("all"), "", other);
        }).ends_with("another file is for data of one file"));
  CHECK(message_of<ValueError>([&] { open_labelled_texts("imdb", folder.path(), other); }) ==
        "imdb has a test part of its own; validation " + other.validation + " is for single files");
}

TEST_CASE("labelled texts: an empty label is refused with its line") {
  const TemporaryFolder folder;
  const std::string table = put(folder, "a.csv", "label,text\n1,fine\n,nobody said\n");
  CHECK(message_of<FileError>([&] { open_labelled_texts(table, ""); }) == table + ": line 3: the label is empty");
  const std::string lines =
      put(folder, "a.jsonl", "{\"label\": \"1\", \"text\": \"fine\"}\n{\"label\": \"\", \"text\": \"x\"}\n");
  CHECK(message_of<FileError>([&] { open_labelled_texts(lines, ""); }).ends_with("line 2: the label is empty"));
}

TEST_CASE("labelled texts: a tokenizer of the words, the most frequent first") {
  const std::vector<std::string> texts = {"The film, the FILM!", "A fine film. \u00c9t\u00e9 ete", "fine [SEP] once"};
  const auto each = [&](FunctionRef<void(std::string_view)> call) {
    for (const std::string& text : texts) call(text);
  };
  const Tokenizer tokenizer = Tokenizer::parse_json(word_tokenizer(each, 100), "made");
  CHECK(tokenizer.kind() == "WordPiece");
  CHECK(tokenizer.size() == 5 + 4); // film, ete, fine, the
  CHECK(tokenizer.find("film") == 5);
  CHECK(tokenizer.find("ete") == 6);
  CHECK(tokenizer.encode("The Film, once").tokens == Fields{"[CLS]", "the", "film", "[UNK]", "[UNK]", "[SEP]"});
  CHECK(tokenizer.encode({"film", "fine"}).type_ids == std::vector<std::int64_t>{0, 0, 0, 1, 1});
  CHECK(Tokenizer::parse_json(word_tokenizer(each, 7), "made").size() == 7);
}

TEST_CASE("labelled texts: the sets that have a name") {
  for (const auto& [name, train_size, test_size, classes] :
       {std::tuple{"mrpc", 3668, 1725, 2}, {"rte", 2490, 277, 2}, {"snli", 9842, 9824, 3}, {"imdb", 25000, 25000, 2}}) {
    const std::string set = name;
    CAPTURE(set);
    const std::string place = set == "imdb" || set == "snli" ? set : "glue-small";
    const std::filesystem::path folder = data_or_skip("labelled texts: the sets that have a name", place);
    if (folder.empty()) continue;
    const auto [train, test] = open_labelled_texts(name, folder.parent_path().string());
    CHECK(train.size() == train_size);
    CHECK(test.size() == test_size);
    CHECK(static_cast<int>(train.class_names.size()) == classes);
    CHECK(train.pairs.empty() == (set == "imdb"));
    for (const std::string& text : test.texts) REQUIRE(text.find("<br />") == std::string::npos);
  }
}

TEST_CASE("labelled texts: a label with a NUL is shown whole") {
  const TemporaryFolder folder;
  const std::string train = put(folder, "train.csv", "label,text\na,one\nb,two\n");
  const std::string other = put(folder, "other.csv", std::string_view("label,text\na\0c,three\n", 21));
  CHECK(message_of<FileError>([&] { open_labelled_texts(train, "", {.validation = other}); }) ==
        other + ": line 2: label 'a\\x00c' is not one of the training part's: a, b");
}
