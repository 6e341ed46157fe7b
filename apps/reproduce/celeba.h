#pragma once
// Reproduces the columns of the papers' tables on CelebA, a data set that may be missing.

#include "apps/reproduce/experiment.h"

namespace eg::reproduce {

/// Runs the experiment and, where its plan has options for CelebA and the data exists, runs it again on that: lines
/// and claims follow the others under "CelebA: ". Where the data is missing a remark says so. It is looked for in the
/// folder celeba/ of plan.celeba->data_dir, else of work.data_dir, else of EQUIGRAD_DATA. Throws what the experiment
/// throws, also FileError for an incomplete CelebA.
void run_with_celeba(const Experiment& experiment, const Plan& plan, const RunContext& work, Outcome& outcome);

/// A number that the paper has for CelebA alone, marked so where the plan is on other data.
std::string celeba_number(const Plan& plan, const char* number);

} // namespace eg::reproduce
