#include "recipe/mixers/hgrn.h"

#include <algorithm>

#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_hgrn(OptionSet& set, ModelConfig& model) {
  set.add(
      "model.hgrn.complex", model.hgrn.complex,
      "Whether the states of HGRN layers are complex numbers that turn by learned angles; false: real ones.");
  set.add("model.hgrn.norm_eps", model.hgrn.norm_eps,
          "Added to the variance inside the layer normalisation of HGRN layers.")
      .above(0)
      .at_most(1);
}

OperatorSizes hgrn_operators(const ModelConfig&) { return {}; }

std::vector<MixerTensor> hgrn_tensors(const ModelConfig& model) {
  const int64_t wide = model.hgrn.parts() * model.head_dim;
  std::vector<MixerTensor> all{
      head_rows("mixer.value", Role::kValue, model.heads, wide, model.hidden),
      below(head_rows("mixer.forget", Role::kForget, model.heads, model.head_dim, model.hidden)),
      below(head_rows("mixer.gate", Role::kGate, model.heads, wide, model.hidden))};
  if (model.hgrn.complex) {
    MixerTensor frequencies =
        head_vector("mixer.frequencies", Role::kCoefficient, model.heads, model.head_dim);
    frequencies.fill = Fill::kFrequencies;
    all.push_back(frequencies);
  }
  all.push_back(head_vector("mixer.norm", Role::kNorm, model.heads, wide));
  all.push_back(head_columns("mixer.output", Role::kOutput, model.hidden, model.heads, wide));
  return all;
}

std::vector<MixerTensor> hgrn_shared(const ModelConfig& model) {
  return {head_columns("hgrn.lower_bounds", Role::kLowerBound, model.layers, model.heads, model.head_dim)};
}

std::vector<MixerStateTensor> hgrn_state(const ModelConfig& model) {
  return {{.name = "sums", .shape = {model.heads, model.hgrn.parts() * model.head_dim}, .wide = true}};
}

BlockMemory hgrn_memory(const ModelConfig& model, const BlockSizes& size) {
  const double d = size.channels(model.heads * model.head_dim),
               parts = static_cast<double>(model.hgrn.parts()), numbers = parts * d;
  const double wide = size.wide / size.element,
               tables = model.hgrn.complex ? (4 * wide + 8 / size.element) * d : 0;
  const double turned = model.hgrn.complex ? numbers : 0;
  const double bounds = static_cast<double>((model.layers + 1) * model.heads * model.head_dim) * size.wide;
  // Products; the mapped and rotated value; the gate in fp32, 1 − λ and λ for each part; the written value,
  // h, h rotated back, normalised, gated.
  const double kept =
      d + 2 * numbers + numbers + (2 + parts) * wide * d + numbers + numbers + turned + 2 * numbers + tables;
  return {.kept = kept + 2 * size.tokens * size.wide + bounds,
          .backward = size.hidden + std::max(5 * numbers, 3 * numbers + (2 * parts + 1) * wide * d),
          .cheap = 2 * numbers,
          .again = size.hidden + std::max(7 * numbers, 5 * numbers + (2 * parts + 1) * wide * d),
          .evaluation = kept + 3 * size.hidden};
}

}  // namespace

constinit const SequenceMixerEntry kHgrnMixer{.name = "hgrn",
                                              .declare = declare_hgrn,
                                              .operators = hgrn_operators,
                                              .tensors = hgrn_tensors,
                                              .shared = hgrn_shared,
                                              .state = hgrn_state,
                                              .memory = hgrn_memory};

}  // namespace longhaul::recipe
