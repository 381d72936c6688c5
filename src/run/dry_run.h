// dry_run: one training step of a model on a mesh of any size, without its ranks and without its memory. It
// runs the forward and backward passes of the micro-batches on meta tensors (shapes only), with the schedule
// and the ParallelOps of training and with comm::Fake as every group, and then the gradient sums. Some ranks
// are run one after the other in this thread, and their records are compared: the members of each group must
// make the same calls in the same order, every message that one sends must be received by the other, and
// bytes are counted. A step that would hang on 10,000 GPUs, because one rank waits for a message that no rank
// sends, is found on a laptop.
//
// There are no real tokens, so whatever depends on them is assumed: experts get equally many rows, and a
// tensor rank looks up all ids.
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
  std::vector<int64_t> ranks{};  // the ranks that are run; empty: sampled_ranks()
};

struct DryRun {
  comm::Comparison comparison;
  std::vector<int64_t> ranks;
  // For each kind of group and call, the bytes and calls in a step of the rank that sends most.
  std::map<std::pair<std::string, comm::CallKind>, comm::CallTotals> most;
  int64_t most_sent = 0;  // bytes of the rank that sends most
  // of the rank that holds most: values and main gradients, none of which is allocated
  int64_t parameter_bytes = 0;
};

// The ranks whose lists of calls can differ: one for each place in pipeline, context, tensor and expert
// groups; and, for the groups that replicas form, all members of the groups of the first and of the last rank
// (for experts where ranks share them).
std::vector<int64_t> sampled_ranks(const layout::Mesh& mesh);

// kUsage error where the model does not fit the mesh.
std::vector<comm::RankRecords> dry_records(const DryRunRequest& request);  // of request.ranks, in their order
DryRun dry_run(const DryRunRequest& request,
               const std::function<void(int64_t done, int64_t of)>& progress = {});

}  // namespace longhaul::run
