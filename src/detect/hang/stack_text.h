// What the threads of a rank are at, in words: asked through SIGUSR2 (its handler leaves the stacks on the board, whatever the rank hangs in), or,
// where it does not answer since it is stopped or blocks signals, as the kernel tells it. Functions by name; files and lines where the program has
// been built with them (-g1). Threads that stand at the same place are told of together. Of processes of this machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "detect/hang/hang.h"
#include "observe/board/rank_board.h"

namespace longhaul::detect {

// "3 threads "OMP" (S, futex_wait_queue):" and its frames, innermost first, a line each.
// known: what places in files are called, which is looked up once for all ranks that are asked with one.
using KnownPlaces = std::map<std::pair<std::string, uint64_t>, std::string>;
std::vector<std::string> stack_text(const std::vector<observe::BoardStack>& stacks, const std::vector<observe::BoardModule>& modules,
                                    KnownPlaces* known = nullptr);

// Asks and waits that long for an answer. board: of that process.
std::vector<std::string> threads_of_rank(const observe::BoardReader& board, double patience_s = 1);

}  // namespace longhaul::detect
