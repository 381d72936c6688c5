// A proof whose ranks are processes: this program starts itself once for each rank. The work of a rank, and
// its results, are files in a shared folder:
//
//   task.json   dtype and checkpoints                    written before ranks are started
//   rank-N.json, rank-N.fp64                              names and boxes; losses, norms and values one after
//                                                         the other
#pragma once

#include <functional>

#include "prove/prove_run.h"

namespace longhaul::prove {

// The arguments, after the program's name, that start a rank of the layout. That process must call
// prove_as_process with the same subject, except for the dtype.
using ProofProcess =
    std::function<std::vector<std::string>(const ProofLayout& layout, const std::filesystem::path& folder)>;

// Throws kCommunication, with the message of the first rank that failed, where a rank fails.
std::vector<SeenTwice> prove_in_processes(const ProofSubject& subject,
                                          const std::optional<ProofCheckpoints>& checkpoints,
                                          const ProofProcess& process);

// Runs in a rank, whose place is in the environment (comm/placement.h). The dtype of the subject is that of
// the task.
void prove_as_process(ProofSubject subject, const std::filesystem::path& folder);

}  // namespace longhaul::prove
