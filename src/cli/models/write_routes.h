// The output of `sample --routes` and `score --routes`: the file that they write, and what they print.
#pragma once

#include <span>
#include <string>

#include "checkpoint/open_model.h"
#include "generate/routes_file.h"

namespace longhaul::cli {

void write_routes_of(const checkpoint::OpenModel& model, std::span<const generate::RoutedSequence> sequences,
                     const std::string& path);

}  // namespace longhaul::cli
