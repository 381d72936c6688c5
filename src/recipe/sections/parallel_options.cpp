#include "recipe/sections/parallel_options.h"

#include <algorithm>
#include <numeric>

#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(ContextSplit) { return {"contiguous", "zigzag", "striped"}; }
std::vector<std::string_view> names_of(ContextMethod) {
  return {"ring", "all-gather", "ulysses", "two-level"};
}
std::vector<std::string_view> names_of(LinearContextMethod) {
  return {"ring", "all-gather", "all-scan", "ulysses"};
}
std::vector<std::string_view> names_of(PipelineSchedule) {
  return {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipe"};
}
std::vector<std::string_view> names_of(Dispatcher) { return {"all-to-all", "all-gather", "flex"}; }
std::vector<std::string_view> names_of(Backend) { return {"auto", "threads", "gloo", "nccl"}; }

// Sizes are at most 65,536, so products of two fit; larger ones are far beyond any world size, and are
// refused as such.
int64_t ParallelOptions::needed() const {
  const int64_t dense = cp * tp, sparse = ep * etp;
  int64_t all = 0;
  const bool overflow = __builtin_mul_overflow(dense / std::gcd(dense, sparse), sparse, &all) ||
                        __builtin_mul_overflow(all, pp, &all);
  return overflow ? INT64_MAX : all;
}

PipelineOptions ParallelOptions::arranged_pipeline() const {
  PipelineOptions arranged = pipeline;
  arranged.pairs_in_turns =
      pairs_in_turns && pp > 1 && pipeline.schedule == PipelineSchedule::kDualPipe && ep * etp > 1;
  return arranged;
}

int64_t ParallelOptions::world() const {
  int64_t all = 0;
  if (ranks > 0) return ranks;
  return __builtin_mul_overflow(needed(), std::max<int64_t>(1, workers), &all) ? INT64_MAX : all;
}

void declare(OptionSet& set, ParallelOptions& parallel) {
  const auto ranks = [&](const char* key, int64_t& value, const char* sentence) {
    set.add(key, value, sentence).unit("ranks").at_least(1).at_most(65536).may_change();
  };
  set.add("parallel.backend", parallel.backend,
          "What the ranks are: threads of this process, or processes that `longhaul launch`, torchrun or "
          "srun started and that exchange over Gloo "
          "(gloo) or NCCL (nccl, where it is compiled in: a GPU each). auto: what was started; processes "
          "take NCCL where a GPU is visible and "
          "train.device allows it.")
      .may_change();
  set.add("parallel.ranks", parallel.ranks,
          "Ranks of the run; 0: as many as the sizes below need. Replicas of the model share each step's "
          "sequences.")
      .unit("ranks")
      .also_called({"dp", "data_parallel", "world_size"})  // dp would be mistaken for tp
      .at_least(0)
      .at_most(65536)
      .may_change();
  set.add("parallel.workers", parallel.workers,
          "optim.outer: islands of ranks that share the sizes below and train by themselves between two "
          "exchanges; 0: every replica is one.")
      .at_least(0)
      .at_most(65536)
      .may_change();
  set.add("parallel.join_timeout", parallel.join_timeout,
          "Of ranks that are processes: how long all of them may take to start; those that are missing then "
          "are named.")
      .unit("s")
      .above(0)
      .at_most(86400)
      .may_change();
  set.add("parallel.timeout", parallel.timeout,
          "How long a rank waits for the others to come to the same call, sums, exchanges and barriers "
          "alike; then all end with 69 and name the rank that did "
          "not come and the call. Longer than the longest time between two calls: a checkpoint, an "
          "evaluation, a rank that is resumed.")
      .unit("s")
      .above(0)
      .at_most(86400)
      .may_change();
  ranks("parallel.tp", parallel.tp,
        "Tensor parallelism: ranks that share heads, inner channels and the vocabulary.");
  set.add("parallel.tp_chunks", parallel.tp_chunks,
          "Parts in which tensor ranks gather and sum the tokens of a block: one is under way while another "
          "is computed.")
      .at_least(1)
      .at_most(64)
      .may_change();
  ranks("parallel.pp", parallel.pp, "Pipeline parallelism: ranks that share the layers.");
  ranks("parallel.cp", parallel.cp, "Context parallelism: ranks that share the tokens of a sequence.");
  ranks("parallel.ep", parallel.ep,
        "Expert parallelism: ranks that share the experts; they are ranks of the other kinds too.");
  ranks("parallel.etp", parallel.etp,
        "Expert tensor parallelism: ranks that share the tensors of each expert.");
  set.add("parallel.zero", parallel.zero,
          "What each of the ranks that hold copies of a tensor keeps a share of: nothing (0), optimizer "
          "state and masters (1), gradients too "
          "(2), weights too (3).")
      .at_least(0)
      .at_most(3)
      .may_change();
  set.add("parallel.zero_copies", parallel.zero_copies,
          "parallel.zero: groups of neighbouring data ranks that each have all shares, so that what layers "
          "gather stays within a group (a machine) and "
          "only sums of shares go between; 1: all data ranks share.")
      .at_least(1)
      .at_most(65536)
      .may_change();
  set.add("parallel.context", parallel.context.softmax,
          "How context ranks share softmax attention: keys and values go round (ring), are gathered "
          "(all-gather), heads are dealt out instead of "
          "tokens (ulysses), or heads among neighbours and a ring of these (two-level).")
      .may_change();
  set.add("parallel.linear_context", parallel.context.linear,
          "How context ranks share linear attention: its state goes from rank to rank (ring), all are "
          "gathered (all-gather), it goes in slices (all-scan), or heads are dealt out instead of tokens and "
          "no state goes anywhere (ulysses).")
      .may_change();
  set.add("parallel.context_split", parallel.context.split,
          "Which tokens a context rank has: one run of them, two that make causal attention cost all ranks "
          "the same (zigzag), or every cp-th token (striped: the same in the ring of softmax layers, which "
          "all layers must then be).")
      .may_change();
  set.add("parallel.schedule", parallel.pipeline.schedule,
          "The order in which a rank of the pipeline runs forward and backward passes.")
      .may_change();
  set.add("parallel.chunks", parallel.pipeline.chunks,
          "Stages on each rank of an interleaved pipeline; zbv and dualpipe always have two.")
      .unit("stages")
      .at_least(1)
      .at_most(1024)
      .may_change();
  set.add("parallel.pairs_in_turns", parallel.pairs_in_turns,
          "dualpipe, experts of other ranks: the two passes of a pair take turns, and one computes while "
          "rows of the other are under way to experts or back; "
          "gradients of experts' weights are delayed too. Else one runs behind the other.")
      .may_change();
  set.add("parallel.stage_layers", parallel.pipeline.stage_layers,
          "Layers of each stage of the pipeline, in the order of the model; none: as even as possible.")
      .unit("layers")
      .may_change();
  set.add("parallel.dispatcher", parallel.experts.dispatcher,
          "How tokens reach the experts of other ranks: one row for each expert goes there (all-to-all), all "
          "tokens go to all ranks that share the experts "
          "(all-gather), or each goes once to every rank that has any of its experts (flex).")
      .may_change();
  set.add("parallel.pad_to_capacity", parallel.experts.padded,
          "With a capacity: every expert gets from every rank as many rows as its capacity can be there, the "
          "rest of them zero, so that shapes do not depend "
          "on tokens and ranks need not tell each other numbers (drop-and-pad). The same model.")
      .may_change();
  set.add("parallel.token_groups", parallel.experts.token_groups,
          "Groups in which a rank's tokens go to experts: one is under way while another is computed.")
      .at_least(1)
      .at_most(64)
      .may_change();
  set.add(
         "parallel.delay_expert_gradients", parallel.experts.delay_gradients,
         "Compute the gradients of experts' weights while the gradients of their rows are on their way home.")
      .may_change();
}

}  // namespace longhaul::recipe
