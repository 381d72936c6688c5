#include "layout/freezing.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/glob.h"
#include "base/text/text.h"

namespace longhaul::layout {

std::string near_names(const std::vector<ParameterSpec>& list, const std::string& pattern) {
  constexpr size_t kShown = 5;
  std::vector<std::string> names;
  for (const ParameterSpec& spec : list) names.push_back(spec.tensor.name);
  std::vector<std::string> shown;
  if (std::string nearest = nearest_spelling(pattern, names); !nearest.empty())
    shown.push_back(std::move(nearest));
  const auto common = [&](const std::string& name) {
    return std::ranges::mismatch(pattern, name).in1 - pattern.begin();
  };
  std::ranges::stable_sort(names, std::greater<>(), common);
  for (const std::string& name : names) {
    if (shown.size() < kShown && std::ranges::find(shown, name) == shown.end()) shown.push_back(name);
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

namespace {

// Whether the tensor multiplies what other tensors of its mixer have made, and not what enters the mixer.
bool reads_within_mixer(const ParameterSpec& spec) {
  const Role role = spec.adapter_of.tensor.empty() ? spec.tensor.role : spec.adapter_of.role;
  return role == Role::kOutput || role == Role::kChannelDown || role == Role::kExpertDown;
}

// "layers.3.mixer" of "layers.3.mixer.query.weight": what has one input. Norms, which have a place of their
// own, and what lies outside the layers have a block each.
std::string block_of(const ParameterSpec& spec) {
  if (spec.layer < 0 && spec.ahead < 0) return spec.tensor.name;
  const bool mixer = spec.tensor.name.find(".mixer.") != std::string::npos,
             norm = spec.tensor.name.find("norm.") != std::string::npos;
  if (norm && !mixer) return spec.tensor.name;
  return fmt::format("{} {} {}", spec.layer, spec.ahead, mixer ? "mixer" : "channel");
}

}  // namespace

bool is_frozen(const std::vector<std::string>& patterns, const std::string& tensor) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return matches_glob(pattern, tensor); });
}

void freeze(std::vector<ParameterSpec>& list, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  for (ParameterSpec& spec : list) {
    if (!is_frozen(patterns, spec.tensor.name)) continue;
    spec.frozen = true;
    spec.trainable = false;
  }
}

void require_freezable(const std::vector<ParameterSpec>& list, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(
            list, [&](const ParameterSpec& spec) { return matches_glob(pattern, spec.tensor.name); }))
      continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = "a pattern fits no tensor of the model",
                 .expected = "a name, or a pattern with * and ?; near are: " + near_names(list, pattern),
                 .found = fmt::format("\"{}\"", pattern),
                 .where = "train.freeze",
                 .hint = "the names of a run's tensors: `longhaul checkpoint show RUN --json`"});
  }
  const bool any = std::ranges::any_of(list, [&](const ParameterSpec& spec) {
    return spec.trainable && !is_frozen(patterns, spec.tensor.name);
  });
  if (any || patterns.empty()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "every tensor of the model is frozen, and nothing is left that trains",
               .expected = "patterns that leave out a tensor",
               .found = fmt::format("\"{}\"", fmt::join(patterns, "\", \"")),
               .where = "train.freeze",
               .hint = "`longhaul evaluate` judges a model without training it"});
}

void require_frozen_together(const std::vector<ParameterSpec>& of_product) {
  std::vector<std::string> frozen, others;
  for (const ParameterSpec& spec : of_product) (spec.frozen ? frozen : others).push_back(spec.tensor.name);
  if (frozen.empty() || others.empty()) return;
  constexpr size_t kShown = 6;
  const size_t more = others.size() > kShown ? others.size() - kShown : 0;
  others.resize(others.size() - more);
  throw Error({.code = ExitCode::kUsage,
               .what = "one matrix product computes with tensors of which only some are frozen",
               .expected = fmt::format("patterns that also fit {}{}", fmt::join(others, ", "),
                                       more > 0 ? fmt::format(" and {} more", more) : ""),
               .found = fmt::format("frozen: {}{}", frozen.front(),
                                    frozen.size() > 1 ? fmt::format(" and {} more", frozen.size() - 1) : ""),
               .where = "train.freeze",
               .hint = "tensors of one product are frozen together, or all train"});
}

std::vector<TensorPasses> tensor_passes(const std::vector<ParameterSpec>& list) {
  std::vector<TensorPasses> passes;
  bool before = false;  // something that comes before the block trains
  for (auto begin = list.begin(); begin != list.end();) {
    const auto end = std::find_if(begin, list.end(), [&, block = block_of(*begin)](const auto& spec) {
      return block_of(spec) != block;
    });
    // A router does not change the input of what it scales.
    const bool within = std::any_of(begin, end, [](const ParameterSpec& spec) {
      return spec.trainable && !reads_within_mixer(spec) && spec.tensor.role != Role::kRouter;
    });
    for (auto each = begin; each != end; ++each)
      passes.push_back({.input_gradient = before || (within && reads_within_mixer(*each)) ||
                                          each->tensor.role == Role::kAdapterUp,
                        .own_gradient = each->trainable});
    before = before || std::any_of(begin, end, [](const ParameterSpec& spec) { return spec.trainable; });
    begin = end;
  }
  return passes;
}

int64_t first_layer_backward(const std::vector<ParameterSpec>& list, int64_t layers) {
  int64_t first = layers;
  bool in_layers = false;
  for (const ParameterSpec& spec : list) {
    in_layers = in_layers || spec.layer >= 0;
    if (!spec.trainable) continue;
    if (spec.layer >= 0) first = std::min(first, spec.layer);
    if (!in_layers) first = 0;  // an embedding, or what layers share
  }
  return first;
}

}  // namespace longhaul::layout
