#include "prove/prove_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "data/order/masked.h"
#include "layout/schedule/pipeline.h"
#include "parallel/pipeline/arrangement.h"
#include "prove/prove_mistakes.h"
#include "train/offload.h"

namespace longhaul::prove {
namespace {

using layout::Axis;

constexpr int64_t kRowTokens = 25;
constexpr int64_t kLeastOfProof = 64;  // bytes: all that layers keep
// Of each row: documents that end anywhere but at a cut, one of a single token, one as long as the row.
const std::vector<std::vector<int64_t>> kDocuments = {{7, 1, 17}, {25},     {5, 4, 3, 13}, {2, 23},
                                                      {1, 24},    {12, 13}, {8, 8, 9},     {1, 1, 20, 3}};

// The highest id stands for masked tokens, of which a third are.
data::Masking masks_of(int64_t step, int64_t vocabulary) {
  return {.share = 0.3,
          .mask_token = vocabulary - 1,
          .stream = RandomStream(kProofSeed, fmt::format("prove/masked/{}", step))};
}

ProofBatch batch_of(int64_t first_row, int64_t rows, int64_t step, int64_t vocabulary, bool packed,
                    bool masked) {
  const RandomStream stream(kProofSeed, fmt::format("prove/ids/{}", step));
  ProofBatch batch;
  std::vector<int64_t> lengths;
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    const std::vector<int64_t> documents =
        packed ? kDocuments[static_cast<size_t>(row) % kDocuments.size()] : std::vector<int64_t>{kRowTokens};
    lengths.insert(lengths.end(), documents.begin(), documents.end());
    for (int64_t t = 0; t < kRowTokens; ++t) {
      batch.ids.push_back(static_cast<int64_t>(
          stream.below(static_cast<uint64_t>(row * kRowTokens + t), static_cast<uint64_t>(vocabulary))));
    }
  }
  batch.layout = layout::in_rows(layout::make_packed(lengths), kRowTokens);
  if (masked) {
    batch.labels.resize(batch.ids.size());
    data::mask_tokens(masks_of(step, vocabulary), static_cast<uint64_t>(first_row * kRowTokens), batch.ids,
                      batch.labels);
  } else {
    batch.labels = layout::shifted_labels(batch.layout, batch.ids);
  }
  return batch;
}

// Labels weigh 0 to 3 quarters of 2; those that weigh nothing are none.
void weigh_labels(ProofBatch& batch, int64_t first_row, int64_t step) {
  const RandomStream stream(kProofSeed, fmt::format("prove/weights/{}", step));
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const uint64_t quarters = stream.below(static_cast<uint64_t>(first_row * kRowTokens) + i, 4);
    if (quarters == 0) batch.labels[i] = layout::kIgnoreLabel;
    batch.weights.push_back(0.5f * static_cast<float>(quarters));
  }
}

constexpr int64_t kFeatures = 7;

// Every third token or so has a row from outside, and an id that no table has.
void embed_from_outside(ProofBatch& batch, int64_t first_row, int64_t step) {
  const RandomStream stream(kProofSeed, fmt::format("prove/embedded/{}", step));
  std::vector<double> features;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const uint64_t number = (static_cast<uint64_t>(first_row * kRowTokens) + i) * (kFeatures + 1);
    if (stream.below(number, 3) != 0) continue;
    batch.embedded.push_back(static_cast<int64_t>(i));
    batch.ids[i] = -1;
    for (uint64_t f = 1; f <= kFeatures; ++f) features.push_back(stream.normal(number + f));
  }
  batch.features = at::tensor(features, at::kDouble).view({-1, kFeatures});
}

model::Beside projector(const recipe::ModelConfig& config, bool wanted) {
  if (!wanted) return {};
  layout::ParameterSpec spec;
  spec.tensor = {kProofProjector, {config.hidden, kFeatures}, layout::Role::kChannelUp};
  spec.init = {.kind = layout::Init::Kind::kNormal, .std = 1 / std::sqrt(static_cast<double>(kFeatures))};
  // Rows as long as those of the table: of two kinds the longer one would drown the other's gradients.
  for (const layout::ParameterSpec& each : layout::parameters(config)) {
    if (each.tensor.role == layout::Role::kEmbedding) spec.init.std *= each.init.std;
  }
  spec.decay = true;
  return {{spec}, [](model::ParameterSet& set) { set.add_stacked(kProofProjector, {kProofProjector}); }};
}

recipe::ModelConfig model_of(recipe::ModelConfig config, const parallel::Ranks& ranks,
                             const ProofMistake* mistake) {
  if (mistake != nullptr && mistake->model) mistake->model(ranks.place(), config);
  return config;
}

constexpr int64_t kLeast = 4;  // layers, and heads

int64_t least_layers(const std::vector<recipe::Mixer>& mixers) {
  return std::max(kLeast, std::ssize(mixers));
}

std::vector<recipe::Mixer> each_once(const std::vector<recipe::Mixer>& pattern) {
  std::vector<recipe::Mixer> mixers;
  for (const recipe::Mixer mixer : pattern) {
    if (std::ranges::find(mixers, mixer) == mixers.end()) mixers.push_back(mixer);
  }
  return mixers;
}

// A layer of each stage that has some, two of those that have more than others; what is then missing of
// `least` has the largest.
std::vector<int64_t> few_of_each(const std::vector<int64_t>& given, int64_t least) {
  int64_t fewest = INT64_MAX;
  for (const int64_t layers : given) fewest = layers > 0 ? std::min(fewest, layers) : fewest;
  std::vector<int64_t> few;
  for (const int64_t layers : given) few.push_back(layers == 0 ? 0 : layers > fewest ? 2 : 1);
  const int64_t missing = least - std::accumulate(few.begin(), few.end(), int64_t{0});
  if (missing > 0) few[static_cast<size_t>(std::ranges::max_element(given) - given.begin())] += missing;
  return few;
}

// So many that the ranks can share them, or those of the recipe.
int64_t few_experts(int64_t of_recipe, int64_t many, int64_t ranks) {
  const int64_t few = (std::min(of_recipe, many) + ranks - 1) / ranks * ranks;
  return std::min(of_recipe, few);
}

}  // namespace

ProofLayout of_small(const recipe::ModelConfig& model, ProofLayout layout) {
  std::vector<int64_t>& given = layout.parallel.pipeline.stage_layers;
  if (!given.empty()) given = few_of_each(given, least_layers(each_once(model.mixers)));
  return layout;
}

int64_t proof_rows(int64_t replicas) {
  constexpr int64_t kRows = 8;
  return kRows % replicas == 0 ? kRows : (kRows + 2 * replicas - 1) / (2 * replicas) * 2 * replicas;
}

recipe::ModelConfig made_small(recipe::ModelConfig model, const recipe::ParallelOptions& parallel) {
  model.mixers = each_once(model.mixers);  // then all of them again
  const std::vector<int64_t>& given = parallel.pipeline.stage_layers;
  const int64_t world = parallel.world(), many = (kLeast + world - 1) / world * world,
                least = least_layers(model.mixers);
  if (given.empty()) {
    model.layers = std::max(least, layout::Pipeline(parallel.pp, parallel.pipeline).stages());
  } else {
    const std::vector<int64_t> few = few_of_each(given, least);
    model.layers = std::accumulate(few.begin(), few.end(), int64_t{0});
  }
  recipe::GatedDeltaNetOptions& delta = model.gated_deltanet;
  const int64_t delta_heads = delta.heads > 0 ? delta.heads : model.heads;
  const bool grouped = model.softmax.kv_heads < model.heads ||
                       (delta.key_heads > 0 && delta.key_heads < delta_heads) || model.gla.key_heads > 0;
  // Few key heads stay as few: tensor ranks that outnumber them hold copies.
  const auto key_heads = [&](int64_t of_recipe) {
    return grouped && of_recipe < many && many % of_recipe == 0 ? of_recipe : many;
  };
  if (delta.key_heads > 0) delta.key_heads = key_heads(delta.key_heads);
  if (delta.heads > 0) delta.heads = 2 * many;
  delta.head_dim = std::min<int64_t>(delta.head_dim, 8);
  if (model.gla.key_heads > 0) model.gla.key_heads = key_heads(model.gla.key_heads);
  delta.key_dim = std::min<int64_t>(delta.key_dim, 6);
  model.kda.key_dim = std::min<int64_t>(model.kda.key_dim, 6);
  model.deltanet.key_dim = std::min<int64_t>(model.deltanet.key_dim, 6);
  model.kda.rank = std::min<int64_t>(model.kda.rank, 5);
  recipe::MlaOptions& mla = model.mla;  // a key is as wide as no value
  mla = {.kv_rank = 9,
         .query_rank = std::min<int64_t>(mla.query_rank, 7),
         .key_dim = 6,
         .rotary_dim = std::min<int64_t>(mla.rotary_dim, 4),
         .value_dim = 5,
         .norm_eps = std::max(mla.norm_eps, 0.3)};
  model.softmax.kv_heads = key_heads(model.softmax.kv_heads);
  model.heads = grouped ? 2 * many : many;
  model.head_dim = std::min<int64_t>(model.head_dim, 8);
  for (int64_t* const channels : {&model.tnl.gate_rank, &model.retnet.value_dim, &model.gla.key_dim,
                                  &model.gla.forget_rank, &model.lightnet.expand, &model.lightnet.gate_rank,
                                  &model.cosformer2.gate_rank, &model.metala.key_dim, &model.mamba2.state}) {
    *channels = std::min<int64_t>(*channels, 6);
  }
  // Heads of a few channels write next to nothing at first; a norm that blew that up would show rounding and
  // nothing else.
  for (double* const eps :
       {&model.tnl.norm_eps, &model.retnet.norm_eps, &model.gla.norm_eps, &model.cosformer2.norm_eps,
        &model.lightnet.norm_eps, &model.metala.norm_eps, &model.mamba2.norm_eps, &model.hgrn.norm_eps,
        &model.gated_deltanet.norm_eps, &model.kda.norm_eps, &model.deltanet.norm_eps}) {
    *eps = std::max(*eps, 0.3);
  }
  model.lcsm.norm_eps = std::max(model.lcsm.norm_eps, 4.0);  // its memory sums without decay
  if (model.heads % model.mamba2.groups != 0) model.mamba2.groups = 1;
  // any number of tensor ranks can have whole ones
  if (model.mamba2.norm_groups > 1) model.mamba2.norm_groups = model.heads;
  model.softmax.rotary_dim = std::min<int64_t>(model.softmax.rotary_dim, 4);
  model.toeplitz = std::min<int64_t>(model.toeplitz, 5);
  if (!model.lightnet.grid.empty()) {  // every document has room on it
    const size_t axes = model.lightnet.grid.size();
    model.lightnet.grid.assign(axes, axes == 1 ? kRowTokens : 5);
  }
  model.hidden = 24;
  model.intermediate = 20;
  model.vocabulary = 53;  // no number of ranks divides it
  model.experts = few_experts(model.experts, many, parallel.ep);
  model.experts_per_token = std::min<int64_t>(model.experts_per_token, 2);
  if (model.router.groups > 1) {
    model.router.groups = model.experts % 2 == 0 ? 2 : 1;
    model.router.groups_per_token = 1;
  }
  if (!model.dense_layers.empty()) model.dense_layers = {0};
  model.dense_intermediate = std::min<int64_t>(model.dense_intermediate, 28);
  model.shared_experts = std::min<int64_t>(model.shared_experts, 2);
  model.shared_intermediate = std::min<int64_t>(model.shared_intermediate, 12);
  model.predict_ahead = std::min<int64_t>(model.predict_ahead, 2);
  if (model.mup_base_hidden > 0) model.mup_base_hidden = 12;  // half of what it is here
  if (model.max_positions > 0) model.max_positions = kRowTokens + 3;
  model.cosformer.longest = std::max<int64_t>(model.cosformer.longest, kRowTokens + 3);
  return model;
}

namespace {

// The recipe's layers on the layout's stages, of a model that has nothing else.
void require_layers(const recipe::ModelConfig& model, const parallel::Arrangement& arrangement) {
  recipe::ModelConfig layers;
  layers.layers = model.layers;
  parallel::Arrangement stages{
      .mesh = {arrangement.mesh.size(Axis::kPp), {.pp = arrangement.mesh.size(Axis::kPp)}},
      .pipeline = arrangement.pipeline};
  parallel::require_possible(layers, stages);
}

}  // namespace

void require_dealt_out(const recipe::ModelConfig& model, const ProofLayout& layout) {
  require_layers(model, arrangement_of(model, layout));
  const recipe::ModelConfig small = made_small(model, layout.parallel);
  recipe::ModelConfig own = small;
  if (model.experts % layout.parallel.ep != 0) own.experts = model.experts;  // else few are enough to look at
  own.heads = model.heads;
  own.softmax.kv_heads = model.softmax.kv_heads;
  own.gla.key_heads = model.gla.key_heads;
  own.gated_deltanet.heads = model.gated_deltanet.heads;
  own.gated_deltanet.key_heads = model.gated_deltanet.key_heads;
  own.mamba2.groups = model.mamba2.groups;
  own.mamba2.norm_groups = model.mamba2.norm_groups;
  for (const recipe::ModelConfig* const each : {&std::as_const(own), &small})
    parallel::require_possible(*each, arrangement_of(*each, of_small(model, layout)));
}

ProofTask::ProofTask(const recipe::ModelConfig& config, Precision precision, const parallel::Ranks& ranks,
                     const ProofLayout& layout, int64_t rows)
    : ranks_(ranks),
      layout_(layout),
      rows_(rows),
      mistake_(layout.mistake),
      masked_(!config.causal),
      decoder_(model_of(config, ranks, mistake_), precision, at::kCPU, model::Use::kTraining, ranks.place(),
               projector(config, layout.embedded)),
      stage_(decoder_, ranks) {
  decoder_.set_recompute(layout.recompute, layout.recompute_layers);
  const recipe::TrainOptions train{.offload = layout.offload,
                                   .offload_folder = std::filesystem::temp_directory_path().string(),
                                   .offload_share = "0.3"};
  offload_ = train::make_offload(train, {}, decoder_.parameters(), kLeastOfProof);
  decoder_.set_offload(offload_.get());
  decoder_.parameters().initialise(
      kProofSeed + (mistake_ != nullptr && mistake_->other_start && mistake_->other_start(ranks.place())));
}

// Two, or as many as the replica has; one where stages want many micro-batches; all where experts have one
// room for all of them or are balanced over all. Not four: of four rows the cuts of two context ranks would
// lie between them, and no rank would share a sequence.
int64_t proof_rows_at_once(const recipe::ModelConfig& model, int64_t stages, int64_t own) {
  return model.shares_batch() ? own : stages > 1 ? 1 : std::min<int64_t>(own, 2);
}

train::StepWork ProofTask::prepare(int64_t step) {
  const layout::MeshRank& place = ranks_.place();
  const int64_t own = rows_ / place.mesh.size(Axis::kDp);
  const int64_t in_micro_batch = proof_rows_at_once(decoder_.config(), place.mesh.size(Axis::kPp), own);
  micro_batches_.clear();
  work_ = {.auxiliary_by_weight = layout_.weighted};
  for (int64_t row = 0; row < own; row += in_micro_batch) {
    const int64_t first = place.coordinate(Axis::kDp) * own + row;
    ProofBatch batch =
        batch_of(first, in_micro_batch, step, decoder_.config().vocabulary, layout_.packed, masked_);
    if (layout_.weighted) weigh_labels(batch, first, step);
    if (layout_.embedded) embed_from_outside(batch, first, step);
    for (size_t i = 0; i < batch.labels.size(); ++i)
      work_.weight += batch.labels[i] < 0 ? 0 : layout_.weighted ? static_cast<double>(batch.weights[i]) : 1;
    work_.tokens += in_micro_batch * kRowTokens;
    if (mistake_ != nullptr && mistake_->batch) mistake_->batch(place, batch);
    micro_batches_.push_back(std::move(batch));
  }
  work_.micro_batches = static_cast<int64_t>(micro_batches_.size());
  train::StepWork work = work_;
  if (mistake_ != nullptr && mistake_->work) mistake_->work(work);
  return work;
}

Tensor ProofTask::forward(model::Context& context, int64_t micro_batch, const Tensor& entering) {
  const ProofBatch& batch = micro_batches_[static_cast<size_t>(micro_batch)];
  model::EmbeddedRows rows{.tokens = batch.embedded, .rows_nd = {}};
  if (layout_.embedded && decoder_.first(context)) {
    decoder_.use_outside_layers();
    rows.rows_nd = at::linear(batch.features.to(precision().compute),
                              decoder_.parameters().holder_of(kProofProjector)->use());
  }
  const Tensor leaving =
      stage_.forward(context, text_of(micro_batch, layout_.embedded ? &rows : nullptr), entering);
  if (mistake_ == nullptr || !mistake_->loss_factor || !decoder_.last(context)) return leaving;
  return leaving.mul(mistake_->loss_factor(work_, micro_batch));
}

language::PackedText ProofTask::text_of(int64_t micro_batch, const model::EmbeddedRows* embedded) const {
  const ProofBatch& batch = micro_batches_[static_cast<size_t>(micro_batch)];
  return {batch.layout, batch.ids, batch.labels, layout_.weighted ? &batch.weights : nullptr, embedded};
}

}  // namespace longhaul::prove
