// How training state is named in a checkpoint: the kinds of files, the roles that readers look for, and the
// dtypes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "storage/dtype.h"
#include "tensor/tensor.h"

namespace longhaul::checkpoint {

inline constexpr const char* kModelFiles = "model";
inline constexpr const char* kOptimizerFiles = "optimizer";
inline constexpr const char* kTaskFiles = "task";
inline constexpr const char* kWeightRole = "weight";
// weights that training alone needs (model.predict_ahead)
inline constexpr std::string_view kAheadPrefix = "ahead.";
// Prefixes of tensor names; weights have none.
inline constexpr std::string_view kOptimizerPrefix = "optimizer.", kTaskPrefix = "task.";

// "model.safetensors"; with several writers "model-00002-of-00004.safetensors" for rank 1.
std::string file_name(const std::string& kind, int64_t rank, int64_t writers);

storage::DType storage_dtype(ScalarType type);
// kCheckpoint for types that tensors here never have
ScalarType scalar_type(storage::DType dtype, const std::string& tensor);

}  // namespace longhaul::checkpoint
