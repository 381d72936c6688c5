// A text for training small runs: numbers in a fixed order, the same everywhere.
#pragma once

#include <filesystem>

namespace longhaul::bench {

// of 60 numbers each, one to three digits
void write_small_text(const std::filesystem::path& folder, int files);

}  // namespace longhaul::bench
