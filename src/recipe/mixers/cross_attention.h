// The tensors of softmax attention to a memory: a second sequence, of another length and, if need be, of
// another width (cross-attention, arXiv 1706.03762 §3.2.3). The options are those of softmax layers
// (recipe/mixers/softmax.h). No layer of a decoder has it: a task lists the tensors and makes the module,
// model/mixers/cross_attention.h.
#pragma once

#include <vector>

#include "recipe/mixers.h"

namespace longhaul::recipe {

// memory_hidden: the channels of a row of the memory, of which keys and values are made.
std::vector<MixerTensor> cross_attention_tensors(const ModelConfig& model, int64_t memory_hidden);

}  // namespace longhaul::recipe
