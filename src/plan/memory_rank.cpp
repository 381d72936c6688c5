#include "plan/memory_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "layout/head_groups.h"
#include "layout/parameters.h"
#include "layout/schedule.h"
#include "layout/sequence_view.h"
#include "plan/memory_layers.h"
#include "plan/memory_workspace.h"
#include "plan/pipeline_memory.h"
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
  double stays = 0;      // of `kept`, what train.offload leaves in memory
  double postponed = 0;  // behind a backward pass of inputs: what the products for weights will read
};

// A table of the ranks of a run asks for each in its turn, and all stages of a pipeline share the lists.
std::shared_ptr<const layout::Schedule> schedule_of(const layout::MeshRank& place, int64_t micro_batches) {
  struct Known {
    int64_t ranks = 0, micro_batches = 0;
    layout::PipelineOptions options;
    std::shared_ptr<const layout::Schedule> schedule;
  };
  thread_local Known known;
  const int64_t ranks = place.mesh.size(Axis::kPp);
  if (known.schedule == nullptr || known.ranks != ranks || known.micro_batches != micro_batches || known.options != place.pipelined) {
    known = {ranks, micro_batches, place.pipelined,
             std::make_shared<const layout::Schedule>(layout::make_schedule(place.pipeline(), micro_batches))};
  }
  return known.schedule;
}

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
    always[kData] = 8 * (numbers * local_.tokens() + local_.documents_at_once() + 1) + orders_of_rows();
    MemoryRequest products =
        of_own_layers();  // experts multiply the rows of own tokens, and of those of the ranks that share their tensors
    const int64_t per_token = whole_.model.experts_per_token * mesh_.size(Axis::kEtp);
    products.model.experts_per_token = std::max<int64_t>(1, share(per_token, tp_));
    always[kWorkspace] = kept_by_threads(products) + thread_buffers();
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
      if (spec.pipeline_ranks.front() < rank_.place.coordinate(Axis::kPp)) continue;  // stages that lie on two ranks, tied embeddings
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

  // Attention cuts the keys that it sees, which on context ranks are the row's.
  double thread_buffers() const {
    const bool loss = has_stage(rank_.place.pipeline().stages() - 1);
    MemoryRequest seen = of_own_layers();
    const double own = buffers_of_threads(seen, loss);
    if (cp_ == 1) return own;
    seen.sequence = whole_bytes(whole_.tokens());
    seen.documents = whole_bytes(whole_.documents_at_once());
    return std::max(own, buffers_of_threads(seen, false));
  }

  double channels(int64_t count) const { return local_.tokens() * number(count) * element_; }

  // Of each layer with experts on other ranks the order in which rows came, and back.
  double orders_of_rows() const {
    if (mesh_.size(Axis::kEp) * mesh_.size(Axis::kEtp) == 1) return 0;
    double layers = 0;
    each_layer([&](int64_t layer) { layers += whole_.model.channel_mixer(layer) == recipe::ChannelMixer::kExperts ? 1 : 0; });
    const double rows = number(share(local_.sequence, tp_) * mesh_.size(Axis::kEtp) * whole_.model.experts_per_token);
    return 2 * 8 * rows * layers;
  }

  double keys_and_values(const recipe::AttentionSizes& sizes) const {
    return channels(sizes.kv_heads * (sizes.head_dim + sizes.value_dim));
  }

  // Of the norm before a block, whose output another rank's tokens may join.
  double norm(bool gathered) const {
    const double output = whole_.recompute == recipe::Recompute::kSelective && !(gathered && tp_ > 1) ? 0 : gathered ? hidden_ : between_;
    return between_ + output + norm_statistics();
  }
  double norm_statistics() const { return (whole_.model.norm == recipe::Norm::kLayer ? 2 : 1) * local_.tokens() / number(tp_) * wide_; }
  // The last one, whose output nobody makes again.
  double last_norm() const { return between_ + (tp_ > 1 ? hidden_ : between_) + norm_statistics(); }
  // What is not worth a place in train.offload's file.
  double small(double bytes) const { return bytes < number(kLeastOffloaded) ? bytes : 0; }

  Block mixer(int64_t layer) const {
    const recipe::BlockMemory memory = mixer_memory(local_, layer);
    Block block = chosen(memory);
    const recipe::OperatorSizes sizes = recipe::operators_of_layer(local_.model, layer);
    block.postponed = products_of_weights(mixer_weights(local_.model, local_.model.mixer(layer)), local_.tokens());
    block.stays = small(local_.tokens() * number(sizes.attention.heads) * wide_) + small(recurrence_states(local_, sizes.recurrence)) +
                  (local_.model.mixer(layer) == recipe::Mixer::kLightning ? small(local_.tokens() * wide_) : 0);
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
    if (whole_.recompute == recipe::Recompute::kSelective) {  // nobody makes its result again; and what was gathered is there
      block.kept += inner * element_;
      block.backward -= hidden_;
    }
    const double fused = 2 * inner * element_,
                 here = (element_ < wide_ ? 4 : 3) * inner * wide_ + (element_ < wide_ ? 0 : inner * element_);
    block.kept += here - fused;
    block.stays += here;  // what LibTorch's own operators keep nobody asks about
    return 2 * inner * wide_;
  }

  // Ranks that keys and values go round, where neighbours share the heads (parallel/context_attention.cpp).
  double members_of_ring(int64_t kv_heads) const {
    using enum recipe::ContextMethod;
    const recipe::ContextMethod method = rank_.context.softmax;
    return number(method == kRing ? cp_ : method == kTwoLevel ? cp_ / std::gcd(cp_, kv_heads) : 1);
  }

  // Those of them who have parts of the same document. Runs from both ends of the row meet all.
  double members_that_see(double members) const {
    if (members == 1 || rank_.context.split == recipe::ContextSplit::kZigzag) return members;
    const double of_document = members / std::max(1.0, whole_.documents_at_once());
    return std::min(members, std::floor(of_document) == of_document ? of_document : std::floor(of_document) + 2);
  }

  void context(const recipe::AttentionSizes& sizes, Block& block) const {
    const double q = channels(sizes.heads * sizes.head_dim), o = channels(sizes.heads * sizes.value_dim), kv = keys_and_values(sizes);
    if (rank_.context.softmax != recipe::ContextMethod::kAllGather) {
      // Queries, keys and values in the order of the ring, or of heads, in the place of the own ones; results in both orders.
      block.kept += o;
      block.backward += q + o + kv;
      const double ranks = members_that_see(members_of_ring(sizes.kv_heads)), wider = wide_ / element_;
      if (ranks == 1) return;
      // The gradients of results and of queries; keys and values that visit, come and leave; gradients of own ones, of those, that came and come with
      // them, and that leave. How many of them lie there at once depends on who is late.
      const double visiting = std::min(ranks - 1, 3.0), gradients = std::min(2 * ranks, 5.5);
      block.backward = std::max(block.backward, between_ + wider * q + visiting * kv + gradients * wider * kv);
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
      block.postponed = products_of_weights(channel_weights(local_.model, kind), local_.tokens());
      if (tp_ > 1) block.backward += between_ - (whole_.recompute == recipe::Recompute::kSelective ? hidden_ : 0);  // it was gathered
      return block;
    }
    MemoryRequest rows = local_;
    const int64_t etp = mesh_.size(Axis::kEtp), ranks = mesh_.size(Axis::kEp) * etp;
    rows.sequence = share(local_.sequence, tp_) * etp;  // tokens whose rows come here, on the average
    Block block = chosen(channel_memory(rows, kind));
    const double all_rows = rows.tokens() * number(whole_.model.experts_per_token);
    block.postponed = products_of_weights(channel_weights(local_.model, kind), all_rows);
    // Rows that came from other ranks are not made again, nor what was normed for it.
    if (ranks > 1 && whole_.recompute == recipe::Recompute::kSelective) {
      const double rows_bytes = all_rows * number(whole_.model.hidden) * element_;
      block.kept += rows_bytes;
      block.backward -= rows_bytes + between_;
    }
    return block;
  }

  Block chosen(const recipe::BlockMemory& memory) const {
    const bool selective = whole_.recompute == recipe::Recompute::kSelective;
    return {.kept = memory.kept - (selective ? memory.cheap : 0),
            .backward = selective ? memory.again : memory.backward,
            .workspace = memory.workspace};
  }

  // What the products for the gradients of weights read, with `rows` rows: the input of the block, which the first ones share, and of the last what goes
  // into it; and the gradients of their results.
  double products_of_weights(const std::vector<ProductWeight>& weights, double rows) const {
    if (weights.empty()) return 0;
    double elements = number(weights.front().in + weights.back().in);
    for (const ProductWeight& weight : weights) elements += number(weight.out);
    return rows * elements * element_;
  }

  bool gathers(int64_t layer, bool channel) const {
    return !channel || whole_.model.channel_mixer(layer) != recipe::ChannelMixer::kExperts;
  }

  // The request as if the layers of this rank were all there are: what threads keep is for the products and operators of those.
  MemoryRequest of_own_layers() const {
    MemoryRequest own = local_;
    std::vector<recipe::Mixer> mixers;
    own.model.dense_layers.clear();
    each_layer([&](int64_t layer) {
      if (whole_.model.channel_mixer(layer) == recipe::ChannelMixer::kDense) own.model.dense_layers.push_back(std::ssize(mixers));
      mixers.push_back(local_.model.mixer(layer));
    });
    own.model.layers = std::ssize(mixers);
    if (!mixers.empty()) own.model.mixers = std::move(mixers);
    return own;
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

  // Of a stage: what its layers keep of a micro-batch in memory.
  double stage_kept(const layout::Range& layers) const {
    const bool post = whole_.model.wiring == recipe::Wiring::kPostNorm, full = whole_.recompute == recipe::Recompute::kFull;
    // The first norm stands in front of the parts that are made again, and is not asked.
    if (full && whole_.offload) return layers.length > 0 ? between_ + norm_statistics() : 0;
    if (full) return number(layers.length) * between_ + (post ? between_ : 0);
    double kept = 0;
    for (int64_t layer = layers.begin; layer < layers.end(); ++layer) kept += layer_kept(layer);
    return kept;
  }
  double layer_kept(int64_t layer) const {
    const Block of_mixer = mixer(layer), of_channel = channel(layer);
    if (!whole_.offload) return norm_before(layer, false) + of_mixer.kept + norm_before(layer, true) + of_channel.kept;
    return 2 * small(norm_statistics()) + of_mixer.stays + of_channel.stays;
  }
  double norm_before(int64_t layer, bool channel) const {
    const bool shared = channel && (whole_.model.wiring == recipe::Wiring::kParallel || whole_.model.channel == recipe::Channel::kNone);
    return shared ? 0 : norm(gathers(layer, channel));
  }

  layout::Range layers_of(int64_t chunk) const {
    return rank_.place.pipeline().layers_of(rank_.place.stage_of(chunk), whole_.model.layers);
  }
  bool first(int64_t chunk) const { return rank_.place.stage_of(chunk) == 0; }
  bool last(int64_t chunk) const { return rank_.place.stage_of(chunk) == rank_.place.pipeline().stages() - 1; }

  // A table of angles is made where a layer of the stage turns something.
  double angles_of(int64_t chunk) const {
    const layout::Range layers = layers_of(chunk);
    for (int64_t layer = layers.begin; layer < layers.end(); ++layer) {
      const recipe::OperatorSizes sizes = recipe::operators_of_layer(local_.model, layer);
      if (sizes.attention.rotary_dim > 0 || sizes.angles > 0) return rotary_bytes(local_);
    }
    return 0;
  }

  // Beside the layers: angles; the order of the ids that a share of the vocabulary has; what is kept from the last layer to the loss's backward pass.
  double beside_layers(int64_t chunk) const {
    const double ids = first(chunk) && tp_ > 1 ? 2 * 8 * local_.tokens() / number(tp_) : 0;
    return angles_of(chunk) + ids;
  }
  double of_loss(int64_t chunk) const {
    if (!last(chunk)) return 0;
    // Tensor ranks make the gradient when it is asked for, from what they have gathered; one rank makes it with the loss.
    return last_norm() + (tp_ > 1 ? 3 * local_.tokens() * wide_ : between_);
  }

  void add_passes(const PurposeBytes& always, std::vector<MemoryMoment>& moments) {
    const layout::Pipeline pipeline = rank_.place.pipeline();
    if (pipeline.ranks() == 1) return stage_moments(0, beside_layers(0), false, always, moments);
    std::vector<StageBytes> stages;
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      StageBytes& stage = stages.emplace_back(StageBytes{.hidden = between_, .read_back = whole_.offload});
      // What enters from elsewhere is counted with what enters.
      const bool shared = !first(chunk) && !whole_.offload && layers_of(chunk).length > 0;
      stage.kept = stage_kept(layers_of(chunk)) - (shared ? between_ : 0) + beside_layers(chunk) + of_loss(chunk);
      stage.postponed = last(chunk) ? hidden_ : 0;
      const layout::Range layers = layers_of(chunk);
      for (int64_t layer = layers.begin; layer < layers.end(); ++layer)
        stage.postponed += mixer(layer).postponed + channel(layer).postponed;
    }
    const auto of_chunks = beside_stages(*schedule_of(rank_.place, local_.batch), rank_.place.coordinate(Axis::kPp), stages);
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      const BesideStage& beside = of_chunks[static_cast<size_t>(chunk)];
      if (beside.backward) stage_moments(chunk, *beside.backward + beside_layers(chunk), false, always, moments);
      if (beside.backward_input) stage_moments(chunk, *beside.backward_input + beside_layers(chunk), true, always, moments);
    }
  }

  // `beside`: all that is there beside what the layers have kept of the micro-batch whose backward pass this is. postpones: products for weights wait.
  void stage_moments(int64_t chunk, double beside, bool postpones, const PurposeBytes& always, std::vector<MemoryMoment>& moments) {
    const layout::Range layers = layers_of(chunk);
    const auto add = [&](std::string name, double activations, double workspace) {
      PurposeBytes bytes = always;
      bytes[kActivations] += activations;
      bytes[kWorkspace] += workspace;
      moments.push_back({std::move(name), bytes});
    };
    const bool full = whole_.recompute == recipe::Recompute::kFull, pipelined = rank_.place.pipeline().ranks() > 1;
    double kept = beside + stage_kept(layers);
    // The gradient of the last hidden states, which one rank's loss leaves; what the stage behind has sent is counted beside.
    const double entered = last(chunk) && tp_ == 1 ? between_ : 0;
    if (last(chunk)) {
      add("loss", kept + last_norm() + between_ + (tp_ > 1 ? hidden_ : 0) + 3 * local_.tokens() * wide_, loss_workspace(local_));
      if (postpones) kept += hidden_;
    }
    for (int64_t layer = layers.end() - 1; layer >= layers.begin; --layer) {
      const Block of_channel = channel(layer), of_mixer = mixer(layer);
      const std::string name = fmt::format("backward of layer {}, ", layer);
      const bool ends_stage = pipelined && layer == layers.end() - 1;
      const double at_end = ends_stage ? end_of_stage(layer, last(chunk)) : 0;
      if (full) {
        // A layer as if nothing were dropped, up to the norm of the next one; and the gradients that entered it.
        const bool next = layer + 1 < layers.end(), post = whole_.model.wiring == recipe::Wiring::kPostNorm;
        const double read_back = whole_.offload ? between_ : 0, normed = (post ? 0 : between_) + (tp_ > 1 ? hidden_ : 0);
        const double results = next ? 2 * between_ + norm_statistics() : between_;
        const double gradients = ends_stage ? at_end : (post && next ? 1 : 2) * between_;
        const double whole = kept + read_back + normed + of_mixer.kept + results + entered + gradients;
        add(name + "channel", whole + norm_before(layer, true) + of_channel.kept + of_channel.backward, of_channel.workspace);
        add(name + "mixer", whole + of_mixer.backward, of_mixer.workspace);
        kept -= whole_.offload ? 0 : between_;
      } else if (whole_.offload) {
        // Read back: of the channel's products, which come first, what they read; the norm before them later.
        const bool selective = whole_.recompute == recipe::Recompute::kSelective;
        const double not_joined = selective && tp_ == 1 ? 0 : between_;
        add(name + "channel", kept + norm_before(layer, true) - not_joined + of_channel.kept + entered + at_end + of_channel.backward,
            of_channel.workspace);
        add(name + "mixer", kept + norm_before(layer, false) - not_joined + of_mixer.kept - of_mixer.stays + entered + of_mixer.backward,
            of_mixer.workspace);
        kept -= layer_kept(layer);
      } else {
        add(name + "channel", kept + entered + at_end + of_channel.backward, of_channel.workspace);
        kept -= of_channel.kept + norm_before(layer, true);
        if (postpones) kept += of_channel.postponed;
        add(name + "mixer", kept + entered + of_mixer.backward, of_mixer.workspace);
        kept -= of_mixer.kept + norm_before(layer, false);
        if (postpones) kept += of_mixer.postponed;
        continue;
      }
      if (postpones) kept += of_channel.postponed + of_mixer.postponed;
    }
    if (layers.length == 0 && !last(chunk)) add("a stage without layers", kept + entered, 0);
  }

  // Where a stage ends, LibTorch joins the residual and the branch, whose gradients are then two tensors; a dense mixer counts them so where a norm
  // joins them with two factors. In one precision and with a factor of 1 the branch's is the one that came.
  double end_of_stage(int64_t layer, bool last) const {
    if (whole_.model.channel_mixer(layer) != recipe::ChannelMixer::kDense) return 0;
    const recipe::ModelConfig::ResidualFactors factors = whole_.model.channel_factors();
    const double counted = factors.residual != factors.branch ? 2 : 1;
    return ((!last && element_ == wide_ && factors.branch == 1 ? 1 : 2) - counted) * between_;
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
