// A trace as a file, by the name's end: Perfetto's protobuf (.pftrace), else Chrome's JSON. Folders on the way are made.
#pragma once

#include <filesystem>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::cli {

void write_trace(const std::vector<observe::RankTrace>& ranks, const std::filesystem::path& out);

}  // namespace longhaul::cli
