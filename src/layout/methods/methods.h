// The list of parallel methods, and their rules by name.
#pragma once

#include "layout/methods/method.h"
#include "recipe/sections/outer_options.h"

namespace longhaul::layout {

extern const EvenRule kRanksOfReplicas, kSequencesOfReplicas, kHeadsOfTensorRanks, kStagesOfLayers,
    kRoundsOfStages, kPairsOfStages, kExpertsOfRanks, kModelOfExperts, kHeadsOfContextRanks,
    kHeadsOfLinearContext;
extern const ParallelMethod kReplicas, kTensorParallelism, kContextParallelism, kPipelineParallelism,
    kExpertParallelism, kShares, kOuterLoops;

// In the order in which `prove` tries them.
std::span<const ParallelMethod* const> parallel_methods();
// Every rule of every method.
bool comes_out_even(const SharedWork& work, const RankSizes& ranks);

// What a rank has received when all parts of `all` bytes have come from `ranks` ranks that have one each.
inline double gathered_bytes(double all, int64_t ranks) {
  return all * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

// In all-scan a rank passes a state on in so many slices.
inline constexpr int64_t kScanSlices = 4;
// How long the last of `ranks` context ranks waits for the states of a recurrence, in the time in which one
// of them goes from rank to rank: a chain passes them on one after the other.
double states_in_turn(const recipe::ContextOptions& context, int64_t ranks);

// Stages of a pipeline: in dualpipe each is on two ranks.
inline int64_t stages_of(const RankSizes& ranks) {
  return ranks.schedule == recipe::PipelineSchedule::kDualPipe ? ranks.pp : ranks.pp * ranks.chunks;
}

// How many of `ranks` neighbours share the heads of softmax attention, in whole groups of grouped-query
// attention; 1: none does; 0: they do not come out even.
int64_t ranks_of_heads(recipe::ContextMethod method, int64_t ranks, int64_t key_heads);

// Islands of an outer loop that `ranks` ranks can be, where parallel.workers does not say how many: each as
// small as one replica. Ranks may be left over.
int64_t smallest_islands(const recipe::ParallelOptions& parallel, int64_t ranks);

}  // namespace longhaul::layout
