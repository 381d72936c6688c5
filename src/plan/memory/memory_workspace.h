// Workspace that operators need beside their tensors, as the kernels divide it: src/kernels/matmul,
// attention, linear_recurrence, delta_rule and linear_cross_entropy. In bytes. Some of it is freed with the
// call; on a CPU some is kept by threads for the next call and grows to the largest request. What libraries
// need on a GPU is in memory_gpu.h.
#pragma once

#include "layout/freezing.h"
#include "plan/memory/memory.h"
#include "plan/memory/weight_passes.h"
#include "recipe/mixers.h"

namespace longhaul::plan {

inline double number(int64_t x) { return static_cast<double>(x); }  // bytes are computed in doubles

// ProductWeight: a weight that one product reads: logical weights with the same input, side by side (query,
// key and value; gate and up).
enum class ProductRole { kPlain, kUp, kDown };  // kUp, activation and kDown are one operator
struct ProductWeight {
  int64_t out = 0, in = 0;
  int64_t count = 1;  // number of experts
  ProductRole role = ProductRole::kPlain;
  struct Part {
    std::string name;  // in the layer: "mixer.query"; in an expert: "up"
    int64_t out = 0;
  };
  std::vector<Part> parts{};  // the logical weights
  bool of_expert = false;
};
// For one layer; the head is separate.
std::vector<ProductWeight> mixer_weights(const MemoryRequest& request, recipe::Mixer mixer);
double product_rows(const MemoryRequest& request, const ProductWeight& weight);  // of its input
std::vector<ProductWeight> channel_weights(const recipe::ModelConfig& model, recipe::ChannelMixer mixer);

bool packs(const MemoryRequest& request);  // true: products on the CPU read packed weights
// The packed copies of a weight with these products: a copy for y = x Wᵀ, and one for the gradient of x.
double packed_weight_bytes(const MemoryRequest& request, const ProductWeight& weight,
                           const layout::TensorPasses& passes = {});
// with adapters
double packed_product_bytes(const MemoryRequest& request, int64_t layer, const ProductWeight& weight);

// Which products of a weight are computed: all, where nothing is frozen. layer: its number in the whole
// model.
layout::TensorPasses passes_of(const MemoryRequest& request, int64_t layer, const ProductWeight& weight);
layout::TensorPasses passes_of_head(const MemoryRequest& request);
int64_t number_of_layer(const MemoryRequest& request, int64_t layer);  // in the whole model
// Whether a backward pass goes through the operators of some layer with this mixer.
bool goes_back_through(const MemoryRequest& request, recipe::Mixer mixer);
struct LayerProduct {
  ProductWeight weight;
  layout::TensorPasses passes{};
};
// The weight's product, and those of its adapters: A of all of them together, each B by itself.
std::vector<LayerProduct> with_adapters(const MemoryRequest& request, int64_t layer,
                                        const ProductWeight& weight);

double kept_by_threads(const MemoryRequest& request);  // for linear layers
// Each thread's scratch for the mixers and, with `loss`, for the loss (kernels/scratch.h).
double buffers_of_threads(const MemoryRequest& request, bool loss = true);
double loss_workspace(const MemoryRequest& request);  // while the loss and its gradients are computed

// For the operators of a layer's mixer; 0 for an operator that it does not have.
// of the backward pass
double attention_workspace(const MemoryRequest& request, const recipe::AttentionSizes& sizes);
// States between segments, kept for the backward pass.
double recurrence_states(const MemoryRequest& request, const recipe::RecurrenceSizes& sizes);
// States between spans or segments, kept for the backward pass.
double delta_rule_states(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes);
double delta_rule_workspace(const MemoryRequest& request,
                            // of the backward pass, LibTorch's operators
                            const recipe::DeltaRuleSizes& sizes);
// In the backward pass.
double recurrence_workspace(const MemoryRequest& request, const recipe::RecurrenceSizes& sizes);

}  // namespace longhaul::plan
