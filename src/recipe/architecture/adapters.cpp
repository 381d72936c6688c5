#include "recipe/architecture/adapters.h"

#include <cmath>

#include "recipe/architecture/model_config.h"
#include "recipe/check.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(AdapterKind) { return {"lora", "rslora", "dora"}; }

double AdapterOptions::scale() const {
  const auto r = static_cast<double>(rank);
  return kind == AdapterKind::kRslora ? alpha / std::sqrt(r) : alpha / r;
}

void declare(OptionSet& set, AdapterOptions& lora) {
  set.add("lora.rank", lora.rank,
          "Rank of the adapters: every weight of the model is frozen, and each target trains a product of "
          "two small matrices that is added "
          "to it. 0: no adapters.")
      .at_least(0)
      .at_most(1 << 16);
  set.add("lora.alpha", lora.alpha,
          "What adapters add is multiplied by alpha / rank (rslora: alpha / sqrt(rank)).")
      .above(0);
  set.add("lora.targets", lora.targets,
          "Matrices that have an adapter: patterns of names of tensors ([\"layers.*.mixer.query.weight\"]; * "
          "stands for any letters, ? for "
          "one), or of the last word of a name ([\"query\", \"value\"]). \"all-linear\" stands for every "
          "linear layer except the head.");
  set.add("lora.kind", lora.kind,
          "lora; rslora, whose size does not fall with the rank; dora, which also trains the length of each "
          "row of the weights.");
}

void check_adapters(const ModelConfig& model, std::vector<Problem>& out) {
  if (!model.lora.wanted()) return;
  if (model.lora.targets.empty()) {
    out.push_back({{"lora.rank", "lora.targets"},
                   "adapters without targets would leave nothing that trains",
                   "lora.targets=all-linear"});
  }
  if (model.mup_base_hidden > 0) {
    out.push_back({{"lora.rank", "model.mup_base_hidden"},
                   "no rule is known by which the learning rates of adapters follow the width of the model",
                   "leave out model.mup_base_hidden; the base's weights already have their width"});
  }
}

}  // namespace longhaul::recipe
