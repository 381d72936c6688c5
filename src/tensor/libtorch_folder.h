// The LibTorch in use: where it lies, which one it is, and the devices it offers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace longhaul {

std::filesystem::path libtorch_folder();  // holds lib/ and, outside a package, include/; what data.source = "libtorch" reads
std::string libtorch_version();           // "2.13.0"
int64_t cuda_devices();                   // 0 where this LibTorch was built without CUDA

}  // namespace longhaul
