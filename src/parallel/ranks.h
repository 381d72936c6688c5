// Ranks: what the ranks of a training step do and decide together. Constructed without a communicator it
// stands for a single process, which has nothing to exchange.
//
// With an outer loop each worker is an island: place(), ops() and the sums of a step belong to this rank's
// island, and no step waits for another island. Functions about the whole run go over all ranks: world(),
// everyone(), most(), sum_of_run().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/threads/turns.h"
#include "comm/work.h"
#include "layout/schedule/schedule.h"
#include "model/parameter.h"
#include "observe/trace/spans.h"
#include "parallel/gradient_tree.h"
#include "parallel/mesh_ops.h"
#include "parallel/pipeline/arrangement.h"
#include "parallel/pipeline/stage_gradients.h"
#include "parallel/sharding.h"

namespace longhaul::parallel {

class Ranks {
 public:
  explicit Ranks(bool elastic = false);  // one process
  // a collective call of all ranks; require_possible() first
  Ranks(comm::Communicator& world, const Arrangement& arrangement);
  ~Ranks();

  model::ParallelOps& ops() const { return *ops_; }
  const layout::MeshRank& place() const { return place_; }
  const MeshGroups* groups() const { return groups_.get(); }  // null: one process
  comm::Communicator* world() const { return world_; }        // of the run; null: one process
  int64_t rank() const { return world_ != nullptr ? world_->rank() : 0; }
  int64_t workers() const { return workers_ ? workers_->size() : 1; }
  int64_t worker() const { return workers_ ? workers_->rank() : 0; }
  // The group of the ranks that have the same place in each worker; null: there is one worker.
  comm::Communicator* counterparts() const { return workers_.get(); }
  // The replicas of the run, each with sequences of its own; replicas of different workers count separately.
  int64_t replicas() const { return workers() * place_.mesh.size(layout::Axis::kDp); }
  int64_t replica() const {
    return worker() * place_.mesh.size(layout::Axis::kDp) + place_.coordinate(layout::Axis::kDp);
  }
  comm::Communicator& stage_gradients() const {
    return *stage_gradients_;
  }  // the ranks of one pipeline, for gradients that several stages share
  // The communicator for the messages of a way of the pipeline, and what its end `pp` is called there. Where
  // a rank's calls go in order (Communicator::in_order) each way has one of its own, so that no message waits
  // for another's partner; else a channel has one.
  struct WayEnd {
    comm::Communicator& group;
    int64_t peer;
  };
  WayEnd way(const layout::MessageWay& way, int64_t peer) const;
  layout::RowShare share() const;  // this rank's share of a row of its replica

  // Sums the gradients of a step over the ranks: every rank that holds a copy gets the sum, or its share of
  // it. begin_step() comes before the first forward pass; sums of arenas start in the last backward pass as
  // soon as their gradients are complete, on every rank after those of later layers. With DualPipe the sums
  // over the two ranks that hold a layer follow them. sum_gradients() starts the rest and waits for all.
  // micro_batches: the number on this rank, which is the same on every rank.
  void begin_step(model::ParameterSet& parameters, int64_t micro_batches);
  void sum_gradients(model::ParameterSet& parameters);

  // Adds up the gradients of the micro-batches in an order that does not depend on the number of replicas
  // (train.elastic); null: the order of ranks is used. It must be notified at the end of each micro-batch.
  GradientTree* tree() const { return tree_.get(); }

  Turns* turns() const {
    return turns_.get();
  }  // the turns of paired passes; null: passes run one after the other (parallel/pipeline/pipeline.h)

  // Called after an optimizer step, or after a checkpoint was read: distributes the shares of values that
  // this rank wrote to all ranks that hold copies. by_step: frozen values are not distributed again.
  void share_values(model::ParameterSet& parameters, bool by_step = false) const;
  void settle_values(
      // waits until no other rank reads this rank's share, so that it may be written
      model::ParameterSet& parameters) const;
  Sharding* sharding_of(model::ParameterSet& parameters) const;  // null: copies are whole

  void sum(const Tensor& numbers,
           // in place, over a worker's ranks; `name` describes the numbers, as in comm::CallOptions
           const std::string& name) const;
  double sum(double number, const std::string& name) const;         // likewise
  double sum_of_run(double number, const std::string& name) const;  // over all ranks
  // Reduces in place over the ranks that differ from this one in these axes only.
  void reduce_over(layout::AxisSet axes, const Tensor& numbers, comm::Reduction how) const;
  // Sums in place over the ranks of the pipeline that use `parameter` (two with DualPipe, both ends of a tied
  // embedding); no other rank takes part. All add in the order of ranks, so they get the same bits.
  void sum_over_stages(const model::Parameter& parameter, const Tensor& numbers,
                       const std::string& name) const;
  double sum_over_replicas(double number) const;  // over the data-parallel ranks (dp)
  // the largest value of all ranks of the run, returned on all of them
  int64_t most(int64_t number) const;

  // A separate group of all ranks for one purpose, whose calls may come from a separate thread. Null: one
  // process.
  std::unique_ptr<comm::Communicator> everyone(const std::string& purpose) const;

  // Records what this rank does while a step is traced.
  const std::shared_ptr<observe::SpanRecorder>& spans() const { return spans_; }

 private:
  void start_sums();
  void make_ways(comm::Communicator& pipeline, const std::vector<layout::MessageWay>& ways);
  void start_sums_of_stages();

  std::shared_ptr<observe::SpanRecorder> spans_ = std::make_shared<observe::SpanRecorder>();
  layout::MeshRank place_;
  recipe::ContextOptions context_;
  comm::Communicator* world_ = nullptr;
  std::unique_ptr<comm::Communicator> island_, workers_;  // null: one worker
  // values_ gathers values; null: every rank holds whole copies
  std::unique_ptr<MeshGroups> groups_, values_;
  std::unique_ptr<comm::Communicator> stage_gradients_;
  // For sums of stages during the backward passes; null: they come when all passes are over.
  std::unique_ptr<comm::Communicator> early_sums_;
  // of this rank; empty: channels have one communicator each
  std::map<layout::MessageWay, std::unique_ptr<comm::Communicator>> ways_;
  std::unique_ptr<Turns> turns_;
  std::unique_ptr<model::ParallelOps> ops_;
  std::unique_ptr<GradientTree> tree_;
  // The sums of the current step. All ranks start them in the same order, the last arena first, in whatever
  // order gradients become complete.
  struct Sum {
    model::Arena* arena = nullptr;
    bool ready = false;
    comm::Work work;
  };
  std::vector<Sum> sums_;
  size_t started_ = 0, summed_ = 0;          // of these; summed_: over copies, and given to sums_of_stages_
  std::optional<StageSums> sums_of_stages_;  // none: no other rank of a pipeline holds this rank's tensors
};

}  // namespace longhaul::parallel
