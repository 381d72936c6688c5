// The stacks of a rank's threads as text. A rank is asked through SIGUSR2, whose handler writes the stacks to
// the board, whatever the rank hangs in. A rank that does not answer, because it is stopped or blocks
// signals, is described from the kernel's information. Functions are given by name; files and lines too if
// the program was built with them (-g1). Threads at the same place are described together. Only for processes
// of this machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "detect/hang/hang.h"
#include "observe/board/rank_board.h"

namespace longhaul::detect {

// Returns lines: "3 threads "OMP" (S, futex_wait_queue):" and then its frames, innermost first. known: the
// names found so far for places in files, so that each is looked up once for all ranks.
using KnownPlaces = std::map<std::pair<std::string, uint64_t>, std::string>;
std::vector<std::string> stack_text(const std::vector<observe::BoardStack>& stacks,
                                    const std::vector<observe::BoardModule>& modules,
                                    KnownPlaces* known = nullptr);

// Asks the process of the board and waits up to patience_s for its answer.
std::vector<std::string> threads_of_rank(const observe::BoardReader& board, double patience_s = 1);

}  // namespace longhaul::detect
