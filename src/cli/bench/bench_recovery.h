// `longhaul bench recovery`: one of the benchmarks that cli/bench/bench.cpp registers.
#pragma once

#include "cli/command.h"

namespace longhaul::cli {

void add_bench_recovery(Command& group);

}  // namespace longhaul::cli
