// CheapTensors: selective recomputation. What operators declare as cheap (Recorded::cheap: elementwise, or a gather of rows) is not kept for the
// backward pass but made again from what is kept anyway: results of norms, of activations, rows of experts. Results of products, of attention and
// of recurrences are kept, and nothing is communicated again.
//
// One for each forward pass: it needs to live as long as that.
#pragma once

#include <unordered_map>

#include "kernels/saved_tensors.h"

namespace longhaul::kernels {

class CheapTensors final : public SavedTensors {
 public:
  explicit CheapTensors(SavedTensors* others = nullptr) : others_(others) {}  // asked for what is not cheap
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
