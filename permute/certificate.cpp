// ModelSymmetries::certify: every generator of every group, tried by calling the model.

#include "autograd/functional.h"
#include "core/unpaused_recorder.h"
#include "permute/inference/at.h"
#include "permute/inference/state.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::permute {
namespace {

/// "rotating its 7 places in block 2".
std::string words_of(const Generator& g, const PointClass& own) {
  const std::string what = own.group      ? fmt::format("generator {} of its automorphisms", g.index)
                           : g.index == 0 ? std::string("exchanging its first two places")
                                          : fmt::format("rotating its {} places", own.size());
  if (g.part > 0) return what + " among its blocks";
  return own.copies() > 1 ? fmt::format("{} in block {}", what, g.cell) : what;
}

/// Every result of every operation while it lives, in order.
class ResultRecorder : private UnpausedRecorder {
public:
  struct Result {
    std::string operation; ///< "softmax at blocks.0.attention"
    Tensor value;
  };
  ResultRecorder() { open_recorder(this); }
  ~ResultRecorder() override { close_recorder(this); }
  ResultRecorder(const ResultRecorder&) = delete;
  ResultRecorder& operator=(const ResultRecorder&) = delete;
  std::vector<Result> results;

private:
  void record(const Event& event) override {
    const std::string place = current_place();
    const std::string_view name = event.op != nullptr ? event.op->name : std::string_view(event.custom->name);
    for (const Tensor& t : event.out)
      if (t.defined()) results.push_back({fmt::format("{}{}{}", name, place.empty() ? "" : " at ", place), t});
  }
  bool observes() const override { return true; }
  bool records_whole(const OpDef&) const override { return true; } // the inference may not see what is within
};

double largest(const Tensor& t) {
  double most = 0.0;
  for (const double v : t.to(DType::f64).contiguous().to_vector<double>())
    most = std::isnan(v) ? INFINITY : std::max(most, std::abs(v));
  return most;
}

/// |found - wanted| relative to `scale`, and for tensors that are not floating whether all bits agree.
double difference(const Tensor& found, const Tensor& wanted, double scale) {
  if (!(found.shape() == wanted.shape()) || found.dtype() != wanted.dtype()) return INFINITY;
  if (!is_floating(wanted.dtype())) return same_bits(found.contiguous(), wanted.contiguous()) ? 0.0 : INFINITY;
  const double apart = largest(found.to(DType::f64) - wanted.to(DType::f64));
  return apart == 0.0 ? 0.0 : apart / scale;
}

} // namespace

class Certifier {
public:
  Certifier(const ModelSymmetries& symmetries, const NamedFunction& f, const nn::StateDict& leaves,
            const CertifyOptions& options)
      : symmetries_(symmetries), f_(f), options_(options) {
    for (const ShownTensor& leaf : state(symmetries).leaves) leaves_.emplace_back(leaf.name, value_of(leaf, leaves));
  }

  Certificate run() {
    Certificate certificate;
    std::vector<std::vector<Generator>> groups; // by group
    for (std::size_t g = 0; g < symmetries_.groups_.size(); ++g) {
      groups.push_back(state(symmetries_).generators(g));
      certificate.groups += groups.back().empty() ? 0 : 1;
      certificate.generators += static_cast<std::int64_t>(groups.back().size());
    }
    if (certificate.generators == 0) return certificate;
    prepare(certificate);
    std::int64_t done = 0;
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const Generator& generator : groups[g]) {
        try_one({g, generator}, certificate);
        if (options_.progress) options_.progress(++done, certificate.generators);
      }
    return certificate;
  }

private:
  struct Tried {
    std::size_t group;
    const Generator& generator;
  };
  static const ModelSymmetries::State& state(const ModelSymmetries& s) { return *s.state_; }
  static std::string words(const ModelSymmetries& s, const Generator& g) {
    return words_of(g, state(s).structure->classes()[g.number]);
  }

  static Tensor value_of(const ShownTensor& leaf, const nn::StateDict& leaves) {
    for (const auto& [name, x] : leaves) {
      if (name != leaf.name) continue;
      if (!x.defined() || !x.has_storage() || (is_floating(x.dtype()) && x.dtype() != DType::f64))
        throw ValueError(fmt::format("certify: \"{}\" must have values, floating ones f64", name));
      return x;
    }
    throw ValueError(fmt::format("certify: there is no value for \"{}\"", leaf.name));
  }

  /// f gives every output of the query, and nothing that the inference did not see.
  void require_known_outputs() const {
    const auto has = [&](const std::string& wanted) {
      return std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& y) { return y.first == wanted; });
    };
    for (const ShownTensor& t : state(symmetries_).tensors)
      if (t.role == TensorRole::output && !has(t.name))
        throw ValueError(fmt::format("certify: the function does not give the output \"{}\"", t.name));
    for (const auto& [name, y] : outputs_) state(symmetries_).tensor(name); // throws for an unknown one
  }

  /// Outputs and gradients where nothing is moved.
  void prepare(Certificate& certificate) {
    outputs_ = f_(leaves_);
    require_known_outputs();
    std::uint64_t number = 0;
    for (const auto& [name, y] : outputs_) {
      const double own = is_floating(y.dtype()) ? largest(y) : 0.0;
      if (!std::isfinite(own)) throw ValueError(fmt::format("certify: \"{}\" is not finite at these values", name));
      largest_output_ = std::max(largest_output_, own);
      cotangents_.push_back(is_floating(y.dtype())
                                ? random_normal(y.shape(), options_.key.fold(number++), 0.0, 1.0, y.dtype())
                                : Tensor{});
    }
    try {
      gradients_ = vjp(as_list(), values(leaves_), cotangents_).gradients;
    } catch (const AutogradError& e) {
      certificate.no_gradient = e.what();
    }
    for (const Tensor& g : gradients_)
      if (g.defined()) largest_gradient_ = std::max(largest_gradient_, largest(g));
    if (!std::isfinite(largest_gradient_)) throw ValueError("certify: gradients are not finite at these values");
  }

  /// What is zero in theory holds rounding alone, which is compared with this part of the largest output or gradient.
  static constexpr double smallest_part = 1e-3;
  double scale_of(const Tensor& y) const {
    return is_floating(y.dtype()) ? std::max(largest(y), smallest_part * largest_output_) : 1.0;
  }

  void try_one(const Tried& tried, Certificate& certificate) const {
    const ModelSymmetries::State& own = state(symmetries_);
    try {
      const PointMap image = own.image_of(tried.generator);
      nn::StateDict moved = leaves_;
      for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i].second = own.moved(image, own.leaves[i], leaves_[i].second);
      std::vector<Tensor> found, gradients;
      if (gradients_.empty()) {
        found = values(f_(moved));
      } else {
        std::vector<Tensor> cotangents = cotangents_;
        for (std::size_t o = 0; o < cotangents.size(); ++o)
          if (cotangents[o].defined()) cotangents[o] = own.moved(image, own.tensor(outputs_[o].first), cotangents[o]);
        Vjp both = vjp(as_list(), values(moved), cotangents);
        found = std::move(both.outputs);
        gradients = std::move(both.gradients);
      }
      if (found.size() != outputs_.size()) refuse(tried, "the number of outputs changes");
      for (std::size_t o = 0; o < outputs_.size(); ++o) {
        const auto& [name, y] = outputs_[o];
        check(tried, fmt::format("\"{}\"", name),
              difference(found[o], own.moved(image, own.tensor(name), y), scale_of(y)), certificate.forward_error);
      }
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients_[i].defined()) continue;
        const double scale = std::max(largest(gradients_[i]), smallest_part * largest_gradient_);
        check(tried, fmt::format("the gradient by \"{}\"", leaves_[i].first),
              difference(gradients[i], own.moved(image, own.leaves[i], gradients_[i]), scale),
              certificate.gradient_error);
      }
    } catch (const SymmetryError&) {
      throw;
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& e) { // an element that does not fit, or moved values that the model refuses
      refuse(tried, e.what());
    }
  }

  void check(const Tried& tried, const std::string& what, double error, double& largest_error) const {
    if (!(error <= options_.tolerance))
      refuse(tried, fmt::format("{} differs by {:.1e}, more than {:.1e}", what, error, options_.tolerance));
    largest_error = std::max(largest_error, error);
  }

  [[noreturn]] void refuse(const Tried& tried, const std::string& why) const {
    throw SymmetryError(fmt::format("symmetries: \"{}\": {} does not commute with the model: {}{}",
                                    symmetries_.groups_[tried.group].name, words(symmetries_, tried.generator), why,
                                    place_of(tried)));
  }

  /// Words on the first operation whose result does not move as the inference says.
  std::string place_of(const Tried& tried) const {
    const auto results_of = [&](const nn::StateDict& leaves) {
      ResultRecorder recorder;
      f_(leaves);
      return std::move(recorder.results);
    };
    const std::vector<ResultRecorder::Result> plain = results_of(leaves_);
    try {
      SymmetryQuery query;
      for (std::size_t i = 0; i < leaves_.size(); ++i)
        (state(symmetries_).leaves[i].role == TensorRole::input ? query.inputs : query.parameters)
            .push_back(leaves_[i]);
      query.run = [&] {
        ResultRecorder recorder;
        nn::StateDict all = f_(leaves_);
        for (std::size_t i = 0; i < recorder.results.size(); ++i)
          all.emplace_back(fmt::format("result {}", i), recorder.results[i].value);
        return all;
      };
      const ModelSymmetries detailed(query);
      const SymmetryGroup* group = detailed.find(symmetries_.groups_[tried.group].name);
      const std::string wanted = words(symmetries_, tried.generator);
      for (const Generator& other : group == nullptr ? std::vector<Generator>{}
                                                     : state(detailed).generators(at(group - detailed.groups_.data())))
        if (words(detailed, other) == wanted) {
          const std::string operation = first_difference(detailed, other, plain, results_of);
          return operation.empty() ? std::string() : fmt::format("; first at {}", operation);
        }
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) { // the claim is refused anyway; its place is not known
      return {};
    }
    return "; read on these values it has no such element, so the model took another course when it was read";
  }

  template <class F>
  std::string first_difference(const ModelSymmetries& detailed, const Generator& g,
                               const std::vector<ResultRecorder::Result>& plain, const F& results_of) const {
    const ModelSymmetries::State& own = state(detailed);
    const PointMap image = own.image_of(g);
    nn::StateDict moved = leaves_;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const auto leaf = std::find_if(own.leaves.begin(), own.leaves.end(),
                                     [&](const ShownTensor& t) { return t.name == moved[i].first; });
      moved[i].second = own.moved(image, *leaf, leaves_[i].second);
    }
    const std::vector<ResultRecorder::Result> found = results_of(moved);
    for (std::size_t i = 0; i < std::min(plain.size(), found.size()); ++i) {
      double apart = INFINITY;
      try {
        const Tensor& x = plain[i].value;
        apart = difference(found[i].value, own.moved(image, own.tensor(fmt::format("result {}", i)), x), scale_of(x));
      } catch (const Error&) { // torn
      }
      if (!(apart <= options_.tolerance)) return plain[i].operation;
    }
    return {};
  }

  TensorFunction as_list() const {
    return [this](const std::vector<Tensor>& x) {
      nn::StateDict named = leaves_;
      for (std::size_t i = 0; i < named.size(); ++i) named[i].second = x[i];
      return values(f_(named));
    };
  }

  static std::vector<Tensor> values(const nn::StateDict& list) {
    std::vector<Tensor> tensors;
    tensors.reserve(list.size());
    for (const auto& [name, tensor] : list) tensors.push_back(tensor);
    return tensors;
  }

  const ModelSymmetries& symmetries_;
  const NamedFunction& f_;
  const CertifyOptions& options_;
  nn::StateDict leaves_, outputs_;
  std::vector<Tensor> cotangents_, gradients_;
  double largest_output_ = 0.0, largest_gradient_ = 0.0;
};

Certificate ModelSymmetries::certify(const NamedFunction& f, const nn::StateDict& leaves,
                                     const CertifyOptions& options) const {
  return Certifier(*this, f, leaves, options).run();
}

} // namespace eg::permute
