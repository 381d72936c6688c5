#include "recipe/mixers/cross_attention.h"

namespace longhaul::recipe {

std::vector<MixerTensor> cross_attention_tensors(const ModelConfig& model, int64_t memory_hidden) {
  std::vector<MixerTensor> tensors = entry_of(Mixer::kSoftmax).tensors(model);
  for (MixerTensor& each : tensors) {
    if (each.role != Role::kKey && each.role != Role::kValue) continue;
    each.in = memory_hidden;
    if (each.role == Role::kKey) each.beside = false;  // the query is made of other rows
  }
  return tensors;
}

}  // namespace longhaul::recipe
