#include "recipe/channels/none.h"

#include "recipe/check.h"
#include "recipe/mixers.h"

namespace longhaul::recipe {

namespace {

bool none_biases(const ModelConfig&) { return true; }

void check_none(const ModelConfig& model, std::vector<Problem>& out) {
  if (model.experts > 0)
    out.push_back({{"model.channel", "model.experts"},
                   "experts are channel mixers, and model.channel = \"none\" has none",
                   "model.experts=0"});
  if (model.wiring == Wiring::kParallel)
    out.push_back({{"model.channel", "model.wiring"},
                   "a parallel block has a channel mixer beside its sequence mixer",
                   "model.wiring=pre_norm"});
}

std::vector<MixerTensor> none_tensors(const ModelConfig&) { return {}; }
BlockMemory none_memory(const ModelConfig&, const BlockSizes&) { return {}; }

}  // namespace

constinit const ChannelMixerEntry kNoChannelMixer{.name = "none",
                                                  .biases = none_biases,
                                                  .check = check_none,
                                                  .tensors = none_tensors,
                                                  .memory = none_memory};

}  // namespace longhaul::recipe
