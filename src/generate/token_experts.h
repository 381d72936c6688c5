// The experts of single tokens, for whoever wants to look at a mixture at work: to which experts the routers
// sent the last token that a pass read of each sequence, and with what weights their outputs were added. The
// logits of the next token come from there.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/experts/routes.h"

namespace longhaul::generate {

// One router's choice, in the order in which the router had it: best first.
struct LayerExperts {
  int64_t layer = 0;                                    // of the model's, from 0
  std::vector<std::pair<int64_t, double>> chosen = {};  // experts with their weights
};

class PassExperts {
 public:
  // Takes a pass: choices and weights [tokens, k] by block; `last`: the row of each continuation's last
  // token.
  void read(const model::Routes& choices, const model::Routes& weights, const std::vector<int64_t>& last);
  std::vector<LayerExperts> of(int64_t continuation) const;

 private:
  struct Layer {
    int64_t layer;
    Tensor choice_nk, weight_nk;  // on the host, int64 and fp64
  };
  std::vector<Layer> layers_;  // in their order
};

}  // namespace longhaul::generate
