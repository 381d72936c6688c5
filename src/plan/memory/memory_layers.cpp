#include "plan/memory/memory_layers.h"

#include <algorithm>

#include "plan/memory/memory_workspace.h"
#include "recipe/architecture/toeplitz.h"

namespace longhaul::plan {
namespace {

using recipe::BlockMemory;

recipe::BlockSizes sizes_of(const MemoryRequest& request) {
  return {.tokens = request.tokens(),
          .documents = request.documents_at_once(),
          .element = number(element_bytes(request.dtype)),
          .wide = number(wide_bytes(request.dtype)),
          .hidden = hidden_bytes(request)};
}

// The memory that a block keeps and needs beside or instead of `memory` where tensors are frozen and have
// adapters.
void with_passes(const MemoryRequest& request, int64_t layer, bool mixer, double inner, BlockMemory& memory) {
  if (request.passes == nullptr || layer < 0) return;
  const WeightPasses::BlockAdapters& block = request.passes->block(layer, mixer);
  // then the block's input is not kept
  const bool selective = request.recompute == recipe::Recompute::kSelective;
  // the fused operator of the channel keeps all that it reads
  const bool composed = mixer || (block.any && inner > 0);
  const double hidden = hidden_bytes(request);
  if (composed && !block.reads_input && !selective) memory.kept -= hidden;
  if (!block.any) return;
  const double rows = request.tokens() * (block.of_experts ? number(request.model.experts_per_token) : 1);
  memory.kept += rows * number(block.ranks) * number(element_bytes(request.dtype));
  if (!mixer && inner > 0) {
    if (!block.reads_inner && !selective) memory.kept -= inner;
    // Two gradients of the activation at once, which gate and up are as large as; and x has none before they
    // are gone.
    const double more = (request.model.channel == recipe::Channel::kGelu ? inner : 0) - hidden;
    memory.backward += more;
    memory.again += more;
  } else if (block.reads_input) {
    memory.backward += hidden;
    memory.again += hidden;
  }
}

}  // namespace

int64_t element_bytes(recipe::Dtype dtype) {
  return dtype == recipe::Dtype::kBf16 ? 2 : dtype == recipe::Dtype::kFp32 ? 4 : 8;
}
int64_t wide_bytes(recipe::Dtype dtype) { return dtype == recipe::Dtype::kFp64 ? 8 : 4; }

double hidden_bytes(const MemoryRequest& request) {
  return request.tokens() * number(request.model.hidden) * number(element_bytes(request.dtype));
}

MixerResultBytes mixer_result_bytes(const MemoryRequest& request, int64_t layer) {
  const auto [attention, recurrence, angles, delta_rule] = recipe::operators_of_layer(request.model, layer);
  const double element = number(element_bytes(request.dtype)), wide = number(wide_bytes(request.dtype));
  if (attention.heads > 0) {
    const double of_each = request.tokens() * number(attention.heads);
    return {.output = of_each * number(attention.value_dim) * element, .log_sums = of_each * wide};
  }
  // Sums over whole documents, and fp64, whose recurrences are LibTorch's operations, are made again.
  if (request.recompute != recipe::Recompute::kTokens || request.dtype == recipe::Dtype::kFp64) return {};
  const auto of = [&](const auto& sizes, double states) {
    return MixerResultBytes{.output = request.tokens() * number(sizes.heads * sizes.value) * element,
                            .states = states};
  };
  if (delta_rule.heads > 0) return of(delta_rule, delta_rule_states(request, delta_rule));
  return recurrence.causal ? of(recurrence, recurrence_states(request, recurrence)) : MixerResultBytes{};
}

double product_row_bytes(const MemoryRequest& request, int64_t layer) {
  double elements = 0;
  for (const auto& weights : {mixer_weights(request, request.model.mixer(layer)),
                              channel_weights(request.model, request.model.channel_mixer(layer))}) {
    for (const ProductWeight& weight : weights)
      elements += product_rows(request, weight) * number(weight.out);
  }
  return elements * number(element_bytes(request.dtype));
}

double on_host_of(const MemoryRequest& request, double moved_bytes) {
  return request.host_memory > 0 ? std::min(moved_bytes, static_cast<double>(request.host_memory))
                                 : moved_bytes;
}

double moved_to_host_bytes(const MemoryRequest& request, int64_t layer, double hidden, double share) {
  return hidden + mixer_result_bytes(request, layer).total() + share * product_row_bytes(request, layer);
}

double norm_bytes(const MemoryRequest& request) {
  const double statistics = request.model.norm == recipe::Norm::kLayer ? 2 : 1;
  return 2 * hidden_bytes(request) + statistics * request.tokens() * number(wide_bytes(request.dtype));
}

double rotary_bytes(const MemoryRequest& request) {
  int64_t channels = 0, angles = 0;  // a table of each kind for all layers
  for (const recipe::Mixer mixer : recipe::mixers_used(request.model)) {
    const recipe::OperatorSizes sizes = recipe::entry_of(mixer).operators(request.model);
    channels = std::max(channels, sizes.attention.rotary_dim);
    angles = std::max(angles, 2 * sizes.angles);
  }
  return request.tokens() * number(channels + angles) * number(wide_bytes(request.dtype));
}

// The input of a Toeplitz encoding, once along each axis.
double embedding_bytes(const MemoryRequest& request) {
  const size_t axes = std::max<size_t>(1, recipe::grid_of(request.model).size());
  return request.model.toeplitz > 0 ? number(static_cast<int64_t>(axes)) * hidden_bytes(request) : 0;
}

BlockMemory mixer_memory(const MemoryRequest& request, int64_t layer) {
  const recipe::SequenceMixerEntry& entry = recipe::entry_of(request.model.mixer(layer));
  const auto [attention, recurrence, angles, delta_rule] = recipe::operators_of_layer(request.model, layer);
  recipe::BlockSizes sizes = sizes_of(request);
  sizes.states = recurrence_states(request, recurrence) + delta_rule_states(request, delta_rule);
  const bool first = layer == 0 && entry.of_first_layer.memory != nullptr;
  BlockMemory memory = (first ? entry.of_first_layer.memory : entry.memory)(request.model, sizes);
  memory.workspace =
      std::max({attention_workspace(request, attention), recurrence_workspace(request, recurrence),
                delta_rule_workspace(request, delta_rule)});
  with_passes(request, layer, /*mixer=*/true, 0, memory);
  return memory;
}

DecodingState decoding_state(const recipe::ModelConfig& model, recipe::Dtype dtype) {
  DecodingState state;
  const auto add = [&](const std::vector<recipe::MixerStateTensor>& tensors) {
    for (const recipe::MixerStateTensor& tensor : tensors) {
      const double bytes =
          number(tensor.elements() * (tensor.wide ? wide_bytes(dtype) : element_bytes(dtype)));
      (tensor.of_token ? state.bytes_per_token : state.bytes) += bytes;
    }
  };
  for (int64_t l = 0; l < model.layers; ++l) add(recipe::state_of_layer(model, l));
  add(recipe::toeplitz_state(model));
  return state;
}

// With [spikes] a channel mixer is two products with the activation between them: without gradients, what the
// activation reads exists as a whole. What is kept for the backward pass is what is kept without spikes,
// because inputs are counted again; there the gradient of the activation's result takes the place of that
// result, which the product behind it has given back.
static void with_spikes(const MemoryRequest& request, bool dense, BlockMemory& memory) {
  const recipe::ModelConfig& model = request.model;
  if (!model.spikes.wanted()) return;
  const int64_t width = dense ? model.dense_width() : model.experts_per_token * model.intermediate;
  const double inner = sizes_of(request).channels(width);
  memory.evaluation += (model.channel == recipe::Channel::kGelu ? 1 : 2) * inner;
}

BlockMemory channel_memory(const MemoryRequest& request, recipe::ChannelMixer mixer, int64_t layer) {
  BlockMemory memory = recipe::entry_of(mixer).memory(request.model, sizes_of(request));
  const bool dense = mixer == recipe::ChannelMixer::kDense;
  with_spikes(request, dense, memory);
  with_passes(request, layer, /*mixer=*/false,
              dense ? sizes_of(request).channels(request.model.dense_width()) : 0, memory);
  return memory;
}

}  // namespace longhaul::plan
