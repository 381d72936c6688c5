// dry_run: one training step of a model on a mesh of any size without its ranks and without its memory: forward and backward passes of the micro-batches
// on meta tensors (shapes alone), by the schedule and the ParallelOps that train uses, with comm::Fake as every group; then the sums of gradients. Some ranks are
// run, one after the other in this thread, and their records compared: the members of each group make the same calls in the same order, what one sends
// is what the other receives, and bytes are counted. A step that would hang on 10,000 GPUs, because one rank waits for what nobody sends, is found on a
// laptop.
//
// Tokens are nobody's, so what depends on them is assumed: experts get equally many rows, a tensor rank looks up all ids.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/disagreement.h"
#include "parallel/pipeline/arrangement.h"

namespace longhaul::run {

struct DryRunRequest {
  recipe::ModelConfig model;
  parallel::Arrangement arrangement;
  int64_t sequence = 2048, rows = 1;  // of a micro-batch of one replica
  int64_t micro_batches = 1;
  std::string dtype = "bf16";
  std::vector<int64_t> ranks{};  // that are run; empty: sampled_ranks
};

struct DryRun {
  comm::Comparison comparison;
  std::vector<int64_t> ranks;
  // Of the rank that sends most of each kind, a step: by kind of group and of call.
  std::map<std::pair<std::string, comm::CallKind>, comm::CallTotals> most;
  int64_t most_sent = 0;        // bytes of the rank that sends most
  int64_t parameter_bytes = 0;  // of the rank that holds most: values and main gradients, which nobody has allocated
};

// Ranks whose lists of calls can differ at all: one of each place in pipeline, context, tensor and expert groups; and for the groups that
// replicas form, all members of those of the first rank and of the last (of experts where ranks share them out).
std::vector<int64_t> sampled_ranks(const layout::Mesh& mesh);

// kUsage error where the model does not fit the mesh.
std::vector<comm::RankRecords> dry_records(const DryRunRequest& request);  // of request.ranks, in their order
DryRun dry_run(const DryRunRequest& request, const std::function<void(int64_t done, int64_t of)>& progress = {});

}  // namespace longhaul::run
