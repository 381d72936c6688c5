// ReferenceScores: the log-probabilities that the frozen reference gives the answers of a run. The reference
// is the model that the run begins with; its scores are computed once, before the first step, and saved with
// every checkpoint, so memory holds one model, and a resumed run goes on with the same bits.
#pragma once

#include "checkpoint/state.h"
#include "tensor/tensor.h"

namespace longhaul::posttrain {

class ReferenceScores final : public checkpoint::StateProvider {
 public:
  // Samples of training and held-out data; of each two numbers: sums over the tokens of its answers, or of
  // its answer and of an answer to another prompt. writes: this rank saves them.
  ReferenceScores(int64_t train, int64_t held_out, bool writes);

  bool known() const { return known_; }
  void set(const Tensor& train, const Tensor& held_out);
  const Tensor& train() const { return train_n2_; }        // fp64 [samples, 2] on the CPU
  const Tensor& held_out() const { return held_out_n2_; }  // likewise

  std::vector<checkpoint::StateEntry> tensors() override;
  nlohmann::json facts() override;
  void restore(const checkpoint::SavedFacts& saved) override;

 private:
  Tensor train_n2_, held_out_n2_;
  bool writes_, known_ = false;
};

}  // namespace longhaul::posttrain
