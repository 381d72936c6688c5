#include "recipe/architecture/conversion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "recipe/mixers.h"
#include "recipe/options/toml_reader.h"

namespace longhaul::recipe {
namespace {

constexpr int64_t kUsualWindow = 4096;
constexpr int64_t kLongestList = 4096;  // layers
constexpr int64_t kGateRank = 16;
constexpr double kTemperature = 16;

[[noreturn]] void refuse_item(std::string_view item, const std::string& expected) {
  throw Error({.code = ExitCode::kUsage,
               .what = "the layers of the conversion are not understood",
               .expected = expected,
               .found = printable(std::string(item.substr(0, 80))),
               .where = "--convert",
               .hint = program_command("convert --list") + " says what a layer can become"});
}

int64_t number_in(std::string_view text, std::string_view item, int64_t most) {
  const std::optional<int64_t> number = parse_number<int64_t>(text);
  if (!number || *number < 1 || *number > most)
    refuse_item(item, fmt::format("a whole number from 1 to {}", most));
  return *number;
}

// "gla*3", "window:1024", "softmax"
void read_item(std::string_view item, Conversion& out) {
  std::string_view name = item;
  int64_t count = 1, window = 0;
  if (const size_t star = name.find('*'); star != std::string_view::npos) {
    count = number_in(trimmed(name.substr(star + 1)), item, kLongestList);
    name = trimmed(name.substr(0, star));
  }
  if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
    window = number_in(trimmed(name.substr(colon + 1)), item, INT32_MAX);
    name = trimmed(name.substr(0, colon));
    if (name != "window") refuse_item(item, "a number of keys after window: alone");
  }
  const auto& kinds = conversion_kinds();
  if (std::ranges::find(kinds, name, &ConversionKind::name) == kinds.end()) {
    std::vector<std::string_view> names;
    for (const ConversionKind& kind : kinds) names.push_back(kind.name);
    refuse_item(item, fmt::format("one of {}, with *COUNT after it where it is meant for several layers",
                                  fmt::join(names, ", ")));
  }
  if (name == "window" && window == 0) window = kUsualWindow;
  const std::vector<std::string_view> mixers = names_of(Mixer{});
  const Mixer mixer = name == "window" ? Mixer::kSoftmax
                                       : static_cast<Mixer>(std::ranges::find(mixers, name) - mixers.begin());
  out.mixers.insert(out.mixers.end(), static_cast<size_t>(count), mixer);
  out.windows.insert(out.windows.end(), static_cast<size_t>(count), window);
  if (std::ssize(out.mixers) > kLongestList)
    refuse_item(item, fmt::format("at most {} layers", kLongestList));
}

// `layers = "…"` of a TOML file.
std::string list_in_file(const std::string& path) {
  for (const TomlEntry& entry : read_toml(read_text(path, ExitCode::kUsage, 1 << 16), path)) {
    if (entry.key == "layers" && !entry.is_section && entry.value.is_text()) return entry.value.as_text();
    if (entry.key != "version" && entry.key != "description") {
      throw Error(
          {.code = ExitCode::kUsage,
           .what = "a key of the conversion is not known",
           .expected = "layers = \"window*1,gla*1\"; options of mixers belong in the recipe's [model.…]",
           .found = entry.key,
           .where = fmt::format("{}:{}:{}", path, entry.line, entry.column)});
    }
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "the file of the conversion names no layers",
               .expected = "layers = \"window*1,gla*1\"",
               .found = "no such key",
               .where = path});
}

void require_convertible(const ModelConfig& dense, const Conversion& conversion) {
  const auto refuse = [](std::string expected, std::string found, std::string hint) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "this model cannot be converted so",
                 .expected = std::move(expected),
                 .found = std::move(found),
                 .where = "--convert",
                 .hint = std::move(hint)});
  };
  for (const Mixer mixer : dense.mixers) {
    if (mixer != Mixer::kSoftmax)
      refuse("a transformer with softmax attention in every layer",
             fmt::format("layers of {}", names_of(mixer)[static_cast<size_t>(mixer)]),
             "leave --convert out: the model is none");
  }
  if (!dense.causal) refuse("a causal model", "one that reads both ways", "leave --convert out");
  const auto has = [&](Mixer mixer) {
    return std::ranges::find(conversion.mixers, mixer) != conversion.mixers.end();
  };
  if (has(Mixer::kGla) && has(Mixer::kMixture))
    refuse("gla or mixture: both read the options [model.gla], and mixture ties its keys", conversion.text,
           "use one of them");
  const int64_t length = std::ssize(conversion.mixers);
  if (dense.layers % length != 0) {
    refuse(fmt::format("a list whose length divides the model's {} layers", dense.layers),
           fmt::format("{} layer{}: {}", length, length == 1 ? "" : "s", conversion.text),
           "write each layer, or a period of them");
  }
}

}  // namespace

Conversion read_conversion(const std::string& rules) {
  Conversion conversion{
      .mixers = {}, .windows = {}, .text = rules.ends_with(".toml") ? list_in_file(rules) : rules};
  for (const std::string_view item : split(conversion.text, ',')) read_item(trimmed(item), conversion);
  return conversion;
}

ModelConfig converted(const ModelConfig& dense, const Conversion& conversion) {
  require_convertible(dense, conversion);
  ModelConfig model = dense;
  model.preset.clear();
  model.family = ModelConfig().family;
  model.mixers = conversion.mixers;
  const auto whole_rounds = static_cast<size_t>(dense.layers);
  std::vector<int64_t> windows(whole_rounds);
  for (size_t layer = 0; layer < whole_rounds; ++layer) {
    const int64_t window = conversion.windows[layer % conversion.windows.size()];
    windows[layer] = window > 0 ? window : dense.softmax.window(static_cast<int64_t>(layer));
  }
  model.softmax.windows = std::ranges::all_of(windows, [&](int64_t window) { return window == windows[0]; })
                              ? std::vector<int64_t>{windows[0]}
                              : windows;
  const bool tied = std::ranges::find(conversion.mixers, Mixer::kMixture) != conversion.mixers.end();
  model.gla = {};
  model.gla.key_dim = dense.head_dim;
  model.gla.key_heads = dense.softmax.kv_heads;
  model.gla.forget_rank = kGateRank;
  model.gla.temperature = tied ? 1 : kTemperature;
  model.gla.feature_map = tied ? FeatureMap::kSigmoid : FeatureMap::kRelu;
  model.gla.tied_keys = tied;
  model.gla.output_gate = false;
  model.gla.bias = !tied && (dense.softmax.bias != AttentionBias::kNone || dense.bias);
  model.gla.norm_eps = dense.norm_eps;
  model.mixture = {};
  model.lightning = {};
  model.hgrn2 = {};
  model.gated_deltanet = {};
  return model;
}

const std::vector<ConversionKind>& conversion_kinds() {
  static const std::vector<ConversionKind> kKinds = {
      {"softmax", "everything", "nothing", "nothing"},
      {"window", "everything", "nothing", "tokens beyond the window"},
      {"gla", "queries, keys, values and their biases; output", "gate of rank 16, norm of each head",
       "softmax, positions, norms of queries and keys"},
      {"lightning", "queries, keys and values (a copy for each query head), output",
       "output gate, norm over all heads", "softmax, biases, norms of queries and keys"},
      {"hgrn2", "queries, values (a copy for each query head), output; minus the keys as the forget gate",
       "lower bounds, norm over all heads", "softmax, positions, biases, norms of queries and keys"},
      {"gated_deltanet", "queries, keys and values (a copy for each query head), output",
       "output gate, write and forget gates, norm; convolutions that begin as none",
       "softmax, positions, biases, norms of queries and keys"},
      {"mixture",
       "everything in the softmax branch; queries, values, output and minus the keys in the linear one",
       "a norm of each branch and of each linear head", "nothing in the softmax branch"},
  };
  return kKinds;
}

}  // namespace longhaul::recipe
