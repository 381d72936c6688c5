#include "recipe/sections/generate_options.h"

#include "recipe/options/option.h"

namespace longhaul::recipe {

void declare(OptionSet& set, GenerateOptions& sample) {
  set.add("sample.prompt", sample.prompt,
          "Text that the sample completes; empty: the beginning of a held-out document.")
      .may_change();
  set.add("sample.tokens", sample.tokens, "Length of the completion; 0: no sample at the end of a run.")
      .unit("tokens")
      .at_least(0)
      .at_most(1 << 24)
      .also_called({"max_new_tokens", "max_tokens"})
      .may_change();
  set.add("sample.temperature", sample.temperature,
          "Logits are divided by this; 0: always the likeliest token.")
      .at_least(0)
      .at_most(1000)
      .may_change();
  set.add("sample.top_k", sample.top_k, "Only the k likeliest tokens are drawn; 0: all.")
      .unit("tokens")
      .at_least(0)
      .at_most(1 << 26)
      .may_change();
  set.add("sample.top_p", sample.top_p,
          "Only the likeliest tokens whose probabilities sum to this are drawn; 1: all.")
      .above(0)
      .at_most(1)
      .may_change();
  set.add("sample.seed", sample.seed, "Seed of the draw.").at_least(0).may_change();
}

}  // namespace longhaul::recipe
