// Module: a named part of a model. The two kinds of which a decoder layer is made are interfaces: a
// SequenceMixer moves information between tokens, a ChannelMixer works on each token by itself. All of them
// map [own tokens, hidden] → [own tokens, hidden] (SequenceView; in one process all tokens are its own), and
// a batch is a packing of documents. Several modules with the same input may share what the tensor ranks
// gather and sum: each of them makes a summand, and summed() over all summands is their result.
#pragma once

#include <string>

#include "layout/sequence_view.h"
#include "model/context.h"
#include "model/outside/memory.h"
#include "model/parameter.h"
#include "model/state.h"

namespace longhaul::model {

// The place of a block: the prefix of its names ("layers.3.mixer", or "layers.3" for a channel mixer), and
// the layer for which options of layers are read.
struct BlockPlace {
  int64_t layer = 0;
  std::string name;
};

class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  const std::string& name() const { return name_; }  // "layers.3.mixer"

 private:
  std::string name_;
};

class SequenceMixer : public Module {
 public:
  using Module::Module;
  // state: null in training; otherwise it is read and advanced, and each document of the layout continues one
  // of its rows.
  virtual Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                          const MixerRows* state) = 0;
  Tensor forward(Context& context, const Tensor& hidden_td, const layout::SequenceView& view,
                 const MixerRows* state) {
    BlockInput input{hidden_td};
    return context.ops.summed(input, {summand(context, input, view, state)}, view);
  }
  // The same for a mixer that attends to a second sequence (mixers/cross_attention.h); every other one
  // refuses it by its name (kUsage).
  virtual Summand cross_summand(Context& /*context*/, BlockInput& /*input*/,
                                const layout::SequenceView& /*view*/, Memory& /*memory*/) {
    refuse_memory(name());
  }
  Tensor cross_forward(Context& context, const Tensor& hidden_td, const layout::SequenceView& view,
                       Memory& memory) {
    BlockInput input{hidden_td};
    return context.ops.summed(input, {cross_summand(context, input, view, memory)}, view);
  }
};

class ChannelMixer : public Module {
 public:
  using Module::Module;
  virtual Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view) = 0;
  Tensor forward(Context& context, const Tensor& hidden_td, const layout::SequenceView& view) {
    BlockInput input{hidden_td};
    return context.ops.summed(input, {summand(context, input, view)}, view);
  }
};

}  // namespace longhaul::model
