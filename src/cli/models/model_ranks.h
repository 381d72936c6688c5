// Ranks that have one model together, by tensors and by layers, for commands that decode with a model which
// was trained so, or that one process has no room for.
#pragma once

#include <functional>
#include <memory>

#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "comm/world.h"
#include "parallel/ranks.h"

namespace longhaul::cli {

struct RankOptions {
  int64_t tp = 1, pp = 1;
  int64_t ranks() const { return tp * pp; }
};

// --tp and --pp.
void add_rank_options(Command& command, RankOptions& options);

// Calls body on every rank: on threads of this process, or, where torchrun or srun has started as many
// processes, on this one of them. `told`: what the command of all of them must have been told alike. Null:
// one rank, alone.
void on_ranks(const RankOptions& options, const char* command, comm::IdentityParts told,
              const std::function<void(comm::Communicator* world)>& body);

// The model of one rank, and its place among them.
struct ModelOnRanks {
  std::unique_ptr<parallel::Ranks> ranks;  // null: one rank, alone
  checkpoint::OpenModel model;
};
// A collective call.
ModelOnRanks open_on_ranks(const std::filesystem::path& path, const std::string& dtype, at::Device device,
                           checkpoint::ModelForm form, const RankOptions& options, comm::Communicator* world);

}  // namespace longhaul::cli
