// How training state is named in a checkpoint: the master copy of a logical tensor under the tensor's own name in
// model.safetensors, its moments under "optimizer.<kind>.<name>" in optimizer.safetensors.
#pragma once

#include <string>

#include "optim/optimizer.h"
#include "storage/dtype.h"

namespace longhaul::checkpoint {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

std::string stored_name(const optim::StateTensor& tensor);
storage::DType storage_dtype(ScalarType type);
ScalarType scalar_type(storage::DType dtype, const std::string& tensor);  // kCheckpoint for types that tensors here never have

}  // namespace longhaul::checkpoint
