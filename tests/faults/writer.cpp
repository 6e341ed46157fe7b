// fault_writer KIND PATH VERSION: writes tensors whose values are VERSION. Exit code 2 and a line for an error.

#include "core/base/error.h"
#include "core/base/json.h"
#include "data/npy.h"
#include "data/safetensors.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

int main(int argc, char** argv) {
  if (argc != 4) return 1;
  using namespace eg;
  const std::string kind = argv[1], path = argv[2];
  const double version = std::atof(argv[3]);
  const data::NamedTensors tensors{{"a", Tensor::full({100, 30}, version, DType::f64)},
                                   {"b", Tensor::full({7}, version)},
                                   {"c", Tensor::full({50}, version, DType::i64)}};
  try {
    if (kind == "safetensors") data::save_safetensors(path, tensors, {{"version", argv[3]}});
    if (kind == "large") data::save_safetensors(path, {{"a", Tensor::full({4'000'000}, version, DType::f64)}});
    if (kind == "sharded") data::save_sharded(path, tensors, {.max_bytes = 500});
    if (kind == "npy") data::save_npy(path, tensors[0].second);
    if (kind == "npz") data::save_npz(path, tensors);
    if (kind == "json") write_json(path, nlohmann::json{{"version", version}});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
