// ModelPlan: what a run asks about a model before the model exists: its tensors, its work, its memory, and
// how ranks can share it. The entry of a task makes one from a recipe (train/task_entry.h). src/run asks it
// for every table, guard and share of the peak, and never looks at [model] of a recipe by itself; so a run is
// planned, guarded and reported in the same way whatever its model is. Every function is pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/parameters.h"
#include "parallel/pipeline/arrangement.h"
#include "plan/flops.h"
#include "plan/memory/exact_memory.h"
#include "plan/memory/memory.h"

namespace longhaul::train {

class ModelPlan {
 public:
  virtual ~ModelPlan() = default;

  virtual std::string name() const = 0;             // for tables and the report
  virtual int64_t layers() const = 0;               // that the stages of a pipeline share
  virtual int64_t vocabulary() const { return 0; }  // 0: the model reads no tokens
  // every logical tensor, in the order of use
  virtual std::vector<layout::ParameterSpec> parameters() const = 0;
  // Elements of a tensor that one token passes through: fewer than it has where experts are chosen.
  virtual int64_t activated_elements(const layout::ParameterSpec& spec) const { return spec.elements(); }

  // Work for one token, or for one of whatever the task counts as tokens (train::StepWork).
  virtual plan::TokenFlops flops() const = 0;                        // forward and backward
  virtual double flops_again() const { return 0; }                   // made a second time by recomputation
  virtual plan::DecodingState decoding_state() const { return {}; }  // zeros: the model does not generate

  // The arrangement of `world` ranks that share one copy of the model and its data, as [parallel] asks for
  // it. Throws kUsage for sizes that do not multiply to `world`.
  virtual parallel::Arrangement arrange(int64_t world) const = 0;
  // Throws kUsage, with what would do, where the model cannot be dealt out so, or the batch of a step cannot.
  // where: the option that names the batch.
  virtual void require_possible(const parallel::Arrangement& arrangement) const = 0;
  virtual void require_batch(const std::string& /*where*/, int64_t /*batch*/, int64_t /*replicas*/) const {}

  // Memory of one rank; rank null: of a process that trains alone. The request's `model` is [model] of the
  // recipe, which a model of another kind ignores.
  virtual plan::MemoryPlan memory(const plan::MemoryRequest& request,
                                  const plan::RankRequest* rank) const = 0;
};

}  // namespace longhaul::train
