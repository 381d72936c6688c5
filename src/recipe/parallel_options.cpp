#include "recipe/parallel_options.h"

#include <algorithm>
#include <numeric>

#include "recipe/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(Backend) { return {"threads"}; }

// Sizes are at most 65,536, so products of two fit; what does not is far beyond any world, and is refused as such.
int64_t ParallelOptions::needed() const {
  const int64_t dense = cp * tp, experts = ep * etp;
  int64_t all = 0;
  const bool overflow = __builtin_mul_overflow(dense / std::gcd(dense, experts), experts, &all) || __builtin_mul_overflow(all, pp, &all);
  return overflow ? INT64_MAX : all;
}

void declare(OptionSet& set, ParallelOptions& parallel) {
  const auto ranks = [&](const char* key, int64_t& value, const char* sentence) {
    set.add(key, value, sentence).unit("ranks").at_least(1).at_most(65536).may_change();
  };
  set.add("parallel.backend", parallel.backend, "What the ranks are: threads of this process.").may_change();
  set.add("parallel.ranks", parallel.ranks,
          "Ranks of the run; 0: as many as the sizes below need. Replicas of the model share each step's sequences.")
      .unit("ranks")
      .at_least(0)
      .at_most(65536)
      .may_change();
  ranks("parallel.tp", parallel.tp, "Tensor parallelism: ranks that share heads, inner channels and the vocabulary.");
  ranks("parallel.pp", parallel.pp, "Pipeline parallelism: ranks that share the layers.");
  ranks("parallel.cp", parallel.cp, "Context parallelism: ranks that share the tokens of a sequence.");
  ranks("parallel.ep", parallel.ep, "Expert parallelism: ranks that share the experts; they are ranks of the other kinds too.");
  ranks("parallel.etp", parallel.etp, "Expert tensor parallelism: ranks that share the tensors of each expert.");
}

}  // namespace longhaul::recipe
