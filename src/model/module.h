// Module: a named part of a model. The two kinds a decoder layer is made of are interfaces: a SequenceMixer moves information between
// tokens, a ChannelMixer works on each token alone. All map [own tokens, hidden] → [own tokens, hidden] (SequenceView: in one process all
// tokens are its own); a batch is a packing. Several that read the same input may share what the tensor ranks gather and sum: so each makes a
// summand, and summed() over all of them is their result.
#pragma once

#include <string>

#include "layout/sequence_view.h"
#include "model/context.h"
#include "model/parameter.h"
#include "model/state.h"

namespace longhaul::model {

// Where a block stands: what it is called by ("layers.3.mixer"; of a channel mixer what comes before its names, "layers.3"), and the layer that
// options of layers are read for.
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
  // state: null when training; else read and advanced: each document of the layout continues a row of it.
  virtual Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view, const MixerRows* state) = 0;
  Tensor forward(Context& context, const Tensor& hidden_td, const layout::SequenceView& view, const MixerRows* state) {
    BlockInput input{hidden_td};
    return context.ops.summed(input, {summand(context, input, view, state)}, view);
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
