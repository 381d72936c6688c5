// The LibTorch in use: its folder and its version.
#pragma once

#include <filesystem>
#include <string>

namespace longhaul {

// holds lib/ and, outside a package, include/; what data.source = "libtorch" reads
std::filesystem::path libtorch_folder();
std::string libtorch_version();  // "2.13.0"

}  // namespace longhaul
