#pragma once
// Converts IMDb's archive of film reviews (Maas et al., 2011) to the tables that `--data imdb` reads.

#include <string>

namespace eg::fetch {

/// Writes imdb_train.tsv and imdb_test.tsv into `folder`. Each line is a review: 0 (negative) or 1 (positive), a tab,
/// and the text with a space for each control character. Lines are sorted by the reviews' numbers, 0 before 1. Reviews
/// without a label are left out. `archive`: a tar with aclImdb/{train,test}/{neg,pos}/NUMBER_STARS.txt. Throws
/// FileError when train or test has no review, the archive is damaged, or a table cannot be written.
void unpack_imdb(const std::string& archive, const std::string& folder);

} // namespace eg::fetch
