#include "plan/memory/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "layout/sum_tree.h"
#include "plan/memory/memory_layers.h"
#include "plan/memory/memory_workspace.h"
#include "plan/memory/update_memory.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::plan {
namespace {

using enum MemoryPurpose;

struct ParameterCounts {
  double all = 0, wide = 0;  // wide: norms and routers, which stay in the precision of sums
  double frozen = 0, frozen_wide = 0;
  double state_bytes = 0;  // of the optimizer, in addition to masters
  UpdateMemory updating;
};

void count(const layout::ParameterSpec& spec, double times, const MemoryRequest& request,
           ParameterCounts& counts) {
  const std::vector<int64_t>& shape = spec.tensor.global_shape;
  if (spec.frozen) {
    const double elements = times * number(spec.elements()), wide = layout::kept_wide(spec) ? elements : 0;
    counts.all += elements, counts.frozen += elements;
    counts.wide += wide, counts.frozen_wide += wide;
    return;
  }
  counts.state_bytes +=
      times * number(recipe::state_bytes(request.optimizer, spec.tensor.role, spec.layer, shape, shape,
                                         wide_bytes(request.dtype), spec.set));
  counts.all += times * number(spec.elements());
  counts.updating.add(spec, shape, /*ranks=*/1, times);
  if (layout::kept_wide(spec)) counts.wide += times * number(spec.elements());
}

// One layer of each kind represents all of them, because making the list of a large model with experts takes
// milliseconds.
ParameterCounts count_parameters(const MemoryRequest& request) {
  const recipe::ModelConfig& model = request.model;
  ParameterCounts counts{.updating = UpdateMemory(request.optimizer, wide_bytes(request.dtype))};
  if (model.freezes()) {  // layers of one kind may differ in what trains
    for (const auto& spec : layout::parameters(model)) count(spec, 1, request, counts);
    return counts;
  }
  recipe::ModelConfig small = model;
  small.layers = 0;
  small.predict_ahead = 0;
  for (const auto& spec : layout::parameters(small)) count(spec, 1, request, counts);
  small.layers = 1;
  std::map<std::pair<recipe::Mixer, recipe::ChannelMixer>, double> layers;
  for (int64_t l = 0; l < model.layers; ++l) layers[{model.mixer(l), model.channel_mixer(l)}] += 1;
  const auto make_one = [&](recipe::Mixer mixer, recipe::ChannelMixer channel) {
    small.mixers = {mixer};
    small.dense_layers =
        channel == recipe::ChannelMixer::kDense ? std::vector<int64_t>{0} : std::vector<int64_t>{};
  };
  for (const auto& [kind, times] : layers) {
    make_one(kind.first, kind.second);
    for (const auto& spec : layout::parameters(small)) {
      if (spec.layer >= 0) count(spec, times, request, counts);
    }
  }
  if (model.predict_ahead > 0 && model.layers > 0) {
    make_one(model.mixer(model.layers - 1), model.channel_mixer(model.layers - 1));
    small.predict_ahead = 1;
    for (const auto& spec : layout::parameters(small)) {
      if (spec.ahead >= 0) count(spec, number(model.predict_ahead), request, counts);
    }
  }
  std::set<std::string> counted;
  for (const recipe::Mixer mixer : recipe::mixers_used(model)) {
    const auto shared = recipe::entry_of(mixer).shared;
    if (shared == nullptr) continue;
    for (const auto& tensor : shared(model)) {
      if (!counted.insert(tensor.name).second) continue;
      const std::vector<int64_t> shape =
          tensor.matrix() ? std::vector<int64_t>{tensor.out, tensor.in} : std::vector<int64_t>{tensor.out};
      count({.tensor = {tensor.name, shape, tensor.role}}, 1, request, counts);
    }
  }
  return counts;
}

double packed_layer_bytes(const MemoryRequest& request, int64_t layer) {
  double sum = 0;
  const auto add = [&](const std::vector<ProductWeight>& weights) {
    for (const auto& weight : weights) sum += packed_product_bytes(request, layer, weight);
  };
  add(mixer_weights(request, request.model.mixer(layer)));
  add(channel_weights(request.model, request.model.channel_mixer(layer)));
  return sum;
}

double packed_bytes(const MemoryRequest& request) {
  if (!packs(request)) return 0;
  double sum =
      packed_weight_bytes(request, {request.model.vocabulary, request.model.hidden}, passes_of_head(request));
  for (int64_t l = 0; l < request.model.layers; ++l) {
    sum += packed_layer_bytes(request, l);
  }
  const double module = packed_weight_bytes(request, {request.model.hidden, 2 * request.model.hidden});
  if (request.model.predict_ahead > 0)
    sum += number(request.model.predict_ahead) *
           (module + packed_layer_bytes(request, request.model.layers - 1));
  return sum;
}

// During a step, each as large as the gradients.
int64_t sums_that_wait(const MemoryRequest& request) {
  const int64_t micro_batches =
      std::max<int64_t>(1, request.batch / std::max<int64_t>(1, request.micro_batch));
  return layout::SumTree(micro_batches).run(0, micro_batches).most_waiting;
}

PurposeBytes state_bytes(const MemoryRequest& request, const ParameterCounts& counts) {
  const double e = number(element_bytes(request.dtype)), wide = number(wide_bytes(request.dtype));
  PurposeBytes bytes;
  bytes[kParameters] = e * counts.all + (wide - e) * counts.wide;
  bytes[kGradients] = wide * (counts.all - counts.frozen);
  // Its state, and a master if the weight itself is not one.
  bytes[kOptimizer] = counts.state_bytes +
                      (e < wide ? wide * (counts.all - counts.wide - counts.frozen + counts.frozen_wide) : 0);
  bytes[kPackedWeights] = packed_bytes(request);
  return bytes;
}

// Activations that live from the forward pass of each block on, up to block b of 2 · layers; blocks
// alternate, mixer and channel.
class Blocks {
 public:
  explicit Blocks(const MemoryRequest& request)
      : model_(request.model),
        norm_(norm_bytes(request)),
        first_backward_(request.passes == nullptr ? 0 : request.passes->first_layer_backward()) {
    if (request.passes != nullptr) {
      for (int64_t l = 0; l < model_.layers; ++l) {
        each_.push_back(mixer_memory(request, l));
        each_.push_back(channel_memory(request, model_.channel_mixer(l), l));
      }
    }
    for (const recipe::ChannelMixer mixer : model_.channel_mixers_used())
      channels_[mixer] = channel_memory(request, mixer);
    // Layers with the same mixer are alike, except the first one of the model.
    for (int64_t l = 0; l < model_.layers; ++l) {
      if (l == 0) first_ = mixer_memory(request, l);
      if (l > 0 && !mixers_.contains(model_.mixer(l))) mixers_[model_.mixer(l)] = mixer_memory(request, l);
    }
    if (request.recompute != recipe::Recompute::kSelective) return;
    norm_ -= hidden_bytes(request);
    for (auto& [mixer, memory] : channels_) keep_less(memory);
    keep_less(first_);
    for (auto& [mixer, memory] : mixers_) keep_less(memory);
    for (BlockMemory& memory : each_) keep_less(memory);
  }
  const BlockMemory& at(int64_t block) const {
    if (!each_.empty()) return each_[static_cast<size_t>(block)];
    return block % 2 == 1 ? channels_.at(model_.channel_mixer(block / 2))
           : block == 0   ? first_
                          : mixers_.at(model_.mixer(block / 2));
  }
  int64_t count() const { return 2 * model_.layers; }
  // Layers before this one are frozen with all that comes before them: they keep nothing for a backward pass.
  int64_t first_backward() const { return first_backward_; }
  double kept(int64_t block) const {
    if (block / 2 < first_backward_) return 0;
    // The mixer's norm is the channel's too, or there is no channel.
    const bool shared = block % 2 == 1 && (model_.wiring == recipe::Wiring::kParallel ||
                                           model_.channel == recipe::Channel::kNone);
    return (shared ? 0 : norm_) + at(block).kept;
  }
  double evaluation() const {
    double most = first_.evaluation;
    for (const auto& [mixer, memory] : channels_) most = std::max(most, memory.evaluation);
    for (const auto& [mixer, memory] : mixers_) most = std::max(most, memory.evaluation);
    return most;
  }

 private:
  static void keep_less(BlockMemory& memory) {
    memory.kept -= memory.cheap;
    memory.backward = memory.again;
  }
  const recipe::ModelConfig& model_;
  double norm_;
  int64_t first_backward_;
  BlockMemory first_;
  std::map<recipe::ChannelMixer, BlockMemory> channels_;
  std::map<recipe::Mixer, BlockMemory> mixers_;
  std::vector<BlockMemory> each_;  // where tensors are frozen: of every block
};

std::string name_of_block(int64_t block) {
  return fmt::format("backward of layer {}, {}", block / 2, block % 2 == 0 ? "mixer" : "channel");
}

// Modules that predict further ahead keep this until the loss, where their backward pass begins: each one
// keeps a layer, its input, the joined output of two norms and the last norm; and the loss leaves the
// gradient of its hidden states at once.
double predictions_bytes(const MemoryRequest& request, const Blocks& blocks) {
  if (request.model.predict_ahead == 0 || request.model.layers == 0) return 0;
  const int64_t last = 2 * (request.model.layers - 1);
  const double layer = blocks.kept(last) + blocks.kept(last + 1);
  return number(request.model.predict_ahead) * (layer + 3 * norm_bytes(request) + 4 * hidden_bytes(request));
}

// The passes through the model; `always` exists all the time.
void add_passes(const MemoryRequest& request, const PurposeBytes& always,
                std::vector<MemoryMoment>& moments) {
  MemoryRequest plain_request = request;
  plain_request.recompute = recipe::Recompute::kNone;
  const int64_t layers = request.model.layers, recomputed = request.recompute_layers > 0
                                                                ? std::min(layers, request.recompute_layers)
                                                                : layers;
  const bool some = recomputed < layers && request.recompute != recipe::Recompute::kNone;
  // plain: of layers that are not recomputed, where others are.
  const Blocks blocks(request), plain(some ? plain_request : request);
  const auto of = [&](int64_t block) -> const Blocks& { return block / 2 < recomputed ? blocks : plain; };
  const double hidden = hidden_bytes(request),
               logits_each = 3 * request.tokens() * number(wide_bytes(request.dtype));
  const auto add = [&](std::string name, double activations, double workspace) {
    PurposeBytes bytes = always;
    bytes[kActivations] += activations;
    bytes[kWorkspace] += workspace;
    moments.push_back({std::move(name), bytes});
  };
  double kept = rotary_bytes(request) + predictions_bytes(request, plain) + embedding_bytes(request);
  const int64_t first = blocks.first_backward();
  if (first > 0) add("forward of frozen layers", kept + blocks.evaluation() - hidden, 0);
  // For each layer, what its own part of the passes needs; full recomputation computes it again instead of
  // reading it.
  if (request.offload) {
    const bool again = runs_layers_again(request.recompute);
    // The last two layers stay, and what comes next from the host is there one layer early.
    const auto moved = [&](int64_t layer) {
      return request.to_host && layer >= first
                 ? moved_to_host_bytes(request, layer, hidden, request.host_share.value_or(1))
                 : 0;
    };
    add("loss",
        kept + norm_bytes(request) + 2 * hidden + logits_each + moved(request.model.layers - 1) +
            moved(request.model.layers - 2),
        loss_workspace(request));
    for (int64_t b = blocks.count() - 1; b >= 2 * first; --b) {
      // The whole layer is there.
      const double beside = again && b % 2 == 0 ? 0 : again ? blocks.kept(b - 1) : 0;
      add(name_of_block(b),
          kept + beside + blocks.kept(b) + 2 * hidden + blocks.at(b).backward + moved(b / 2 - 1),
          blocks.at(b).workspace);
    }
    return;
  }
  // The first `twice` layers run again, the others do not.
  const double last_norm = norm_bytes(request);
  const int64_t twice = runs_layers_again(request.recompute) ? recomputed : 0, whole = std::max(first, twice);
  const bool post = request.model.wiring == recipe::Wiring::kPostNorm;
  // The norm of the first of the others runs again with the layer in front of it, and only its result is
  // kept.
  const auto kept_of = [&](int64_t block) {
    const bool behind = twice > first && block == 2 * twice;
    return of(block).kept(block) - (behind ? last_norm - hidden : 0);
  };
  // For each layer its input and the result of its mixer; post-norm: the input of the first norm.
  for (int64_t l = first; l < twice; ++l) kept += hidden + mixer_result_bytes(request, l).total();
  if (twice > first && post) kept += hidden;
  for (int64_t b = 2 * twice; b < blocks.count(); ++b) kept += kept_of(b);
  // The loss leaves the gradient of the last hidden states, which stays until the whole backward pass is
  // over.
  add("loss", kept + last_norm + hidden + (twice == layers && layers > 0 ? hidden : 0) + logits_each,
      loss_workspace(request));
  for (int64_t b = blocks.count() - 1; b >= 2 * whole; --b) {
    add(name_of_block(b), kept + hidden + of(b).at(b).backward, of(b).at(b).workspace);
    kept -= kept_of(b);
  }
  for (int64_t l = twice - 1; l >= first; --l) {
    // A layer as if nothing were dropped, up to the norm of the next one; and the gradients that entered it.
    const bool last = l == layers - 1;
    kept -= mixer_result_bytes(request, l).total();  // these are included in what the layer keeps
    const double results = last ? hidden : norm_bytes(request), entered = (post && !last ? 1 : 2) * hidden;
    const double mixer = kept + (post ? 0 : hidden) + blocks.at(2 * l).kept + results + entered + hidden;
    const BlockMemory &channel = blocks.at(2 * l + 1), &sequence = blocks.at(2 * l);
    add(name_of_block(2 * l + 1), mixer + blocks.kept(2 * l + 1) + channel.backward, channel.workspace);
    add(name_of_block(2 * l), mixer + sequence.backward, sequence.workspace);
    kept -= hidden;
  }
}

}  // namespace

double PurposeBytes::total() const { return std::accumulate(bytes_.begin(), bytes_.end(), 0.0); }

const MemoryMoment& MemoryPlan::fullest() const {
  LONGHAUL_ASSERT(!moments.empty());
  return *std::max_element(moments.begin(), moments.end(), [](const MemoryMoment& a, const MemoryMoment& b) {
    return a.bytes.total() < b.bytes.total();
  });
}

double MemoryPlan::device_peak() const {
  double most = 0;
  for (const MemoryMoment& moment : moments)
    most = std::max(most, moment.bytes.total() - moment.bytes[kData] - moment.bytes[kCheckpoint]);
  return most;
}

PurposeBytes MemoryPlan::peaks() const {
  PurposeBytes most;
  for (const MemoryMoment& moment : moments) {
    for (size_t i = 0; i < kMemoryPurposes; ++i) {
      const auto purpose = static_cast<MemoryPurpose>(i);
      most[purpose] = std::max(most[purpose], moment.bytes[purpose]);
    }
  }
  return most;
}

int64_t whole_bytes(double bytes) { return bytes < 9.2e18 ? static_cast<int64_t>(bytes) : INT64_MAX; }

MemoryPlan plan_memory(const MemoryRequest& request) {
  if (request.model.freezes() && request.passes == nullptr) {
    MemoryRequest with_passes = request;
    with_passes.passes = std::make_shared<const WeightPasses>(request.model);
    return plan_memory(with_passes);
  }
  MemoryPlan plan;
  const ParameterCounts counts = count_parameters(request);
  PurposeBytes always = state_bytes(request, counts);
  // Ids, labels, positions.
  const double numbers = request.model.position == recipe::Position::kLearned ? 3 : 2;
  always[kData] = 8 * (numbers * request.tokens() + request.documents_at_once() + 1);
  always[kWorkspace] = kept_by_threads(request) + buffers_of_threads(request);
  PurposeBytes saved = always;
  // Masters and states; a frozen tensor is its own master.
  const double narrow_frozen =
      number(wide_bytes(request.dtype) - element_bytes(request.dtype)) * (counts.frozen - counts.frozen_wide);
  saved[kCheckpoint] = number(request.checkpoint_copies) *
                       (number(wide_bytes(request.dtype)) * counts.all - narrow_frozen + counts.state_bytes);

  PurposeBytes passing = request.saves_between ? saved : always;
  PurposeBytes updating = passing;
  updating[kWorkspace] += counts.updating.bytes();
  plan.moments.push_back({"update", updating});
  if (request.elastic) passing[kGradients] *= 1 + number(sums_that_wait(request));
  add_passes(request, passing, plan.moments);
  if (request.evaluates) saved[kActivations] += Blocks(request).evaluation();
  plan.moments.push_back({request.evaluates ? "last save, evaluation" : "last save", saved});

  const double tokens_per_step = number(request.batch) * number(request.sequence), bytes_of_token = 3 * 8;
  // Batches that wait, one being made, one being cut into micro-batches, and the micro-batches.
  plan.not_tensors = bytes_of_token * (tokens_per_step * (number(request.prefetch) + 3) + request.tokens());
  double moved = 0;
  for (int64_t layer = 0; request.to_host && layer < request.model.layers - 2; ++layer)
    moved += moved_to_host_bytes(request, layer, hidden_bytes(request), request.host_share.value_or(0));
  plan.not_tensors += on_host_of(request, moved);
  return plan;
}

}  // namespace longhaul::plan
