// StepArena: train.arena. The passes of a rank's first step are logged, addresses are planned from that
// (plan/memory/addresses/step_addresses.h), and the passes of later steps are replayed in one block of memory
// (tensor/replay_arena.h). No number depends on where a tensor lies.
//
// The plan is kept in the run folder, under the recipe's hash and the rank, and read when the run is started
// again: its first step is replayed too. A step more than a quarter of whose bytes are not in the plan (a
// longer row, a larger batch) makes it void, and the next step is logged anew, at most kMostPlans times; rows
// of documents that differ each time come from the heap.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "observe/events/event.h"
#include "recipe/recipe.h"
#include "tensor/replay_arena.h"

namespace longhaul::train {

// A plan, and what it was made of.
struct KeptPlan {
  ArenaPlan arena;
  std::vector<int64_t> begins, ends;  // of each place, as in the log; end 0: it outlives the step
  int64_t live_bytes = 0;             // the most that lived at one time: no block can be smaller
};

KeptPlan plan_of(const MemoryLog& log);
std::string picture_of(const KeptPlan& plan);  // SVG, which the run's page shows
void write_plan(const std::filesystem::path& path, const KeptPlan& plan);
// Throws kData where there is no file, or it is not a plan.
KeptPlan read_plan(const std::filesystem::path& path);

class StepArena {
 public:
  static constexpr int kMostPlans = 8;

  // Throws kUsage where tensors are not in memory of the CPU, or are not those of our allocator.
  StepArena(const recipe::Recipe& recipe, const std::filesystem::path& run_folder, int64_t rank,
            int64_t ranks, at::Device device);

  // The passes of a step: they lie in the arena while the object lives. ended() is called behind them; it is
  // left out where they throw. Null: there is no arena.
  class Passes {
   public:
    explicit Passes(StepArena* arena);
    void ended();

   private:
    StepArena* arena_;
    std::optional<ReplayArena::Scope> scope_;
  };
  // The metrics of the last step: memory/arena_bytes, …arena_live_bytes, …arena_missed (heap requests),
  // …arena_missed_bytes, memory/held_bytes (of the process, from the system), memory/peak_bytes (in use at
  // most; what is held beyond it are holes and rounding).
  void tell(observe::Metrics& metrics) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  void take(KeptPlan plan);
  void make_plan();

  std::filesystem::path path_;
  std::optional<ReplayArena> arena_;
  int64_t live_bytes_ = 0, block_bytes_ = 0;
  int plans_ = 0;
};

}  // namespace longhaul::train
