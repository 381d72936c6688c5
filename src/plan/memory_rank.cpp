#include "plan/memory_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/head_groups.h"
#include "layout/parameters.h"
#include "layout/schedule.h"
#include "layout/sequence_view.h"
#include "plan/memory_layers.h"
#include "plan/memory_workspace.h"
#include "plan/rank_state.h"
#include "recipe/optim_groups.h"

namespace longhaul::plan {
namespace {

using enum MemoryPurpose;
using layout::Axis;

constexpr double kGlooRound = 32.0 * (1 << 20);        // of a sum that is under way at once (comm/gloo_collectives.cpp)
constexpr int64_t kMostTokensSeen = int64_t{1} << 24;  // beyond, how documents lie on context ranks is taken as even

int64_t share(int64_t count, int64_t ranks) { return (count + ranks - 1) / ranks; }

// The model as if what a rank has of it were all there is; layers and hidden channels are the whole model's.
recipe::ModelConfig shared_model(recipe::ModelConfig model, const layout::Mesh& mesh) {
  const int64_t tp = mesh.size(Axis::kTp), ep = mesh.size(Axis::kEp), etp = mesh.size(Axis::kEtp);
  model.heads = share(model.heads, tp);
  for (int64_t* const heads :
       {&model.softmax.kv_heads, &model.gated_deltanet.heads, &model.gated_deltanet.key_heads, &model.gla.key_heads}) {
    if (*heads > 0) *heads = share(*heads, tp);
  }
  model.dense_intermediate = share(model.dense_width(), tp);
  model.shared_intermediate = share(model.shared_intermediate > 0 ? model.shared_intermediate : model.intermediate, tp);
  model.intermediate = share(model.intermediate, model.experts > 0 ? etp : tp);
  model.experts = share(model.experts, ep);
  model.vocabulary = share(model.vocabulary, tp);
  return model;
}

// The tokens of this rank inside a mixer, and those of all context ranks.
struct OwnTokens {
  int64_t tokens = 0, segments = 1;
  double all = 0;
  int64_t pieces = 1;  // runs of the row
};

OwnTokens own_tokens(const MemoryRequest& request, const RankRequest& rank) {
  const layout::Mesh& mesh = rank.place.mesh;
  const int64_t cp = mesh.size(Axis::kCp);
  OwnTokens own{.tokens = share(whole_bytes(request.tokens()), cp), .segments = whole_bytes(request.documents_at_once())};
  own.all = request.tokens();
  if (cp == 1) return own;
  own.pieces = rank.context.split == recipe::ContextSplit::kZigzag ? 2 : 1;
  if (request.tokens() > static_cast<double>(kMostTokensSeen)) return own;
  const int64_t documents = own.segments, tokens = whole_bytes(request.tokens());
  std::vector<int64_t> lengths;
  for (int64_t d = 0; d < documents; ++d) lengths.push_back(layout::even_part(tokens, documents, d).length);
  const layout::SequenceView view(layout::make_packed(lengths),
                                  {.context_ranks = cp, .context_rank = rank.place.coordinate(Axis::kCp), .split = rank.context.split});
  own.tokens = view.tokens();
  own.segments = std::ssize(view.segments);
  return own;
}

// What the passes through a layer's block keep and hold.
struct Block {
  double kept = 0, backward = 0, workspace = 0;
};

class RankPlan {
 public:
  RankPlan(const MemoryRequest& request, const RankRequest& rank)
      : whole_(request),
        rank_(rank),
        mesh_(rank.place.mesh),
        own_(own_tokens(request, rank)),
        local_(request),
        tp_(mesh_.size(Axis::kTp)),
        cp_(mesh_.size(Axis::kCp)) {
    local_.model = shared_model(request.model, mesh_);
    local_.micro_batch = 1;
    local_.sequence = own_.tokens;
    local_.documents = std::max<int64_t>(1, own_.segments);
    local_.batch = std::max<int64_t>(1, request.batch / std::max<int64_t>(1, request.micro_batch) / mesh_.size(Axis::kDp));
    hidden_ = hidden_bytes(local_);
    between_ = hidden_ / number(tp_);
    element_ = number(element_bytes(request.dtype)), wide_ = number(wide_bytes(request.dtype));
  }

  MemoryPlan plan() {
    MemoryPlan plan;
    const RankState state = rank_state(whole_.model, whole_.dtype, whole_.optimizer, rank_.place);
    PurposeBytes always;
    always[kParameters] = state.weights;
    always[kGradients] = state.gradients;
    always[kOptimizer] = state.optimizer;
    always[kPackedWeights] = packed();
    const double numbers = whole_.model.position == recipe::Position::kLearned ? 3 : 2;
    always[kData] = 8 * (numbers * local_.tokens() + local_.documents_at_once() + 1);
    MemoryRequest products = local_;  // experts multiply the rows of own tokens, and of those of the ranks that share their tensors
    const int64_t per_token = whole_.model.experts_per_token * mesh_.size(Axis::kEtp);
    products.model.experts_per_token = std::max<int64_t>(1, share(per_token, tp_));
    always[kWorkspace] = kept_by_threads(products) + buffers_of_threads(local_);
    PurposeBytes passing = always;
    passing[kParameters] += state.passing_weights;
    passing[kGradients] += state.passing_gradients;
    const double saved = saved_bytes();
    if (whole_.saves_between) passing[kCheckpoint] = saved;
    add_passes(passing, plan.moments);
    always[kCheckpoint] = saved;
    plan.moments.push_back({"last save", always});

    const double ranks = number(mesh_.world());
    const double tokens_per_step = number(whole_.batch) * number(whole_.sequence) / number(mesh_.size(Axis::kDp)), bytes_of_token = 3 * 8;
    plan.not_tensors = bytes_of_token * (tokens_per_step * (number(whole_.prefetch) + 3) + whole_.tokens());
    // The parts of a sum, of every rank one, that each adds its share of; of the largest that is summed at once: a layer's gradients, at most a round of Gloo's.
    plan.communication = ranks > 1 ? std::min(kGlooRound, state.gradients + state.passing_gradients) : 0;
    return plan;
  }

 private:
  // The copy that is saved: masters and states that no rank before this one writes.
  double saved_bytes() const {
    double sum = 0;
    for (const layout::ParameterSpec& spec : layout::parameters_of(whole_.model, rank_.place)) {
      const layout::Placement placement = layout::placement_of(spec, mesh_, rank_.place.coordinate(Axis::kPp));
      const layout::AxisSet copies = layout::copied_over(placement);
      if (rank_.place.zero == 0 && mesh_.index_in_group(rank_.place.rank, copies) > 0) continue;
      layout::Shape box = layout::rectangle_of(placement, mesh_, rank_.place.rank, spec.tensor.global_shape).length;
      const double elements = number(layout::volume(box));
      if (elements == 0) continue;
      const double ranks = rank_.place.zero > 0 ? number(mesh_.size(mesh_.shared_over(copies))) : 1;
      box[0] = whole_bytes(number(box[0]) / ranks + 0.5);
      sum += number(recipe::state_bytes(whole_.optimizer, spec.tensor.role, spec.layer, spec.tensor.global_shape, box,
                                        wide_bytes(whole_.dtype))) +
             wide_ * elements / ranks;
    }
    return sum;
  }

  double channels(int64_t count) const { return local_.tokens() * number(count) * element_; }

  double keys_and_values(const recipe::AttentionSizes& sizes) const {
    return channels(sizes.kv_heads * (sizes.head_dim + sizes.value_dim));
  }

  // Of the norm before a block, whose output another rank's tokens may join.
  double norm(bool gathered) const {
    const double statistics = whole_.model.norm == recipe::Norm::kLayer ? 2 : 1;
    const double output = whole_.recompute == recipe::Recompute::kSelective && !(gathered && tp_ > 1) ? 0 : gathered ? hidden_ : between_;
    return between_ + output + statistics * local_.tokens() / number(tp_) * wide_;
  }

  Block mixer(int64_t layer) const {
    const recipe::BlockMemory memory = mixer_memory(local_, layer);
    Block block = chosen(memory);
    const recipe::OperatorSizes sizes = recipe::operators_of_layer(local_.model, layer);
    if (tp_ > 1) {
      // The residual's gradient is of own tokens; that of the gathered input is not there yet while the operator goes back.
      block.backward += between_ - hidden_;
      if (sizes.attention.heads > 0)
        block.backward = std::max(block.backward, between_ + hidden_ + channels(sizes.attention.heads * sizes.attention.head_dim) +
                                                      keys_and_values(sizes.attention));
      block.backward += norm_over_ranks(layer, sizes, block);
    }
    if (cp_ > 1 && sizes.attention.heads > 0) context(sizes.attention, block);
    if (cp_ > 1 && sizes.recurrence.heads > 0) {
      // The states that enter its pieces; gradients of q, k, v of all pieces, beside those of one.
      block.kept += number(own_.pieces * sizes.recurrence.heads * sizes.recurrence.key * sizes.recurrence.value) * wide_;
      block.backward += 3 * channels(sizes.recurrence.heads * sizes.recurrence.key) / number(own_.pieces);
    }
    return block;
  }

  // A norm over channels of several ranks goes through ATen in the precision of sums: the rows, normed, times weights, and a gate's sigmoid. → what its backward pass
  // takes beside.
  double norm_over_ranks(int64_t layer, const recipe::OperatorSizes& sizes, Block& block) const {
    if (local_.model.mixer(layer) != recipe::Mixer::kLightning) return 0;
    const double inner = local_.tokens() * number(sizes.recurrence.heads * sizes.recurrence.value);
    const double fused = 2 * inner * element_,
                 here = (element_ < wide_ ? 4 : 3) * inner * wide_ + (element_ < wide_ ? 0 : inner * element_);
    block.kept += here - fused;
    return 2 * inner * wide_;
  }

  void context(const recipe::AttentionSizes& sizes, Block& block) const {
    const double q = channels(sizes.heads * sizes.head_dim), o = channels(sizes.heads * sizes.value_dim), kv = keys_and_values(sizes);
    if (rank_.context.softmax != recipe::ContextMethod::kAllGather) {  // copies in the order of the ring, or of heads
      block.kept += q + o + kv;
      block.backward += q + o + kv;
      return;
    }
    // Of some key heads at a time: keys and values of the whole row as they came and in its order, the next ones coming; their gradients in the
    // precision of sums, twice; and those of the queries.
    const double of_group =
        own_.all * number(sizes.kv_heads * (sizes.head_dim + sizes.value_dim)) / number(layout::key_head_groups(sizes.kv_heads));
    block.backward += of_group * 2 * (element_ + wide_) + q / element_ * wide_;
  }

  Block channel(int64_t layer) const {
    const recipe::ChannelMixer kind = whole_.model.channel_mixer(layer);
    if (kind != recipe::ChannelMixer::kExperts) {
      Block block = chosen(channel_memory(local_, kind));
      if (tp_ > 1) block.backward += between_;
      return block;
    }
    MemoryRequest rows = local_;
    const int64_t etp = mesh_.size(Axis::kEtp), ranks = mesh_.size(Axis::kEp) * etp;
    rows.sequence = share(local_.sequence, tp_) * etp;  // tokens whose rows come here, on the average
    Block block = chosen(channel_memory(rows, kind));
    if (ranks == 1) return block;
    block.kept += 2 * 8 * rows.tokens() * number(whole_.model.experts_per_token);  // the order in which rows came, and back
    return block;
  }

  Block chosen(const recipe::BlockMemory& memory) const {
    const bool selective = whole_.recompute == recipe::Recompute::kSelective;
    return {.kept = memory.kept - (selective ? memory.cheap : 0),
            .backward = selective ? memory.again : memory.backward,
            .workspace = memory.workspace};
  }

  bool gathers(int64_t layer, bool channel) const {
    return !channel || whole_.model.channel_mixer(layer) != recipe::ChannelMixer::kExperts;
  }

  double packed() const {
    if (!packs(whole_)) return 0;
    double sum = 0;
    each_layer([&](int64_t layer) {
      for (const auto& weight : mixer_weights(local_.model, local_.model.mixer(layer))) sum += packed_weight_bytes(local_, weight);
      for (const auto& weight : channel_weights(local_.model, whole_.model.channel_mixer(layer)))
        sum += packed_weight_bytes(local_, weight);
    });
    if (has_stage(rank_.place.pipeline().stages() - 1)) sum += packed_weight_bytes(local_, {local_.model.vocabulary, local_.model.hidden});
    return sum;
  }

  bool has_stage(int64_t stage) const {
    for (int64_t chunk = 0; chunk < rank_.place.pipeline().chunks(); ++chunk) {
      if (rank_.place.stage_of(chunk) == stage) return true;
    }
    return false;
  }
  void each_layer(const auto& with) const {
    const layout::Pipeline pipeline = rank_.place.pipeline();
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      const layout::Range layers = pipeline.layers_of(rank_.place.stage_of(chunk), whole_.model.layers);
      for (int64_t layer = layers.begin; layer < layers.end(); ++layer) with(layer);
    }
  }

  // Of a stage: what a micro-batch keeps, and the moments of its own backward pass while `others` are kept beside it.
  double stage_kept(const layout::Range& layers) const {
    const bool post = whole_.model.wiring == recipe::Wiring::kPostNorm;
    if (whole_.recompute == recipe::Recompute::kFull) return number(layers.length) * between_ + (post ? between_ : 0);
    double kept = 0;
    for (int64_t layer = layers.begin; layer < layers.end(); ++layer) {
      kept += norm_before(layer, false) + mixer(layer).kept + norm_before(layer, true) + channel(layer).kept;
    }
    return kept;
  }
  double norm_before(int64_t layer, bool channel) const {
    const bool shared = channel && (whole_.model.wiring == recipe::Wiring::kParallel || whole_.model.channel == recipe::Channel::kNone);
    return shared ? 0 : norm(gathers(layer, channel));
  }

  void add_passes(const PurposeBytes& always, std::vector<MemoryMoment>& moments) {
    const layout::Pipeline pipeline = rank_.place.pipeline();
    const auto stage_rank = static_cast<size_t>(rank_.place.coordinate(Axis::kPp));
    double in_flight = 1;
    if (pipeline.ranks() > 1) {
      const layout::Schedule schedule = layout::passes_of(pipeline, local_.batch);
      in_flight = stage_rank < schedule.most_in_flight.size() ? number(schedule.most_in_flight[stage_rank]) : 1;
    }
    double all = 0;
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      const layout::Range layers = pipeline.layers_of(rank_.place.stage_of(chunk), whole_.model.layers);
      all += stage_kept(layers) + (pipeline.ranks() > 1 ? between_ : 0);  // and what leaves it
    }
    const double others = whole_.offload ? 0 : std::max(0.0, in_flight - 1) * all / number(pipeline.chunks());
    // Every micro-batch has a table of angles of its own; a gradient of hidden states is on its way from stage to stage.
    const double base = in_flight * rotary_bytes(local_) + others + (pipeline.ranks() > 1 ? between_ : 0);
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) stage_moments(chunk, base, always, moments);
  }

  void stage_moments(int64_t chunk, double base, const PurposeBytes& always, std::vector<MemoryMoment>& moments) {
    const layout::Pipeline pipeline = rank_.place.pipeline();
    const int64_t stage = rank_.place.stage_of(chunk);
    const layout::Range layers = pipeline.layers_of(stage, whole_.model.layers);
    const bool last = stage == pipeline.stages() - 1;
    const auto add = [&](std::string name, double activations, double workspace) {
      PurposeBytes bytes = always;
      bytes[kActivations] += activations;
      bytes[kWorkspace] += workspace;
      moments.push_back({std::move(name), bytes});
    };
    const bool full = whole_.recompute == recipe::Recompute::kFull;
    double kept = base + (whole_.offload ? 0 : stage_kept(layers)) + (pipeline.ranks() > 1 ? between_ : 0);
    // The gradient of the last hidden states, which one rank's loss leaves, or that the stage behind has sent.
    const double entered = last && tp_ > 1 ? 0 : between_;
    if (last) add("loss", kept + norm(true) + between_ + (tp_ > 1 ? hidden_ : 0) + 3 * local_.tokens() * wide_, loss_workspace(local_));
    for (int64_t layer = layers.end() - 1; layer >= layers.begin; --layer) {
      const Block of_channel = channel(layer), of_mixer = mixer(layer);
      const std::string name = fmt::format("backward of layer {}, ", layer);
      if (whole_.offload && !full) {  // what is read back
        add(name + "channel", kept + norm_before(layer, true) + of_channel.kept + entered + of_channel.backward, of_channel.workspace);
        add(name + "mixer", kept + norm_before(layer, false) + of_mixer.kept + entered + of_mixer.backward, of_mixer.workspace);
        continue;
      }
      if (full) {
        const double whole = kept + norm_before(layer, false) + of_mixer.kept + 2 * between_;
        add(name + "channel", whole + norm_before(layer, true) + of_channel.kept + entered + of_channel.backward, of_channel.workspace);
        add(name + "mixer", whole + entered + of_mixer.backward, of_mixer.workspace);
        kept -= whole_.offload ? 0 : between_;
        continue;
      }
      add(name + "channel", kept + entered + of_channel.backward, of_channel.workspace);
      kept -= of_channel.kept + norm_before(layer, true);
      add(name + "mixer", kept + entered + of_mixer.backward, of_mixer.workspace);
      kept -= of_mixer.kept + norm_before(layer, false);
    }
    if (layers.length == 0 && !last) add("a stage without layers", kept + entered, 0);
  }

  const MemoryRequest& whole_;
  const RankRequest& rank_;
  const layout::Mesh& mesh_;
  OwnTokens own_;
  MemoryRequest local_;
  int64_t tp_, cp_;
  double hidden_ = 0, between_ = 0;  // bytes of hidden states inside mixers, and between them
  double element_ = 0, wide_ = 0;
};

}  // namespace

MemoryPlan plan_rank_memory(const MemoryRequest& request, const RankRequest& rank) { return RankPlan(request, rank).plan(); }

}  // namespace longhaul::plan
