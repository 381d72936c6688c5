#include "recipe/checks/checks.h"

#include "recipe/optimizers/optimizers.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::recipe {
namespace {

void shares(const ParallelOptions& parallel, Problems& out) {
  if (parallel.zero_copies == 1 || parallel.zero > 0) return;
  out.push_back(
      {{"parallel.zero_copies", "parallel.zero"},
       fmt::format(
           "parallel.zero_copies = {}: with parallel.zero = 0 ranks share nothing that could have copies",
           parallel.zero_copies),
       "parallel.zero=1, or parallel.zero_copies=1"});
}

// Checks how rows travel to experts.
void padding(const Recipe& recipe, Problems& out) {
  if (!recipe.parallel.experts.padded) return;
  if (recipe.model.experts == 0 || recipe.model.router.capacity_factor == 0) {
    out.push_back({{"parallel.pad_to_capacity", "model.capacity_factor"},
                   "parallel.pad_to_capacity = true, and experts without a capacity take any number of rows",
                   "model.capacity_factor=1.25, or parallel.pad_to_capacity=false"});
  }
  if (recipe.parallel.experts.dispatcher != Dispatcher::kAllToAll) {
    out.push_back({{"parallel.pad_to_capacity", "parallel.dispatcher"},
                   fmt::format("parallel.pad_to_capacity = true is for parallel.dispatcher = all-to-all: {} "
                               "sends tokens, not rows of experts",
                               name_of_value(recipe.parallel.experts.dispatcher)),
                   "parallel.dispatcher=all-to-all, or parallel.pad_to_capacity=false"});
  }
}

// The options that are impossible with a fixed order of micro-batches (docs/design/elastic.md).
void elastic(const Recipe& recipe, Problems& out) {
  if (!recipe.train.elastic) return;
  const ParallelOptions& parallel = recipe.parallel;
  if (parallel.ep > 1 || parallel.etp > 1) {
    out.push_back({{"train.elastic", "parallel.ep", "parallel.etp"},
                   "train.elastic = true: an expert that several ranks share gets the tokens of several "
                   "micro-batches at once, and one "
                   "micro-batch's part of its gradient cannot be told",
                   "parallel.ep=1 parallel.etp=1, or train.elastic=false"});
  }
  if (parallel.zero_copies > 1) {
    out.push_back({{"train.elastic", "parallel.zero_copies"},
                   "train.elastic = true: gradients are added up in one tree over all data ranks, and not "
                   "group by group",
                   "parallel.zero_copies=1, or train.elastic=false"});
  }
  if (recipe.model.shares_room()) {
    out.push_back({{"train.elastic", "model.capacity_of"},
                   fmt::format("train.elastic = true: with model.capacity_of = {} all of a step's sequences "
                               "are one micro-batch",
                               name_of_value(recipe.model.router.capacity_of)),
                   "model.capacity_of=sequence, or train.elastic=false"});
  }
  if (recipe.model.shares_batch() && !recipe.model.shares_room()) {
    out.push_back({{"train.elastic", "model.auxiliary_loss_of"},
                   fmt::format("train.elastic = true: with model.auxiliary_loss_of = {} one micro-batch's "
                               "gradient depends on those beside it",
                               names_of(BalanceOf{})[static_cast<size_t>(recipe.model.router.balance_of)]),
                   "model.auxiliary_loss_of=sequence, or train.elastic=false"});
  }
  const PipelineSchedule schedule = parallel.pipeline.schedule;
  if (schedule != PipelineSchedule::k1F1B) {
    out.push_back({{"train.elastic", "parallel.schedule"},
                   fmt::format("train.elastic = true: under parallel.schedule = {} a rank adds gradients of "
                               "several micro-batches in turns",
                               names_of(schedule)[static_cast<size_t>(schedule)]),
                   "parallel.schedule=1f1b, or train.elastic=false"});
  }
  std::vector<std::string> names = {recipe.optim.name};
  for (const OptimGroup& group : recipe.optim.groups) {
    if (!group.name.empty()) names.push_back(group.name);
  }
  for (const std::string& name : names) {
    if (parallel.zero == 0 || optimizer_entry(name).of_elements) continue;
    out.push_back({{"train.elastic", "optim.name", "parallel.zero"},
                   fmt::format("train.elastic = true: with parallel.zero = {} {} sums numbers of a matrix "
                               "over the ranks' shares, and the "
                               "sum's last bits depend on how many there are",
                               parallel.zero, name),
                   "parallel.zero=0, or optim.name=adamw"});
  }
  if (recipe.train.device.starts_with("cuda")) {
    out.push_back({{"train.elastic", "train.device"},
                   "train.elastic = true is for training on the CPU",
                   "train.device=cpu"});
  }
}

}  // namespace

void check_sharing(const Recipe& recipe, Problems& out) {
  shares(recipe.parallel, out);
  padding(recipe, out);
  elastic(recipe, out);
}

}  // namespace longhaul::recipe
