#include "layout/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text/glob.h"
#include "layout/freezing.h"

namespace longhaul::layout {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string named_beside(std::string_view tensor, std::string_view what) {
  LONGHAUL_ASSERT(tensor.ends_with(kWeight), "{} is no weight", tensor);
  return fmt::format("{}.{}{}", tensor.substr(0, tensor.size() - kWeight.size()), what, kWeight);
}

bool fits(const std::string& pattern, const ParameterSpec& spec) {
  if (pattern == recipe::kAllLinear) return can_be_adapted(spec);
  const bool of_word = pattern.find('.') == std::string::npos;
  return matches_glob(pattern, spec.tensor.name) ||
         (of_word && matches_glob(pattern, last_word(spec.tensor.name)));
}

// A cut of the matrix's other side is none of this one's.
SplitRule split_of(const SplitRule& matrix, int64_t dimension) {
  if (matrix.over != SplitOver::kNothing && matrix.dimension == dimension) return matrix;
  return {.experts = matrix.experts};
}

ParameterSpec beside(const ParameterSpec& base, std::string name, Shape shape, Role role, Init init,
                     SplitRule split, double scale) {
  return {.tensor = {std::move(name), std::move(shape), role},
          .init = init,
          .split = split,
          .layer = base.layer,
          .expert = base.expert,
          .ahead = base.ahead,
          .decay = role != Role::kAdapterMagnitude,
          .adapter_of = {.tensor = base.tensor.name, .role = base.tensor.role, .scale = scale}};
}

}  // namespace

std::string adapter_down_name(std::string_view tensor) { return named_beside(tensor, "lora_a"); }
std::string adapter_up_name(std::string_view tensor) { return named_beside(tensor, "lora_b"); }
std::string adapter_magnitude_name(std::string_view tensor) { return named_beside(tensor, "lora_magnitude"); }

std::string last_word(std::string_view tensor) {
  tensor.remove_suffix(std::min(tensor.size(), kWeight.size()));
  return std::string(tensor.substr(tensor.rfind('.') + 1));
}

bool is_adapter_name(std::string_view tensor) {
  return std::ranges::any_of(std::array{".lora_a.weight", ".lora_b.weight", ".lora_magnitude.weight"},
                             [&](const char* ending) { return tensor.ends_with(ending); });
}

bool can_be_adapted(const ParameterSpec& spec) {
  if (spec.tensor.global_shape.size() != 2 || !spec.tensor.name.ends_with(kWeight)) return false;
  switch (spec.tensor.role) {
    case Role::kEmbedding:
    case Role::kPosition:
    case Role::kNorm:
    case Role::kLowerBound:
    case Role::kRouter:
    case Role::kBias:
    case Role::kConvolution:
    case Role::kHead:
    case Role::kCoefficient:
    case Role::kAdapterDown:
    case Role::kAdapterUp:
    case Role::kAdapterMagnitude:
      return false;
    default:
      return true;
  }
}

bool is_adapted(const recipe::AdapterOptions& options, const ParameterSpec& spec) {
  return options.wanted() && can_be_adapted(spec) &&
         std::ranges::any_of(options.targets,
                             [&](const std::string& pattern) { return fits(pattern, spec); });
}

void add_adapters(std::vector<ParameterSpec>& list, const recipe::AdapterOptions& options) {
  if (!options.wanted()) return;
  std::vector<ParameterSpec> all;
  for (ParameterSpec& spec : list) {
    spec.frozen = true;
    spec.trainable = false;
    all.push_back(spec);
    if (!is_adapted(options, spec)) continue;
    const int64_t out = spec.tensor.global_shape[0], in = spec.tensor.global_shape[1];
    const Init zeros{.kind = Init::Kind::kZeros};
    const Init even{
        .kind = Init::Kind::kUniform, .fan_in = in, .std = 1 / std::sqrt(3 * static_cast<double>(in))};
    const auto add = [&](std::string name, Shape shape, Role role, const Init& init, int64_t dimension) {
      all.push_back(beside(spec, std::move(name), std::move(shape), role, init,
                           split_of(spec.split, dimension), options.scale()));
    };
    add(adapter_down_name(spec.tensor.name), {options.rank, in}, Role::kAdapterDown, even, 1);
    add(adapter_up_name(spec.tensor.name), {out, options.rank}, Role::kAdapterUp, zeros, 0);
    if (options.kind == recipe::AdapterKind::kDora) {
      add(adapter_magnitude_name(spec.tensor.name), {out}, Role::kAdapterMagnitude, zeros, 0);
    }
  }
  list = std::move(all);
}

void require_adaptable(const std::vector<ParameterSpec>& list, const recipe::AdapterOptions& options) {
  if (!options.wanted()) return;
  std::vector<ParameterSpec> can;
  std::ranges::copy_if(list, std::back_inserter(can), can_be_adapted);
  for (const std::string& pattern : options.targets) {
    if (std::ranges::any_of(can, [&](const ParameterSpec& spec) { return fits(pattern, spec); })) continue;
    const bool other =
        std::ranges::any_of(list, [&](const ParameterSpec& spec) { return fits(pattern, spec); });
    throw Error(
        {.code = ExitCode::kUsage,
         .what = other ? "a target of adapters names tensors that can have none"
                       : "a target of adapters fits no tensor of the model",
         .expected = "matrices of linear layers, no tables, norms, routers or convolutions; near are: " +
                     near_names(can, pattern),
         .found = fmt::format("\"{}\"", pattern),
         .where = "lora.targets",
         .hint = "lora.targets=all-linear, or the names of a run's tensors: `longhaul checkpoint show RUN "
                 "--tensors`"});
  }
}

}  // namespace longhaul::layout
