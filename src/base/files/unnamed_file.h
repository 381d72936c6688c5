// A file that nobody else finds, for bytes that a process needs again: it is gone when it is closed, and with the process, whatever ends that.
#pragma once

#include <filesystem>

#include "base/files/file.h"

namespace longhaul {

File unnamed_file(const std::filesystem::path& folder);  // for reading and writing; kDisk where it cannot be made

}  // namespace longhaul
