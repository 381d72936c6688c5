// Work: the computation and memory of a model, summed over its layers once so that a search can use it
// thousands of times: matrix products, attention, recurrences, elements that pass through memory, parameters,
// activations. FLOPs are counted as in flops.h, for a forward pass.
#pragma once

#include <vector>

#include "layout/methods/method.h"
#include "plan/flops.h"
#include "plan/memory/memory.h"
#include "recipe/recipe.h"

namespace longhaul::plan {

// GroupedHeads: the part of the mean layer that belongs to heads of which tensor ranks hold copies when there
// are more ranks than heads.
struct GroupedHeads {
  int64_t heads = 0;
  double parameters = 0, products = 0;  // of dense_parameters, of dense_products
  double kept_bytes = 0;                // of Work::kept_bytes
};

struct Work {
  double layers = 0, hidden = 0, vocabulary = 0;
  double sequence = 0;
  double head_rows = 0;  // vocabulary · hidden, the product of the head
  // For the mean layer. A model with different layers is divided by time, so that the mean counts.
  double dense_parameters = 0, expert_parameters = 0;  // matrices and all other trained parameters
  double dense_products = 0, expert_products = 0;      // parameters in products that a token uses
  double experts = 0, experts_per_token = 0;
  // Heads · (key + value channels of a head) / 2, for the mean layer: half if every second layer is softmax.
  double attention_channels = 0;
  double key_value_channels = 0;  // kv_heads · (key + value channels), for the mean layer
  // For the mean layer, the states that context ranks exchange of one piece of a row, in bytes (fp32): those
  // that travel as parallel.linear_context says, delta rules', which all ranks gather whatever it says
  // (parallel/context/context_delta_rule.h), and those of whole documents, which ranks sum.
  double state_bytes = 0, delta_state_bytes = 0, summed_state_bytes = 0;
  double recurrence_products = 0;  // heads · key · value
  // Of recurrences and delta rules: query, key, value and result channels, for the mean layer.
  double linear_channels = 0;
  bool causal = true;  // for attention; else every token sees all keys
  double embedding_parameters = 0, head_parameters = 0;
  // Bytes per token and mean layer, in bf16: what is kept for the backward pass, how much of that is cheap to
  // compute again, the layer's input, attention's result, and a recurrence's with its states.
  double kept_bytes = 0, cheap_bytes = 0, input_bytes = 0, attention_bytes = 0, recurrence_bytes = 0;
  double row_bytes = 0;  // likewise, of the results of products (train.offload = host)
  double attention_heads = 0;
  // Per token and mean layer, read and written by the channel mixer's activation, in bf16.
  double activation_bytes = 0;
  double dispatch_bytes = 0;  // the same for rows that are sent to experts and gathered again
  int64_t heads = 0, kv_heads = 0, expert_count = 0;
  int64_t linear_heads = 0;  // what divides those of every linear layer; 0: there is none
  bool parallel_block = false;
  bool judges_batch = false;          // ModelConfig::shares_batch
  TokenFlops flops;                   // per token, forward and backward
  std::vector<GroupedHeads> grouped;  // one for each number of heads
  // The part of the mean layer on one of tp tensor ranks.
  double dense_parameters_of(int64_t tp) const;
  double dense_products_of(int64_t tp) const;
  layout::SharedWork shared_work(int64_t batch) const;  // what ranks divide, of a step of so many sequences
  // Bytes per token that wait for the backward pass.
  double kept_of(recipe::Recompute recompute, int64_t tp) const;
};

Work work_of(const recipe::ModelConfig& model, int64_t sequence);

}  // namespace longhaul::plan
