// The common part of the plain decoder and its plain mixers: a model's options and weights, the documents
// that it is given, and products and norms in their usual form. A copy is cheap, because tensors are
// handles.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/sequence.h"
#include "model/parameter.h"
#include "recipe/architecture/model_config.h"
#include "support/tensors.h"

namespace longhaul::testing {

using LogicalTensors = std::map<std::string, Tensor>;

// Copies of all logical tensors as fp64 leaves.
inline LogicalTensors leaves_of(const model::ParameterSet& parameters) {
  LogicalTensors leaves;
  for (const auto& spec : parameters.specs()) {
    size_t part = 0;
    const model::Parameter* holder = parameters.holder_of(spec.tensor.name, &part);
    leaves[spec.tensor.name] = holder->part_of(holder->value.detach(), part)
                                   .to(at::kDouble, false, /*copy=*/true)
                                   .requires_grad_(true);
  }
  return leaves;
}

class PlainParts {
 public:
  PlainParts(const recipe::ModelConfig& config, LogicalTensors weights, layout::SequenceLayout layout)
      : c(config), weights_(std::move(weights)), layout_(std::move(layout)) {}

 protected:
  Tensor weight(const std::string& name) const { return weights_.at(name + ".weight"); }
  Tensor positions() const { return at::tensor(layout_.positions); }

  Tensor linear(const Tensor& x, const std::string& name) const {
    const Tensor y = at::mm(x, weight(name).t());
    return weights_.contains(name + ".bias") ? y + weights_.at(name + ".bias") : y;
  }
  static Tensor rms(const Tensor& x, double eps) { return x / (x.square().mean(1, true) + eps).sqrt(); }
  Tensor norm(const Tensor& x, const std::string& name, double eps) const {
    if (c.norm == recipe::Norm::kSimpleRms) return rms(x, eps);
    const Tensor scaled =
        (c.norm == recipe::Norm::kRms ? rms(x, eps) : rms(x - x.mean(1, true), eps)) * weight(name);
    return weights_.contains(name + ".bias") ? scaled + weights_.at(name + ".bias") : scaled;
  }

  // Calls body(first token, tokens, head) → [tokens, head_dim] for every document and head, and assembles
  // the results.
  template <class Body>
  Tensor by_document_and_head(const Body& body) const {
    return by_document_and_head(c.heads, body);
  }
  template <class Body>
  Tensor by_document_and_head(int64_t count_of_heads, const Body& body) const {
    std::vector<Tensor> documents;
    for (int64_t d = 0; d < layout_.documents(); ++d) {
      const auto document = layout_.document(d);
      std::vector<Tensor> heads;
      for (int64_t n = 0; n < count_of_heads; ++n) heads.push_back(body(document.begin, document.length, n));
      documents.push_back(at::cat(heads, 1));
    }
    return at::cat(documents, 0);
  }

  const recipe::ModelConfig c;
  const LogicalTensors weights_;
  const layout::SequenceLayout layout_;
};

}  // namespace longhaul::testing
