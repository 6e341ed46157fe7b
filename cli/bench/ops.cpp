// bench ops: every row of the registry at sizes that models use.

#include "cli/bench/bench.h"

#include "core/call.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "core/registry.h"
#include "core/work_meter.h"

#include <algorithm>
#include <map>

namespace eg::cli::bench {
namespace {

/// Makes the inputs of a case.
struct Draw {
  DType dtype;
  RandomKey key;

  Tensor operator()(const Shape& shape) { return random_normal(shape, key = key.fold(1), 0.0, 1.0, dtype); }
  Tensor positive(const Shape& shape) { return random_uniform(shape, key = key.fold(1), 0.5, 2.0, dtype); }
  Tensor ids(const Shape& shape, std::int64_t count) { return random_integers(shape, key = key.fold(1), 0, count); }
  Tensor permutation(std::int64_t count) { return random_permutation(count, key = key.fold(1)); }
};

using Make = Sample (*)(Draw&);
using List = std::vector<std::int64_t>;

/// The token matrix of a ViT with 64 images of 65 tokens and MLP 2048, and with dim 512.
const Shape wide{4160, 2048};
const Shape tokens{4160, 512};
/// Attention of 64 images, 8 heads of 64.
const Shape heads{64, 8, 65, 64};
/// Scores of the same.
const Shape scores{64, 8, 65, 65};

template <int count> Sample same_shape(Draw& draw) {
  Sample sample;
  for (int i = 0; i < count; ++i) sample.in.push_back(draw(wide));
  return sample;
}

Sample positive(Draw& draw) { return {{draw.positive(wide)}, {}}; }

Sample over_scores(Draw& draw) { return {{draw(scores)}, {{"axis", std::int64_t{-1}}}}; }

Sample scores_and_cotangent(Draw& draw) { return {{draw(scores), draw(scores)}, {{"axis", std::int64_t{-1}}}}; }

/// Sizes of the rows that are not pointwise on one [4160, 2048] tensor.
const std::map<std::string_view, Make>& cases() {
  static const std::map<std::string_view, Make> table = {
      {"log", positive},
      {"sqrt", positive},
      {"rsqrt", positive},
      {"affine",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"scale", 2.0}, {"shift", 1.0}}};
       }},
      {"add", same_shape<2>},
      {"sub", same_shape<2>},
      {"mul", same_shape<2>},
      {"div",
       [](Draw& d) {
         return Sample{{d(wide), d.positive(wide)}, {}};
       }},
      {"sum",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"axes", List{0}}}};
       }},
      {"mean",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"axes", List{1}}}};
       }},
      {"max",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"axis", std::int64_t{-1}}}};
       }},
      {"argmax",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"axis", std::int64_t{-1}}}};
       }},
      {"sum_to",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"shape", List{2048}}}};
       }},
      {"dropout",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"p", 0.1}}};
       }},
      {"matmul",
       [](Draw& d) {
         return Sample{{d({1024, 1024}), d({1024, 1024})}, {}};
       }},
      {"linear",
       [](Draw& d) {
         return Sample{{d(tokens), d({512, 512}), d({512}), d(tokens)}, {}};
       }},
      {"linear_gelu",
       [](Draw& d) {
         return Sample{{d(tokens), d({2048, 512}), d({2048})}, {}};
       }},
      {"softmax", over_scores},
      {"softmax_backward", scores_and_cotangent},
      {"log_softmax", over_scores},
      {"log_softmax_backward", scores_and_cotangent},
      {"layer_norm",
       [](Draw& d) {
         return Sample{{d(tokens), d({512}), d({512})}, {}};
       }},
      {"layer_norm_backward",
       [](Draw& d) {
         return Sample{{d(tokens), d({512}), d(tokens)}, {}};
       }},
      {"scaled_dot_product_attention",
       [](Draw& d) {
         return Sample{{d(heads), d(heads), d(heads)}, {}};
       }},
      {"attention_qkv",
       [](Draw& d) {
         return Sample{{d({64, 65, 1536})}, {{"heads", std::int64_t{8}}}};
       }},
      {"cross_entropy",
       [](Draw& d) {
         return Sample{{d({640, 30522}), d.ids({640}, 30522)}, {}};
       }},
      {"embedding",
       [](Draw& d) {
         return Sample{{d({30522, 256}), d.ids({32, 128}, 30522)}, {}};
       }},
      {"index_select",
       [](Draw& d) {
         return Sample{{d(tokens), d.permutation(4160)}, {{"axis", std::int64_t{0}}}};
       }},
      {"gather",
       [](Draw& d) {
         return Sample{{d(tokens), d.ids(tokens, 512)}, {{"axis", std::int64_t{1}}}};
       }},
      {"scatter_add",
       [](Draw& d) {
         return Sample{{d(tokens), d.ids(tokens, 512), d(tokens)}, {{"axis", std::int64_t{1}}}};
       }},
      {"permute_rows",
       [](Draw& d) {
         return Sample{{d({64, 65, 512}), d.permutation(65)}, {}};
       }},
      {"permute_columns",
       [](Draw& d) {
         return Sample{{d(tokens), d.permutation(512)}, {}};
       }},
      {"invert_permutation",
       [](Draw& d) {
         return Sample{{d.permutation(4096)}, {}};
       }},
      {"contiguous",
       [](Draw& d) {
         return Sample{{d(wide).transpose()}, {}};
       }},
      {"cast",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"dtype", std::string("f64")}}};
       }},
      {"concat",
       [](Draw& d) {
         return Sample{{d(tokens), d(tokens)}, {{"axis", std::int64_t{1}}}};
       }},
      {"stack",
       [](Draw& d) {
         return Sample{{d(tokens), d(tokens)}, {{"axis", std::int64_t{0}}}};
       }},
      {"patchify",
       [](Draw& d) {
         return Sample{{d({64, 3, 224, 224})}, {{"patch", std::int64_t{16}}}};
       }},
  };
  return table;
}

/// A case of the table, else one tensor [4160, 2048] for each input where the row takes that, else the row's own
/// largest sample: for backward forms and views, whose inputs depend on attributes.
Sample sample_for(const OpDef& op, Draw& draw) {
  if (const auto found = cases().find(op.name); found != cases().end()) return found->second(draw);
  const bool plain = op.view == nullptr && op.attributes.size() == 0 && !op.variadic;
  if (plain) {
    Sample sample;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) sample.in.push_back(draw(wide));
    try {
      op.infer({op, sample.in, sample.attrs});
      return sample;
    } catch (const Error&) { // the inputs of this row do not all look alike
    }
  }
  std::vector<Sample> own = op.samples(draw.dtype);
  const auto elements = [](const Sample& s) {
    std::int64_t count = 0;
    for (const Tensor& x : s.in) count += x.defined() ? x.numel() : 0;
    return count;
  };
  return *std::max_element(own.begin(), own.end(),
                           [&](const Sample& a, const Sample& b) { return elements(a) < elements(b); });
}

/// The exact kernel in turn with the ordinary one.
void run_exact(const OpDef& op, const Options& options, Output& output) {
  Draw draw{options.dtype, {options.seed, 5}};
  const Sample sample = sample_for(op, draw);
  const auto ordinary = [&] { call(op, sample.in, sample.attrs); };
  const auto exact = [&] {
    const ReductionScope scope(Reduction::exact);
    call(op, sample.in, sample.attrs);
  };
  const PairedTiming timing = measure_in_turn(exact, ordinary, options.seconds, 0);
  output.write(
      {.bench = "ops",
       .engine = "equigrad exact",
       .name = std::string(op.name),
       .timing = timing.a,
       .items = 1,
       .extra = fmt::format(R"(, "dtype": "{}", "ordinary_ms": {:.6g}, "ratio": {:.4g})", name_of(options.dtype),
                            timing.b.median_ms, timing.a.median_ms / timing.b.median_ms)});
}

void run(const OpDef& op, const Options& options, Output& output) {
  Draw draw{options.dtype, {options.seed, 5}};
  const Sample sample = sample_for(op, draw);
  Work work;
  {
    const WorkMeter meter;
    call(op, sample.in, sample.attrs);
    work = meter.total();
  }
  const Timing timing = measure([&] { call(op, sample.in, sample.attrs); }, options.seconds);
  const double gb_per_s = work.bytes / timing.median_ms / 1e6;
  output.write({.bench = "ops",
                .name = std::string(op.name),
                .timing = timing,
                .items = 1,
                .work_flops = work.flops,
                .extra = fmt::format(R"(, "dtype": "{}", "gb_per_s": {:.6g})", name_of(options.dtype), gb_per_s)});
}

} // namespace

void ops(const Options& options, Output& output) {
  struct Name {
    std::string_view name;
  };
  std::vector<Name> names;
  bool found = false;
  for (const OpDef* op : registry()) {
    if (options.exact && op->exact == nullptr) continue;
    names.push_back({op->name});
    if (!options.matches(op->name)) continue;
    found = true;
    options.exact ? run_exact(*op, options, output) : run(*op, options, output);
  }
  if (!found) throw no_such_case("ops", options.name, names);
}

} // namespace eg::cli::bench
