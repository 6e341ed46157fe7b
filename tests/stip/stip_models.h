#pragma once
// A small model, and what STIP makes of it.

#include "apps/stip/service.h"
#include "apps/stip/transform.h"
#include "apps/stip/user.h"
#include "nn/decoder.h"
#include "support/local_channel.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

#include <string>
#include <utility>

namespace eg::test {

/// A model, its two halves, and a cloud in this thread.
struct StipParties {
  TemporaryFolder folder;
  std::string family;

  explicit StipParties(std::string of, permute::Scheme scheme = permute::Scheme::stip2) : family(std::move(of)) {
    write_small_model(path("model"), family);
    transform(scheme);
  }
  std::string path(const std::string& name) const { return folder.path(name); }
  stip::Transformed transform(permute::Scheme scheme, const std::string& out = "out") const {
    return stip::transform_for_stip({.model = path("model"), .out = path(out), .scheme = scheme});
  }
  stip::StipService service(stip::StipServiceOptions options = {}, DType dtype = DType::f32) const {
    return stip::StipService(stip::open_cloud(path("out/cloud"), dtype), options);
  }
  stip::UserModel user(DType dtype = DType::f32) const { return stip::UserModel(path("out/user"), dtype); }
};

} // namespace eg::test
