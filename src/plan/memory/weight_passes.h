// WeightPasses: for a model of which some tensors are frozen, the products of the passes that are computed
// with the weights of a layer, and what its blocks keep for them. Plain data; thread-safe when made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layout/freezing.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::plan {

class WeightPasses {
 public:
  // place: of a rank whose stages are a part of the model; those after the first one give a gradient of what
  // has come to them, whatever trains before them.
  explicit WeightPasses(const recipe::ModelConfig& model, const layout::MeshRank* place = nullptr);

  // tensor: its name in the layer ("mixer.query"; "up" of an expert).
  layout::TensorPasses of(int64_t layer, const std::string& tensor, bool of_expert) const;
  layout::TensorPasses of_head() const { return head_; }
  int64_t first_layer_backward() const { return first_; }
  // Whether the backward pass goes through the attention or recurrence of a layer.
  bool through_mixer(int64_t layer) const;

  // A block of a layer (mixer: its mixer, else its channel): its adapters, and which of its inputs are kept
  // for the gradient of something that trains.
  struct BlockAdapters {
    bool any = false;
    bool reads_input = false;  // something that reads what enters the block trains
    bool reads_inner = false;  // something that reads what the block has made of it trains
    int64_t ranks = 0;         // of all adapters that a token meets
    bool of_experts = false;
  };
  const BlockAdapters& block(int64_t layer, bool mixer) const;

  // The rank of the adapter beside a tensor; 0: it has none.
  int64_t adapter_rank(int64_t layer, const std::string& tensor, bool of_expert) const;

 private:
  std::map<std::string, layout::TensorPasses> passes_;
  std::vector<bool> through_mixer_;
  std::vector<BlockAdapters> mixers_, channels_;
  std::map<std::string, int64_t> ranks_;  // of adapters, by the name of the tensor beside which they stand
  layout::TensorPasses head_;
  int64_t first_ = 0;
};

}  // namespace longhaul::plan
