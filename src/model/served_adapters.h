// ServedAdapters: low-rank adapters of several tasks beside one base (layout/adapters.h), for decoding: each
// token of a pass is of one of them, or of the base alone. The base's products are computed once for all
// tokens; the small ones of an adapter for its own. A row of a product has the same bits whatever rows stand
// beside it, so a text has the bits that it has alone.
//
//   const int64_t number = decoder.parameters().served().add(matrices);        // from 1
//   decoder.parameters().served().choose({0, 0, number, number, number});      // of the next pass, by token
//
// Not thread-safe. No gradients.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::model {

struct Parameter;

class ServedAdapters {
 public:
  ServedAdapters();
  ~ServedAdapters();
  ServedAdapters(const ServedAdapters&) = delete;
  ServedAdapters& operator=(const ServedAdapters&) = delete;

  // Linear layers tell which matrices they multiply with, each by its logical name ("layers.0.mixer.query").
  void offer(const Parameter& weight);

  // An adapter of one matrix: y += scale · (x Aᵀ) Bᵀ, in the dtype of the model.
  struct Matrix {
    Tensor down_ri, up_or;
    double scale = 1;
  };
  // By the logical names of the matrices' weights. kUsage: one of them is no linear layer's (experts, latent
  // attention), or has another shape. Returns the adapter's number.
  int64_t add(const std::map<std::string, Matrix>& matrices);
  int64_t count() const { return count_; }

  // Which adapter each token of the next passes has; empty: none has one.
  void choose(std::vector<int64_t> of_tokens);
  bool has(const Parameter& weight) const { return of_weights_.contains(&weight); }
  // y [tokens, out] of the base, with what the adapters of the tokens x [tokens, in] add to it.
  Tensor adapted(const Tensor& x_ti, const Parameter& weight, const Tensor& y_to) const;

 private:
  struct Beside;  // what one adapter has beside one parameter
  std::map<std::string, const Parameter*> offered_;
  std::map<const Parameter*, std::map<int64_t, std::unique_ptr<Beside>>> of_weights_;
  int64_t count_ = 0;
  std::vector<int64_t> of_tokens_;
  std::map<int64_t, Tensor> tokens_of_;  // int64, of each adapter that is chosen
};

}  // namespace longhaul::model
