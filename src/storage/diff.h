// diff compares two checkpoints tensor by tensor, whatever rectangles each was stored in. Values are compared
// as numbers (bool, integers, fp16, bf16, fp32, fp64, complex numbers by parts); types without a numeric
// meaning here are compared byte by byte. Memory stays bounded: large tensors are read in blocks of rows.
#pragma once

#include <string>
#include <vector>

#include "storage/checkpoint_files.h"

namespace longhaul::storage {

struct TensorDifference {
  enum class Kind { kOnlyLeft, kOnlyRight, kShape, kDType, kValues };
  std::string name;
  Kind kind = Kind::kValues;
  std::string left, right;       // shapes or dtypes that differ
  int64_t elements = 0;          // for kValues: elements of the tensor
  int64_t different = 0;         // number of elements that differ in their bits
  int64_t first_different = -1;  // row-major index
  double maximum = 0;            // largest |left - right|; infinite where only one side is NaN or infinite
};

struct CheckpointDifference {
  std::vector<TensorDifference> tensors;  // by name; equal tensors are not listed
  int64_t equal = 0;                      // tensors equal in every bit
  bool same() const { return tensors.empty(); }
};

CheckpointDifference diff(const Checkpoint& left, const Checkpoint& right);
std::string_view name_of(TensorDifference::Kind kind);  // "only in the first", …

}  // namespace longhaul::storage
