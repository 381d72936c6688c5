// adapter_config.json of PEFT: read as the options of adapters that are computed here, and written from them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recipe/architecture/adapters.h"

namespace longhaul::checkpoint {

inline constexpr const char* kPeftConfig = "adapter_config.json";

// Rank, alpha and kind; which modules have an adapter follows from the tensors. kData for a folder without
// the file, for another kind of adapter, and for every field that asks for something that is not computed
// here.
recipe::AdapterOptions read_peft_config(const std::filesystem::path& folder);

// base: the place of the model beside which the adapters stand; empty: it is not said.
std::string peft_config(const recipe::AdapterOptions& lora, const std::vector<std::string>& modules,
                        const std::string& base);

}  // namespace longhaul::checkpoint
