// Which share of the rows of each layer's products goes to the host (train.offload_share = auto), chosen from
// times and bytes of the layers so that copies hide behind compute and recomputation is least:
//
//   max Σ α_l r_l   (r: seconds that recomputing a layer's products takes)
//   0 ≤ α_l ≤ 1
//   copies are in order and one at a time, each from the end of its layer on, and those of layer l are done
//     before layer l + ahead begins:   end_j + Σ_{m=j…l} (whole_m + α_m rows_m) / rate ≤ begin_{l+ahead}
//     for every j ≤ l
//   Σ (whole_l + α_l rows_l) ≤ host bytes
//
// MEMO (arXiv 2407.12117) has one α for all layers, which alike layers make right. A model with linear and
// softmax layers needs one for each: the compute of a linear layer is as little of its bytes at any length,
// and what its copies leave free is less than what a softmax layer's do (docs/design/recomputation.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longhaul::plan {

struct OffloadedLayer {
  bool moved = true;       // false: its backward pass comes too soon
  double whole_bytes = 0;  // moved whatever the share: its input and its mixer's result
  double row_bytes = 0;    // of all rows
  double seconds = 0;      // of its forward pass
  double row_seconds = 0;  // what recomputing all rows takes
};

struct OffloadSplit {
  std::vector<double> shares;  // of each layer; 0 where nothing is moved
  double stall_s = 0;          // what a pass waits for copies even with shares of 0
  double missing_bytes = 0;    // of the host, even with shares of 0
  double again_s = 0;          // what recomputing the other rows takes
};

// bytes_per_second: of one direction, above 0, measured while all devices of the host copy.
OffloadSplit split_offload(std::span<const OffloadedLayer> layers, double bytes_per_second, double host_bytes,
                           int64_t ahead = 2);

// "layers 0–2, 4–6: 0.31; 3, 7: 1.00"
std::string text_of(std::span<const OffloadedLayer> layers, const OffloadSplit& split,
                    int64_t first_layer = 0);

}  // namespace longhaul::plan
