// Where the bounds are wider, and rows that PyTorch has no counterpart for. README.md explains both.

#include "golden/counterparts.h"
#include "golden/run.h"

namespace eg::golden {

const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> list = {};
  return list;
}

const std::vector<NoCounterpart>& no_counterparts() {
  static const std::vector<NoCounterpart> list = {
      {"dropout", "its mask comes from Philox by key and place; PyTorch's generator draws other bits"},
      {"drop_path", "its mask comes from Philox by key and sample; PyTorch's generator draws other bits"},
  };
  return list;
}

} // namespace eg::golden
