// Decoder: a language model built from its configuration: embedding, layers of (sequence mixer, channel
// mixer) in pre-norm, post-norm (DeepNorm) or parallel wiring, final norm, head. A model family is a preset
// and a table of names, never another decoder class.
//
//   pre:   x ← αx + β Mixer(Norm(x));         x ← αx + β Channel(Norm(x))                 (α and β are 1
//                                             unless a recipe says otherwise)
//   post:  h = Norm(x); x ← αh + β Mixer(h);  g = Norm(x); x ← αg + β Channel(g)
//          (docs/sources/minimax-01.md §2.1)
//   parallel:  h = Norm(x); x ← x + Mixer(h) + Channel(h), gathered and summed over tensor ranks once
//              (docs/sources/megascale.md §2.1, §3.3)
//
// α and β may differ between the kinds of mixers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "layout/sequence_view.h"
#include "model/outside/embedded_rows.h"
#include "model/parameter.h"
#include "recipe/architecture/model_config.h"
#include "recipe/sections/train_options.h"

namespace longhaul::kernels {
class SavedTensors;
struct LogProbabilityOptions;  // linear_cross_entropy/log_probabilities.h
struct TokenLogProbabilities;
}  // namespace longhaul::kernels

namespace longhaul::model {

struct Context;
class DecoderState;
struct DecoderRows;
struct MixerRows;
struct VocabularyShare;
class Norm;
class ToeplitzPositions;

// For a module that predicts further ahead (Decoder::with_predictions), for each token of this context rank:
// the token that stands as many places later as the module's number (from 1 on), and the token after that,
// which the module predicts; −1: the document has none.
struct TokensAhead {
  Tensor ids_t, labels_t;   // int64 [tokens]
  Tensor weights_t{};       // what the label weighs in the loss, [tokens]; undefined: 1
  EmbeddedRows embedded{};  // rows from outside for tokens that stand there (EmbeddedRows::ahead)
};

// Beside: modules beside the decoder whose tensors stand first in the decoder's list, so that optimizers,
// ZeRO, norms and checkpoints treat them as the model's own: what makes rows for the embedding, from pictures
// for example. The ranks of the first stage have them. Whoever uses their values calls
// use_outside_layers() before.
struct Beside {
  std::vector<layout::ParameterSpec> tensors;    // outside the layers: ParameterSpec::layer is −1
  std::function<void(ParameterSet&)> make = {};  // Makes the modules, where this rank has the tensors.
};

class Decoder {
 public:
  // Allocates parameters filled with zeros; initialise() or a checkpoint fills them. `place`: the rank whose
  // share of the model is made.
  Decoder(const recipe::ModelConfig& config, Precision precision, at::Device device = at::kCPU,
          Use use = Use::kTraining, const layout::MeshRank& place = {}, const Beside& beside = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;

  const recipe::ModelConfig& config() const { return config_; }
  const Precision& precision() const { return precision_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }
  // How the layers' matrices count spikes; null: the model has no [spikes].
  const std::shared_ptr<Spiking>& spiking() const { return spiking_; }
  at::Device device() const { return parameters_.device(); }  // ids and labels must be given

  // The parts of the model; a pipeline stage has some of them. Hidden states [own tokens, hidden] come in and
  // go out. context.chunk: which of the rank's stages runs.
  bool first(const Context& context) const;  // the stage is the model's first
  bool last(const Context& context) const;
  // First stage. `embedded`: rows from outside for some of the tokens; null: none.
  Tensor embed(Context& context, const Tensor& ids_t, const layout::SequenceView& view,
               const DecoderRows* rows = nullptr, const EmbeddedRows* embedded = nullptr);
  // its own
  Tensor layers(Context& context, const Tensor& hidden_td, const layout::SequenceView& view,
                const DecoderRows* rows = nullptr);
  Tensor normed(const Tensor& hidden_td) const;  // last stage

  // Under ZeRO the values of the tensors outside the layers, `beside` among them, are there after this call.
  void use_outside_layers() const;

  // Sets which activations of a layer training keeps for the backward pass; results have the same bits. The
  // default is kNone. layers: only the first so many of each stage; 0: all.
  void set_recompute(recipe::Recompute recompute, int64_t layers = 0) {
    recompute_ = recompute;
    recompute_layers_ = layers;
  }
  // Tensors that the layers save for their backward pass are offered to `offload`, which must outlive them
  // (kernels/saved/saved_tensors.h); null: they stay in memory. With selective recomputation these are the
  // kept tensors, with full recomputation the inputs of the layers.
  void set_offload(kernels::SavedTensors* offload) { offload_ = offload; }

  // Multi-token prediction (DeepSeek-V3, arXiv 2412.19437 §2.2): module k = 1, 2, … makes of the final normed
  // hidden states h⁰, and of what the module before it made,
  //   hᵏ = Norm(Layer(P [RMSNorm(hᵏ⁻¹); RMSNorm(embedding of the token k places further)]))
  //   logits = head(hᵏ), of the token behind that one
  // with embedding and head of the model, a layer as its last one is, and weight / modules · Σ of the losses
  // as an auxiliary loss that joins the hidden states which come out. Zeros stand in for tokens that the
  // document does not have. Last stage. `ahead`: of each module.
  Tensor with_predictions(Context& context, const Tensor& hidden_td, std::span<const TokensAhead> ahead,
                          const layout::SequenceView& view);

  // Runs the whole model (one stage): ids_t int64 [tokens] → final normed hidden states. With rows of a state
  // it continues these sequences; the view's positions must continue too.
  Tensor hidden(Context& context, const Tensor& ids_t, const layout::SequenceView& view,
                const DecoderRows* rows = nullptr, const EmbeddedRows* embedded = nullptr);
  // an empty state for this rank's layers; kUsage where the model is not causal
  DecoderState make_state() const;
  // [tokens, vocabulary] in fp32 (fp64 in fp64 models); no gradient
  Tensor logits(const Tensor& hidden_td) const;
  // Scalar: Σ of the loss over labelled tokens (labels_t int64 [tokens], −1: none), each times its weight
  // where weights_t [tokens] is defined. Auxiliary losses are not in the number, but its backward pass runs
  // theirs (Context::join_auxiliary_loss). The view may be left out where there is one rank.
  Tensor loss(Context& context, const Tensor& hidden_td, const Tensor& labels_t,
              const layout::SequenceView& view = {}, const Tensor& weights_t = {});
  // Of each token: the log-probability of its label, and what else the options ask for, [tokens], 0 where
  // there is no label. Any loss is made of them outside, with a gradient for every token; all tensor ranks
  // must make the same. Last stage. Auxiliary losses run as with loss(): where the loss is no sum over tokens
  // with gradient 1, context.auxiliary_scale says so.
  kernels::TokenLogProbabilities log_probabilities(Context& context, const Tensor& hidden_td,
                                                   const Tensor& labels_t,
                                                   const kernels::LogProbabilityOptions& options,
                                                   const layout::SequenceView& view = {});
  // [tokens], without auxiliary losses and gradient
  Tensor loss_each(const Tensor& hidden_td, const Tensor& labels_t) const;

 private:
  struct Layer;
  struct Stream;
  struct Prediction;
  Layer make_layer(const std::string& prefix, int64_t layer);
  Tensor head_input(const Tensor& hidden_td) const;
  Tensor summed_loss(Context& context, const Tensor& hidden_td, const Tensor& labels_t,
                     const Tensor& weights_t, const layout::SequenceView& view);
  Tensor read(Context& context, const Norm& norm,
              // adds the branch to the residual, and leaves the residual of the next addition
              Stream& stream) const;
  void run_layer(Context& context, Layer& layer, Stream& stream, const layout::SequenceView& view,
                 const MixerRows* state) const;
  void run_blocks(Context& context, Layer& layer, const Tensor& normed_td, Stream& stream,
                  const layout::SequenceView& view,
                  const MixerRows* state) const;  // after the layer's first norm
  Tensor by_mixer(Context& context, Layer& layer, const Tensor& normed_td, const layout::SequenceView& view,
                  const MixerRows* state) const;  // its output, or the engine's
  void run_layers(Context& context, Stream& stream, const layout::SequenceView& view,
                  const DecoderRows* rows);
  // The first `again` layers of the stage; returns what the norm of the next one made, undefined behind the
  // last.
  Tensor run_layers_twice(Context& context, Stream& stream, const layout::SequenceView& view, size_t again);
  // How many layers of a stage of so many are recomputed: the first ones.
  size_t recomputed_layers(size_t layers) const;
  VocabularyShare share_of(Parameter& table) const;
  RowPlaces places_of(const EmbeddedRows& rows, const layout::SequenceView& view) const;

  recipe::ModelConfig config_;
  Precision precision_;
  ParameterSet parameters_;
  Parameter* embedding_ = nullptr;  // null: it belongs to another stage
  Parameter* position_ = nullptr;
  std::unique_ptr<ToeplitzPositions> toeplitz_;  // first stage of a model that has it
  int64_t tensor_ranks_;
  std::shared_ptr<Spiking> spiking_;
  recipe::Recompute recompute_ = recipe::Recompute::kNone;
  int64_t recompute_layers_ = 0;
  kernels::SavedTensors* offload_ = nullptr;
  struct Stage;
  std::vector<Stage> stages_;  // by chunk
  std::unique_ptr<Norm> norm_;
  std::vector<Prediction> predictions_;  // last stage
  Parameter* head_ = nullptr;
};

}  // namespace longhaul::model
