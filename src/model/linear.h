// Linear: one matrix product for one or several logical weights with the same input (query, key and value;
// gate and up). Its gradient is added directly to the main gradients of the parameters (kernels/linear), and
// a packed copy of the weight is kept as well. Where the model's list has adapters of these weights
// (model/adapters.h), the product has them too. In a model with [spikes] it reads counts of spikes
// (model/spiking_product.h), and in one whose weights are in eight bits it is kernels/group_linear's.
#pragma once

#include <string>
#include <vector>

#include "kernels/linear/feed_forward.h"
#include "model/adapters.h"
#include "model/context.h"
#include "model/parameter.h"

namespace longhaul::model {

class Linear {
 public:
  // prefix "layers.3.mixer", storage "qkv", outputs {"query", "key", "value"}: holds prefix.query.weight, …
  // (and .bias). Of a model in eight bits the weight is too, unless an operator takes it by itself
  // (merged()): kWide.
  enum class Weights { kAsTheModel, kWide };
  Linear(ParameterSet& parameters, const std::string& prefix, const std::string& storage,
         const std::vector<std::string>& outputs, bool bias, Weights weights = Weights::kAsTheModel);
  Tensor forward(const Tensor& x_ti) const;  // [tokens, in] → [tokens, sum of this rank's outputs]
  // Whether it is a product of input and wide weight and nothing more: without adapters and spikes.
  bool plain() const;
  // For an operator that contains the product: for outputs that lie on the same ranks, of a plain one.
  kernels::LinearWeights weights() const;
  bool adapted() const;
  // For an operator without gradients that contains the product: the weight with the adapter added to it, and
  // its version.
  std::pair<Tensor, uint64_t> merged() const;
  // Where each tensor rank has a share of `in`, the partial results that they must sum: products without the
  // bias, which is added once.
  Summand summand(const Context& context, const Tensor& x_ti) const;
  // The same for rows of the block's input, of which `before` makes the product's input.
  Summand summand_of(const Context& context,
                     const std::function<Tensor(const Tensor& rows_td)>& before) const;
  // The same with an operator that contains the product, applied to the block's input; without adapters.
  Summand summand(
      const Context& context,
      const std::function<Tensor(const Tensor& rows_td, const kernels::LinearWeights& own)>& product) const;

  // What this rank holds of output i.
  int64_t rows(size_t output) const { return weight_.part(output).held.length[0]; }
  int64_t first_row(size_t output) const { return weight_.part(output).held.offset[0]; }

 private:
  kernels::LinearWeights weights(size_t run) const;
  Tensor product(const Tensor& x_ti, size_t run, const kernels::LinearWeights& own) const;
  Tensor product_alone(const Tensor& x_ti, size_t run, const kernels::LinearWeights& own) const;
  Summand once_biased(const Context& context, kernels::LinearWeights& own) const;

  Stacked weight_, bias_;           // no bias: no runs
  std::vector<Adapters> adapters_;  // of each run
  std::shared_ptr<Spiking> spiking_;
  std::shared_ptr<ServedAdapters> served_;
};

}  // namespace longhaul::model
