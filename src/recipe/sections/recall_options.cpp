#include "recipe/sections/recall_options.h"

#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(RecallKind) { return {"mqar", "copy"}; }

void declare(OptionSet& set, RecallOptions& recall) {
  set.add("recall.kind", recall.kind,
          "What train.task = \"recall\" trains on: \"mqar\" (pairs of keys and values, then keys whose "
          "values are asked for) or \"copy\" (tokens that "
          "are said again at the sequence's end).");
  set.add("recall.pairs", recall.pairs,
          "Pairs of keys and values of a sequence; of \"copy\" the tokens that are said again.")
      .at_least(1)
      .at_most(1 << 24);
  set.add("recall.vocabulary", recall.vocabulary,
          "Tokens of the sequences are below this; 0: model.vocabulary.")
      .unit("tokens")
      .at_least(0)
      .at_most(1 << 26);
  set.add("recall.nearness", recall.nearness,
          "Questions follow their pairs by the power law a·x^(a−1) with this exponent: the smaller, the "
          "nearer to the pairs; 1: evenly.")
      .above(0)
      .at_most(1);
  set.add("recall.examples", recall.examples,
          "Different sequences that there are, read again and again; 0: every one is new.")
      .unit("sequences")
      .at_least(0);
  set.add("recall.seed", recall.seed, "Seed of the sequences.").at_least(0);
  set.add("recall.held_out", recall.held_out, "Sequences of an evaluation; none of them is trained on.")
      .unit("sequences")
      .at_least(1)
      .at_most(1 << 20)
      .may_change();
}

}  // namespace longhaul::recipe
