#include "recipe/checks/checks.h"

#include <algorithm>
#include <functional>

#include "base/text/text.h"
#include "recipe/mixers.h"

namespace longhaul::recipe {
namespace {

// Refuses sequences that the model or the task cannot take; 0: the stage does not say how long they are.
void check_length(const Recipe& recipe, int64_t sequence,
                  const std::function<void(const std::string& reason, const std::string& hint)>& refuse) {
  if (sequence == 0) return;
  if (recipe.train.task != "pretrain") {
    refuse(fmt::format("sequence = {}: train.task = {} has one length of sequences", sequence,
                       recipe.train.task),
           "leave sequence out, or train.task=pretrain");
  }
  const bool positions = recipe.model.max_positions > 0 && recipe.model.position != Position::kNone;
  if (positions && sequence > recipe.model.max_positions) {
    refuse(fmt::format("sequence = {} is longer than the model's model.max_positions = {}", sequence,
                       recipe.model.max_positions),
           fmt::format("model.max_positions={}", sequence));
  }
  const SequenceLimit limit = sequence_limit(recipe.model);
  if (sequence > limit.tokens && limit.option != "model.max_positions") {
    refuse(fmt::format("sequence = {} is longer than {} = {}", sequence, limit.option, limit.tokens),
           fmt::format("{}={}", limit.option, sequence));
  }
  if (grid_of(recipe.model).empty()) return;
  const int64_t grid = recipe.model.lightnet.tokens_of_grid() + 1;
  if (sequence % grid != 0) {
    refuse(fmt::format("sequence = {} is no multiple of {}: a grid of model.lightnet.grid and its separator",
                       sequence, grid),
           fmt::format("sequence = {}", std::max<int64_t>(1, sequence / grid) * grid));
  }
}

void stages(const Recipe& recipe, Problems& out) {
  const std::vector<OptimStage>& list = recipe.optim.stages;
  for (size_t i = 0; i < list.size(); ++i) {
    const OptimStage& stage = list[i];
    auto refuse = [&](const std::string& reason, const std::string& hint) {
      out.push_back({{"optim.stages"}, fmt::format("stage {} of optim.stages: {}", i + 1, reason), hint});
    };
    if ((stage.from_step > 0) == (stage.from_tokens > 0))
      refuse("needs exactly one of from_step and from_tokens, above 0", "{ from_step = 1000, lr = 1e-4 }");
    if (stage.lr == 0 && stage.batch == 0 && stage.sequence == 0)
      refuse("changes nothing: none of lr, batch and sequence is given", "{ from_step = 1000, lr = 1e-4 }");
    check_length(recipe, stage.sequence, refuse);
    if (stage.batch % recipe.train.micro_batch != 0) {
      refuse(fmt::format("batch = {} must be a multiple of train.micro_batch = {}", stage.batch,
                         recipe.train.micro_batch),
             "choose a multiple");
    }
    if (i == 0) continue;
    const OptimStage& before = list[i - 1];
    const bool by_step = stage.from_step > 0 && before.from_step > 0,
               by_tokens = stage.from_tokens > 0 && before.from_tokens > 0;
    if (!by_step && !by_tokens)
      refuse("counts in another unit than the stage before it", "use from_step or from_tokens in all stages");
    if ((by_step && stage.from_step <= before.from_step) ||
        (by_tokens && stage.from_tokens <= before.from_tokens)) {
      refuse("does not begin after the stage before it", "list stages in order");
    }
  }
}

void growth(const Recipe& recipe, Problems& out) {
  const OptimOptions& optim = recipe.optim;
  if (optim.batch_growth == 0) return;
  const auto refuse = [&](std::vector<std::string> keys, const std::string& reason, const std::string& hint) {
    keys.insert(keys.begin(), "optim.batch_growth");
    out.push_back({std::move(keys), "a batch that grows with what is measured " + reason, hint});
  };
  if (recipe.observe.batch_noise_every == 0)
    refuse({"observe.batch_noise_every"}, "needs measurements", "observe.batch_noise_every=10");
  if (optim.batch_most < 2 * recipe.train.batch) {
    refuse({"optim.batch_most", "train.batch"},
           fmt::format("never doubles: train.batch = {}, and optim.batch_most = {}", recipe.train.batch,
                       optim.batch_most),
           fmt::format("optim.batch_most={}", 8 * recipe.train.batch));
  }
  if (std::ranges::any_of(optim.stages,
                          [](const OptimStage& stage) { return stage.batch > 0 || stage.sequence > 0; })) {
    refuse({"optim.stages"}, "takes no stages with batches or sequences of their own",
           "optim.stages without batch and sequence, or optim.batch_growth=0");
  }
  if (optim.outer.method != Outer::kNone) {
    refuse({"optim.outer"},
           "is the same on all ranks, and the workers of an outer loop measure each for itself",
           "optim.batch_growth=0");
  }
}

}  // namespace

void check_batches(const Recipe& recipe, Problems& out) {
  stages(recipe, out);
  growth(recipe, out);
}

}  // namespace longhaul::recipe
