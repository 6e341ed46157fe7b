#include "apps/cli/main_job/verify_record.h"

namespace eg::cli {
namespace {

using nlohmann::json;

template <class T> json optional(const std::optional<T>& value) { return value ? json(*value) : json(nullptr); }
template <class T> std::optional<T> optional_of(const json& value) {
  return value.is_null() ? std::optional<T>() : value.get<T>();
}

json to_record(const permute::VerifyResult& r) {
  return json::array({r.id,
                      r.title,
                      r.paper,
                      r.equation,
                      static_cast<int>(r.kind),
                      static_cast<int>(r.dtype),
                      r.device.str(),
                      r.sizes,
                      r.seed,
                      r.error,
                      r.tolerance,
                      r.control.what,
                      r.control.error,
                      r.control.must_exceed,
                      optional(r.bitwise),
                      r.compared,
                      r.differing,
                      optional(r.differing_exact),
                      r.draws,
                      r.sharp,
                      r.candidates,
                      r.pass,
                      r.skipped,
                      r.ms,
                      r.detail});
}

permute::VerifyResult from_record(const json& record) {
  permute::VerifyResult r;
  std::size_t at = 0;
  const auto next = [&]() -> const json& { return record.at(at++); };
  const auto take = [&](auto& field) { next().get_to(field); };
  for (std::string* text : {&r.id, &r.title, &r.paper, &r.equation}) take(*text);
  r.kind = static_cast<permute::ClaimKind>(next().get<int>());
  r.dtype = static_cast<DType>(next().get<int>());
  r.device = Device::parse(next().get<std::string>());
  take(r.sizes);
  take(r.seed);
  take(r.error);
  take(r.tolerance);
  take(r.control.what);
  take(r.control.error);
  take(r.control.must_exceed);
  r.bitwise = optional_of<bool>(next());
  take(r.compared);
  take(r.differing);
  r.differing_exact = optional_of<std::int64_t>(next());
  take(r.draws);
  take(r.sharp);
  take(r.candidates);
  take(r.pass);
  take(r.skipped);
  take(r.ms);
  take(r.detail);
  if (at != record.size()) throw distributed::DistributedError("a row of another process has more than it must");
  return r;
}

} // namespace

const RecordForm<permute::VerifyResult> verify_record{to_record, from_record};

} // namespace eg::cli
