#include "recipe/toeplitz.h"

namespace longhaul::recipe {

std::vector<MixerTensor> toeplitz_tensors(const ModelConfig& model) {
  if (model.toeplitz == 0) return {};
  MixerTensor coefficient{.name = "toeplitz.coefficient", .role = Role::kCoefficient, .out = model.hidden, .in = model.toeplitz};
  coefficient.cut = MixerTensor::Cut::kRows;
  coefficient.heads = model.hidden;  // every channel by itself
  coefficient.fill = Fill::kMean;
  return {coefficient, {.name = "toeplitz.rate", .role = Role::kCoefficient, .out = model.toeplitz, .fill = Fill::kTimescales}};
}

bool of_toeplitz(std::string_view tensor) { return tensor.starts_with("toeplitz."); }

std::vector<MixerStateTensor> toeplitz_state(const ModelConfig& model) {
  if (model.toeplitz == 0) return {};
  return {{.name = "sums", .shape = {model.toeplitz, model.hidden}, .wide = true, .cut = 1}};
}

RecurrenceSizes toeplitz_sizes(const ModelConfig& model) { return {.heads = model.toeplitz, .key = 1, .value = model.hidden}; }

}  // namespace longhaul::recipe
