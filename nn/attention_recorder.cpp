#include "nn/attention_recorder.h"

namespace eg::nn {
namespace {

thread_local AttentionRecorder* recorder = nullptr;

} // namespace

Tensor attention_logits(const Tensor& q, const Tensor& k, double scale) {
  const std::int64_t heads = q.size(1), shared = k.size(1);
  return matmul(q, (heads == shared ? k : repeat_interleave(k, heads / shared, 1)).transpose(-1, -2)) * scale;
}

AttentionRecorder::AttentionRecorder() : before_(std::exchange(recorder, this)) {}
AttentionRecorder::~AttentionRecorder() { recorder = before_; }
AttentionRecorder* AttentionRecorder::current() { return recorder; }

} // namespace eg::nn
