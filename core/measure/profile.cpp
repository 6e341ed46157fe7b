#include "core/measure/profile.h"

#include "core/memory/allocator.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

double share_of_roofline(double least_ms, double us) { return us > 0 ? least_ms * 1e3 / us : 0.0; }

/// Names of operations and modules need no escapes in JSON, those that users give may.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

/// 10^9 of `amount` a second.
double giga_per_s(double amount, double us) { return us > 0 ? amount / us / 1e3 : 0.0; }

} // namespace

Profile::Profile() {
  allocator::reset_peak();
  open_recorder(this);
}

double Profile::elapsed_us() const { return microseconds(Clock::now() - start_); }

void Profile::record(const Event& event) {
  if (event.began == Clock::time_point()) return; // a composite: its parts are recorded
  Call call{.name = std::string(event.op != nullptr ? event.op->name : event.custom->name), .place = current_place()};
  if (!event.out.empty() && event.out[0].defined()) call.dtype = event.out[0].dtype();
  if (event.op != nullptr) {
    std::vector<TensorSpec> out;
    for (const Tensor& y : event.out) out.push_back({y.shape(), y.dtype()});
    call.work = event.op->work({*event.op, event.in, *event.attrs}, out);
  }
  call.backward = walks_ > 0;
  add(std::move(call), event.began);
}

void Profile::activity(const Activity& activity) {
  add({.name = std::string(activity.name), .place = current_place(), .work = activity.work}, activity.began);
}

void Profile::add(Call call, Clock::time_point began) {
  const Clock::time_point now = Clock::now();
  call.start_us = microseconds(began - start_);
  call.us = microseconds(now - began);
  if (sums_.empty()) begin_us_ = call.start_us;
  end_us_ = call.start_us + call.us;
  const AllocatorStats memory = allocator::stats();
  call.live_bytes = memory.live_bytes;
  peak_bytes_ = std::max(peak_bytes_, memory.peak_bytes); // the allocator's may be reset elsewhere
  call.peak_bytes = peak_bytes_;
  Sum& sum = sums_[{call.name, call.backward}];
  ++sum.calls;
  sum.us += call.us;
  Work& work = call.dtype == DType::f64 ? sum.f64 : sum.f32;
  work.flops += call.work.flops;
  work.bytes += call.work.bytes;
  if (calls_.size() < most_calls)
    calls_.push_back(std::move(call));
  else
    ++dropped_;
}

std::vector<Profile::Row> Profile::rows(const Roofline& roofline) const {
  std::vector<Row> rows;
  for (const auto& [key, sum] : sums_)
    rows.push_back({.name = key.first,
                    .backward = key.second,
                    .calls = sum.calls,
                    .us = sum.us,
                    .work = {sum.f32.flops + sum.f64.flops, sum.f32.bytes + sum.f64.bytes},
                    .least_ms = roofline.least_ms(sum.f32, DType::f32) + roofline.least_ms(sum.f64, DType::f64)});
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.us > b.us; });
  return rows;
}

std::string Profile::chrome_trace(const Roofline& roofline) const {
  std::string out = fmt::format(
      R"({{"displayTimeUnit": "ms", "otherData": {{"gflops_f32": {:.1f}, "gflops_f64": {:.1f}, "gb_per_s": {:.1f}, )"
      R"("dropped_calls": {}}}, "traceEvents": [)"
      "\n"
      R"({{"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {{"name": "forward"}}}},)"
      "\n"
      R"({{"name": "thread_name", "ph": "M", "pid": 1, "tid": 2, "args": {{"name": "backward"}}}})",
      roofline.gflops_f32, roofline.gflops_f64, roofline.gb_per_s, dropped_);
  for (const Call& call : calls_) {
    fmt::format_to(std::back_inserter(out),
                   ",\n"
                   R"({{"name": {}, "cat": "{}", "ph": "X", "pid": 1, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": )"
                   R"({{"place": {}, "dtype": "{}", "flops": {:.6g}, "bytes": {:.6g}, "gflops": {:.4g}, )"
                   R"("gb_per_s": {:.4g}, "of_roofline": {:.3f}}}}})",
                   quoted(call.name), call.backward ? "backward" : "forward", call.backward ? 2 : 1, call.start_us,
                   call.us, quoted(call.place), name_of(call.dtype), call.work.flops, call.work.bytes,
                   giga_per_s(call.work.flops, call.us), giga_per_s(call.work.bytes, call.us),
                   share_of_roofline(roofline.least_ms(call.work, call.dtype), call.us));
    fmt::format_to(std::back_inserter(out),
                   ",\n"
                   R"({{"name": "memory, MB", "ph": "C", "pid": 1, "ts": {:.3f}, "args": {{"live": {:.3f}, )"
                   R"("peak": {:.3f}}}}})",
                   call.start_us + call.us, static_cast<double>(call.live_bytes) / 1e6,
                   static_cast<double>(call.peak_bytes) / 1e6);
  }
  return out + "\n]}\n";
}

std::string Profile::table(const Roofline& roofline, double elapsed_us) const {
  std::string out = fmt::format("{:<38}{:>9}{:>12}{:>8}{:>10}{:>9}{:>11}\n", "operation", "calls", "ms", "share",
                                "GFLOP/s", "GB/s", "roofline");
  double heard = 0;
  for (const Row& row : rows(roofline)) {
    heard += row.us;
    out += fmt::format("{:<38}{:>9}{:>12.3f}{:>7.1f}%{:>10.1f}{:>9.1f}{:>10.0f}%\n",
                       row.name + (row.backward ? ", backward" : ""), row.calls, row.us / 1e3,
                       100 * row.us / elapsed_us, giga_per_s(row.work.flops, row.us),
                       giga_per_s(row.work.bytes, row.us), 100 * share_of_roofline(row.least_ms, row.us));
  }
  const double span = end_us_ - begin_us_;
  const auto rest = [&](const char* name, double us) {
    out += fmt::format("{:<38}{:>9}{:>12.3f}{:>7.1f}%\n", name, "", us / 1e3, 100 * us / elapsed_us);
  };
  rest("between the calls", span - heard);
  rest("before the first and after the last", elapsed_us - span);
  out +=
      fmt::format("peak memory {:.1f} MB; roofline {:.0f} GFLOP/s in f32, {:.0f} in f64, {:.1f} GB/s{}\n",
                  static_cast<double>(peak_bytes_) / 1e6, roofline.gflops_f32, roofline.gflops_f64, roofline.gb_per_s,
                  dropped_ > 0 ? fmt::format("; the trace holds the first {} calls", calls_.size()) : "");
  return out;
}

} // namespace eg
