// A proof whose ranks are processes: this program starts itself once a rank. What a rank has to do, and what it has seen, lie as files in a
// folder that both know:
//
//   task.json   dtype and checkpoints                    written before ranks are started
//   rank-N.json, rank-N.fp64                              names and boxes; losses, norms and values one behind the other
#pragma once

#include <functional>

#include "prove/prove_run.h"

namespace longhaul::prove {

// The words, behind the program's name, that start a rank of the layout: it must come to prove_as_process with the same subject but for the dtype.
using ProofProcess = std::function<std::vector<std::string>(const ProofLayout& layout, const std::filesystem::path& folder)>;

// kCommunication, with what the first rank that failed has said, where one ends badly.
std::vector<SeenTwice> prove_in_processes(const ProofSubject& subject, const std::optional<ProofCheckpoints>& checkpoints,
                                          const ProofProcess& process);

// In a rank: its place is in the environment (comm/placement.h). The subject's dtype is the task's.
void prove_as_process(ProofSubject subject, const std::filesystem::path& folder);

}  // namespace longhaul::prove
