// Pairs whose passes take turns train what pairs do whose passes run one behind the other, to the bit: the
// order of schedules is all that differs.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/call_log.h"
#include "comm/wrappers/traced.h"
#include "prove/prove_task.h"
#include "proved_models.h"
#include "train/passes.h"

// ctest: label=full timeout=600

namespace longhaul::prove {
namespace {

using layout::Schedule;
using recipe::Dispatcher;
using recipe::Recompute;

recipe::ParallelOptions dual_pipe(recipe::ParallelOptions parallel) {
  if (parallel.pp == 1) parallel.pp = 2;
  parallel.pipeline.schedule = recipe::PipelineSchedule::kDualPipe;
  return parallel;
}

// Whatever a step leaves on a rank.
struct Left {
  std::vector<double> losses, auxiliary_losses, dropped, busiest;
  std::map<std::string, Tensor> gradients, choices;
};

void expect_same_bits(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
}

// A step of one rank by either order, at the same weights.
class PairedStep {
 public:
  PairedStep(const recipe::ModelConfig& config, comm::Communicator& world, const ProofLayout& layout)
      : ranks_(world, arrangement_of(config, layout)),
        task_(config, Precision::named("fp32"), ranks_, layout) {
    ranks_.share_values(task_.parameters());
  }
  const parallel::Ranks& ranks() const { return ranks_; }

  Left left_by(bool in_turns, const train::Passes::Options& options = {.step = 1, .seed = 3}) {
    const train::StepWork work = task_.prepare(1);
    const Schedule passes = layout::passes_of(ranks_.place().pipeline(), work.micro_batches);
    const Schedule schedule = in_turns ? with_transfers_around_pairs(passes) : with_transfers(passes);
    EXPECT_EQ(layout::make_schedule(ranks_.place().pipeline(), work.micro_batches).pairs_in_turns, true)
        << "without being asked";
    ranks_.begin_step(task_.parameters(), work.micro_batches);
    ranks_.spans()->start(1);
    train::Passes trained(task_, ranks_, options);
    trained.run(schedule);
    expect_turns(schedule, ranks_.spans()->stop().spans);
    ranks_.sum_gradients(task_.parameters());
    Left left{.losses = trained.losses(),
              .auxiliary_losses = trained.auxiliary_losses(),
              .dropped = trained.statistics(model::kDroppedShare),
              .busiest = trained.statistics(model::kBusiestOverMean),
              .gradients = {},
              .choices = {}};
    for (const auto& [router, choices] : trained.choices_of_routers()) left.choices[router] = choices.clone();
    for (const auto& parameter : task_.parameters().all()) {
      if (parameter->trainable() && parameter->own.length > 0)
        left.gradients[parameter->name] = parameter->own_grad.clone();
    }
    task_.parameters().zero_gradients();
    return left;
  }

 private:
  // In turns a pass of a pair has a span for each of its turns.
  void expect_turns(const Schedule& schedule, const std::vector<observe::Span>& spans) const {
    const auto& own = schedule.ranks[static_cast<size_t>(ranks_.place().coordinate(layout::Axis::kPp))];
    const auto passes =
        std::ranges::count_if(own, [](const layout::Action& action) { return !action.transfer(); });
    const auto pairs = std::ranges::count(own, true, &layout::Action::joined);
    EXPECT_GT(pairs, 0);
    if (schedule.pairs_in_turns) {
      EXPECT_GE(std::ssize(spans), passes + 2 * pairs);
    } else {
      EXPECT_EQ(std::ssize(spans), passes);
    }
  }

  parallel::Ranks ranks_;
  ProofTask task_;
};

void expect_same(const recipe::ModelConfig& model, const ProofLayout& layout) {
  SCOPED_TRACE(layout.name);
  const recipe::ModelConfig config = made_small(model, layout.parallel);
  comm::run_ranks(layout.parallel.world(), [&](comm::Communicator& world) {
    PairedStep step(config, world, layout);
    const Left turns = step.left_by(true), behind = step.left_by(false);
    EXPECT_EQ(turns.losses, behind.losses);
    EXPECT_EQ(turns.auxiliary_losses, behind.auxiliary_losses);
    EXPECT_EQ(turns.dropped, behind.dropped);
    EXPECT_EQ(turns.busiest, behind.busiest);
    EXPECT_FALSE(turns.gradients.empty());
    expect_same_bits(turns.gradients, behind.gradients);
    expect_same_bits(turns.choices, behind.choices);
  });
}

TEST(PairsInTurns, LeaveTheSameBits) {
  for (const recipe::ExpertOptions& experts :
       std::vector<recipe::ExpertOptions>{{},
                                          {.dispatcher = Dispatcher::kAllGather},
                                          {.dispatcher = Dispatcher::kFlex},
                                          {.token_groups = 2},
                                          {.dispatcher = Dispatcher::kFlex, .token_groups = 2}}) {
    expect_same(hybrid(), proof_layout(dual_pipe({.cp = 2, .ep = 2, .experts = experts})));
  }
  expect_same(hybrid(), proof_layout(dual_pipe({.cp = 2, .etp = 2})));
  expect_same(hybrid(), proof_layout(dual_pipe({.tp = 2, .cp = 2, .ep = 2, .etp = 2})));
  expect_same(hybrid(), proof_layout(dual_pipe({.tp = 2, .pp = 4, .ep = 2}), /*packed=*/false));
}

// What is made again in the backward pass exchanges rows there too; values and gradients of layers come and
// go beside them.
TEST(PairsInTurns, LeaveTheSameBitsWhateverIsKept) {
  for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull})
    expect_same(hybrid(), proof_layout(dual_pipe({.cp = 2, .ep = 2}), true, recompute));
  expect_same(hybrid(),
              proof_layout(dual_pipe({.cp = 2, .ep = 2, .experts = {.dispatcher = Dispatcher::kFlex}}), true,
                           Recompute::kFull));
  expect_same(hybrid(),
              proof_layout(dual_pipe({.cp = 2, .ep = 2}), true, Recompute::kNone, recipe::Offload::kFile));
  for (const int64_t zero : {2, 3})
    expect_same(hybrid(), proof_layout(dual_pipe({.cp = 2, .ep = 2, .zero = zero})));
}

// Stages whose layers differ: without experts, with dense ones that all tokens pass, with modules that
// predict further ahead; routers that drop, pad, even out and balance what they have seen so far.
TEST(PairsInTurns, LeaveTheSameBitsWhateverTheModel) {
  recipe::ModelConfig config = hybrid();
  config.dense_layers = {0, 1};
  config.shared_experts = 1;
  config.predict_ahead = 1;
  expect_same(config, proof_layout(dual_pipe({.cp = 2, .ep = 2})));
  config = hybrid();
  config.router = {.score = recipe::RouterScore::kSigmoid, .bias_rate = 0.01, .capacity_factor = 0.75};
  expect_same(config, proof_layout(dual_pipe({.cp = 2, .ep = 2, .experts = {.padded = true}})));
}

// A rank that fails in a pair's forward pass: the others, whose two passes wait for it, end too, and its
// exception is the one that comes out.
TEST(PairsInTurns, ARankThatFailsEndsAll) {
  const ProofLayout layout = proof_layout(dual_pipe({.cp = 2, .ep = 2}));
  const recipe::ModelConfig config = made_small(hybrid(), layout.parallel);
  const auto ended = std::make_shared<std::atomic<int>>(0);
  try {
    comm::run_ranks(4, [&](comm::Communicator& world) {
      PairedStep step(config, world, layout);
      int outputs = 0, of_step = 0;
      step.left_by(true,
                   {.step = 1, .seed = 3, .inspect = [&](const std::string&, const Tensor&) { ++of_step; }});
      const auto look = [&](const std::string& block, const Tensor&) {
        if (world.rank() == 1 && ++outputs == of_step / 2)
          throw std::runtime_error("rank 1 fails in " + block);
      };
      try {
        step.left_by(true, {.step = 1, .seed = 3, .inspect = look});
      } catch (...) {
        ++*ended;
        throw;
      }
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("rank 1 fails in ")) << error.what();
  }
  EXPECT_EQ(*ended, 4);
}

// All ranks of a stage make the same calls in the same order over all groups, though what they exchange
// differs; which keys context ranks exchange does too.
TEST(PairsInTurns, RanksOfAStageMakeTheSameCalls) {
  const ProofLayout layout = proof_layout(dual_pipe({.tp = 2, .cp = 2, .ep = 4}));
  const recipe::ModelConfig config = made_small(hybrid(), layout.parallel);
  std::vector<std::vector<std::string>> calls(static_cast<size_t>(layout.parallel.world()));
  comm::run_ranks(layout.parallel.world(), [&](comm::Communicator& thread) {
    const auto log = std::make_shared<comm::CallLog>(thread.rank());
    comm::Traced world(comm::borrowed(thread), log);
    PairedStep step(config, world, layout);
    step.left_by(true);
    const observe::RankRecords records = log->records();
    for (const observe::CallRecord& call : records.calls) {
      const std::string& group = records.groups[call.group].path;
      if (call.kind == observe::CallKind::kExchange) continue;
      calls[static_cast<size_t>(thread.rank())].push_back(group.substr(0, group.rfind(' ')) + ": " +
                                                          call.name);
    }
  });
  for (size_t rank = 0; rank < calls.size(); ++rank) EXPECT_EQ(calls[rank], calls[rank / 4 * 4]) << rank;
  EXPECT_NE(calls[0], calls[4]) << "other stages first";
}

}  // namespace
}  // namespace longhaul::prove
