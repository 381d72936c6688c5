#include "recipe/parallel_options.h"

#include "recipe/option.h"

namespace longhaul::recipe {

void declare(OptionSet& set, ParallelOptions& parallel) {
  const auto ranks = [&](const char* key, int64_t& value, const char* sentence) {
    set.add(key, value, sentence).unit("ranks").at_least(1).at_most(65536).may_change();
  };
  ranks("parallel.tp", parallel.tp, "Tensor parallelism: ranks that share heads, inner channels and the vocabulary.");
  ranks("parallel.pp", parallel.pp, "Pipeline parallelism: ranks that share the layers.");
  ranks("parallel.cp", parallel.cp, "Context parallelism: ranks that share the tokens of a sequence.");
  ranks("parallel.ep", parallel.ep, "Expert parallelism: ranks that share the experts; they are ranks of the other kinds too.");
  ranks("parallel.etp", parallel.etp, "Expert tensor parallelism: ranks that share the tensors of each expert.");
}

}  // namespace longhaul::recipe
