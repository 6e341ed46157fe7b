// Calls what a page needs, in a program linked as for a page: the catalogue, training, symmetries, models' files in
// memory. Prints times and counts; fails where something does not hold.

#include "autograd/tape.h"
#include "core/memory/allocator.h"
#include "core/ops.h"
#include "core/registry.h"
#include "core/simd/simd.h"
#include "core/threads/parallel.h"
#include "nn/hub/folder.h"
#include "nn/vit.h"
#include "optim/optimizer.h"
#include "permute/catalogue/catalogue.h"
#include "permute/hub_symmetries.h"
#include "support/small_models.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

namespace {

using namespace eg;

class Stopwatch {
public:
  double ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - began_).count(); }

private:
  Clock::time_point began_ = Clock::now();
};

/// Rows that hold are all.
bool verify_all(DType dtype, bool exact) {
  permute::VerifyOptions options;
  options.dtype = dtype;
  options.exact = exact;
  const Stopwatch watch;
  std::size_t good = 0;
  double slowest = 0.0;
  std::string name;
  for (const permute::VerifyResult& r : permute::run_catalogue(options)) {
    good += r.pass ? 1 : 0;
    if (!r.pass) fmt::print("FAILS {}: {}\n", r.id, r.detail);
    if (r.ms > slowest) {
      slowest = r.ms;
      name = r.id;
    }
  }
  fmt::print("catalogue {}{}: {} of {} hold, {:.0f} ms (longest: {} {:.0f} ms)\n", name_of(dtype),
             exact ? " exact" : "", good, permute::catalogue().size(), watch.ms(), name, slowest);
  return good == permute::catalogue().size();
}

/// The loss falls.
bool train(DType dtype) {
  nn::VitConfig config;
  config.image = 16;
  config.patch = 4;
  config.classes = 10;
  config.layers = 2;
  config.encoder.dim = 32;
  config.encoder.heads = 4;
  config.encoder.mlp = 64;
  nn::Vit model(config, {.seed = 1});
  model.to(dtype);
  const auto parameters = model.parameters();
  const auto optimizer = optim::adamw(parameters, {});
  const Tensor x = random_normal({32, 3, 16, 16}, {.seed = 2}, 0, 1, dtype),
               y = random_integers({32}, {.seed = 3}, 0, 10);
  constexpr int steps = 60, warm = 30;
  double first = 0.0, last = 0.0;
  Stopwatch watch;
  for (int i = 0; i < steps; ++i) {
    if (i == warm) watch = {};
    Tape tape;
    const Tensor loss = cross_entropy(model(x), y);
    optimizer->step(tape.gradient(loss, parameters), 1e-3);
    last = loss.item();
    if (i == 0) first = last;
  }
  fmt::print("ViT of {} parameters, 32 images, {}: {:.1f} ms a step, loss {:.3f} to {:.3f}\n", model.parameter_count(),
             name_of(dtype), watch.ms() / (steps - warm), first, last);
  return last < first - 0.5;
}

/// A folder is written and read, and what was read has the symmetries that are inferred of it.
bool models(const std::string& family) {
  const Stopwatch watch;
  const std::string folder = "page-" + family;
  std::filesystem::remove_all(folder);
  test::write_small_model(folder, family);
  const hub::LoadedModel loaded = hub::load_model(folder);
  const permute::ModelSymmetries symmetries = permute::symmetries_of(*loaded.model, permute::TensorNames::files);
  const permute::Certificate certificate = permute::certify(*loaded.model, symmetries, permute::TensorNames::files);
  std::filesystem::remove_all(folder);
  fmt::print("{}: {} groups, {} generators, errors {:.1e} and {:.1e}, {:.0f} ms\n", family, certificate.groups,
             certificate.generators, certificate.forward_error, certificate.gradient_error, watch.ms());
  return certificate.generators > 0;
}

} // namespace

int main() try {
  fmt::print("{}; {}; {} op definitions\n", simd::target(), parallel::backend(), registry().size());
  bool good = true;
  for (const bool exact : {false, true})
    for (const DType dtype : {DType::f64, DType::f32}) good = verify_all(dtype, exact) && good;
  for (const DType dtype : {DType::f32, DType::f64}) good = train(dtype) && good;
  for (const char* family : {"vit", "bert", "gpt2", "llama"}) good = models(family) && good;
  fmt::print("memory: {:.1f} MB at most, limit {:.1f} MB\n{}\n",
             static_cast<double>(allocator::stats().peak_bytes) / 1e6, static_cast<double>(allocator::limit()) / 1e6,
             good ? "all good" : "FAILED");
  return good ? 0 : 1;
} catch (const std::exception& e) {
  fmt::print("page: {}\nFAILED\n", e.what());
  return 2;
}
