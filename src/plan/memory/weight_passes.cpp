#include "plan/memory/weight_passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/memory/memory_workspace.h"

namespace longhaul::plan {
namespace {

using layout::Role;

bool reads_inner(Role role) {
  return role == Role::kOutput || role == Role::kChannelDown || role == Role::kExpertDown;
}

std::string name_of(int64_t layer, const std::string& tensor, bool of_expert) {
  return fmt::format("layers.{}.{}{}.weight", layer, of_expert ? "experts.0." : "", tensor);
}

}  // namespace

WeightPasses::WeightPasses(const recipe::ModelConfig& model, const layout::MeshRank* place)
    : through_mixer_(static_cast<size_t>(model.layers), true),
      mixers_(static_cast<size_t>(model.layers)),
      channels_(static_cast<size_t>(model.layers)) {
  const std::vector<layout::ParameterSpec> list = layout::parameters(model);
  std::vector<layout::TensorPasses> passes = layout::tensor_passes(list);
  for (size_t i = 0; place != nullptr && i < list.size(); ++i) {
    if (list[i].layer >= 0 && place->pipeline().stage_with(list[i].layer, model.layers) > 0)
      passes[i].input_gradient = true;
  }
  first_ = layout::first_layer_backward(list, model.layers);
  for (size_t i = 0; i < list.size(); ++i) {
    const layout::ParameterSpec& spec = list[i];
    const bool adapter = !spec.adapter_of.tensor.empty();
    const Role role = adapter ? spec.adapter_of.role : spec.tensor.role;
    if (role == Role::kHead || (model.tie_embeddings && role == Role::kEmbedding))
      head_.own_gradient = spec.trainable;
    if (spec.expert <= 0) passes_[spec.tensor.name] = passes[i];
    if (spec.tensor.role == Role::kAdapterDown) ranks_[spec.adapter_of.tensor] = spec.tensor.global_shape[0];
    if (spec.layer < 0 || spec.expert > 0) continue;
    const auto layer = static_cast<size_t>(spec.layer);
    if (spec.tensor.role == Role::kOutput) through_mixer_[layer] = passes[i].input_gradient;
    if (spec.tensor.global_shape.size() != 2) continue;
    const bool of_mixer = spec.tensor.name.find(".mixer.") != std::string::npos;
    BlockAdapters& block = (of_mixer ? mixers_ : channels_)[layer];
    block.any = block.any || adapter;
    block.of_experts = block.of_experts || (adapter && spec.expert >= 0);
    if (spec.tensor.role == Role::kAdapterDown) block.ranks += spec.tensor.global_shape[0];
    if (!spec.trainable) continue;
    (reads_inner(role) ? block.reads_inner : block.reads_input) = true;
  }
  head_.input_gradient = true;  // the loss computes it with the loss itself
}

layout::TensorPasses WeightPasses::of(int64_t layer, const std::string& tensor, bool of_expert) const {
  const auto found = passes_.find(name_of(layer, tensor, of_expert));
  return found == passes_.end() ? layout::TensorPasses{} : found->second;
}

int64_t WeightPasses::adapter_rank(int64_t layer, const std::string& tensor, bool of_expert) const {
  const auto found = ranks_.find(name_of(layer, tensor, of_expert));
  return found == ranks_.end() ? 0 : found->second;
}

bool WeightPasses::through_mixer(int64_t layer) const { return through_mixer_[static_cast<size_t>(layer)]; }

const WeightPasses::BlockAdapters& WeightPasses::block(int64_t layer, bool mixer) const {
  return (mixer ? mixers_ : channels_)[static_cast<size_t>(layer)];
}

layout::TensorPasses passes_of(const MemoryRequest& request, int64_t layer, const ProductWeight& weight) {
  return request.passes == nullptr ? layout::TensorPasses{}
                                   : request.passes->of(layer, weight.parts.at(0).name, weight.of_expert);
}

layout::TensorPasses passes_of_head(const MemoryRequest& request) {
  return request.passes == nullptr ? layout::TensorPasses{} : request.passes->of_head();
}

std::vector<LayerProduct> with_adapters(const MemoryRequest& request, int64_t layer,
                                        const ProductWeight& weight) {
  const layout::TensorPasses passes = passes_of(request, layer, weight);
  std::vector<LayerProduct> products{{weight, passes}};
  if (request.passes == nullptr) return products;
  int64_t ranks = 0;
  for (const ProductWeight::Part& part : weight.parts) {
    const int64_t rank = request.passes->adapter_rank(layer, part.name, weight.of_expert);
    if (rank == 0) continue;
    ranks += rank;
    products.push_back({{.out = part.out, .in = rank, .count = weight.count}});
  }
  if (ranks > 0)
    products.push_back(
        {{.out = ranks, .in = weight.in, .count = weight.count}, {.input_gradient = passes.input_gradient}});
  return products;
}

int64_t number_of_layer(const MemoryRequest& request, int64_t layer) {
  return request.layer_numbers.empty() ? layer : request.layer_numbers[static_cast<size_t>(layer)];
}

bool goes_back_through(const MemoryRequest& request, recipe::Mixer mixer) {
  if (request.passes == nullptr) return true;
  for (int64_t l = 0; l < request.model.layers; ++l) {
    if (request.model.mixer(l) == mixer && request.passes->through_mixer(number_of_layer(request, l)))
      return true;
  }
  return false;
}

}  // namespace longhaul::plan
