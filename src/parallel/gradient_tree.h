// GradientTree: gradients whose bits do not depend on the number of replicas (train.elastic;
// docs/design/elastic.md). The gradient of each micro-batch is kept apart, and all are added in one binary
// tree over the micro-batches of the step (layout/sum_tree.h). Sums of micro-batches on this rank are formed
// as they arrive, in buffers beside the arenas. The remaining sums of all replicas are added by the ranks
// that keep a share of the result, in the order of the tree and not in the order of ranks. Last, the sums of
// the ranks that share a replica are added in the order of ranks.
//
//   tree.begin_step(parameters, 4);
//   …forward and backward of a micro-batch; tree.end_micro_batch(); …
//   // when the last micro-batch has added its gradients; on all ranks in the same order
//   tree.start_sum(arena);
//   // the sums are complete: whole on all ranks, or each rank's share where arenas are cut (parallel.zero)
//   tree.end_step();
//
// Between two micro-batches every gradient must belong to one micro-batch: a rank finishes the backward pass
// of one before it begins the next. Not thread-safe.
#pragma once

#include <map>
#include <vector>

#include "layout/sum_tree.h"
#include "model/arena.h"
#include "parallel/mesh_groups.h"

namespace longhaul::parallel {

class GradientTree {
 public:
  // null: one process
  GradientTree(const layout::MeshRank& place, const MeshGroups* groups) : place_(place), groups_(groups) {}

  // on this rank, and equally many on every other
  void begin_step(model::ParameterSet& parameters, int64_t micro_batches);
  void end_micro_batch();
  void start_sum(const model::Arena& arena);
  void end_step();

  // Takes rows of numbers, one for each micro-batch of this rank (none where other stages have them). Returns
  // for each column the sum over all ranks, in the order of the tree and then in the order of the ranks that
  // share a replica. The same of numbers in whose order replicas take turns.
  using Rows = std::vector<std::vector<double>>;
  std::vector<double> sums_of(const Rows& rows, const std::string& name) const;
  double sum_of_rounds(const std::vector<double>& rounds, const std::string& name) const;

 private:
  // Sums of one arena, or of a part of it, that wait for their right neighbour in the tree.
  struct Waiting {
    std::vector<layout::TreeNode> nodes;
    std::vector<Tensor> sums;
    // keeps `sum`, or adds it to the waiting neighbour
    void add(const layout::SumTree& tree, layout::TreeNode node, const Tensor& sum);
  };
  struct UnderWay {  // the sum of an arena
    const model::Arena* arena = nullptr;
    std::vector<Tensor> sent, received;  // by node: this rank's sums, and the share of each rank's sums
    std::vector<comm::Work> works;
  };
  int64_t replicas() const { return place_.mesh.size(layout::Axis::kDp); }
  std::vector<std::vector<layout::TreeNode>> nodes_of_replicas() const;
  std::vector<int64_t> shares_of(const model::Arena& arena, int64_t ranks) const;
  void join_on_this_rank(const model::Arena& arena, Waiting& waiting);
  void send(const model::Arena& arena, const Waiting& waiting, comm::Communicator& group);
  void finish();  // the sum in progress
  Tensor sum_of_received(const UnderWay& sum, comm::Communicator& group) const;
  struct Leaves {
    int64_t count = 0, first = 0, step = 1;  // of all ranks; which of them this rank has
  };
  std::vector<double> sums_over(const Rows& rows, const Leaves& leaves, const std::string& name) const;

  layout::MeshRank place_;
  const MeshGroups* groups_;
  layout::SumTree tree_{1};
  int64_t micro_batches_ = 0, first_ = 0, done_ = 0;
  std::map<const model::Arena*, Waiting> waiting_;
  std::vector<const model::Arena*> arenas_;
  UnderWay under_way_;
  std::vector<comm::Work> gathers_;  // of sums that are whole
};

}  // namespace longhaul::parallel
