#pragma once
// Declares the functions of the experiments; registry.cpp lists them.

#include "apps/reproduce/experiment.h"

namespace eg::reproduce {

void test_permuted(const Plan& plan, const RunContext& work, Outcome& outcome);         // cvpr-T2
void train_permuted(const Plan& plan, const RunContext& work, Outcome& outcome);        // cvpr-T3
void fine_tuned(const Plan& plan, const RunContext& work, Outcome& outcome);            // cvpr-T7
void without_key(const Plan& plan, const RunContext& work, Outcome& outcome);           // cvpr-5.2
void encrypted_texts(const Plan& plan, const RunContext& work, Outcome& outcome);       // cvpr-T4
void train_encrypted_texts(const Plan& plan, const RunContext& work, Outcome& outcome); // cvpr-T5
void operation_counts(const Plan& plan, const RunContext& work, Outcome& outcome);      // cvpr-F8
void cross_tests(const Plan& plan, const RunContext& work, Outcome& outcome);           // s1-T1
void decrypted(const Plan& plan, const RunContext& work, Outcome& outcome);             // s1-T2
void without_positions(const Plan& plan, const RunContext& work, Outcome& outcome);     // s1-T3
void patch_sizes(const Plan& plan, const RunContext& work, Outcome& outcome);           // s1-T7
void costs_on_the_edge(const Plan& plan, const RunContext& work, Outcome& outcome);     // s1-F5
void position_maps(const Plan& plan, const RunContext& work, Outcome& outcome);         // s1-F9
void shuffled_pairs(const Plan& plan, const RunContext& work, Outcome& outcome);        // s1-C3
void permuted_tables(const Plan& plan, const RunContext& work, Outcome& outcome);       // s1-C4
void unmoved_vectors(const Plan& plan, const RunContext& work, Outcome& outcome);       // s1-C1
void shuffled_or_not(const Plan& plan, const RunContext& work, Outcome& outcome);       // s1-C2
void defended_split(const Plan& plan, const RunContext& work, Outcome& outcome);        // cvpr-T6
void low_pass_radii(const Plan& plan, const RunContext& work, Outcome& outcome);        // cvpr-F7
void attacks_in_inference(const Plan& plan, const RunContext& work, Outcome& outcome);  // s1-T4
void attacks_in_training(const Plan& plan, const RunContext& work, Outcome& outcome);   // s1-T5
void attacks_on_cifar(const Plan& plan, const RunContext& work, Outcome& outcome);      // s1-T6

} // namespace eg::reproduce
