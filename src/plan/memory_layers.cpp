#include "plan/memory_layers.h"

#include <algorithm>

#include "plan/memory_workspace.h"

namespace longhaul::plan {
namespace {

// Sizes in bytes of what stands in the formulas. t: tokens.
struct Sizes {
  explicit Sizes(const MemoryRequest& request)
      : t(request.tokens()),
        e(number(element_bytes(request.dtype))),
        wide(number(wide_bytes(request.dtype))),
        hidden(hidden_bytes(request)),
        inner(t * number(request.model.heads * request.model.head_dim) * e),
        width(t * number(request.model.intermediate) * e) {}
  double t, e, wide;
  double hidden, inner, width;  // [tokens, hidden], [tokens, heads · head_dim], [tokens, intermediate]
};

// The partial sums of a norm's weight gradient (kernels/vector/row_blocks.h).
double norm_sums(const MemoryRequest& request, double channels) {
  return std::min(128.0, request.tokens() / 8) * channels * number(wide_bytes(request.dtype));
}

BlockMemory softmax_memory(const MemoryRequest& request) {
  const Sizes size(request);
  const recipe::ModelConfig& model = request.model;
  const double qkv = size.t * number((model.heads + 2 * model.kv_heads) * model.head_dim) * size.e;
  const double log_sums = size.t * number(model.heads) * size.wide;
  return {.kept = qkv + size.inner + log_sums,
          .backward = size.hidden + size.inner + qkv,  // of the residual, o, and q, k, v
          .workspace = attention_workspace(request),
          .evaluation = qkv + size.inner + log_sums + 3 * size.hidden};  // residual, input, output
}

BlockMemory lightning_memory(const MemoryRequest& request) {
  const Sizes size(request);
  const double d = number(request.model.head_dim), states = recurrence_states(request);
  const double ends = request.documents_at_once() * number(request.model.heads) * d * d * size.wide;  // a state a document
  // Before and after silu 3 each; o, gate, gated norm 1 each.
  const double kept = 9 * size.inner + states + size.t * size.wide;
  // The norm: d y, d o, d gate, while y is gone. Then the recurrence, with o, gate and y gone: d o, d q, k, v, and what the gate left for the
  // block's input.
  const double norm = 2 * size.inner + norm_sums(request, number(request.model.heads) * d);
  const double recurrence = size.inner + size.hidden + ends;
  return {.kept = kept,
          .backward = size.hidden + std::max(norm, recurrence),
          .workspace = recurrence_workspace(request),
          .evaluation = std::max(6 * size.inner, 6 * size.inner + ends) + 3 * size.hidden};
}

BlockMemory dense_memory(const MemoryRequest& request) {
  const Sizes size(request);
  const double z = request.model.channel == recipe::Channel::kSwiglu ? 2 * size.width : size.width;
  // Where the residual and the branch have one factor, one tensor is the gradient of both.
  const bool two = request.model.wiring == recipe::Wiring::kPostNorm && request.model.residual_alpha() != request.model.beta;
  return {.kept = z + size.width, .backward = (two ? 3 : 2) * size.hidden + z, .evaluation = size.width + 5 * size.hidden};
}

BlockMemory experts_memory(const MemoryRequest& request) {
  const Sizes size(request);
  const double k = number(request.model.experts_per_token), experts = number(request.model.experts);
  const double rows = k * size.hidden, z = 2 * k * size.width, a = k * size.width;
  // Probabilities and log-sums, weights, choices and places in the experts' order.
  const double routing = size.t * (experts + 1 + k) * size.wide + size.t * k * (8 + 8);
  return {.kept = routing + 2 * rows + z + a,
          // Of the residual, z, the experts' input and weights; the gradient of their output has taken the output's place.
          .backward = size.hidden + z + rows + size.t * k * size.wide,
          .evaluation = routing + size.t * k * 8 + 2 * rows + a + 5 * size.hidden};
}

}  // namespace

int64_t element_bytes(recipe::Dtype dtype) { return dtype == recipe::Dtype::kBf16 ? 2 : dtype == recipe::Dtype::kFp32 ? 4 : 8; }
int64_t wide_bytes(recipe::Dtype dtype) { return dtype == recipe::Dtype::kFp64 ? 8 : 4; }

double hidden_bytes(const MemoryRequest& request) {
  return request.tokens() * number(request.model.hidden) * number(element_bytes(request.dtype));
}

double norm_bytes(const MemoryRequest& request) {
  const double statistics = request.model.norm == recipe::Norm::kLayer ? 2 : 1;
  return 2 * hidden_bytes(request) + statistics * request.tokens() * number(wide_bytes(request.dtype));
}

double rotary_bytes(const MemoryRequest& request) {
  const recipe::ModelConfig& model = request.model;
  const auto used = mixers_used(model);
  const bool rotates = model.position == recipe::Position::kRotary && model.rotary_dim > 0 &&
                       std::find(used.begin(), used.end(), recipe::Mixer::kSoftmax) != used.end();
  return rotates ? request.tokens() * number(model.rotary_dim) * number(wide_bytes(request.dtype)) : 0;
}

BlockMemory mixer_memory(const MemoryRequest& request, recipe::Mixer mixer) {
  return mixer == recipe::Mixer::kLightning ? lightning_memory(request) : softmax_memory(request);
}

BlockMemory channel_memory(const MemoryRequest& request) {
  return request.model.experts > 0 ? experts_memory(request) : dense_memory(request);
}

}  // namespace longhaul::plan
