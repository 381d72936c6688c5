// Ranks: what the ranks of a training step do together, and agree on. By default it is the single process, which has nothing to do.
//
// Where there are several workers (an outer loop), each is an island: place(), ops(), the sums of a step are those of this rank's island, and no step
// needs another one. What is said of the run goes over all ranks: world(), everyone(), most(), sum_of_run().
#pragma once

#include <memory>
#include <vector>

#include "base/threads/turns.h"
#include "comm/work.h"
#include "model/parameter.h"
#include "observe/trace/spans.h"
#include "parallel/gradient_tree.h"
#include "parallel/mesh_ops.h"
#include "parallel/pipeline/arrangement.h"
#include "parallel/sharding.h"

namespace longhaul::parallel {

class Ranks {
 public:
  explicit Ranks(bool elastic = false);                              // one process
  Ranks(comm::Communicator& world, const Arrangement& arrangement);  // a collective call of all ranks; require_possible() first
  ~Ranks();

  model::ParallelOps& ops() const { return *ops_; }
  const layout::MeshRank& place() const { return place_; }
  const MeshGroups* groups() const { return groups_.get(); }  // null: one process
  comm::Communicator* world() const { return world_; }        // of the run; null: one process
  int64_t rank() const { return world_ != nullptr ? world_->rank() : 0; }
  int64_t workers() const { return workers_ ? workers_->size() : 1; }
  int64_t worker() const { return workers_ ? workers_->rank() : 0; }
  // The ranks that stand at this place of each worker, in a group of their own; null: one worker.
  comm::Communicator* counterparts() const { return workers_.get(); }
  // Of the run: those with other sequences, which any two workers have.
  int64_t replicas() const { return workers() * place_.mesh.size(layout::Axis::kDp); }
  int64_t replica() const { return worker() * place_.mesh.size(layout::Axis::kDp) + place_.coordinate(layout::Axis::kDp); }
  comm::Communicator& stage_gradients() const { return *stage_gradients_; }  // the ranks of a pipeline, on the way back
  layout::RowShare share() const;                                            // of a row of this rank's replica

  // Gradients of a step become those of all ranks together, on every rank that holds a copy, or each rank's share of them. begin_step before the first forward pass: sums
  // of arenas start in the last backward pass, each when its gradients are there, behind those of later layers on every rank; sum_gradients
  // after it starts the rest and waits for all. micro_batches: of this rank, as many as of every other.
  void begin_step(model::ParameterSet& parameters, int64_t micro_batches);
  void sum_gradients(model::ParameterSet& parameters);

  // Adds up what every micro-batch has by itself, in an order that does not depend on the number of replicas (train.elastic); null: the order of
  // ranks will do. Told of the end of each micro-batch.
  GradientTree* tree() const { return tree_.get(); }

  Turns* turns() const { return turns_.get(); }  // of pairs of passes; null: these run one behind the other (parallel/pipeline/pipeline.h)

  // Behind the optimizer, or a checkpoint that was read: what it wrote of values, the shares of this rank, comes to all that hold copies.
  void share_values(model::ParameterSet& parameters) const;
  void settle_values(model::ParameterSet& parameters) const;     // nobody reads this rank's share any more: it may be written
  Sharding* sharding_of(model::ParameterSet& parameters) const;  // null: copies are whole

  void sum(const Tensor& numbers,
           const std::string& name) const;  // in place, over a worker's ranks; `name` says of what, as in comm::CallOptions
  double sum(double number, const std::string& name) const;         // likewise
  double sum_of_run(double number, const std::string& name) const;  // over all ranks
  // In place, over the ranks that differ in these axes only.
  void reduce_over(layout::AxisSet axes, const Tensor& numbers, comm::Reduction how) const;
  // In place, over the ranks of the pipeline that use `parameter` (DualPipe's two, both ends of a tied embedding); nobody else takes part. All
  // add in the order of ranks: the sum is the same to the bit.
  void sum_over_stages(const model::Parameter& parameter, const Tensor& numbers, const std::string& name) const;
  double sum_over_replicas(double number) const;  // over the ranks that have other sequences: dp
  int64_t most(int64_t number) const;             // the largest of all ranks of the run, on all of them

  // A group of all ranks for one purpose, beside what training says: its calls may come from a thread of their own. Null: one process.
  std::unique_ptr<comm::Communicator> everyone(const std::string& purpose) const;

  // Of this rank: what it does is shown there while a step is recorded.
  const std::shared_ptr<observe::SpanRecorder>& spans() const { return spans_; }

 private:
  void start_sums();
  void sum_over_pipeline(model::ParameterSet& parameters) const;

  std::shared_ptr<observe::SpanRecorder> spans_ = std::make_shared<observe::SpanRecorder>();
  layout::MeshRank place_;
  recipe::ContextOptions context_;
  comm::Communicator* world_ = nullptr;
  std::unique_ptr<comm::Communicator> island_, workers_;  // null: one worker
  std::unique_ptr<MeshGroups> groups_, values_;           // values_: to gather them; null: copies are whole
  std::unique_ptr<comm::Communicator> stage_gradients_;
  std::unique_ptr<Turns> turns_;
  std::unique_ptr<model::ParallelOps> ops_;
  std::unique_ptr<GradientTree> tree_;
  // Of the step that goes on. All ranks start sums in the same order, the last arena's first, whatever order gradients come in.
  struct Sum {
    model::Arena* arena = nullptr;
    bool ready = false;
    comm::Work work;
  };
  std::vector<Sum> sums_;
  size_t started_ = 0;
};

}  // namespace longhaul::parallel
