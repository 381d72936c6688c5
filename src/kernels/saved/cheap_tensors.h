// CheapTensors: selective recomputation. Tensors that operators declare as cheap (Recorded::cheap:
// elementwise results, or a gather of rows) are not kept for the backward pass but recomputed from tensors
// that are kept anyway: results of norms, of activations, rows of experts. Results of products, of
// attention and of recurrences are kept, and no communication is repeated.
//
// Each forward pass needs an object of its own, which must live as long as the pass.
#pragma once

#include <unordered_map>

#include "kernels/saved/saved_tensors.h"

namespace longhaul::kernels {

class CheapTensors final : public SavedTensors {
 public:
  // others: handles tensors that are not cheap.
  explicit CheapTensors(SavedTensors* others = nullptr) : others_(others) {}
  std::shared_ptr<SavedStorage> take(const Tensor& x) override;
  void can_be_made_again(const Tensor& x, std::function<Tensor()> make) override;

 private:
  struct Known {
    SeenStorage seen;
    std::shared_ptr<SavedStorage> storage;
  };
  SavedTensors* others_;
  std::unordered_map<const void*, Known> known_;  // by StorageImpl
};

}  // namespace longhaul::kernels
