// Ranks: what the ranks of a training step do together, and agree on. By default it is the single process, which has nothing to do.
#pragma once

#include <memory>

#include "model/parameter.h"
#include "parallel/mesh_ops.h"

namespace longhaul::parallel {

class Ranks {
 public:
  Ranks();                                                     // one process
  Ranks(comm::Communicator& world, const layout::Mesh& mesh);  // a collective call of all ranks
  ~Ranks();

  model::ParallelOps& ops() const { return *ops_; }
  const layout::MeshRank& place() const { return place_; }
  const MeshGroups* groups() const { return groups_.get(); }  // null: one process
  layout::RowShare share(layout::ContextSplit split) const;   // of a row of this rank's replica

  // After the last backward pass of a step: gradients become those of the whole step, on every rank that holds a copy.
  void sum_gradients(model::ParameterSet& parameters) const;

  void sum(const Tensor& numbers) const;          // in place, over all ranks
  double sum(double number) const;                // likewise
  double sum_over_replicas(double number) const;  // over the ranks that have other sequences: dp

 private:
  void sum_over_stages(model::ParameterSet& parameters) const;

  layout::MeshRank place_;
  std::unique_ptr<MeshGroups> groups_;
  std::unique_ptr<model::ParallelOps> ops_;
};

}  // namespace longhaul::parallel
