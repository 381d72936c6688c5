// What becomes of the tensors that forward passes save for their backward passes. By default autograd keeps them. While a SavedTensorsScope
// lives, its SavedTensors is asked first: it may take a tensor, which is then free as soon as nobody else needs it, and gives it back when the
// backward pass of the operator that saved it begins.
//
//   made again   selective recomputation: a tensor that its operator declared as cheap (Recorded::cheap) is made again (cheap_tensors.h)
//   moved        offload: the bytes lie elsewhere meanwhile (offload.h)
//
// Tensors are taken by storage: several that share one (queries, keys and values) are taken once, and come back sharing one. One thread, that of
// the passes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

// Bytes of a storage that come back when they are asked for, and stay for as long as somebody still has to ask.
class SavedStorage {
 public:
  virtual ~SavedStorage() = default;
  const c10::Storage& whole();

 protected:
  virtual Tensor restore() = 0;  // whose storage is laid out as the one that was taken

 private:
  Tensor restored_;
};

class SavedTensors {
 public:
  virtual ~SavedTensors() = default;
  virtual std::shared_ptr<SavedStorage> take(const Tensor& x) = 0;                          // null: it stays where it is
  virtual void can_be_made_again(const Tensor& /*x*/, std::function<Tensor()> /*make*/) {}  // before anybody saves it
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

// A tensor, or how to get it back.
class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(const Tensor& x, SavedTensors* keeper);
  bool taken() const { return storage_ != nullptr; }
  Tensor get() const;

 private:
  Tensor x_;  // the tensor; of one that was taken an empty one, which knows its dtype
  std::shared_ptr<SavedStorage> storage_;
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_ = 0;
  bool wants_gradient_ = false;  // backward passes ask the tensors that were saved
};

// Storages that were seen, and may be gone since: another one may stand at the same address.
class SeenStorage {
 public:
  explicit SeenStorage(const Tensor& x) : seen_(x.storage().getWeakStorageImpl()) {}
  bool is(const Tensor& x) const { return !seen_.expired() && seen_._unsafe_get_target() == x.storage().unsafeGetStorageImpl(); }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> seen_;
};

}  // namespace longhaul::kernels
