#pragma once
// A training run that takes a moment, for the tests of the trainer.

#include "training/vit_trainer.h"

namespace eg::test {

/// 8 steps of a transformer of two blocks on 80 generated images of 16 x 16.
inline training::VitOptions small() {
  training::VitOptions o;
  o.data = "shapes";
  o.size = 16;
  o.train_limit = 80;
  o.test_limit = 20;
  o.model.patch = 4;
  o.model.layers = 2;
  o.model.encoder = {.dim = 12, .heads = 3, .head_dim = 5, .mlp = 20};
  o.steps = 8;
  o.batch = 8;
  o.lr = 3e-3;
  o.seed = 5;
  o.schedule = optim::Schedule::Kind::constant;
  return o;
}

} // namespace eg::test
