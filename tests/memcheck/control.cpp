// Reads memory outside a tensor, freed, or never written; valgrind must report each (memcheck.sees_*).

#include "core/tensor.h"

#include <cstdio>
#include <string_view>

using eg::Tensor;

int main(int argc, char** argv) {
  const std::string_view kind = argc == 2 ? argv[1] : "";
  Tensor x = Tensor::zeros({3});
  const float* const p = x.data<float>();
  float read = p[2];
  if (kind == "behind") {
    read = p[3];
  } else if (kind == "before") {
    read = p[-1];
  } else if (kind == "freed") {
    x = Tensor();
    read = p[0];
  } else if (kind == "unwritten") {
    read = Tensor::empty({3}).data<float>()[1];
  } else if (kind != "nothing") {
    std::puts("usage: memcheck_control behind | before | freed | unwritten | nothing");
    return 2;
  }
  std::puts(read > 1.0F ? "above one" : "at most one");
}
