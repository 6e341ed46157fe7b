#pragma once
// Describes the verbs of the main job, for the tables of all programs that have them.

#include "apps/cli/shell/verb.h"

namespace eg::cli {

inline constexpr Verb doctor_verb{
    "doctor",       nullptr, "what this program runs on: threads, BLAS, SIMD, memory, processes",
    declare_doctor, false,   "are shown: host, threads, binding"};
inline constexpr Verb run_verb{
    "run", nullptr, "the main job: doctor, the theorems, permuted training side by side, out/report.html", declare_run};

} // namespace eg::cli
