#include "checkpoint/published/conversion_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text/text.h"
#include "layout/parameters.h"

namespace longhaul::checkpoint {
namespace {

using recipe::Mixer;

constexpr std::string_view kMixer = ".mixer.", kForget = "forget.weight";
constexpr std::array<std::string_view, 4> kProjections = {"query.", "key.", "value.", "output."};
constexpr std::array<std::string_view, 2> kBranches = {"softmax.", "linear."};  // of a mixture

struct MixerName {
  std::string prefix;  // "layers.3.mixer."
  int64_t layer = 0;
  std::string_view part;  // "query.weight", without the branch of a mixture
};

std::optional<MixerName> mixer_name(const std::string& name) {
  const size_t at = name.find(kMixer);
  if (!name.starts_with("layers.") || at == std::string::npos) return std::nullopt;
  MixerName found{
      .prefix = name.substr(0, at + kMixer.size()), .layer = std::stoll(name.substr(7)), .part = {}};
  found.part = std::string_view(name).substr(at + kMixer.size());
  for (const std::string_view branch : kBranches) {
    if (found.part.starts_with(branch)) found.part.remove_prefix(branch.size());
  }
  return found;
}

bool is_projection(std::string_view part) {
  return std::ranges::any_of(kProjections, [&](std::string_view start) { return part.starts_with(start); });
}

// Whether the keys of such layers are one minus the forget gate.
bool ties_keys(const recipe::ModelConfig& model, int64_t layer) {
  const Mixer mixer = model.mixer(layer) == Mixer::kMixture ? model.mixture.linear : model.mixer(layer);
  return mixer == Mixer::kHgrn2 || (mixer == Mixer::kGla && model.gla.tied_keys);
}

std::map<std::string, layout::Shape> shapes_of(const recipe::ModelConfig& model) {
  std::map<std::string, layout::Shape> shapes;
  for (const auto& spec : layout::parameters(model))
    shapes.emplace(spec.tensor.name, spec.tensor.global_shape);
  return shapes;
}

// How often each row of `from` stands in `to`; 0: they do not fit.
int64_t repeats_of(const layout::Shape& from, const layout::Shape& to) {
  if (from.size() != to.size() || to[0] % from[0] != 0) return 0;
  for (size_t d = 1; d < from.size(); ++d) {
    if (from[d] != to[d]) return 0;
  }
  return to[0] / from[0];
}

// "0, 2, 4, …, 26"
std::string layers_text(const std::vector<int64_t>& layers) {
  if (layers.size() <= 6) return fmt::format("{}", fmt::join(layers, ", "));
  return fmt::format("{}, {}, {}, …, {}", layers[0], layers[1], layers[2], layers.back());
}

}  // namespace

ConversionWeights::ConversionWeights(const recipe::ModelConfig& dense, const recipe::ModelConfig& model)
    : dense_(dense), model_(model), dense_shapes_(shapes_of(dense_)), shapes_(shapes_of(model_)) {}

void ConversionWeights::require_fitting(const std::string& from) const {
  for (const auto& [name, shape] : shapes_) {
    const auto parts = mixer_name(name);
    if (!parts || !is_projection(parts->part) || parts->part.ends_with(".bias") || source_of(name)) continue;
    const auto there = dense_shapes_.find(parts->prefix + std::string(parts->part));
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "a projection of the converted model has another size than the one that it begins with",
         .expected = there == dense_shapes_.end()
                         ? "a projection of that name"
                         : fmt::format("[{}], or a multiple of its rows", fmt::join(there->second, ", ")),
         .found = fmt::format("{} [{}]", name, fmt::join(shape, ", ")),
         .where = fmt::format("--from {} --convert", from),
         .hint = "leave heads, head_dim and key_dim of the new mixers out of the recipe: the conversion sets "
                 "them"});
  }
}

recipe::ModelConfig ConversionWeights::without_conversion() const {
  recipe::ModelConfig model = model_;
  model.family = dense_.family;
  model.mixers = dense_.mixers;
  model.softmax.windows = dense_.softmax.windows;
  model.gla = dense_.gla;
  model.mixture = dense_.mixture;
  model.lightning = dense_.lightning;
  model.hgrn2 = dense_.hgrn2;
  model.gated_deltanet = dense_.gated_deltanet;
  return model;
}

std::optional<ConversionWeights::Source> ConversionWeights::source_of(const std::string& name) const {
  const auto own = shapes_.find(name);
  if (own == shapes_.end()) return std::nullopt;
  const auto from = [&](std::string source, double factor) -> std::optional<Source> {
    const auto there = dense_shapes_.find(source);
    if (there == dense_shapes_.end()) return std::nullopt;
    const int64_t repeats = repeats_of(there->second, own->second);
    if (repeats == 0) return std::nullopt;
    return Source{
        .name = std::move(source), .factor = factor, .repeats = repeats, .head_rows = dense_.head_dim};
  };
  if (dense_shapes_.contains(name) && dense_shapes_.at(name) == own->second) return from(name, 1);
  const auto parts = mixer_name(name);
  if (!parts) return std::nullopt;
  if (is_projection(parts->part)) return from(parts->prefix + std::string(parts->part), 1);
  if (parts->part == kForget && ties_keys(model_, parts->layer))
    return from(parts->prefix + "key.weight", -1);
  return std::nullopt;
}

Tensor ConversionWeights::first_value_of(const StateEntry& entry) {
  if (!entry.name.ends_with("_convolution.weight")) return {};
  Tensor value = at::zeros(entry.held.length, at::kDouble);
  const int64_t own = entry.shape.back() - 1 - entry.held.offset.back();  // the column of the token itself
  if (own >= 0 && own < entry.held.length.back()) value.select(-1, own).fill_(1);
  return value;
}

Tensor ConversionWeights::box_of(const Tensor& whole, const Source& source, const layout::Rectangle& box) {
  Tensor tensor = whole;
  if (source.repeats > 1) {
    std::vector<int64_t> by_head = {whole.size(0) / source.head_rows, source.head_rows},
                         shape = whole.sizes().vec();
    by_head.insert(by_head.end(), shape.begin() + 1, shape.end());
    shape[0] *= source.repeats;
    tensor = whole.view(by_head).repeat_interleave(source.repeats, 0).view(shape);
  }
  for (size_t d = 0; d < box.offset.size(); ++d)
    tensor = tensor.narrow(static_cast<int64_t>(d), box.offset[d], box.length[d]);
  return source.factor == 1 ? tensor : tensor.mul(source.factor);
}

std::string ConversionWeights::text() const {
  std::map<std::string, std::vector<int64_t>> layers;
  for (int64_t layer = 0; layer < model_.layers; ++layer) {
    const Mixer mixer = model_.mixer(layer);
    const int64_t window = model_.softmax.window(layer);
    std::string name(recipe::names_of(mixer)[static_cast<size_t>(mixer)]);
    if (mixer == Mixer::kSoftmax && window > 0) name = fmt::format("attention over {} keys", window);
    layers[name].push_back(layer);
  }
  std::vector<std::string> kinds;
  for (const auto& [name, which] : layers)
    kinds.push_back(fmt::format("{} in layers {}", name, layers_text(which)));
  int64_t copied = 0, all = 0;
  for (const auto& [name, shape] : shapes_) {
    const int64_t elements = layout::volume(shape);
    all += elements;
    if (source_of(name)) copied += elements;
  }
  return fmt::format("a softmax transformer becomes {}; {:.2f} % of its {} weights are copied, {} begin anew",
                     fmt::join(kinds, ", "), 100.0 * static_cast<double>(copied) / static_cast<double>(all),
                     all, all - copied);
}

}  // namespace longhaul::checkpoint
