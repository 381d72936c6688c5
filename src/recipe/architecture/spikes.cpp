#include "recipe/architecture/spikes.h"

#include <algorithm>

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"
#include "recipe/recipe.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(SpikeCoding) {
  return {"none", "binary", "ternary", "unsigned_bits", "signed_bits", "twos_complement"};
}
std::vector<std::string_view> names_of(SpikeWeights) { return {"wide", "int8"}; }

void declare(OptionSet& set, SpikeOptions& spikes) {
  set.add("spikes.coding", spikes.coding,
          "How the inputs of the layers' matrices become spikes; none: they stay numbers. All codings give "
          "the same results and differ in "
          "the spikes that are counted.");
  set.add("spikes.k", spikes.k,
          "The threshold of a spike is the mean size of a token's input divided by k: more counts, and less "
          "rounding, with a larger k.")
      .above(0)
      .at_most(kMostSpikeK);
  set.add("spikes.weights", spikes.weights,
          "Weights of the same matrices: wide, as the model has them; int8, rounded to 8 bits with a scale "
          "for every 128 inputs of a row, "
          "while the gradient goes to the wide ones.");
}

void check_spikes(const Recipe& recipe, std::vector<Problem>& out) {
  if (!recipe.model.spikes.wanted()) return;
  if (recipe.train.dtype == Dtype::kFp64) {
    out.push_back({{"spikes.coding", "train.dtype"},
                   "spikes are counted in fp32, and train.dtype = fp64 would compute with what fp32 rounded",
                   "train.dtype=fp32, or spikes.coding=none"});
  }
  if (recipe.parallel.tp > 1) {
    out.push_back({{"spikes.coding", "parallel.tp"},
                   "tensor ranks hold parts of a token's channels, and a threshold is the mean over all",
                   "parallel.tp=1 (parallel.cp, pp, ep and zero know spikes)"});
  }
  if (recipe.parallel.etp > 1) {
    out.push_back({{"spikes.coding", "parallel.etp"},
                   "ranks that share an expert hold parts of its channels, and a threshold is the mean over "
                   "all",
                   "parallel.etp=1"});
  }
  const std::vector<Mixer> used = mixers_used(recipe.model);
  if (std::ranges::find(used, Mixer::kMla) != used.end()) {
    out.push_back({{"spikes.coding", "model.mixers"},
                   "mla multiplies its matrices with each other while it decodes, and no input of theirs "
                   "could be counted",
                   "another mixer, or spikes.coding=none"});
  }
  if (recipe.model.lora.wanted()) {
    out.push_back({{"spikes.coding", "lora.rank"},
                   "adapters read the inputs as numbers, and the matrices beside them would read counts",
                   "lora.rank=0, or spikes.coding=none"});
  }
}

}  // namespace longhaul::recipe
