#include "nn/hub/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace eg::hub {
namespace {

/// Two numbers, 0 < the first < the second.
std::pair<double, double> ordered(const Fields& f, std::pair<const char*, double> low,
                                  std::pair<const char*, double> high) {
  const double least = f.real(low.first, low.second), most = f.real(high.first, high.second);
  if (!(least > 0.0)) f.refuse(low.first, fmt::format("is {}, not positive", least));
  if (!(most > least && std::isfinite(most)))
    f.refuse(high.first, fmt::format("is {}, not more than {}, which is {}", most, low.first, least));
  return {least, most};
}

void read_yarn(const Fields& s, nn::RotaryConfig& rotary, std::int64_t dims, double factor, double trained) {
  const auto [slow, fast] = ordered(s, {"beta_slow", 1.0}, {"beta_fast", 32.0});
  rotary.frequencies = nn::yarn_scaled(
      rotary.base, dims,
      {.factor = factor, .trained = trained, .fast = fast, .slow = slow, .whole_pairs = s.flag("truncate", true)});
  const double all = s.real("mscale_all_dim", 0), scale = s.real("mscale", 0);
  const double amplitude = all != 0 && scale != 0 ? nn::yarn_amplitude(factor, scale) / nn::yarn_amplitude(factor, all)
                                                  : nn::yarn_amplitude(factor);
  rotary.amplitude = s.real("attention_factor", amplitude);
}

/// rope_scaling, or in newer files rope_parameters, which hold theta too.
Fields rope_of(const Fields& f) {
  const Fields older = f.object("rope_scaling"), newer = f.object("rope_parameters");
  if (older.json().empty()) return newer;
  if (!newer.json().empty() && older.json() != newer.json())
    f.refuse("rope_scaling", "is not what 'rope_parameters' beside it says; leave one of them out");
  return older;
}

/// Refuses what would turn a part of each head, or differ from layer to layer: no Llama of transformers does.
void refuse_other_ropes(const Fields& s) {
  for (const auto& [name, value] : s.json().items())
    if (value.is_object()) s.refuse(name.c_str(), "is an object; one rope for all layers is supported");
  if (const double share = s.real("partial_rotary_factor", 1.0); share != 1.0)
    s.refuse("partial_rotary_factor", fmt::format("is {}; supported for llama is 1", share));
}

/// A number of the rope that may be given beside it too. Throws FileError where both are given and differ.
double beside(const Fields& f, const Fields& s, const char* name, double otherwise) {
  if (f.has(name) && s.has(name) && f.real(name, 0) != s.real(name, 0))
    f.refuse(name,
             fmt::format("is {}, and that of the rope is {}; leave one of them out", f.real(name, 0), s.real(name, 0)));
  return s.real(name, f.real(name, otherwise));
}

/// Tokens of the texts that a model was trained on, before its rope was stretched.
double trained_positions(const Fields& f, const Fields& s, std::int64_t positions) {
  constexpr const char* name = "original_max_position_embeddings";
  const double trained = beside(f, s, name, static_cast<double>(positions));
  if (!(trained >= 1.0 && std::isfinite(trained)))
    (s.has(name) ? s : f).refuse(name, fmt::format("is {}, not at least 1", trained));
  return trained;
}

double factor_of(const Fields& s) {
  if (!s.has("factor")) s.refuse("factor", "is missing");
  const double factor = s.real("factor", 1.0);
  if (!(factor >= 1.0 && std::isfinite(factor))) s.refuse("factor", fmt::format("is {}, not at least 1", factor));
  return factor;
}

} // namespace

void read_rotary(const Fields& f, nn::RotaryConfig& rotary, std::int64_t dims, std::int64_t positions) {
  const Fields s = rope_of(f);
  refuse_other_ropes(s);
  rotary.base = beside(f, s, "rope_theta", 10000.0);
  const std::string type = s.text("rope_type", s.text("type", "default"));
  constexpr std::array types = {"default", "linear", "dynamic", "llama3", "yarn"};
  if (std::find(types.begin(), types.end(), type) == types.end())
    s.refuse("rope_type", fmt::format("is '{}'; supported are {}", type, fmt::join(types, ", ")));
  if (type == "default") return;
  const double factor = factor_of(s);
  if (type == "linear") {
    rotary.frequencies = nn::linear_scaled(nn::rotary_frequencies(rotary.base, dims), factor);
  } else if (type == "dynamic") {
    rotary.dynamic_factor = factor;
    rotary.trained_positions = positions;
  } else if (const double trained = trained_positions(f, s, positions); type == "llama3") {
    const auto [low, high] = ordered(s, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0});
    rotary.frequencies = nn::llama3_scaled(nn::rotary_frequencies(rotary.base, dims),
                                           {.factor = factor, .low = low, .high = high, .trained = trained});
  } else {
    read_yarn(s, rotary, dims, factor, trained);
  }
}

} // namespace eg::hub
