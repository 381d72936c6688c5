// SavedTensors: decides what happens to the tensors that forward passes save for their backward passes. By
// default autograd keeps them. While a SavedTensorsScope lives, its SavedTensors is asked first: it may
// take a tensor, which is then freed as soon as it has no other user, and returns it when the backward pass
// of the operator that saved it begins.
//
//   made again   selective recomputation: a tensor that its operator declared as cheap (Recorded::cheap) is
//                recomputed (cheap_tensors.h)
//   moved        offload: the bytes are stored elsewhere meanwhile (file_offload.h, host_offload.h)
//
// Tensors are taken by storage: several that share one (queries, keys and values) are taken once, and share
// one when they come back. All calls are made by one thread, that of the passes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tensor/device.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// The bytes of a storage. They are restored when they are first requested, and stay until the last user has
// requested them.
class SavedStorage {
 public:
  virtual ~SavedStorage() = default;
  const c10::Storage& whole();

 protected:
  virtual Tensor restore() = 0;  // its storage has the layout of the one that was taken

 private:
  Tensor restored_;
};

class SavedTensors {
 public:
  virtual ~SavedTensors() = default;
  // null: the tensor stays where it is.
  virtual std::shared_ptr<SavedStorage> take(const Tensor& x) = 0;
  // Called before the tensor is saved.
  virtual void can_be_made_again(const Tensor& /*x*/, std::function<Tensor()> /*make*/) {}

  // What follows belongs to this layer, which is one of a pass from first to last. `stays`: its backward pass
  // comes so soon that nothing of it is moved.
  virtual void begin_layer(int64_t /*layer*/, bool /*stays*/) {}
  // Of the layer: the share of the rows of products that is kept, where layers run again (recomputed.h).
  virtual double row_share() const { return 0; }
  virtual at::Device device() const { return at::kCPU; }  // of the tensors
  // As take(), for a contiguous part of a storage whose other parts nobody keeps.
  virtual std::shared_ptr<SavedStorage> take_rows(const Tensor& /*x*/) { return nullptr; }
  // Products of the layer whose rows might all be kept took the time between the events.
  virtual void rows_made(int64_t /*bytes*/, Event /*begun*/, Event /*ended*/) {}
};

class SavedTensorsScope {
 public:
  explicit SavedTensorsScope(SavedTensors* keeper);  // null: autograd keeps everything
  ~SavedTensorsScope();
  SavedTensorsScope(const SavedTensorsScope&) = delete;
  SavedTensorsScope& operator=(const SavedTensorsScope&) = delete;
  static SavedTensors* current();

 private:
  SavedTensors* before_;
};

// A tensor, or the means to get it back.
class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(const Tensor& x, SavedTensors* keeper);
  // The first `rows` of x, and not the memory of the others.
  static SavedTensor of_rows(const Tensor& x, int64_t rows, SavedTensors* keeper);
  bool taken() const { return storage_ != nullptr; }
  Tensor get() const;

 private:
  Tensor x_;  // the tensor; if it was taken, an empty one with the same dtype
  std::shared_ptr<SavedStorage> storage_;
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_ = 0;
  bool wants_gradient_ = false;  // backward passes ask the tensors that were saved
};

// A storage that was seen and may have been freed since: another one may have the same address.
class SeenStorage {
 public:
  explicit SeenStorage(const Tensor& x) : seen_(x.storage().getWeakStorageImpl()) {}
  bool is(const Tensor& x) const {
    return !seen_.expired() && seen_._unsafe_get_target() == x.storage().unsafeGetStorageImpl();
  }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> seen_;
};

}  // namespace longhaul::kernels
