#include "plan/memory/memory_workspace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "plan/memory/memory_delta_rule.h"
#include "plan/memory/memory_gpu.h"
#include "plan/memory/memory_layers.h"

namespace longhaul::plan {
namespace {

// ---- products of linear layers (kernels/matmul)

// Elements of a matrix [k × n] packed as the second operand: panels of 16 columns, bf16 in pairs of rows and
// 32 columns.
double panel_elements(const MemoryRequest& request, double k, double n) {
  return (request.dtype == recipe::Dtype::kBf16 ? rounded_up(k, 32) : k) * rounded_up(n, 16);
}

// y [rows × n] = x [rows × k] B, for `groups` matrices B. halves: the same columns of gate and up at once.
// keeps: y is written.
struct Product {
  double rows, groups, k, n;
  bool halves = false, keeps = true;
};

// Cuts `total` into the fewest parts of at most `longest`, all alike and multiples of `multiple`.
double even_part(double total, double longest, double multiple) {
  return rounded_up(std::ceil(total / std::max(1.0, std::ceil(total / longest))), multiple);
}

struct ThreadScratch {
  double sums = 0, block = 0;  // fp32 sums of a block of bf16; a block that is not kept
  double threads = 1;          // that have them
};

// row_product.cpp: blocks_of and BlockRunner.
ThreadScratch scratch_of(const MemoryRequest& request, const Product& product) {
  const double threads = number(request.threads), e = number(element_bytes(request.dtype));
  const double cache = std::max(number(request.l2_bytes), 524288.0),
               n = product.halves ? product.n / 2 : product.n;
  double longest = 192,
         widest = std::clamp(std::floor(cache * 3 / 8 / (e * std::max(product.k, 1.0))), 256.0, 512.0);
  if (product.halves) widest = std::floor(widest / 2);
  const auto too_few = [&] {
    return (std::floor(product.rows / longest) + 1) * (std::floor(n / widest) + 1) < 3 * threads;
  };
  while (threads > 1 && too_few() && (widest > 64 || longest > 48)) {
    if (widest > 64)
      widest = std::floor(widest / 2);
    else
      longest = std::floor(longest / 2);
  }
  const double each = std::ceil(product.rows / product.groups);
  const double area = std::min(each, even_part(each, longest, 32)) * std::min(n, even_part(n, widest, 64));
  constexpr double kGrain = 1 << 18;
  return {.sums = request.dtype == recipe::Dtype::kBf16 ? 4 * area : 0,
          .block = product.keeps ? 0 : e * area * (product.halves ? 2 : 1),
          .threads = std::clamp(std::floor(product.rows * product.n * product.k / kGrain), 1.0, threads)};
}

// The memory of each kind of layer; where tensors are frozen, of each layer and its adapters.
std::vector<LayerProduct> all_layer_products(const MemoryRequest& request) {
  std::vector<LayerProduct> products;
  const recipe::ModelConfig& model = request.model;
  if (request.passes == nullptr) {
    for (const recipe::ChannelMixer mixer : model.channel_mixers_used()) {
      for (const ProductWeight& weight : channel_weights(model, mixer)) products.push_back({weight});
    }
    for (const recipe::Mixer mixer : recipe::mixers_used(model)) {
      for (const ProductWeight& weight : mixer_weights(request, mixer)) products.push_back({weight});
    }
    return products;
  }
  for (int64_t l = 0; l < model.layers; ++l) {
    const int64_t number = number_of_layer(request, l);
    for (const auto& list :
         {channel_weights(model, model.channel_mixer(l)), mixer_weights(request, model.mixer(l))}) {
      for (const ProductWeight& weight : list)
        std::ranges::move(with_adapters(request, number, weight), std::back_inserter(products));
    }
  }
  return products;
}

ThreadScratch row_product_scratch(const MemoryRequest& request) {
  ThreadScratch most;
  const auto add = [&](const Product& product) {
    const ThreadScratch own = scratch_of(request, product);
    most = {std::max(most.sums, own.sums), std::max(most.block, own.block),
            std::max(most.threads, own.threads)};
  };
  for (const auto& [weight, passes] : all_layer_products(request)) {
    const double rows = product_rows(request, weight), groups = number(weight.count),
                 out = number(weight.out), in = number(weight.in);
    const bool up = weight.role == ProductRole::kUp,
               swiglu = request.model.channel == recipe::Channel::kSwiglu;
    add({rows, groups, in, out, up && swiglu});
    const bool backward = passes.input_gradient || passes.own_gradient;
    if (up && (request.evaluates || !backward)) add({rows, groups, in, out, swiglu, false});
    if (passes.input_gradient) add({rows, groups, out, in, false, weight.role != ProductRole::kDown});
  }
  return most;
}

// weight_gradient.cpp: copies of dy and x of up to 4,096 rows, packed for all threads.
double weight_gradient_scratch(const MemoryRequest& request) {
  const double e = number(element_bytes(request.dtype));
  double dy = 0, x = 0;
  for (const auto& [weight, passes] : all_layer_products(request)) {
    if (!passes.own_gradient) continue;
    const double rows = std::min(4096.0, product_rows(request, weight));
    // half a rounding each
    const double ends =
        weight.count > 1 && request.dtype == recipe::Dtype::kBf16 ? 16 * number(weight.count) : 0;
    dy = std::max(dy, e * rows * number(weight.out));
    x = std::max(x, e * panel_elements(request, rows + ends, number(weight.in)));
  }
  return dy + x;
}

// ---- attention (kernels/attention/cpu_backward.cpp)

constexpr double kQueryTile = 64, kKeyBlock = 128, kPieceKeys = 2048;

double keys_of_a_piece(const recipe::AttentionSizes& sizes, const Documents& documents) {
  const double share = std::ceil(32 / (documents.count * number(sizes.kv_heads)));
  const double ranges = std::clamp(std::min(share, std::floor(documents.length / 512)), 1.0, 8.0);
  return std::min(kPieceKeys,
                  std::max(kKeyBlock, rounded_up(std::ceil(documents.length / ranges), kKeyBlock)));
}

double attention_buffer(const MemoryRequest& request, const recipe::AttentionSizes& sizes) {
  const double e = number(element_bytes(request.dtype)), d = number(sizes.head_dim),
               v = number(sizes.value_dim);
  const double keys = std::min(keys_of_a_piece(sizes, documents_of(request)), request.tokens());
  const double of_keys = keys * (e * (2 * d + v) + 4 * (d + v)),
               of_tiles = 8 * kQueryTile * (2 * e * (d + v) + 4 * d);
  return of_keys + of_tiles + kKeyBlock * kQueryTile * (2 * 4 + 3 * e);
}

// A kv head's piece of keys is the smallest work of a thread.
ThreadBuffer attention_backward_buffer(const MemoryRequest& request, const recipe::AttentionSizes& sizes) {
  const Documents documents = documents_of(request);
  const double pieces = documents.count * number(sizes.kv_heads) *
                        std::ceil(documents.length / keys_of_a_piece(sizes, documents));
  return {std::min(number(request.threads), pieces), attention_buffer(request, sizes)};
}

// For a kv head, a few tiles of queries with all the heads that share it.
ThreadBuffer attention_forward_buffer(const MemoryRequest& request, const recipe::AttentionSizes& sizes) {
  const double e = number(element_bytes(request.dtype)), d = number(sizes.head_dim),
               v = number(sizes.value_dim);
  const double threads = number(request.threads);
  const double group = number(sizes.heads / std::max<int64_t>(1, sizes.kv_heads));
  const Documents documents = documents_of(request);
  const double all = documents.count * number(sizes.kv_heads) * std::ceil(documents.length / kQueryTile);
  const double tiles = std::max(1.0, std::min(std::floor(16 / group), std::ceil(all / threads)));
  const double queries = group * tiles * (kQueryTile * e * d + 4 * kQueryTile * v + 8 * kQueryTile);
  return {std::min(threads, std::ceil(all / tiles)),
          queries + kKeyBlock * kQueryTile * (4 + e) + kKeyBlock * e * (d + v) + 4 * std::max(d, v)};
}

// ---- the loss (kernels/linear_cross_entropy/cpu.cpp)

constexpr double kHeadChunk = 256, kLossTokens = 512;

// Tokens are shared among threads, then blocks of the vocabulary. A head that does not train has no second
// part, and a block's terms die with the block.
std::array<ThreadBuffer, 2> loss_buffers(const MemoryRequest& request) {
  const double e = number(element_bytes(request.dtype)), tokens = std::min(kLossTokens, request.tokens()),
               threads = number(request.threads);
  const double rows = std::min(kHeadChunk, request.tokens());
  const bool trains = passes_of_head(request).own_gradient;
  return {{{std::min(threads, std::ceil(tokens / kHeadChunk)),
            rows * ((kHeadChunk + number(request.model.hidden)) * 4 + (trains ? 0 : kHeadChunk * e))},
           {trains ? std::min(threads, std::ceil(number(request.model.vocabulary) / kHeadChunk)) : 0,
            kHeadChunk * tokens * e}}};
}

// ---- the recurrence (kernels/linear_recurrence: plan.cpp, cpu_walk.h, cpu_worker.cpp)

struct Recurrence {
  Recurrence(const MemoryRequest& request, const recipe::RecurrenceSizes& sizes)
      : documents(documents_of(request)),
        heads(number(sizes.heads)),
        key(number(sizes.key)),
        value(number(sizes.value)),
        gated(sizes.gated),
        area(key * value),
        block(area <= 4096 && request.products_per_second < 3e11 ? 32 : 64),
        segments(documents.count * std::ceil(documents.length / (8 * block))),
        slots(segments - documents.count),
        blocks(documents.count * std::ceil(documents.length / block)) {}

  enum class Execution { kFused, kSegmented, kTwoPass };
  Execution execution(const MemoryRequest& request) const {
    const double flops = request.products_per_second, tokens = documents.count * documents.length * heads;
    const double write = 2 * area / flops,
                 read = (2 * block * (key + value) * 0.75 + 4 * area) / flops - write,
                 keep = 8 * area / block / 1e10;
    const double share = tokens / number(request.threads),
                 shared = std::max(share, std::min(documents.length, 8 * block));
    const double fused = std::max(share, documents.length) * (read + write),
                 segmented = shared * (read + 2 * write), two_pass = shared * (read + write + keep);
    if (slots == 0 || fused <= std::min(segmented, two_pass)) return Execution::kFused;
    return two_pass < segmented && 4 * blocks * heads * area <= 512.0 * (1 << 20) ? Execution::kTwoPass
                                                                                  : Execution::kSegmented;
  }

  // For one thread in the backward pass.
  double worker_bytes(const MemoryRequest& request) const {
    const double e = number(element_bytes(request.dtype)), square = block * block,
                 wide = std::max(key, value);
    const double of_keys = block * key, of_values = block * value;
    const double panels = e * (panel_elements(request, key, value) + panel_elements(request, value, key));
    const double tokens = 2 * e * std::ceil(block / 32) *
                          (panel_elements(request, 32, key) + panel_elements(request, 32, value));
    const double fp32 = 4 * (2 * area + 2 * key + 4 * block + 2 * square + 2 * block * wide + 8 * area +
                             2 * square + 2 * std::max(block, key) + 2 * block);
    const double element =
        e * (area + of_keys + 8 * (of_keys + of_values) + 3 * of_keys + 3 * square + of_values);
    // With a gate for each channel: λ, logits, four sums; instead of kept keys a block's own, and both sides
    // of its halves, level by level.
    const double levels = 1 + std::log2(block / 16);
    const double of_gate = gated ? 4 * 6 * of_keys + e * (of_keys + 2 * levels * of_keys - 8 * of_keys) : 0;
    return fp32 + element + of_gate +
           e * std::max(panel_elements(request, wide, block), panel_elements(request, block, wide)) + panels +
           tokens;
  }

  double workers(const MemoryRequest& request) const {
    const double threads = number(request.threads);
    double together = heads;  // heads that one thread walks through a document
    while (together > 1 && (std::fmod(heads, together) != 0 || std::fmod(heads / together, threads) != 0))
      --together;
    const double items =
        execution(request) == Execution::kFused ? documents.count * heads / together : segments * heads;
    const double worth = std::floor(request.tokens() * heads * 4 * area / 1e6);
    return std::clamp(worth, 1.0, std::min(threads, items));
  }

  Documents documents;
  double heads, key, value;
  bool gated;
  double area, block, segments, slots, blocks;
};

// ---- one sum over a document (kernels/bidirectional/cpu.cpp)

ThreadBuffer set_buffer(const MemoryRequest& request, const recipe::RecurrenceSizes& sizes) {
  constexpr double kTokens = 256;
  const double e = number(element_bytes(request.dtype)), key = number(sizes.key), value = number(sizes.value),
               wide = std::max(key, value);
  const double panels = std::max(panel_elements(request, key, value), panel_elements(request, value, key));
  return {std::min(number(request.threads), documents_of(request).count * number(sizes.heads)),
          e * (kTokens * wide + panel_elements(request, kTokens, wide) + key * value + panels) +
              4 * kTokens * wide};
}

ProductRole product_role(recipe::Role role) {
  using enum recipe::Role;
  if (role == kChannelGate || role == kChannelUp || role == kExpertGate || role == kExpertUp)
    return ProductRole::kUp;
  return role == kChannelDown || role == kExpertDown ? ProductRole::kDown : ProductRole::kPlain;
}

// The router's product is made in fp32, from the weight itself. apart: a weight next to others that all ranks
// share has a product of its own if it is grouped.
std::vector<ProductWeight> products_of(const recipe::ModelConfig& model,
                                       const std::vector<recipe::MixerTensor>& tensors, bool apart) {
  std::vector<ProductWeight> products;
  bool beside_grouped = false;
  for (const recipe::MixerTensor& tensor : tensors) {
    const bool joins = tensor.beside && !(apart && tensor.grouped != beside_grouped);
    beside_grouped = tensor.grouped;
    if (!tensor.matrix() || tensor.role == recipe::Role::kRouter ||
        tensor.role == recipe::Role::kConvolution || tensor.role == recipe::Role::kCoefficient)
      continue;
    if (joins) {
      products.back().out += tensor.out;
      products.back().parts.push_back({tensor.name, tensor.out});
    } else {
      products.push_back({tensor.out,
                          tensor.in,
                          tensor.of_expert ? model.experts : 1,
                          product_role(tensor.role),
                          {{tensor.name, tensor.out}},
                          tensor.of_expert});
    }
  }
  return products;
}

}  // namespace

double product_rows(const MemoryRequest& request, const ProductWeight& weight) {
  return request.tokens() * (weight.count > 1 ? number(request.model.experts_per_token) : 1);
}

std::vector<ProductWeight> mixer_weights(const MemoryRequest& request, recipe::Mixer mixer) {
  return products_of(request.model, recipe::entry_of(mixer).tensors(request.model), request.keys_apart);
}

std::vector<ProductWeight> channel_weights(const recipe::ModelConfig& model, recipe::ChannelMixer mixer) {
  return products_of(model, recipe::entry_of(mixer).tensors(model), /*apart=*/false);
}

bool packs(const MemoryRequest& request) { return !request.on_gpu && request.dtype != recipe::Dtype::kFp64; }

double packed_weight_bytes(const MemoryRequest& request, const ProductWeight& weight,
                           const layout::TensorPasses& passes) {
  const double out = number(weight.out), in = number(weight.in);
  return number(element_bytes(request.dtype)) * number(weight.count) *
         (panel_elements(request, in, out) + (passes.input_gradient ? panel_elements(request, out, in) : 0));
}

double packed_product_bytes(const MemoryRequest& request, int64_t layer, const ProductWeight& weight) {
  double sum = 0;
  for (const auto& [each, passes] : with_adapters(request, layer, weight))
    sum += packed_weight_bytes(request, each, passes);
  return sum;
}

double kept_by_threads(const MemoryRequest& request) {
  if (!packs(request)) return 0;
  const ThreadScratch scratch = row_product_scratch(request);
  return scratch.threads * (scratch.sums + scratch.block) + weight_gradient_scratch(request);
}

double buffers_of_threads(const MemoryRequest& request, bool loss) {
  if (!packs(request)) return 0;
  std::vector<ThreadBuffer> buffers;
  if (loss) {
    for (const ThreadBuffer& buffer : loss_buffers(request)) buffers.push_back(buffer);
  }
  for (const recipe::Mixer mixer : recipe::mixers_used(request.model)) {
    const recipe::OperatorSizes sizes = recipe::entry_of(mixer).operators(request.model);
    if (own_delta_rule(request, sizes.delta_rule))
      buffers.push_back(delta_rule_buffer(request, sizes.delta_rule));
    if (sizes.recurrence.heads > 0 && !sizes.recurrence.causal)
      buffers.push_back(set_buffer(request, sizes.recurrence));
    if (sizes.attention.heads == 0) continue;
    buffers.push_back(attention_forward_buffer(request, sizes.attention));
    if (goes_back_through(request, mixer))
      buffers.push_back(attention_backward_buffer(request, sizes.attention));
  }
  // Each thread keeps the largest that it ever needed; the first ones get the work where there is little.
  std::sort(buffers.begin(), buffers.end(),
            [](const ThreadBuffer& a, const ThreadBuffer& b) { return a.bytes > b.bytes; });
  double sum = 0, threads = 0;
  for (const ThreadBuffer& buffer : buffers) {
    sum += std::max(0.0, buffer.threads - threads) * buffer.bytes;
    threads = std::max(threads, buffer.threads);
  }
  return sum;
}

double loss_workspace(const MemoryRequest& request) {
  if (by_gpu_kernels(request)) return gpu_loss_workspace(request);
  const double tokens = std::min(kLossTokens, request.tokens()),
               vocabulary = number(request.model.vocabulary);
  const double e = number(element_bytes(request.dtype)), wide = number(wide_bytes(request.dtype));
  if (!packs(request)) return tokens * vocabulary * (3 * wide + e);
  if (!passes_of_head(request).own_gradient) return 0;
  const double blocks = std::ceil(vocabulary / kHeadChunk);
  return blocks * tokens * (e * kHeadChunk + 4) + 12 * tokens +
         e * panel_elements(request, kLossTokens, number(request.model.hidden));
}

double attention_workspace(const MemoryRequest& request, const recipe::AttentionSizes& sizes) {
  if (by_gpu_kernels(request)) return gpu_attention_workspace(request, sizes);
  if (!packs(request) || sizes.heads == 0) return 0;
  const Documents documents = documents_of(request);
  // The owner of the keys writes the queries' gradients.
  if (documents.length <= keys_of_a_piece(sizes, documents)) return 0;
  constexpr double kBudget = 256.0 * (1 << 20);
  const double tiles = std::ceil(documents.length / kQueryTile),
               of_tile = 4 * kQueryTile * number(sizes.head_dim);
  const double all = of_tile * tiles * number(sizes.heads) * documents.count;
  const double one_head = of_tile * tiles * number(sizes.heads / std::max<int64_t>(1, sizes.kv_heads));
  return std::min(all, std::max(kBudget, one_head));
}

double recurrence_states(const MemoryRequest& request, const recipe::RecurrenceSizes& sizes) {
  if (sizes.heads == 0) return 0;
  if (!sizes.causal)
    return number(wide_bytes(request.dtype)) * documents_of(request).count *
           number(sizes.heads * sizes.key * sizes.value);
  const Recurrence recurrence(request, sizes);
  return number(wide_bytes(request.dtype)) * recurrence.slots * recurrence.heads * recurrence.area;
}

double recurrence_workspace(const MemoryRequest& request, const recipe::RecurrenceSizes& sizes) {
  // One sum per document needs what its threads keep.
  if (!packs(request) || sizes.heads == 0 || !sizes.causal) return 0;
  const Recurrence recurrence(request, sizes);
  const auto execution = recurrence.execution(request);
  const double workers = recurrence.workers(request) * recurrence.worker_bytes(request);
  if (execution == Recurrence::Execution::kFused) return workers;
  const double between = 4 * recurrence.slots * recurrence.heads * (recurrence.area + recurrence.key);
  return workers + between +
         (execution == Recurrence::Execution::kTwoPass
              ? 4 * recurrence.blocks * recurrence.heads * recurrence.area
              : 0);
}

}  // namespace longhaul::plan
