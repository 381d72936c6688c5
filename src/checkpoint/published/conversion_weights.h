// ConversionWeights: which weights of a softmax transformer a converted model begins with
// (recipe/architecture/conversion.h; SpikingBrain, docs/sources/spikingbrain.md §2.3).
//
//   queries, keys, values, output   copied; where the new mixer has a key and a value for each query head,
//                                   those of a group are copied to all its heads
//   forget gates of hgrn2 and of
//   gla with tied keys              minus the keys: the gate is σ(x Wf), so the key is 1 − σ(−x Wk) = σ(x Wk)
//   short convolutions              the token itself alone, so that they change nothing at first
//   everything else in new mixers   as it is drawn (gates of low rank, norms, lower bounds)
//   channel mixers, norms of layers, embeddings, head: copied
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/state.h"
#include "layout/rectangle.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::checkpoint {

class ConversionWeights {
 public:
  // `model`: what `dense` becomes, as its recipe has it.
  ConversionWeights(const recipe::ModelConfig& dense, const recipe::ModelConfig& model);
  // kUsage: a projection of the model has another size than that of `dense`. `from`: where that is, for the
  // error.
  void require_fitting(const std::string& from) const;

  // The model as far as it must equal `dense`: with the mixers that `dense` has.
  recipe::ModelConfig without_conversion() const;
  std::string text() const;  // one line: which layers became what, and how many weights were copied

  struct Source {
    std::string name;
    double factor = 1;    // -1 for a forget gate
    int64_t repeats = 1;  // of each head, one after the other
    int64_t head_rows = 0;
  };
  // Nothing: the tensor is not copied.
  std::optional<Source> source_of(const std::string& name) const;
  // The value that the box of `entry` begins with when it is neither copied nor drawn; undefined: as it was
  // drawn.
  static Tensor first_value_of(const StateEntry& entry);
  // `whole` [rows, …]: the tensor called source.name. The box of the new tensor that it becomes.
  static Tensor box_of(const Tensor& whole, const Source& source, const layout::Rectangle& box);

 private:
  recipe::ModelConfig dense_, model_;
  std::map<std::string, layout::Shape> dense_shapes_, shapes_;  // by name
};

}  // namespace longhaul::checkpoint
