// Adapters: the low-rank adapters (layout/adapters.h) of the matrices of one product, of which some may have
// none. Those that read the same input are one product with the input. Frozen weights and trained adapters
// meet in kernels/adapters, so that nothing but the small matrices has a gradient.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/adapters/op.h"
#include "kernels/linear/feed_forward.h"
#include "model/parameter.h"

namespace longhaul::model {

class Adapters {
 public:
  // weight: the parameter that holds the product's matrices. Makes the parameters of their adapters, where
  // the list has some.
  Adapters(ParameterSet& parameters, const Parameter& weight);
  bool any() const { return down_ != nullptr; }
  // x Wᵀ + b of the product, with the adapters; base: that of the product, frozen.
  Tensor product(const Tensor& x_ti, const kernels::LinearWeights& base) const;
  // The weight with the adapters added, in its precision; no gradient. Kept until one of them is written to.
  Tensor merged(const kernels::LinearWeights& base) const;
  uint64_t version() const;  // rises with every change of an adapter

 private:
  struct Up {
    Parameter* matrix = nullptr;
    Parameter* magnitude = nullptr;   // DoRA
    int64_t first_row = 0, rows = 0;  // of the product's outputs
    int64_t first_rank = 0;           // of the rows of `down_`
  };
  std::vector<kernels::AdapterUp> ups() const;
  Tensor row_scales(const kernels::LinearWeights& base) const;  // DoRA: [out], in the precision of sums

  Parameter* down_ = nullptr;
  std::vector<Up> ups_;
  double scale_ = 1;
  mutable Tensor merged_;
  mutable uint64_t merged_version_ = 0;
};

}  // namespace longhaul::model
