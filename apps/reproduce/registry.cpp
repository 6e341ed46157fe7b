#include "apps/reproduce/celeba.h"
#include "apps/reproduce/experiments.h"
#include "core/base/words.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

namespace eg::reproduce {
namespace {

constexpr std::array table{
    Experiment{"cvpr-T2", "one trained ViT tested with tokens or features permuted", "CVPR Table 2", test_permuted, 12},
    Experiment{"cvpr-T3", "ViTs trained plain and permuted", "CVPR Table 3", train_permuted, 30},
    Experiment{"cvpr-T4", "text models tested with features permuted", "CVPR Table 4 and section 5.2", encrypted_texts,
               192},
    Experiment{"cvpr-T5", "text models trained with features permuted", "CVPR Table 5", train_encrypted_texts, 127},
    Experiment{"cvpr-T6", "split learning with defences, alone and with rows permuted, and a decoder that attacks them",
               "CVPR Table 6", defended_split, 1312},
    Experiment{"cvpr-T7", "fine-tuning an encrypted model with and without its key", "CVPR Table 7, Figures 4 to 6",
               fine_tuned, 459},
    Experiment{"cvpr-5.2", "an encrypted model without its key", "CVPR section 5.2", without_key, 50},
    Experiment{"cvpr-F7", "low-pass filters: accuracy against what a decoder gets back", "CVPR Figure 7",
               low_pass_radii, 128},
    Experiment{"cvpr-F8", "multiply-adds of a training step, with and without permutations",
               "CVPR Figure 8, paper 001 Figure 5", operation_counts, 0},
    Experiment{"s1-T1", "trained with and without shuffling, tested with and without", "paper 001 Table 1", cross_tests,
               126},
    Experiment{"s1-T2", "encrypted and decrypted models", "paper 001 Table 2", decrypted, 64},
    Experiment{"s1-T3", "with and without position embeddings", "paper 001 Table 3", without_positions, 199},
    Experiment{"s1-T4", "black-box and white-box attacks on what leaves the edge in inference", "paper 001 Table 4",
               attacks_in_inference, 295},
    Experiment{"s1-T5", "attacks on several rounds of training", "paper 001 Table 5", attacks_in_training, 70},
    Experiment{"s1-T6", "attacks on CIFAR-10, in inference and in training", "paper 001 Table 6", attacks_on_cifar,
               840},
    Experiment{"s1-T7", "patch sizes: accuracy and time", "paper 001 Table 7", patch_sizes, 504, true},
    Experiment{"s1-F5", "what permuting costs: time, memory and convergence", "paper 001 Figure 5, CVPR Figure 8",
               costs_on_the_edge, 813, true},
    Experiment{"s1-F9", "position embeddings learnt with and without shuffling", "paper 001 Figure 9", position_maps,
               25},
    Experiment{"s1-C1", "biases and gains left unpermuted", "paper 001 C.1", unmoved_vectors, 39},
    Experiment{"s1-C2", "a task that depends on order: shuffled or not?", "paper 001 C.2", shuffled_or_not, 917},
    Experiment{"s1-C3", "a small BERT on pairs of sentences, its tokens shuffled", "paper 001 C.3", shuffled_pairs, 9},
    Experiment{"s1-C4", "a factorization machine on a table, its fields permuted", "paper 001 C.4", permuted_tables, 2},
};

} // namespace

std::span<const Experiment> experiments() { return table; }

const Experiment& experiment_named(const std::string& id) {
  std::vector<std::string> ids;
  for (const Experiment& experiment : table) {
    if (id == experiment.id) return experiment;
    ids.emplace_back(experiment.id);
  }
  throw ValueError(
      fmt::format("there is no experiment '{}'{}; there are {}", id, did_you_mean(id, ids), fmt::join(ids, ", ")));
}

Outcome reproduce(const Experiment& experiment, const Plan& plan, const RunContext& work) {
  if (plan.id != experiment.id)
    throw ValueError(fmt::format("{}: is for the experiment '{}', not '{}'", plan.source, plan.id, experiment.id));
  const auto begin = std::chrono::steady_clock::now();
  Outcome outcome{.id = experiment.id, .title = experiment.title, .place = experiment.place, .scale = plan.scale};
  run_with_celeba(experiment, plan, work, outcome);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

} // namespace eg::reproduce
