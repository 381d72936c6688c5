#include "plan/memory/memory_share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "layout/expert_spread.h"
#include "layout/head_groups.h"
#include "layout/sequence_view.h"
#include "plan/memory/memory_layers.h"

namespace longhaul::plan {
namespace {

using layout::Axis;

// Beyond this the distribution of documents over context ranks is taken as even.
constexpr int64_t kMostTokensSeen = int64_t{1} << 24;

// The model as if a rank's part of it were the whole; layers and hidden channels are the whole model's.
recipe::ModelConfig shared_model(recipe::ModelConfig model, const layout::Mesh& mesh) {
  const int64_t tp = mesh.size(Axis::kTp), ep = mesh.size(Axis::kEp), etp = mesh.size(Axis::kEtp);
  model.heads = largest_share(model.heads, tp);
  for (int64_t* const heads : {&model.softmax.kv_heads, &model.gated_deltanet.heads,
                               &model.gated_deltanet.key_heads, &model.gla.key_heads}) {
    if (*heads > 0) *heads = largest_share(*heads, tp);
  }
  model.dense_intermediate = largest_share(model.dense_width(), tp);
  model.shared_intermediate =
      largest_share(model.shared_intermediate > 0 ? model.shared_intermediate : model.intermediate, tp);
  model.intermediate = largest_share(model.intermediate, model.experts > 0 ? etp : tp);
  model.experts = largest_share(model.experts, ep);
  model.vocabulary = largest_share(model.vocabulary, tp);
  return model;
}

// Whether there are more sharing ranks than heads that each serve a group, so that ranks hold copies of
// these.
bool copies_heads(const recipe::ModelConfig& model, int64_t tp) {
  for (const recipe::Mixer mixer : recipe::mixers_used(model)) {
    for (const recipe::MixerTensor& tensor : recipe::entry_of(mixer).tensors(model)) {
      if (tensor.grouped && tensor.heads < tp) return true;
    }
  }
  return false;
}

OwnTokens own_tokens(const MemoryRequest& request, const RankRequest& rank) {
  const layout::Mesh& mesh = rank.place.mesh;
  const int64_t cp = mesh.size(Axis::kCp);
  OwnTokens own{.tokens = largest_share(whole_bytes(request.tokens()), cp),
                .segments = whole_bytes(request.documents_at_once())};
  own.all = request.tokens();
  if (cp == 1) return own;
  own.pieces = rank.context.split == recipe::ContextSplit::kZigzag ? 2 : 1;
  if (request.tokens() > static_cast<double>(kMostTokensSeen)) return own;
  const int64_t documents = own.segments, tokens = whole_bytes(request.tokens());
  std::vector<int64_t> lengths;
  for (int64_t d = 0; d < documents; ++d) lengths.push_back(layout::even_part(tokens, documents, d).length);
  const layout::SequenceView view(
      layout::make_packed(lengths),
      {.context_ranks = cp, .context_rank = rank.place.coordinate(Axis::kCp), .split = rank.context.split});
  own.tokens = view.tokens();
  own.segments = std::ssize(view.segments);
  if (rank.context.split == recipe::ContextSplit::kStriped)  // a document is one run of its stripe
    own.segments = std::min(documents, own.tokens);
  return own;
}

}  // namespace

RankShare::RankShare(const MemoryRequest& request, const RankRequest& ranked)
    : whole(request),
      rank(ranked),
      mesh(ranked.place.mesh),
      own(own_tokens(request, ranked)),
      local(request),
      tp(mesh.size(Axis::kTp)),
      cp(mesh.size(Axis::kCp)) {
  local.model = shared_model(request.model, mesh);
  local.keys_apart = copies_heads(request.model, tp);
  local.micro_batch = 1;
  local.sequence = own.tokens;
  local.documents = std::max<int64_t>(1, own.segments);
  local.batch =
      std::max<int64_t>(1, request.batch / std::max<int64_t>(1, request.micro_batch) / mesh.size(Axis::kDp));
  hidden = hidden_bytes(local);
  between = hidden / number(tp);
  element = number(element_bytes(request.dtype)), wide = number(wide_bytes(request.dtype));
}

double RankShare::channels(int64_t count) const { return local.tokens() * number(count) * element; }

double RankShare::keys_and_values(const recipe::AttentionSizes& sizes) const {
  return channels(sizes.kv_heads * (sizes.head_dim + sizes.value_dim));
}

// The norm before a block, whose output may be joined with another rank's tokens.
double RankShare::norm(bool gathered) const {
  const double output = whole.recompute == recipe::Recompute::kSelective && !(gathered && tp > 1) ? 0
                        : gathered                                                                ? hidden
                                                                                                  : between;
  return between + output + norm_statistics();
}

double RankShare::norm_statistics() const {
  return (whole.model.norm == recipe::Norm::kLayer ? 2 : 1) * local.tokens() / number(tp) * wide;
}

// The last norm, whose output is not recomputed.
double RankShare::last_norm() const { return between + (tp > 1 ? hidden : between) + norm_statistics(); }

BlockShare RankShare::mixer(int64_t layer) const {
  const recipe::BlockMemory memory = mixer_memory(local, layer);
  BlockShare block = chosen(memory);
  const recipe::OperatorSizes sizes = recipe::operators_of_layer(local.model, layer);
  block.postponed = products_of_weights(mixer_weights(local, local.model.mixer(layer)), local.tokens());
  block.stays = small(local.tokens() * number(sizes.attention.heads) * wide) +
                small(recurrence_states(local, sizes.recurrence)) +
                (local.model.mixer(layer) == recipe::Mixer::kLightning ? small(local.tokens() * wide) : 0);
  if (tp > 1) {
    // The residual's gradient is for own tokens; that of the gathered input does not exist yet during the
    // operator's backward pass. Before it exists the gathered gradient of the block's output, with that of
    // the operator's.
    block.backward += between - hidden;
    if (sizes.attention.heads > 0)
      block.backward = std::max(
          block.backward, between + hidden + channels(sizes.attention.heads * sizes.attention.value_dim));
    block.backward += norm_over_ranks(layer, sizes, block);
  }
  if (cp > 1 && sizes.attention.heads > 0) context(sizes.attention, block);
  if (deals_out_linear_heads() && recipe::linear_heads(sizes) > 0) {
    linear_heads(sizes, block);
  } else if (cp > 1 && sizes.recurrence.heads > 0) {
    // Gradients of q, k, v of all pieces, in addition to those of one. For sums over whole documents, a piece
    // and its results in their precision.
    block.kept += entering_states(layer);
    block.backward += 3 * channels(sizes.recurrence.heads * sizes.recurrence.key) / number(own.pieces) *
                      (sizes.recurrence.causal ? 1 : wide / element);
  }
  return block;
}

double RankShare::entering_states(int64_t layer) const {
  const recipe::RecurrenceSizes sizes = recipe::operators_of_layer(local.model, layer).recurrence;
  return cp > 1 && sizes.causal && !deals_out_linear_heads()
             ? number(own.pieces * sizes.heads * sizes.key * sizes.value) * wide
             : 0;
}

// A norm over channels of several ranks is computed by ATen in the precision of sums: the rows, normalised,
// times weights, and a gate's sigmoid. Returns what its backward pass needs in addition.
double RankShare::norm_over_ranks(int64_t layer, const recipe::OperatorSizes& sizes,
                                  BlockShare& block) const {
  if (local.model.mixer(layer) != recipe::Mixer::kLightning) return 0;
  const double inner = local.tokens() * number(sizes.recurrence.heads * sizes.recurrence.value);
  // Its result is not recomputed; and the gathered values are there.
  if (whole.recompute == recipe::Recompute::kSelective) {
    block.kept += inner * element;
    block.backward -= hidden;
  }
  const double fused = 2 * inner * element,
               here = (element < wide ? 4 : 3) * inner * wide + (element < wide ? 0 : inner * element);
  block.kept += here - fused;
  block.stays += here;  // what LibTorch's own operators keep is not offloaded
  return 2 * inner * wide;
}

// Ranks around which keys and values travel, where neighbours share the heads
// (parallel/context/context_attention.cpp).
double RankShare::members_of_ring(int64_t kv_heads) const {
  using enum recipe::ContextMethod;
  const recipe::ContextMethod method = rank.context.softmax;
  return number(method == kRing ? cp : method == kTwoLevel ? cp / std::gcd(cp, kv_heads) : 1);
}

// The ranks among them that have parts of the same document. Runs from both ends of the row, and
// stripes, meet all.
double RankShare::members_that_see(double members) const {
  if (members == 1 || rank.context.split != recipe::ContextSplit::kContiguous) return members;
  const double of_document = members / std::max(1.0, whole.documents_at_once());
  return std::min(members,
                  std::floor(of_document) == of_document ? of_document : std::floor(of_document) + 2);
}

void RankShare::context(const recipe::AttentionSizes& sizes, BlockShare& block) const {
  const double q = channels(sizes.heads * sizes.head_dim), o = channels(sizes.heads * sizes.value_dim),
               kv = keys_and_values(sizes);
  if (rank.context.softmax != recipe::ContextMethod::kAllGather) {
    // Queries, keys and values in the order of the ring, or of heads, in place of the own ones; results in
    // both orders.
    block.kept += o;
    block.backward += q + o + kv;
    const double ranks = members_that_see(members_of_ring(sizes.kv_heads)), wider = wide / element;
    if (ranks == 1) return;
    // The gradients of results and of queries; visiting keys and values, arriving and leaving; gradients of
    // the own ones, of the visiting ones (those that came with them), and those that leave. How many of them
    // exist at once depends on which rank is late.
    const double visiting = std::min(ranks - 1, 3.0), gradients = std::min(2 * ranks, 5.5);
    block.backward = std::max(block.backward, between + wider * q + visiting * kv + gradients * wider * kv);
    return;
  }
  // For some key heads at a time: keys and values of the whole row as received and in its order, while the
  // next ones arrive; their gradients in the precision of sums, twice; and those of the queries.
  const double of_group = own.all * number(sizes.kv_heads * (sizes.head_dim + sizes.value_dim)) /
                          number(layout::key_head_groups(sizes.kv_heads));
  block.backward += of_group * 2 * (element + wide) + q / element * wide;
}

// Queries, keys and values of the own heads in place of those of own tokens; results in both orders.
void RankShare::linear_heads(const recipe::OperatorSizes& sizes, BlockShare& block) const {
  const recipe::RecurrenceSizes& recurrence = sizes.recurrence;
  const recipe::DeltaRuleSizes& delta_rule = sizes.delta_rule;
  const double keys = channels(recurrence.heads * recurrence.key + delta_rule.key_heads * delta_rule.key),
               values = channels(recurrence.heads * recurrence.value + delta_rule.heads * delta_rule.value);
  block.kept += values;
  block.backward += 2 * keys + 2 * values;
}

BlockShare RankShare::channel(int64_t layer) const {
  const recipe::ChannelMixer kind = whole.model.channel_mixer(layer);
  if (kind != recipe::ChannelMixer::kExperts) {
    BlockShare block = chosen(channel_memory(local, kind, layer));
    block.postponed = products_of_weights(channel_weights(local.model, kind), local.tokens());
    // it was gathered
    if (tp > 1) block.backward += between - (whole.recompute == recipe::Recompute::kSelective ? hidden : 0);
    return block;
  }
  MemoryRequest rows = local;
  const int64_t etp = mesh.size(Axis::kEtp), ranks = mesh.size(Axis::kEp) * etp;
  rows.sequence = largest_share(local.sequence, tp) * etp;  // tokens whose rows come here, on the average
  BlockShare block = chosen(channel_memory(rows, kind, layer));
  const double all_rows = rows.tokens() * number(whole.model.experts_per_token);
  block.postponed = products_of_weights(channel_weights(local.model, kind), all_rows);
  // Rows that came from other ranks are not made again, nor what was normed for it.
  if (ranks > 1 && whole.recompute == recipe::Recompute::kSelective) {
    const double rows_bytes = all_rows * number(whole.model.hidden) * element;
    block.kept += rows_bytes;
    block.backward -= rows_bytes + between;
  }
  if (tokens_travel()) rows_of_tokens(rows, block);
  return block;
}

// If every choice is of an expert on this rank (all-gather over ranks that share each of them), sums use the
// order of all choices.
bool RankShare::tokens_travel() const {
  const int64_t ep = mesh.size(Axis::kEp), etp = mesh.size(Axis::kEtp);
  const bool all_are_here = rank.experts.dispatcher == recipe::Dispatcher::kAllGather && ep == 1 &&
                            whole.model.router.capacity_factor == 0;
  return ep * etp > 1 && rank.experts.dispatcher != recipe::Dispatcher::kAllToAll && !all_are_here;
}

double RankShare::tokens_that_come() const {
  const int64_t ep = mesh.size(Axis::kEp);
  const double all = number(largest_share(local.sequence, tp) * ep * mesh.size(Axis::kEtp));
  if (rank.experts.dispatcher == recipe::Dispatcher::kAllGather) return all;
  return all * layout::chance_of_any(whole.model.experts, largest_share(whole.model.experts, ep),
                                     whole.model.experts_per_token);
}

// A rank computes the rows of its experts for the received tokens, and sums the results in the precision of
// sums; the products with the weights are LibTorch's, which keeps both factors. The indices of the rows'
// choices come before those of choices of others' experts, with all k of a token.
void RankShare::rows_of_tokens(const MemoryRequest& tokens, BlockShare& block) const {
  const double k = number(whole.model.experts_per_token), rows = tokens.tokens() * k,
               came = tokens_that_come();
  const double row = number(whole.model.hidden) * element, wide_row = number(whole.model.hidden) * wide,
               made = rows * (wide_row + wide);
  block.kept += made - rows * row + 8 * came * k;
  block.stays += made;
  // The experts' own backward pass begins when the results are gone, with the gradients of all received
  // weights. Before it: the gradients of the sums, incoming in place of the outgoing ones, and wide; with
  // those of rows; during the backward pass of the products, of rows and of both factors.
  const double of_experts = block.backward - made + rows * row + (came - tokens.tokens()) * k * wide;
  const double coming = came * (row + std::max(row, element < wide ? wide_row : 0));
  block.backward = std::max({of_experts, between + coming, between + came * wide_row + rows * wide_row,
                             between + 3 * rows * wide_row});
}

BlockShare RankShare::chosen(const recipe::BlockMemory& memory) const {
  const bool selective = whole.recompute == recipe::Recompute::kSelective;
  return {.kept = memory.kept - (selective ? memory.cheap : 0),
          .backward = selective ? memory.again : memory.backward,
          .workspace = memory.workspace};
}

// The inputs of the products for weight gradients, with `rows` rows: the input of the block, which the first
// ones share, and the input of the last one; and the gradients of their results.
double RankShare::products_of_weights(const std::vector<ProductWeight>& weights, double rows) const {
  if (weights.empty()) return 0;
  double elements = number(weights.front().in + weights.back().in);
  for (const ProductWeight& weight : weights) elements += number(weight.out);
  return rows * elements * element;
}

bool RankShare::gathers(int64_t layer, bool channel) const {
  return !channel || whole.model.channel_mixer(layer) != recipe::ChannelMixer::kExperts;
}

double RankShare::norm_before(int64_t layer, bool channel) const {
  const bool shared = channel && (whole.model.wiring == recipe::Wiring::kParallel ||
                                  whole.model.channel == recipe::Channel::kNone);
  return shared ? 0 : norm(gathers(layer, channel));
}

}  // namespace longhaul::plan
