#include "layout/methods/methods.h"

#include <algorithm>

namespace longhaul::layout {
namespace {

constexpr const ParallelMethod* kMethods[] = {
    &kReplicas, &kTensorParallelism, &kContextParallelism, &kPipelineParallelism, &kExpertParallelism,
    &kShares,   &kOuterLoops};

}  // namespace

std::span<const ParallelMethod* const> parallel_methods() { return kMethods; }

bool comes_out_even(const SharedWork& work, const RankSizes& ranks) {
  return std::ranges::all_of(kMethods, [&](const ParallelMethod* method) {
    return std::ranges::all_of(method->rules, [&](const EvenRule* rule) { return rule->holds(work, ranks); });
  });
}

}  // namespace longhaul::layout
