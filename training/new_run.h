#pragma once
// Finds a folder for a new run where none is given, so that training twice keeps both.

#include "core/base/function_ref.h"
#include "distributed/communicator.h"
#include "training/options.h"

#include <string>

namespace eg::training {

/// The folder of a run for which none is given: the first of out/NAME, out/NAME-2, out/NAME-3, ... that holds no run
/// and in which none is active; with options.overwrite out/NAME. options.out where it is given.
std::string run_folder_for(const std::string& name, const RunOptions& options);

/// Sets options.out to run_folder_for(name, options) and calls open(), which takes that folder's lock or throws. Where
/// it throws and a run that began at the same time has the folder now, the next one is tried.
/// Of several `processes` (null: this one alone) the first chooses; Run tells the others.
void in_run_folder(const std::string& name, RunOptions& options, const distributed::Communicator* processes,
                   FunctionRef<void()> open);

} // namespace eg::training
