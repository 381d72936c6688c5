// Decoder: a language model from its configuration: embedding, layers of (sequence mixer, channel mixer) in pre-norm or post-norm
// (DeepNorm) wiring, final norm, head. A model family is a preset and a name map, never another decoder.
//
//   pre:   x ← x + Mixer(Norm(x));            x ← x + Channel(Norm(x))
//   post:  h = Norm(x); x ← αh + β Mixer(h);  g = Norm(x); x ← αg + β Channel(g)          (minimax-01.md §2.1)
#pragma once

#include <memory>
#include <vector>

#include "layout/sequence.h"
#include "model/parameter.h"
#include "recipe/model_config.h"

namespace longhaul::model {

struct Context;
struct DecoderState;
struct MixerState;
class Norm;

class Decoder {
 public:
  // Allocates parameters of zeros; initialise() or a checkpoint fills them.
  Decoder(const recipe::ModelConfig& config, Precision precision, at::Device device = at::kCPU, Use use = Use::kTraining);
  ~Decoder();
  Decoder(Decoder&&) noexcept;

  const recipe::ModelConfig& config() const { return config_; }
  const Precision& precision() const { return precision_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }
  at::Device device() const { return parameters_.device(); }  // ids and labels must be there

  // ids_t int64 [tokens] → final normed hidden states [tokens, hidden]. With a state (one sequence): continues it; the layout's
  // positions must continue too.
  Tensor hidden(Context& context, const Tensor& ids_t, const layout::SequenceLayout& layout, DecoderState* state = nullptr);
  Tensor logits(const Tensor& hidden_td) const;  // [tokens, vocabulary] in fp32 (fp64 in fp64 models); no gradient
  // Scalar: Σ of the loss over labelled tokens (labels_t int64 [tokens], −1: none). Auxiliary losses are not in the number, but its backward
  // pass runs theirs (Context::join_auxiliary_loss).
  Tensor loss(Context& context, const Tensor& hidden_td, const Tensor& labels_t);
  Tensor loss_each(const Tensor& hidden_td, const Tensor& labels_t) const;  // [tokens], without auxiliary losses and gradient

 private:
  struct Layer;
  struct Stream;
  Tensor embed(const Tensor& ids_t, const layout::SequenceLayout& layout);
  Tensor read(Context& context, const Norm& norm, Stream& stream) const;  // joins, and leaves the residual of the next join
  void run_layer(Context& context, Layer& layer, Stream& stream, const layout::SequenceLayout& layout, MixerState* state) const;

  recipe::ModelConfig config_;
  Precision precision_;
  ParameterSet parameters_;
  Parameter* embedding_;
  Parameter* position_ = nullptr;
  std::vector<Layer> layers_;
  std::unique_ptr<Norm> norm_;
  Parameter* head_;
};

}  // namespace longhaul::model
