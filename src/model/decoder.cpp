#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"
#include "kernels/embedding/op.h"
#include "kernels/group_linear/op.h"
#include "kernels/norm/op.h"
#include "kernels/saved/cheap_tensors.h"
#include "kernels/saved/recomputed.h"
#include "kernels/saved/saved_tensors.h"
#include "layout/parameter_sets.h"
#include "model/as_written.h"
#include "model/linear.h"
#include "model/mixers/mixers.h"
#include "model/mixers/toeplitz_positions.h"
#include "model/norm.h"
#include "model/watched.h"
#include "recipe/architecture/toeplitz.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

struct Decoder::Layer {
  recipe::ModelConfig::ResidualFactors mixer_factors, channel_factors;
  Norm mixer_norm;
  std::unique_ptr<SequenceMixer> mixer;
  std::optional<Norm> channel_norm;             // none: the channel mixer reads what the sequence mixer reads
  std::unique_ptr<ChannelMixer> channel;        // null: none
  std::vector<recipe::MixerStateTensor> state;  // what the sequence mixer keeps while decoding
};

// The residual stream between two norms: a branch waits beside it until the norm that reads it joins them in
// the same pass.
struct Decoder::Stream {
  Tensor residual_td, branch_td;  // no branch: nothing to join
  recipe::ModelConfig::ResidualFactors factors{};
  const std::string* writer = nullptr;  // block that wrote the branch
};

struct Decoder::Prediction {
  std::string name;  // "ahead.0"
  Norm hidden_norm, token_norm;
  Linear join;
  Layer layer;
  Norm norm;
};

struct Decoder::Stage {
  bool first = true, last = true;
  int64_t first_layer = 0;
  std::vector<Layer> layers;
};

Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

namespace {

// The tensors beside the decoder that this rank has, then its share of the decoder's.
std::vector<layout::ParameterSpec> with_beside(const Beside& beside, std::vector<layout::ParameterSpec> own,
                                               const layout::MeshRank& place) {
  std::vector<int64_t> ranks = place.pipeline().ranks_of(0);
  std::ranges::sort(ranks);
  if (std::ranges::find(ranks, place.coordinate(layout::Axis::kPp)) == ranks.end()) return own;
  std::vector<layout::ParameterSpec> all = beside.tensors;
  for (layout::ParameterSpec& spec : all) {
    LONGHAUL_ASSERT(spec.layer < 0, "{} stands beside the decoder and in its layer {}", spec.tensor.name,
                    spec.layer);
    spec.pipeline_ranks = ranks;
  }
  layout::append(all, std::move(own));
  return all;
}

}  // namespace

Decoder::Decoder(const recipe::ModelConfig& config, Precision precision, at::Device device, Use use,
                 const layout::MeshRank& place, const Beside& beside)
    : config_(config),
      precision_(precision),
      parameters_(with_beside(beside, layout::parameters_of(config, place), place), precision, device, use,
                  place),
      tensor_ranks_(place.mesh.size(layout::Axis::kTp)) {
  if (config.spikes.wanted()) spiking_ = std::make_shared<Spiking>(Spiking{.options = config.spikes});
  const layout::Pipeline pipeline = place.pipeline();
  bool first = false, last = false;
  for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    const int64_t stage = place.stage_of(chunk);
    stages_.push_back({.first = stage == 0, .last = stage == pipeline.stages() - 1});
    first = first || stages_.back().first;
    last = last || stages_.back().last;
  }
  if (first && beside.make) beside.make(parameters_);
  if (first || (last && (config.tie_embeddings || config.predict_ahead > 0)))
    embedding_ = &parameters_.add_stacked("embedding.weight", {"embedding.weight"});
  if (first && config.position == recipe::Position::kLearned)
    position_ = &parameters_.add_stacked("position.weight", {"position.weight"});
  if (first && config.toeplitz > 0) toeplitz_ = std::make_unique<ToeplitzPositions>(config, parameters_);
  for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    Stage& stage = stages_[static_cast<size_t>(chunk)];
    const layout::Range own = pipeline.layers_of(place.stage_of(chunk), config.layers);
    stage.first_layer = own.begin;
    for (int64_t l = own.begin; l < own.end(); ++l)
      stage.layers.push_back(make_layer(fmt::format("layers.{}", l), l));
  }
  if (last) {
    norm_ = std::make_unique<Norm>(parameters_, "norm", config);
    head_ = config.tie_embeddings ? embedding_ : &parameters_.add_stacked("head.weight", {"head.weight"});
    // Spikes are of the layers alone; what is in eight bits without them has its head so too.
    if (spiking_ == nullptr) parameters_.keep_in_groups(*head_);
    for (int64_t k = 0; k < config.predict_ahead; ++k) {
      const std::string name = fmt::format("ahead.{}", k);
      Norm hidden_norm(parameters_, name + ".hidden_norm", config),
          token_norm(parameters_, name + ".token_norm", config);
      Linear join(parameters_, name, "join", {"join"}, config.bias);
      Layer layer = make_layer(name, config.layers - 1);
      predictions_.push_back(
          {name, hidden_norm, token_norm, join, std::move(layer), Norm(parameters_, name + ".norm", config)});
    }
  }
  parameters_.allocate();
}

Decoder::Layer Decoder::make_layer(const std::string& prefix, int64_t layer) {
  parameters_.spike(spiking_);
  Norm mixer_norm(parameters_, prefix + ".mixer_norm", config_);
  auto mixer = make_mixer(config_.mixer(layer), config_, {layer, prefix + ".mixer"}, parameters_);
  std::optional<Norm> channel_norm;
  if (config_.wiring != recipe::Wiring::kParallel && config_.channel != recipe::Channel::kNone) {
    channel_norm.emplace(parameters_, prefix + ".channel_norm", config_);
  }
  auto channel = make_channel_mixer(config_.channel_mixer(layer), config_, {layer, prefix}, parameters_);
  parameters_.spike(nullptr);
  return {config_.mixer_factors(layer),
          config_.channel_factors(),
          mixer_norm,
          std::move(mixer),
          channel_norm,
          std::move(channel),
          config_.causal ? recipe::state_of_layer(config_, layer) : std::vector<recipe::MixerStateTensor>()};
}

void Decoder::use_outside_layers() const {
  if (ParameterWatch* watch = parameters_.watched_by()) watch->before_forward(-1);
}

bool Decoder::first(const Context& context) const {
  return stages_[static_cast<size_t>(context.chunk)].first;
}
bool Decoder::last(const Context& context) const { return stages_[static_cast<size_t>(context.chunk)].last; }

VocabularyShare Decoder::share_of(Parameter& table) const {
  LONGHAUL_ASSERT(!table.narrow(), "{} is in eight bits, which no loss is made of", table.name);
  use_outside_layers();
  return {.weights = {.weight = table.value, .sinks = {.weight = table.sink()}, .kept = table.kept()},
          .first_row = table.parts[0].held.offset[0],
          .vocabulary = table.parts[0].spec.tensor.global_shape[0]};
}

RowPlaces Decoder::places_of(const EmbeddedRows& rows, const layout::SequenceView& view) const {
  return {rows, view, config_.hidden, at::TensorOptions().dtype(precision_.compute).device(device())};
}

Tensor Decoder::embed(Context& context, const Tensor& given_ids, const layout::SequenceView& view,
                      const DecoderRows* rows, const EmbeddedRows* embedded) {
  LONGHAUL_ASSERT(view.tokens() == given_ids.size(0), "{} tokens, a view of {}", given_ids.size(0),
                  view.tokens());
  std::optional<RowPlaces> places;
  if (embedded != nullptr && embedded->any()) places.emplace(places_of(*embedded, view));
  const Tensor ids = places ? places->without(given_ids) : given_ids;
  const kernels::EmbeddingTable positions = position_ != nullptr
                                                ? kernels::EmbeddingTable{position_->value, position_->sink()}
                                                : kernels::EmbeddingTable{};
  // A table in eight bits gives the wanted rows as a table of their own.
  const auto& narrow = embedding_->groups;
  const VocabularyShare table =
      narrow ? VocabularyShare{.weights = {.weight = kernels::group_rows(*narrow, ids, precision_.compute)},
                               .vocabulary = ids.size(0)}
             : share_of(*embedding_);
  Tensor hidden = context.ops.embed(narrow ? at::arange(ids.size(0), ids.options()) : ids, table,
                                    position_ != nullptr ? &positions : nullptr, view);
  if (places) hidden = places->placed(hidden, position_ != nullptr ? &positions : nullptr);
  if (toeplitz_ != nullptr && rows == nullptr) {
    hidden = toeplitz_->forward(context, hidden, view, nullptr);
  } else if (toeplitz_ != nullptr) {
    const MixerRows of_embedding{rows->state.layers().back(), rows->rows};
    hidden = toeplitz_->forward(context, hidden, view, &of_embedding);
  }
  if (context.inspect) context.inspect("embedding", hidden);
  return hidden;
}

Tensor Decoder::read(Context& context, const Norm& norm, Stream& stream) const {
  const bool post = config_.wiring == recipe::Wiring::kPostNorm;
  if (!stream.branch_td.defined()) {
    const Tensor normed = norm.forward(stream.residual_td);
    if (post) stream.residual_td = normed;
    return normed;
  }
  const auto [joined, normed] = norm.forward_joined(stream.residual_td, stream.branch_td,
                                                    stream.factors.residual, stream.factors.branch);
  if (context.inspect) context.inspect(*stream.writer, joined);
  stream = {.residual_td = post ? normed : joined};
  return normed;
}

namespace {

// Calls after_layer for a stream whose last branch a norm has added and read.
Tensor told(const Context& context, int64_t layer, const Tensor& stream, const Tensor& normed) {
  return context.after_layer ? context.after_layer(layer, stream, normed) : normed;
}

}  // namespace

void Decoder::run_layer(Context& context, Layer& layer, Stream& stream, const layout::SequenceView& view,
                        const MixerRows* state) const {
  const Tensor h = read(context, layer.mixer_norm, stream);
  run_blocks(context, layer, h, stream, view, state);
}

Tensor Decoder::by_mixer(Context& context, Layer& layer, const Tensor& h, const layout::SequenceView& view,
                         const MixerRows* state) const {
  const Tensor made = layer.mixer->forward(context, h, view, state);
  if (state != nullptr || context.written == nullptr) return made;
  return as_written(context, *layer.mixer, layer.state, h, made, view);
}

void Decoder::run_blocks(Context& context, Layer& layer, const Tensor& h, Stream& stream,
                         const layout::SequenceView& view, const MixerRows* state) const {
  if (layer.channel == nullptr) {
    stream.branch_td = by_mixer(context, layer, h, view, state);
    stream.factors = layer.mixer_factors;
    stream.writer = &layer.mixer->name();
    return;
  }
  if (!layer.channel_norm) {
    LONGHAUL_ASSERT(context.written == nullptr, "{} is added up with what stands beside it",
                    layer.mixer->name());
    BlockInput input{h};
    const Summand mixed = layer.mixer->summand(context, input, view, state);
    // Their sum does not tell whose the bad number is.
    if (context.inspect) {
      const kernels::OutsideParts once;
      context.inspect(layer.mixer->name(), context.ops.summed(input, {mixed}, view));
    }
    stream.branch_td = context.ops.summed(input, {mixed, layer.channel->summand(context, input, view)}, view);
    stream.factors = layer.channel_factors;
    stream.writer = &layer.channel->name();
    return;
  }
  stream.branch_td = by_mixer(context, layer, h, view, state);
  stream.factors = layer.mixer_factors;
  stream.writer = &layer.mixer->name();
  const Tensor g = read(context, *layer.channel_norm, stream);
  stream.branch_td = layer.channel->forward(context, g, view);
  stream.factors = layer.channel_factors;
  stream.writer = &layer.channel->name();
}

void Decoder::run_layers(Context& context, Stream& stream, const layout::SequenceView& view,
                         const DecoderRows* rows) {
  Stage& stage = stages_[static_cast<size_t>(context.chunk)];
  std::vector<Layer>& layers = stage.layers;
  if (rows == nullptr) {
    const size_t again = at::GradMode::is_enabled() ? recomputed_layers(layers.size()) : 0,
                 cheaper = recompute_ == recipe::Recompute::kSelective ? again : 0, twice = again - cheaper;
    // The norm of the layer behind those that run twice has run with the last of them.
    Tensor h = twice > 0 ? run_layers_twice(context, stream, view, twice) : Tensor();
    kernels::CheapTensors cheap(offload_);
    for (size_t l = twice; l < layers.size(); ++l) {
      const kernels::SavedTensorsScope scope(l < cheaper ? &cheap : offload_);
      const int64_t layer = stage.first_layer + static_cast<int64_t>(l);
      if (l == 0 || l > twice) {
        begin_layer(parameters_.watched_by(), layer, {&stream.residual_td, &stream.branch_td});
        h = read(context, layers[l].mixer_norm, stream);
        if (l > 0) h = told(context, layer - 1, stream.residual_td, h);
      }
      if (config_.wiring == recipe::Wiring::kPostNorm) stream.residual_td = h;
      run_blocks(context, layers[l], h, stream, view, nullptr);
      end_layer(parameters_.watched_by(), layer, {&stream.residual_td, &stream.branch_td});
    }
    return;
  }
  LONGHAUL_ASSERT(view.layout.documents() == static_cast<int64_t>(rows->rows.size()),
                  "{} sequences, {} documents", rows->rows.size(), view.layout.documents());
  LONGHAUL_ASSERT(stages_.size() == 1, "a decoding state of {} stages", stages_.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    const MixerRows of_layer{rows->state.layers()[l], rows->rows};
    run_layer(context, layers[l], stream, view, &of_layer);
  }
  for (size_t i = 0; i < rows->rows.size(); ++i)
    rows->state.advance(rows->rows[i], view.layout.document(static_cast<int64_t>(i)).length);
}

size_t Decoder::recomputed_layers(size_t layers) const {
  if (recompute_ == recipe::Recompute::kNone) return 0;
  return recompute_layers_ == 0 ? layers : std::min(layers, static_cast<size_t>(recompute_layers_));
}

// A part ends behind the norm with which the next layer begins, so that one tensor is kept of each: what was
// normed, or, where the residual goes on from the norm, its result. The join before a norm rounds, and norms
// what it rounded: normed again it has the same bits. So whoever watches a layer is told that it begins
// before the part in front of it, and that its gradients are there behind that one's backward.
Tensor Decoder::run_layers_twice(Context& context, Stream& stream, const layout::SequenceView& view,
                                 size_t again) {
  Stage& stage = stages_[static_cast<size_t>(context.chunk)];
  std::vector<Layer>& layers = stage.layers;
  ParameterWatch* const watch = parameters_.watched_by();
  const bool post = config_.wiring == recipe::Wiring::kPostNorm;
  const auto later = std::make_shared<Context>(context.again());
  const auto own_view = std::make_shared<const layout::SequenceView>(view);
  begin_layer(watch, stage.first_layer, {&stream.residual_td, &stream.branch_td});
  Tensor h = read(context, layers[0].mixer_norm, stream);
  for (size_t l = 0; l < again; ++l) {
    Layer& layer = layers[l];
    const int64_t number = stage.first_layer + static_cast<int64_t>(l);
    const Norm* const next = l + 1 < layers.size() ? &layers[l + 1].mixer_norm : nullptr;
    if (next != nullptr) begin_layer(watch, number + 1, {post ? nullptr : &stream.residual_td, &h});
    if (post) stream.residual_td = h;
    // {residual, h} → those of the next layer, or {residual, branch} of the last; post-norm: a residual that
    // is h stands once.
    const auto run = [this, &layer, next, post](Context& of, const layout::SequenceView& row,
                                                const std::vector<Tensor>& in) {
      Stream inner{.residual_td = in.front()};
      run_blocks(of, layer, in.back(), inner, row, nullptr);
      if (next == nullptr) return std::vector<Tensor>{inner.residual_td, inner.branch_td};
      const Tensor normed = read(of, *next, inner);
      return post ? std::vector<Tensor>{normed} : std::vector<Tensor>{inner.residual_td, normed};
    };
    // Without other stages the last layers' backward pass follows at once.
    const bool soon = stages_.size() == 1 && stage.first && stage.last && l + 2 >= layers.size();
    if (offload_ != nullptr) offload_->begin_layer(number, soon);
    const kernels::SavedTensorsScope scope(offload_);  // of what is kept
    std::vector<Tensor> out = kernels::recomputed(
        layer.mixer->name().c_str(),
        {.inputs = post ? std::vector<Tensor>{h} : std::vector<Tensor>{stream.residual_td, h},
         .kept = {stream.residual_td},
         .run = [&](const std::vector<Tensor>& in) { return run(context, view, in); },
         .inputs_again =
             [&layer, post](const std::vector<Tensor>& kept) {
               return post ? kept : std::vector<Tensor>{kept[0], layer.mixer_norm.forward(kept[0])};
             },
         .run_again = [run, later,
                       own_view](const std::vector<Tensor>& in) { return run(*later, *own_view, in); },
         .by_tokens = recompute_ == recipe::Recompute::kTokens});
    end_layer(watch, number, {&out.front(), out.size() > 1 ? &out.back() : nullptr});
    h = next == nullptr ? out.back() : told(context, number, out.front(), out.back());
    stream = {.residual_td = out.front(),
              .branch_td = next == nullptr ? h : Tensor(),
              .factors = layer.channel != nullptr ? layer.channel_factors : layer.mixer_factors,
              .writer = layer.channel != nullptr ? &layer.channel->name() : &layer.mixer->name()};
  }
  return again < layers.size() ? h : Tensor();
}

DecoderState Decoder::make_state() const {
  if (!config_.causal) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the model reads whole documents, and cannot go on with one",
                 .expected = "a causal model",
                 .found = "model.causal = false",
                 .where = "the model's recipe",
                 .hint = program_command("evaluate") + " says how well it fills in masked tokens"});
  }
  std::vector<MixerState> states;
  for (const Stage& stage : stages_) {
    for (size_t l = 0; l < stage.layers.size(); ++l) {
      const auto tensors = recipe::state_of_layer(config_, stage.first_layer + static_cast<int64_t>(l));
      states.emplace_back(tensors, precision_, device(), tensor_ranks_);
    }
  }
  // behind the layers
  if (toeplitz_ != nullptr)
    states.emplace_back(recipe::toeplitz_state(config_), precision_, device(), tensor_ranks_);
  return DecoderState(std::move(states));
}

Tensor Decoder::layers(Context& context, const Tensor& hidden, const layout::SequenceView& view,
                       const DecoderRows* rows) {
  Stream stream{.residual_td = hidden};
  run_layers(context, stream, view, rows);
  if (!stream.branch_td.defined()) return hidden;
  // As a norm's join does it: in the wide precision, rounded once.
  const ScalarType wide = precision_.reduce;
  const Tensor joined = at::add(stream.residual_td.to(wide).mul(stream.factors.residual),
                                stream.branch_td.to(wide), stream.factors.branch);
  const Tensor out = joined.to(hidden.scalar_type());
  if (context.inspect) context.inspect(*stream.writer, out);
  return out;
}

Tensor Decoder::normed(const Tensor& hidden) const {
  use_outside_layers();
  return norm_->forward(hidden);
}

Tensor Decoder::hidden(Context& context, const Tensor& ids, const layout::SequenceView& view,
                       const DecoderRows* rows, const EmbeddedRows* embedded) {
  Stream stream{.residual_td = embed(context, ids, view, rows, embedded)};
  run_layers(context, stream, view, rows);
  const Tensor normed = read(context, *norm_, stream);  // the last join and the norm in one pass
  return told(context, config_.layers - 1, stream.residual_td, normed);
}

Tensor Decoder::with_predictions(Context& context, const Tensor& hidden, std::span<const TokensAhead> ahead,
                                 const layout::SequenceView& view) {
  LONGHAUL_ASSERT(ahead.size() == predictions_.size(), "{} rows of tokens, {} modules", ahead.size(),
                  predictions_.size());
  const size_t layers = stages_.back().layers.size();  // a module's layer is as the last of these
  const bool cheap_again = recompute_ == recipe::Recompute::kSelective && at::GradMode::is_enabled() &&
                           recomputed_layers(layers) == layers;
  kernels::CheapTensors cheap(offload_);
  const kernels::SavedTensorsScope scope(cheap_again ? &cheap : offload_);
  Tensor h = hidden, result = hidden;
  for (size_t k = 0; k < predictions_.size(); ++k) {
    Prediction& module = predictions_[k];
    const VocabularyShare table = share_of(*embedding_);
    const Tensor there = ahead[k].ids_t.ge(0).narrow(0, view.own.begin, view.own.length).unsqueeze(1);
    Tensor embedded = context.ops.embed(ahead[k].ids_t.clamp_min(0), table, nullptr, view);
    if (ahead[k].embedded.any()) embedded = places_of(ahead[k].embedded, view).placed(embedded, nullptr);
    const Tensor token = embedded * there.to(embedded.options().requires_grad(false));
    Stream stream{.residual_td = module.join.forward(
                      at::cat({module.hidden_norm.forward(h), module.token_norm.forward(token)}, 1))};
    run_layer(context, module.layer, stream, view, nullptr);
    h = read(context, module.norm, stream);
    const double weight = config_.predict_ahead_weight / static_cast<double>(predictions_.size());
    const Tensor loss = summed_loss(context, h, ahead[k].labels_t, ahead[k].weights_t, view).mul(weight);
    result = context.join_weighted_loss(module.name, result, loss, 1);
    // Every tensor rank has the whole of it, and what ranks report is added up.
    context.auxiliary_losses[module.name] =
        context.auxiliary_losses[module.name].div(static_cast<double>(tensor_ranks_));
  }
  return result;
}

}  // namespace longhaul::model
