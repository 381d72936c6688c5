#include "parallel/gradient_tree.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "layout/split.h"

namespace longhaul::parallel {

using comm::Reduction;
using layout::Axis;
using layout::TreeNode;

// ---- on this rank

void GradientTree::begin_step(model::ParameterSet& parameters, int64_t micro_batches) {
  LONGHAUL_ASSERT(micro_batches >= 1, "{} micro-batches", micro_batches);
  micro_batches_ = micro_batches;
  first_ = place_.coordinate(Axis::kDp) * micro_batches;
  done_ = 0;
  tree_ = layout::SumTree(micro_batches * replicas());
  waiting_.clear();
  gathers_.clear();
  under_way_ = {};
  arenas_.clear();
  for (const auto& arena : parameters.arenas()) {
    if (arena->trains()) arenas_.push_back(arena.get());
  }
}

void GradientTree::Waiting::add(const layout::SumTree& tree, TreeNode node, const Tensor& sum) {
  const auto [joined, made] = tree.join(nodes, node);
  for (size_t i = 0; i < joined; ++i) {
    const Tensor& right = i == 0 ? sum : sums.back();
    const size_t left = sums.size() - (i == 0 ? 1 : 2);
    sums[left].add_(right);
    if (i > 0) sums.pop_back();
  }
  nodes.resize(nodes.size() - joined);
  nodes.push_back(made);
  if (joined == 0) sums.push_back(sum);
}

void GradientTree::end_micro_batch() {
  LONGHAUL_ASSERT(done_ < micro_batches_, "more than {} micro-batches", micro_batches_);
  const at::NoGradGuard no_gradient;
  const TreeNode leaf{0, first_ + done_};
  if (++done_ == micro_batches_) return;  // the last one's gradients stay where they are: start_sum
  const MemoryPurposeScope scope(MemoryPurpose::kGradients);
  for (const model::Arena* arena : arenas_) {
    Waiting& waiting = waiting_[arena];
    const bool waits = tree_.join(waiting.nodes, leaf).joined == 0;
    waiting.add(tree_, leaf, waits ? arena->gradients.clone() : arena->gradients);
    arena->gradients.zero_();
  }
}

// The last micro-batch's gradients, and what stands left of them here, in the arena's own memory.
void GradientTree::join_on_this_rank(const model::Arena& arena, Waiting& waiting) {
  const auto [joined, made] = tree_.join(waiting.nodes, {0, first_ + micro_batches_ - 1});
  for (size_t i = 0; i < joined; ++i) {
    arena.gradients.add_(waiting.sums.back());
    waiting.sums.pop_back();
  }
  waiting.nodes.resize(waiting.nodes.size() - joined);
  waiting.nodes.push_back(made);
  waiting.sums.push_back(arena.gradients);
}

// ---- over ranks

void GradientTree::start_sum(const model::Arena& arena) {
  const at::NoGradGuard no_gradient;
  finish();
  Waiting waiting = std::move(waiting_[&arena]);
  join_on_this_rank(arena, waiting);
  if (groups_ != nullptr && groups_->over(arena.copies()).size() > 1)
    return send(arena, waiting, groups_->over(arena.copies()));
  LONGHAUL_ASSERT(waiting.sums.size() == 1, "{} sums are left of {}", waiting.sums.size(), arena.name);
}

std::vector<std::vector<TreeNode>> GradientTree::nodes_of_replicas() const {
  std::vector<std::vector<TreeNode>> nodes;
  for (int64_t replica = 0; replica < replicas(); ++replica) {
    nodes.push_back(tree_.run(replica * micro_batches_, (replica + 1) * micro_batches_).nodes);
  }
  return nodes;
}

std::vector<int64_t> GradientTree::shares_of(const model::Arena& arena, int64_t ranks) const {
  if (arena.cut()) return arena.gradient_shares;
  std::vector<int64_t> shares;
  for (int64_t rank = 0; rank < ranks; ++rank)
    shares.push_back(layout::even_part(arena.gradients.numel(), ranks, rank).length);
  return shares;
}

// Ranks of a group are in the order of replicas, and within one in that of the ranks that share it.
void GradientTree::send(const model::Arena& arena, const Waiting& waiting, comm::Communicator& group) {
  const MemoryPurposeScope scope(MemoryPurpose::kGradients);
  const auto nodes = nodes_of_replicas();
  const auto ranks = static_cast<size_t>(group.size()), inner = ranks / nodes.size();
  const std::vector<int64_t> shares = shares_of(arena, group.size()), none(ranks, 0);
  const int64_t own = shares[static_cast<size_t>(group.rank())];
  size_t most = 0;
  for (const auto& of_replica : nodes) most = std::max(most, of_replica.size());
  under_way_.arena = &arena;
  for (size_t n = 0; n < most; ++n) {
    std::vector<int64_t> receive(ranks);
    for (size_t rank = 0; rank < ranks; ++rank) receive[rank] = n < nodes[rank / inner].size() ? own : 0;
    const bool has = n < waiting.sums.size();
    const Tensor& sent =
        under_way_.sent.emplace_back(has ? waiting.sums[n] : at::empty({0}, arena.gradients.options()));
    const Tensor& received = under_way_.received.emplace_back(
        at::empty({std::accumulate(receive.begin(), receive.end(), int64_t{0})}, arena.gradients.options()));
    under_way_.works.push_back(group.all_to_all(sent, received, has ? shares : none, receive,
                                                {.name = "gradients of " + arena.name}));
  }
}

Tensor GradientTree::sum_of_received(const UnderWay& sum, comm::Communicator& group) const {
  const auto nodes = nodes_of_replicas();
  const auto inner = static_cast<size_t>(group.size()) / nodes.size();
  const int64_t own = shares_of(*sum.arena, group.size())[static_cast<size_t>(group.rank())];
  std::vector<int64_t> next(sum.received.size(), 0);  // element of each message
  std::vector<Waiting> replicas_of(inner);            // by the rank within a replica
  for (const auto& of_replica : nodes) {
    for (Waiting& waiting : replicas_of) {
      for (size_t n = 0; n < of_replica.size(); ++n) {
        waiting.add(tree_, of_replica[n], sum.received[n].narrow(0, next[n], own));
        next[n] += own;
      }
    }
  }
  const Tensor result = replicas_of[0].sums[0];
  for (const Waiting& waiting : replicas_of) {
    LONGHAUL_ASSERT(waiting.sums.size() == 1, "{} sums are left", waiting.sums.size());
    if (&waiting != &replicas_of[0]) result.add_(waiting.sums[0]);
  }
  return result;
}

void GradientTree::finish() {
  if (under_way_.arena == nullptr) return;
  UnderWay sum = std::exchange(under_way_, {});
  for (comm::Work& work : sum.works) work.wait();
  const model::Arena& arena = *sum.arena;
  comm::Communicator& group = groups_->over(arena.copies());
  const Tensor result = sum_of_received(sum, group);
  if (arena.cut()) {
    arena.own_gradients.copy_(result);
    return;
  }
  const std::vector<int64_t> shares = shares_of(arena, group.size());
  const int64_t begin = std::accumulate(shares.begin(), shares.begin() + group.rank(), int64_t{0});
  const Tensor own = arena.gradients.narrow(0, begin, result.numel());
  own.copy_(result);
  gathers_.push_back(
      group.all_gather(own, arena.gradients, {.name = "summed gradients of " + arena.name}, shares));
}

void GradientTree::end_step() {
  const at::NoGradGuard no_gradient;
  finish();
  for (comm::Work& work : gathers_) work.wait();
  gathers_.clear();
  waiting_.clear();
}

// ---- numbers

std::vector<double> GradientTree::sums_of(const Rows& rows, const std::string& name) const {
  return sums_over(rows, {.count = tree_.leaves(), .first = first_}, name);
}

double GradientTree::sum_of_rounds(const std::vector<double>& rounds, const std::string& name) const {
  const int64_t replicas = this->replicas();
  return sums_over({rounds},
                   {static_cast<int64_t>(rounds.size()) * replicas, place_.coordinate(Axis::kDp), replicas},
                   name)[0];
}

// Everyone writes its own places and nobody else does: a sum with zeros is exact in any order.
std::vector<double> GradientTree::sums_over(const Rows& rows, const Leaves& leaves,
                                            const std::string& name) const {
  const int64_t inner = place_.mesh.world() / replicas(), count = static_cast<int64_t>(rows.size());
  int64_t within = 0;  // the number of this rank in its replica
  for (const Axis axis : {Axis::kPp, Axis::kCp, Axis::kTp})
    within = within * place_.mesh.size(axis) + place_.coordinate(axis);
  const Tensor all = at::zeros({inner, count, leaves.count}, at::kDouble);
  double* const values = all.mutable_data_ptr<double>();
  const auto at = [&](int64_t rank, int64_t row) { return values + (rank * count + row) * leaves.count; };
  for (int64_t row = 0; row < count; ++row) {
    const std::vector<double>& own = rows[static_cast<size_t>(row)];
    for (size_t i = 0; i < own.size(); ++i)
      at(within, row)[leaves.first + static_cast<int64_t>(i) * leaves.step] = own[i];
  }
  if (groups_ != nullptr) groups_->world().all_reduce(all, Reduction::kSum, {.name = name}).wait();
  std::vector<double> sums(rows.size());
  for (int64_t rank = 0; rank < inner; ++rank) {
    for (int64_t row = 0; row < count; ++row) {
      sums[static_cast<size_t>(row)] +=
          layout::sum_in_tree({at(rank, row), static_cast<size_t>(leaves.count)});
    }
  }
  return sums;
}

}  // namespace longhaul::parallel
