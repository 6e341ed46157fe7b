#pragma once
// Converts the archive of film reviews (Maas et al., 2011) to the tables that `--data imdb` reads.

#include <string>

namespace eg::fetch {

/// Writes imdb_train.tsv and imdb_test.tsv into `folder`: a review a line, 0 (against) or 1 (for), a tab, the text with
/// a blank for each control character; sorted by the reviews' numbers, 0 before 1. Reviews without a label are left
/// out. `archive`: a tar with aclImdb/{train,test}/{neg,pos}/NUMBER_STARS.txt. Throws FileError when a part has none,
/// or the archive is damaged.
void unpack_imdb(const std::string& archive, const std::string& folder);

} // namespace eg::fetch
