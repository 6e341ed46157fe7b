#pragma once
// Compares the files that a command reads with those that it writes, before any of them is opened.

#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace eg::cli {

/// What a command does with the file or folder that an option names.
enum class FileRole : std::uint8_t { read, data_sets, result, new_folder, told_by_verb };
/// "read", "data sets", "result", "new folder" or "own", of which the verb itself says what becomes.
const char* name_of(FileRole role);

/// The account of one command's files. Options are declared with what the command does with the file or folder that
/// they name; a verb adds the paths that no option names (defaults, what a config or a run says). Files are compared by
/// device and inode, links followed, so that another name or a hard link of a file is that file.
class CommandFiles {
public:
  /// The option names a file that is read, or a folder that is read with everything in it. A word that names nothing
  /// there (a data set's name) is no path. Returns the option, as the others do.
  CLI::Option* input(CLI::Option* option) { return declare(option, FileRole::read); }
  /// The option names the folder of the data sets (default: EQUIGRAD_DATA).
  CLI::Option* data_folder(CLI::Option* option) { return declare(option, FileRole::data_sets); }
  /// The option names a file that is written: a result.
  CLI::Option* result(CLI::Option* option) { return declare(option, FileRole::result); }
  /// The option names a folder that must be new, which the command fills.
  CLI::Option* new_folder(CLI::Option* option) { return declare(option, FileRole::new_folder); }
  /// The option names a path of which the verb itself says what becomes of it.
  CLI::Option* told_by_verb(CLI::Option* option) { return declare(option, FileRole::told_by_verb); }
  /// Whether one of the above was said of the option.
  bool declared(const CLI::Option* option) const { return roles_.count(option) != 0; }
  /// What was said of it.
  FileRole role_of(const CLI::Option* option) const { return roles_.at(option); }

  /// A file that is read, or a folder with everything in it, where no result may lie. Nothing for "" and "-".
  void reads(const std::string& path);
  /// The folder of the data sets: reads() for the folder of each set that lies there.
  void reads_sets_of(const std::string& path);
  /// A result: a file that is written or replaced. Nothing for "" and "-".
  void writes(const std::string& path);
  /// A file or folder that the command makes or replaces itself: neither an input nor a result may lie there.
  void makes(const std::string& path);
  /// A folder that the command continues to read and write: no result may lie there.
  void goes_on_in(const std::string& path);

  /// Adds what the options of this verb name that were given.
  void add_given(const CLI::App& verb);
  /// Throws FileError, "PATH: cannot be written: why", when a result lies in or on an input, or where something else is
  /// written, or when the command would write over an input.
  void check() const;

private:
  CLI::Option* declare(CLI::Option* option, FileRole role);
  void add(FileRole role, const std::string& path);

  std::map<const CLI::Option*, FileRole> roles_;
  std::vector<std::string> inputs_, results_, made_, own_;
};

} // namespace eg::cli
