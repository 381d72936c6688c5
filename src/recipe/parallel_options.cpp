#include "recipe/parallel_options.h"

#include "recipe/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(PipelineSchedule) { return {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipe"}; }

void declare(OptionSet& set, ParallelOptions& parallel) {
  const auto ranks = [&](const char* key, int64_t& value, const char* sentence) {
    set.add(key, value, sentence).unit("ranks").at_least(1).at_most(65536).may_change();
  };
  ranks("parallel.tp", parallel.tp, "Tensor parallelism: ranks that share heads, inner channels and the vocabulary.");
  ranks("parallel.pp", parallel.pp, "Pipeline parallelism: ranks that share the layers.");
  ranks("parallel.cp", parallel.cp, "Context parallelism: ranks that share the tokens of a sequence.");
  ranks("parallel.ep", parallel.ep, "Expert parallelism: ranks that share the experts; they are ranks of the other kinds too.");
  ranks("parallel.etp", parallel.etp, "Expert tensor parallelism: ranks that share the tensors of each expert.");
  set.add("parallel.schedule", parallel.schedule, "The order in which a rank of the pipeline runs forward and backward passes.")
      .may_change();
  set.add("parallel.chunks", parallel.chunks, "Stages on each rank of an interleaved pipeline; zbv and dualpipe always have two.")
      .unit("stages")
      .at_least(1)
      .at_most(1024)
      .may_change();
  set.add("parallel.stage_layers", parallel.stage_layers,
          "Layers of each stage of the pipeline, in the order of the model; none: as even as possible.")
      .unit("layers")
      .may_change();
}

}  // namespace longhaul::recipe
