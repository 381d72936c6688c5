#include "plan/memory/exact_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "layout/schedule/schedule.h"
#include "plan/memory/memory_layers.h"
#include "plan/memory/memory_share.h"
#include "plan/memory/memory_workspace.h"
#include "plan/memory/pipeline_memory.h"
#include "plan/memory/state_bytes.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::plan {
namespace {

using enum MemoryPurpose;
using layout::Axis;

// Part of a sum that is in transfer at once (comm/gloo/gloo_collectives.cpp).
constexpr double kGlooRound = 32.0 * (1 << 20);

// Per element of a weight: what an island's checkpoint holds of an outer loop's state. The first island
// writes what all agree on.
int64_t outer_saved_bytes(const recipe::OuterOptions& outer, int64_t wide, bool first_worker) {
  if (outer.method == recipe::Outer::kNone) return 0;
  const int64_t agreed = 2 + (recipe::outer_momentum_of(outer) > 0 ? 1 : 0),
                own = outer.method == recipe::Outer::kDelayCorrected ? 1 : 0;
  return wide * ((first_worker ? agreed : 0) + own);
}

// A table of the ranks of a run asks for each in turn, and all stages of a pipeline share the lists.
std::shared_ptr<const layout::Schedule> schedule_of(const layout::MeshRank& place, int64_t micro_batches) {
  struct Known {
    int64_t ranks = 0, micro_batches = 0;
    layout::PipelineOptions options;
    std::shared_ptr<const layout::Schedule> schedule;
  };
  thread_local Known known;
  const int64_t ranks = place.mesh.size(Axis::kPp);
  if (known.schedule == nullptr || known.ranks != ranks || known.micro_batches != micro_batches ||
      known.options != place.pipelined) {
    known = {
        ranks, micro_batches, place.pipelined,
        std::make_shared<const layout::Schedule>(layout::make_schedule(place.pipeline(), micro_batches))};
  }
  return known.schedule;
}

class RankPlan {
 public:
  RankPlan(const MemoryRequest& request, const RankRequest& rank)
      : share_(request, rank), whole_(request), rank_(rank), mesh_(rank.place.mesh) {
    if (request.recompute_layers == 0 || request.recompute == recipe::Recompute::kNone) return;
    plain_request_ = request;
    plain_request_.recompute = recipe::Recompute::kNone;
    plain_.emplace(plain_request_, rank);
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
    always[kData] =
        8 * (numbers * share_.local.tokens() + share_.local.documents_at_once() + 1) + orders_of_rows();
    // Experts multiply the rows of own tokens, and of those of the ranks that share their tensors.
    MemoryRequest products = of_own_layers();
    const int64_t per_token = whole_.model.experts_per_token * mesh_.size(Axis::kEtp);
    products.model.experts_per_token = std::max<int64_t>(1, largest_share(per_token, share_.tp));
    always[kWorkspace] = kept_by_threads(products) + thread_buffers();
    PurposeBytes passing = always;
    passing[kParameters] += state.passing_weights;
    passing[kGradients] += state.passing_gradients;
    // The parts of a sum, one of every rank, to which each adds its share: at most a round of Gloo's, for the
    // gradients that are summed at once.
    plan.communication = rank_.processes ? std::min(kGlooRound, state.largest_sum) : 0;
    const double saved = saved_bytes() * number(whole_.checkpoint_copies);
    if (whole_.saves_between) passing[kCheckpoint] = saved;
    add_passes(passing, plan.moments);
    PurposeBytes summing = always;
    if (whole_.saves_between) summing[kCheckpoint] = saved;
    summing[kGradients] += state.stage_sums;
    if (state.stage_sums > 0) plan.moments.push_back({"sums of stages", summing});
    PurposeBytes updating = always;
    if (whole_.saves_between) updating[kCheckpoint] = saved;
    updating[kWorkspace] += state.updating;
    plan.moments.push_back({"update", updating});
    always[kCheckpoint] = saved;
    always[kParameters] += state.early_weights;
    plan.moments.push_back({"last save", always});

    const double tokens_per_step =
                     number(whole_.batch) * number(whole_.sequence) / number(mesh_.size(Axis::kDp)),
                 bytes_of_token = 3 * 8;
    plan.not_tensors =
        bytes_of_token * (tokens_per_step * (number(whole_.prefetch) + 3) + whole_.tokens()) + on_host();
    return plan;
  }

 private:
  // The copy that is saved: masters and states that no rank before this one writes.
  double saved_bytes() const {
    double sum = 0;
    for (const layout::ParameterSpec& spec : layout::parameters_of(whole_.model, rank_.place)) {
      // Stages on two ranks, tied embeddings.
      if (spec.pipeline_ranks.front() < rank_.place.coordinate(Axis::kPp)) continue;
      const layout::Placement placement =
          layout::placement_of(spec, mesh_, rank_.place.coordinate(Axis::kPp));
      const layout::AxisSet copies = layout::copied_over(placement);
      if (rank_.place.zero == 0 && mesh_.index_in_group(rank_.place.rank, copies) > 0) continue;
      layout::Shape box =
          layout::rectangle_of(placement, mesh_, rank_.place.rank, spec.tensor.global_shape).length;
      const double elements = number(layout::volume(box));
      if (elements == 0) continue;
      const double ranks = rank_.place.zero > 0 ? number(mesh_.size(mesh_.shared_over(copies))) : 1;
      if (spec.frozen) {  // its own master
        sum += (layout::kept_wide(spec) ? share_.wide : share_.element) * elements / ranks;
        continue;
      }
      box[0] = whole_bytes(number(box[0]) / ranks + 0.5);
      const recipe::OuterOptions& outer = whole_.optimizer.outer;
      const int64_t wide = wide_bytes(whole_.dtype),
                    not_saved = recipe::outer_state_bytes(outer, wide) -
                                outer_saved_bytes(outer, wide, rank_.first_worker);
      sum += number(recipe::state_bytes(whole_.optimizer, spec.tensor.role, spec.layer,
                                        spec.tensor.global_shape, box, wide, spec.set)) +
             (share_.wide - number(not_saved)) * elements / ranks;
    }
    return sum;
  }

  // Attention cuts the keys that it sees, which on context ranks are the row's.
  double thread_buffers() const {
    const bool loss = has_stage(rank_.place.pipeline().stages() - 1);
    MemoryRequest seen = of_own_layers();
    const double own = buffers_of_threads(seen, loss);
    if (share_.cp == 1) return own;
    seen.sequence = whole_bytes(whole_.tokens());
    seen.documents = whole_bytes(whole_.documents_at_once());
    return std::max(own, buffers_of_threads(seen, false));
  }

  // For each layer with experts on other ranks, the order of the received rows, and back; or which tokens are
  // sent.
  double orders_of_rows() const {
    if (mesh_.size(Axis::kEp) * mesh_.size(Axis::kEtp) == 1 ||
        rank_.experts.dispatcher == recipe::Dispatcher::kAllGather)
      return 0;
    double layers = 0;
    each_layer([&](int64_t layer) {
      layers += whole_.model.channel_mixer(layer) == recipe::ChannelMixer::kExperts ? 1 : 0;
    });
    if (share_.tokens_travel()) return 8 * share_.tokens_that_come() * layers;
    const double rows = number(largest_share(share_.local.sequence, share_.tp) * mesh_.size(Axis::kEtp) *
                               whole_.model.experts_per_token);
    return 2 * 8 * rows * layers;
  }

  // The request as if the layers of this rank were all layers: threads keep buffers for the products and
  // operators of these.
  MemoryRequest of_own_layers() const {
    MemoryRequest own = share_.local;
    own.layer_numbers.clear();
    std::vector<recipe::Mixer> mixers;
    own.model.dense_layers.clear();
    each_layer([&](int64_t layer) {
      if (whole_.model.channel_mixer(layer) == recipe::ChannelMixer::kDense)
        own.model.dense_layers.push_back(std::ssize(mixers));
      mixers.push_back(share_.local.model.mixer(layer));
      own.layer_numbers.push_back(layer);
    });
    own.model.layers = std::ssize(mixers);
    if (!mixers.empty()) own.model.mixers = std::move(mixers);
    return own;
  }

  // If values are fetched and released for the passes through a layer (stage 3), copies of them are too;
  // copies of values outside the layers stay from one update to the next.
  double packed() const {
    if (!packs(whole_)) return 0;
    const bool dense_come = values_come({Axis::kDp, Axis::kCp}), experts_come = values_come({Axis::kEdp});
    double stay = 0, most_of_a_layer = 0;
    each_layer([&](int64_t layer) {
      double coming = 0;
      const recipe::ChannelMixer channel = whole_.model.channel_mixer(layer);
      for (const auto& weight : mixer_weights(share_.local, share_.local.model.mixer(layer)))
        (dense_come ? coming : stay) += packed_product_bytes(share_.local, layer, weight);
      for (const auto& weight : channel_weights(share_.local.model, channel))
        ((channel == recipe::ChannelMixer::kExperts ? experts_come : dense_come) ? coming : stay) +=
            packed_product_bytes(share_.local, layer, weight);
      most_of_a_layer = std::max(most_of_a_layer, coming);
    });
    if (has_stage(rank_.place.pipeline().stages() - 1))
      stay += packed_weight_bytes(share_.local, {share_.local.model.vocabulary, share_.local.model.hidden},
                                  passes_of_head(whole_));
    return stay + most_of_a_layer;
  }
  bool values_come(const layout::AxisSet& copies) const {
    return rank_.place.zero >= 3 && mesh_.size(mesh_.shared_over(copies)) > 1;
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

  // Whether train.recompute is about this layer, and whether the whole layer runs again.
  bool recomputed(int64_t layer) const {
    if (!plain_) return true;
    const layout::Pipeline pipeline = rank_.place.pipeline();
    const int64_t layers = whole_.model.layers;
    return layer - pipeline.layers_of(pipeline.stage_with(layer, layers), layers).begin <
           whole_.recompute_layers;
  }
  bool runs_again(int64_t layer) const { return runs_layers_again(whole_.recompute) && recomputed(layer); }
  const RankShare& share_of(int64_t layer) const { return recomputed(layer) ? share_ : *plain_; }
  // The norm of a layer behind one that runs again runs again with that one, and only its result is kept.
  double norm_not_kept(const layout::Range& layers, int64_t layer) const {
    const bool behind = layer > layers.begin && runs_again(layer - 1) && !runs_again(layer);
    return behind ? share_.between + share_.norm_statistics() : 0;
  }

  // For a stage: what its layers keep of a micro-batch in memory.
  double stage_kept(const layout::Range& layers) const {
    const bool post = whole_.model.wiring == recipe::Wiring::kPostNorm;
    double kept = 0;
    for (int64_t layer = layers.begin; layer < layers.end(); ++layer) {
      kept += runs_again(layer) ? states_kept(layer) + (whole_.offload ? 0 : share_.between)
                                : layer_kept(layer) - norm_not_kept(layers, layer);
    }
    // The first norm precedes the recomputed parts and is not asked.
    if (layers.length == 0 || !runs_again(layers.begin)) return kept;
    if (whole_.offload) return kept + share_.between + share_.norm_statistics();
    return kept + (post ? share_.between : 0);
  }
  // For a recomputed layer, in addition to its input.
  double states_kept(int64_t layer) const {
    const double states = share_.entering_states(layer);
    MixerResultBytes mixer = mixer_result_bytes(share_.local, layer);
    // Over context ranks that cut documents delta rules are run again, for they are folded in two steps.
    if (share_.cp > 1 && !share_.deals_out_linear_heads() &&
        recipe::operators_of_layer(share_.local.model, layer).delta_rule.heads > 0)
      mixer = {};
    if (!whole_.offload) return states + mixer.total();
    return share_.small(states) + share_.small(mixer.output) + share_.small(mixer.log_sums) +
           share_.small(mixer.states);
  }
  // What train.offload = host keeps of a layer on the device where it stays, or comes early.
  double moved_to_host(const layout::Range& layers, int64_t layer) const {
    if (!whole_.to_host || layer < layers.begin || layer >= layers.end()) return 0;
    return moved_to_host_bytes(share_.local, layer, share_.between, whole_.host_share.value_or(1));
  }
  // In the host's memory, of as many micro-batches as are on their way at once.
  double on_host() const {
    double sum = 0;
    const bool stays = rank_.place.pipeline().ranks() == 1;
    for (int64_t chunk = 0; whole_.to_host && chunk < rank_.place.pipeline().chunks(); ++chunk) {
      const layout::Range layers = layers_backward(chunk);
      for (int64_t layer = layers.begin; layer < layers.end() - (stays ? 2 : 0); ++layer)
        sum += moved_to_host_bytes(share_.local, layer, share_.between, whole_.host_share.value_or(0));
    }
    const int64_t micro_batches =
        std::max<int64_t>(1, share_.local.batch / std::max<int64_t>(1, share_.local.micro_batch));
    return on_host_of(whole_, sum * number(std::min(rank_.place.pipeline().ranks(), micro_batches)));
  }
  // The memory of a forward pass that keeps nothing.
  double evaluation_of(int64_t layer) const {
    return std::max(mixer_memory(share_.local, layer).evaluation,
                    channel_memory(share_.local, whole_.model.channel_mixer(layer), layer).evaluation);
  }
  double layer_kept(int64_t layer) const {
    const RankShare& share = share_of(layer);
    const BlockShare of_mixer = share.mixer(layer), of_channel = share.channel(layer);
    if (!whole_.offload)
      return share.norm_before(layer, false) + of_mixer.kept + share.norm_before(layer, true) +
             of_channel.kept;
    return 2 * share_.small(share_.norm_statistics()) + of_mixer.stays + of_channel.stays;
  }
  // Those of the stage that keep something for a backward pass: of the first stage without the layers that
  // are frozen with all that comes before them. Other stages give the gradient of what has come to them.
  layout::Range layers_backward(int64_t chunk) const {
    const layout::Range layers = layers_of(chunk);
    if (whole_.passes == nullptr || !first(chunk)) return layers;
    const int64_t from = std::clamp(whole_.passes->first_layer_backward(), layers.begin, layers.end());
    return {from, layers.end() - from};
  }
  layout::Range layers_of(int64_t chunk) const {
    return rank_.place.pipeline().layers_of(rank_.place.stage_of(chunk), whole_.model.layers);
  }
  bool first(int64_t chunk) const { return rank_.place.stage_of(chunk) == 0; }
  bool last(int64_t chunk) const {
    return rank_.place.stage_of(chunk) == rank_.place.pipeline().stages() - 1;
  }

  // A table of angles is made where a layer of the stage turns something.
  double angles_of(int64_t chunk) const {
    const layout::Range layers = layers_of(chunk);
    for (int64_t layer = layers.begin; layer < layers.end(); ++layer) {
      const recipe::OperatorSizes sizes = recipe::operators_of_layer(share_.local.model, layer);
      if (sizes.attention.rotary_dim > 0 || sizes.angles > 0) return rotary_bytes(share_.local);
    }
    return 0;
  }

  // Outside the layers: angles; the order of the ids in a share of the vocabulary; what is kept from the last
  // layer to the loss's backward pass.
  double beside_layers(int64_t chunk) const {
    const double ids = first(chunk) && share_.tp > 1 ? 2 * 8 * share_.local.tokens() / number(share_.tp) : 0;
    return angles_of(chunk) + ids;
  }
  double of_loss(int64_t chunk) const {
    if (!last(chunk)) return 0;
    // Tensor ranks compute the gradient on demand, from gathered values; a single rank computes it with the
    // loss.
    return share_.last_norm() + (share_.tp > 1 ? 3 * share_.local.tokens() * share_.wide : share_.between);
  }

  void add_passes(const PurposeBytes& always, std::vector<MemoryMoment>& moments) {
    const layout::Pipeline pipeline = rank_.place.pipeline();
    if (pipeline.ranks() == 1) return stage_moments(0, beside_layers(0), false, always, moments);
    std::vector<StageBytes> stages;
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      StageBytes& stage =
          stages.emplace_back(StageBytes{.hidden = share_.between, .read_back = whole_.offload});
      // Hidden states from other ranks are counted as entering.
      const bool shared = !first(chunk) && !whole_.offload && layers_of(chunk).length > 0;
      stage.kept = stage_kept(layers_backward(chunk)) - (shared ? share_.between : 0) + beside_layers(chunk) +
                   of_loss(chunk);
      stage.postponed = last(chunk) ? share_.hidden : 0;
      const layout::Range layers = layers_of(chunk);
      for (int64_t layer = layers.begin; layer < layers.end(); ++layer)
        stage.postponed += share_.mixer(layer).postponed + share_.channel(layer).postponed;
    }
    const auto of_chunks = beside_stages(*schedule_of(rank_.place, share_.local.batch),
                                         rank_.place.coordinate(Axis::kPp), stages);
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      const BesideStage& beside = of_chunks[static_cast<size_t>(chunk)];
      if (beside.backward)
        stage_moments(chunk, *beside.backward + beside_layers(chunk), false, always, moments);
      if (beside.backward_input)
        stage_moments(chunk, *beside.backward_input + beside_layers(chunk), true, always, moments);
    }
  }

  // `beside`: everything in addition to what the layers have kept of the micro-batch of this backward pass.
  // postpones: products for weights wait.
  void stage_moments(int64_t chunk, double beside, bool postpones, const PurposeBytes& always,
                     std::vector<MemoryMoment>& moments) {
    const layout::Range layers = layers_backward(chunk);
    const auto add = [&](std::string name, double activations, double workspace) {
      PurposeBytes bytes = always;
      bytes[kActivations] += activations;
      bytes[kWorkspace] += workspace;
      moments.push_back({std::move(name), bytes});
    };
    const bool pipelined = rank_.place.pipeline().ranks() > 1;
    double kept = beside + stage_kept(layers);
    for (int64_t layer = layers_of(chunk).begin; layer < layers.begin; ++layer)
      add(fmt::format("forward of layer {}, frozen", layer), beside + evaluation_of(layer), 0);
    // The gradient of the last hidden states, which the loss of a single rank leaves; what the next stage has
    // sent is counted separately.
    const double entered = last(chunk) && share_.tp == 1 ? share_.between : 0;
    if (last(chunk)) {
      // The gradient of hidden states: tensor ranks sum theirs over all tokens when its inputs are gone.
      add("loss",
          kept + share_.last_norm() + (share_.tp > 1 ? share_.hidden : share_.between) +
              3 * share_.local.tokens() * share_.wide + moved_to_host(layers, layers.end() - 1) +
              moved_to_host(layers, layers.end() - 2),
          loss_workspace(share_.local));
      if (postpones) kept += share_.hidden;
    }
    for (int64_t layer = layers.end() - 1; layer >= layers.begin; --layer) {
      const RankShare& share = share_of(layer);
      const BlockShare of_channel = share.channel(layer), of_mixer = share.mixer(layer);
      const std::string name = fmt::format("backward of layer {}, ", layer);
      const bool ends_stage = pipelined && layer == layers.end() - 1;
      const double at_end = ends_stage ? end_of_stage(layer, last(chunk)) : 0;
      if (runs_again(layer)) {
        // A layer as if nothing were dropped, up to the norm of the next one; and the gradients that entered
        // it.
        const bool next = layer + 1 < layers.end(), post = whole_.model.wiring == recipe::Wiring::kPostNorm;
        const double read_back = whole_.offload ? share_.between : 0,
                     normed = (post ? 0 : share_.between) + (share_.tp > 1 ? share_.hidden : 0);
        const double results = next ? 2 * share_.between + share_.norm_statistics() : share_.between;
        const double gradients = ends_stage ? at_end : (post && next ? 1 : 2) * share_.between;
        const double whole = kept - states_kept(layer) + read_back + moved_to_host(layers, layer - 1) +
                             normed + of_mixer.kept + results + entered + gradients;
        add(name + "channel", whole + share_.norm_before(layer, true) + of_channel.kept + of_channel.backward,
            of_channel.workspace);
        add(name + "mixer", whole + of_mixer.backward, of_mixer.workspace);
        kept -= states_kept(layer) + (whole_.offload ? 0 : share_.between);
      } else if (whole_.offload) {
        // Read back: of the channel's products, which come first, what they read; the norm before them later.
        const bool selective = whole_.recompute == recipe::Recompute::kSelective;
        const double not_joined = selective && share_.tp == 1 ? 0 : share_.between;
        add(name + "channel",
            kept + share_.norm_before(layer, true) - not_joined + of_channel.kept - of_channel.stays +
                entered + at_end + of_channel.backward,
            of_channel.workspace);
        add(name + "mixer",
            kept + share_.norm_before(layer, false) - not_joined + of_mixer.kept - of_mixer.stays + entered +
                of_mixer.backward,
            of_mixer.workspace);
        kept -= layer_kept(layer);
      } else {
        add(name + "channel", kept + entered + at_end + of_channel.backward, of_channel.workspace);
        kept -= of_channel.kept + share.norm_before(layer, true);
        if (postpones) kept += of_channel.postponed;
        add(name + "mixer", kept + entered + of_mixer.backward, of_mixer.workspace);
        kept -= of_mixer.kept + share.norm_before(layer, false) - norm_not_kept(layers, layer);
        if (postpones) kept += of_mixer.postponed;
        continue;
      }
      if (postpones) kept += of_channel.postponed + of_mixer.postponed;
    }
    if (layers.length == 0 && !last(chunk)) add("a stage without layers", kept + entered, 0);
  }

  // At the end of a stage LibTorch joins the residual and the branch, whose gradients are then two tensors; a
  // dense mixer counts them so if a norm joins them with two factors. In one precision and with a factor of 1
  // the branch's gradient is the incoming one.
  double end_of_stage(int64_t layer, bool last) const {
    if (whole_.model.channel_mixer(layer) != recipe::ChannelMixer::kDense) return 0;
    const recipe::ModelConfig::ResidualFactors factors = whole_.model.channel_factors();
    const double counted = factors.residual != factors.branch ? 2 : 1;
    return ((!last && share_.element == share_.wide && factors.branch == 1 ? 1 : 2) - counted) *
           share_.between;
  }

  RankShare share_;
  // Of layers that are not recomputed, where others are; empty: all layers are as `share_` has them.
  MemoryRequest plain_request_{};
  std::optional<RankShare> plain_;
  const MemoryRequest& whole_;
  const RankRequest& rank_;
  const layout::Mesh& mesh_;
};

}  // namespace

MemoryPlan exact_rank_memory(const MemoryRequest& request, const RankRequest& rank) {
  if (!request.model.freezes() || request.passes != nullptr) return RankPlan(request, rank).plan();
  MemoryRequest with_passes = request;
  with_passes.passes = std::make_shared<const WeightPasses>(request.model, &rank.place);
  return RankPlan(with_passes, rank).plan();
}

}  // namespace longhaul::plan
