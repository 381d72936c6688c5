// ExpertAdapters: the adapters (layout/adapters.h) of the matrices that the experts of a layer have for one
// grouped product: every expert has its own, or none has one. They lie with their expert, on whatever rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/linear/feed_forward.h"
#include "model/parameter.h"

namespace longhaul::model {

class ExpertAdapters {
 public:
  // names[e]: the matrices of expert e in `weight`, one below the other. Refuses (kUsage) adapters of some
  // experts only, DoRA, adapters beside weights in eight bits, and experts whose tensors ranks share.
  ExpertAdapters(ParameterSet& parameters, const Parameter& weight,
                 const std::vector<std::vector<std::string>>& names);
  bool any() const { return down_ != nullptr; }
  // x [rows, in] sorted by expert → [rows, out] of the frozen weights with the adapters.
  Tensor product(const Tensor& x_ri, const std::vector<int64_t>& rows_per_expert,
                 const kernels::LinearWeights& base, const std::shared_ptr<kernels::Postponed>& later) const;

 private:
  Parameter* down_ = nullptr;      // [experts, ranks, in]
  std::vector<Parameter*> ups_{};  // [experts, out, rank] of each matrix; null: it has none
  double scale_ = 1;
};

}  // namespace longhaul::model
