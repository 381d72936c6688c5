// A file without a name, for bytes that only this process needs again. It disappears when it is closed, and
// when the process ends for any reason.
#pragma once

#include <filesystem>

#include "base/files/file.h"

namespace longhaul {

// For reading and writing; kDisk where it cannot be created.
File unnamed_file(const std::filesystem::path& folder);

}  // namespace longhaul
