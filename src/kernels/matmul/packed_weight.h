// PackedWeight: the packed copies of one weight, kept between calls because every weight is used at least
// three times in a step: one copy for y = x Wᵀ, one for dx = dy W. A copy is made when it is first
// requested. It is made again if the weight has been written since by code that did not pack it, which
// shows in its version (raised by the optimizer), its storage, or LibTorch's own count of in-place writes.
// Versions only rise: a request for a version that is not the newest (for example a backward pass after an
// update) would get other values than before, and gets an internal error instead. It belongs to the
// Parameter; not thread-safe. Each copy in use takes as much memory as the weight.
#pragma once

#include <cstdint>

#include "base/memory/memory_purpose.h"
#include "kernels/matmul/panels.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

class PackedWeight {
 public:
  explicit PackedWeight(MemoryPurpose purpose = MemoryPurpose::kPackedWeights) : purpose_(purpose) {}

  // weight [out, in] or [experts, out, in], contiguous bf16 or fp32 on the CPU. Panels as matmul/panels.h
  // says, one expert after the other. `longest`: the longest chunk of k = out; one number for each weight,
  // because another number would pack it again.
  const void* for_output(const Tensor& weight, uint64_t version) {
    return fresh(for_output_, weight, version, false, Chunks::kLongest);
  }
  const void* for_input_gradient(const Tensor& weight, uint64_t version, int64_t longest = Chunks::kLongest) {
    return fresh(for_input_gradient_, weight, version, true, longest);
  }

  // For an optimizer that writes the weight row by row: packs rows [begin, end) of matrix `matrix` anew in
  // every copy there is, while they are in cache (begin: a multiple of kRowStep; end: too, or the last row).
  // Several threads may pack different rows. When all rows of all matrices are packed, refreshed() says so;
  // until then the copies must not be used.
  static constexpr int64_t kRowStep = 32;
  bool in_use() const { return for_output_.panels.defined() || for_input_gradient_.panels.defined(); }
  void pack_rows(const Tensor& weight, int64_t matrix, int64_t begin, int64_t end);
  void refreshed(const Tensor& weight, uint64_t version);

  // The weight has been written and now has this version. Without it a copy made later for an older version
  // would go unnoticed.
  void written(uint64_t version);
  void expect_newest(uint64_t version) const;

  void release() { for_output_ = {}, for_input_gradient_ = {}; }  // the memory of its copies
  int64_t bytes() const;
  int64_t packings() const { return packings_; }  // so far, of whole copies

 private:
  struct Copy {
    Tensor panels;
    const void* data = nullptr;
    uint64_t version = 0;
    int64_t writes = 0, longest = 0;
  };
  const void* fresh(Copy& copy, const Tensor& weight, uint64_t version, bool for_input, int64_t longest);

  MemoryPurpose purpose_;
  Copy for_output_, for_input_gradient_;
  int64_t packings_ = 0;
  uint64_t newest_ = 0;  // version that was ever named
};

// Packed copies that the caller keeps (until after the backward pass) and the weight's version. An operator
// that is given none packs inside each call, or leaves the product to LibTorch.
struct KeptPacked {
  PackedWeight* copies = nullptr;
  uint64_t version = 0;
};

}  // namespace longhaul::kernels
