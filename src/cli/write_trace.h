// Writes a trace to a file, in a format chosen by the suffix of its name: Perfetto's protobuf (.pftrace),
// else Chrome's JSON. Missing folders are created.
#pragma once

#include <filesystem>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::cli {

void write_trace(const std::vector<observe::RankTrace>& ranks, const std::filesystem::path& out);

}  // namespace longhaul::cli
