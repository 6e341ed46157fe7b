#include "cli/output.h"
#include "cli/verb.h"

#include "permute/key.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace eg::cli {

Job declare_keygen(CLI::App& app, const CommonOptions& common) {
  auto out = std::make_shared<std::string>();
  app.add_option("--out", *out, "Key file to write, for its owner alone; an existing file is never overwritten")
      ->required()
      ->type_name("FILE");
  return [out, &common, &app]() -> int {
    if (app.count("--seed") > 0)
      throw UsageError("--seed has no effect on keygen: a secret key comes from the system's random source");
    require_apart({*out, common.json}, {});
    const permute::SecretKey key = permute::SecretKey::generate();
    key.save(*out);
    if (common.talks()) fmt::print("{}: key {}\n", *out, key.fingerprint());
    write_json(common, {{"key", *out}, {"fingerprint", key.fingerprint()}});
    return done;
  };
}

} // namespace eg::cli
