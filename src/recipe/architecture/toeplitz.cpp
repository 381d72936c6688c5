#include "recipe/architecture/toeplitz.h"

#include <algorithm>

namespace longhaul::recipe {
namespace {

int64_t exponentials_of(const ModelConfig& model) {  // of all axes
  return model.toeplitz * std::max<int64_t>(1, static_cast<int64_t>(grid_of(model).size()));
}

}  // namespace

std::vector<MixerTensor> toeplitz_tensors(const ModelConfig& model) {
  if (model.toeplitz == 0) return {};
  MixerTensor coefficient{.name = "toeplitz.coefficient",
                          .role = Role::kCoefficient,
                          .out = model.hidden,
                          .in = exponentials_of(model)};
  coefficient.cut = MixerTensor::Cut::kRows;
  coefficient.heads = model.hidden;  // every channel by itself
  coefficient.fill = Fill::kMean;
  return {coefficient,
          {.name = "toeplitz.rate",
           .role = Role::kCoefficient,
           .out = exponentials_of(model),
           .fill = Fill::kTimescales}};
}

bool of_toeplitz(std::string_view tensor) { return tensor.starts_with("toeplitz."); }

std::vector<MixerStateTensor> toeplitz_state(const ModelConfig& model) {
  if (model.toeplitz == 0 || !model.causal) return {};  // nothing is decoded
  return {{.name = "sums", .shape = {model.toeplitz, model.hidden}, .wide = true, .cut = 1}};
}

RecurrenceSizes toeplitz_sizes(const ModelConfig& model) {
  return {.heads = exponentials_of(model), .key = 1, .value = model.hidden};
}

}  // namespace longhaul::recipe
