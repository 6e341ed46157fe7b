// The archive of film reviews becomes the tables that are learnt from.

#include "apps/fetch/imdb.h"
#include "core/base/bytes.h"
#include "data/text/labelled_texts.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "unit/data_samples.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace eg;
using namespace eg::test;

namespace {

Bytes archive_of(const std::vector<std::pair<std::string, std::string>>& texts) {
  std::vector<std::pair<std::string, Bytes>> members;
  for (const auto& [name, text] : texts) members.emplace_back(name, Bytes(text.begin(), text.end()));
  return tar(members);
}

} // namespace

TEST_CASE("imdb: reviews in the order of their numbers, one a line, without those that have no label") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("imdb"));
  write_file(folder.path("a.tar"), archive_of({{"aclImdb/README", "no review"},
                                               {"aclImdb/test/neg/7_1.txt", "poor"},
                                               {"aclImdb/test/pos/3_9.txt", "rich"},
                                               {"aclImdb/train/pos/10_8.txt", "ten\tfor\xC2\x85of \xC3\xA9"},
                                               {"aclImdb/train/neg/10_2.txt", "ten<br />against \"it\""},
                                               {"aclImdb/train/unsup/1_0.txt", "nobody said"},
                                               {"aclImdb/train/pos/9_10.txt", "nine\r\n"},
                                               {"aclImdb/train/urls_pos.txt", "http://"}}));
  fetch::unpack_imdb(folder.path("a.tar"), folder.path("imdb"));
  const Bytes table = read_file(folder.path("imdb/imdb_train.tsv"));
  CHECK(std::string(table.begin(), table.end()) == "1\tnine  \n0\tten<br />against \"it\"\n1\tten for of \xC3\xA9\n");
  const auto [train, test] = data::open_labelled_texts("imdb", folder.path());
  CHECK(train.size() == 3);
  CHECK(train.texts[1] == "ten\nagainst \"it\"");
  CHECK(test.labels == std::vector<std::int32_t>{1, 0});

  write_file(folder.path("b.tar"), archive_of({{"aclImdb/train/neg/7_1.txt", "poor"}}));
  CHECK(message_of<FileError>([&] { fetch::unpack_imdb(folder.path("b.tar"), folder.path()); }) ==
        folder.path("b.tar") + ": has no reviews in aclImdb/test");
}
