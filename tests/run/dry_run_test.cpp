// A dry run calls what real ranks call: compared call by call with thread ranks that train; and at the sizes
// for which it is made. ctest: timeout=240
#include "run/dry_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/traced.h"
#include "language/text_stage.h"
#include "optim/optimizer.h"
#include "plan/step_time.h"
#include "recipe/architecture/presets.h"
#include "train/step.h"

namespace longhaul::run {
namespace {

using comm::CallKind;
using layout::Axis;
using layout::Mesh;

recipe::ModelConfig small_hybrid(int64_t experts) {
  recipe::ModelConfig config;
  config.layers = 4;
  config.hidden = 32;
  config.vocabulary = 48;
  config.heads = 4;
  config.head_dim = 8;
  config.softmax.kv_heads = 4;
  config.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kSoftmax};
  config.intermediate = 16;
  config.experts = experts;
  config.softmax.rotary_dim = 4;
  return config;
}

// The same batch as dry_run's, with numbers in it.
class SmallTask final : public train::Task {
 public:
  SmallTask(const DryRunRequest& request, const parallel::Ranks& ranks)
      : micro_batches_(request.micro_batches),
        layout_(layout::make_batch(request.rows, request.sequence)),
        decoder_(request.model, Precision::named(request.dtype), at::kCPU, model::Use::kTraining,
                 ranks.place()),
        stage_(decoder_, ranks) {
    decoder_.parameters().initialise(7);
    for (int64_t i = 0; i < layout_.tokens(); ++i) ids_.push_back(i * 5 % request.model.vocabulary);
  }
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  train::StepWork prepare(int64_t) override { return {micro_batches_, 1, layout_.tokens()}; }
  Tensor forward(model::Context& context, int64_t, const Tensor& entering) override {
    return stage_.forward(context, {layout_, ids_, ids_}, entering);
  }
  train::StageInput stage_input(int64_t) const override { return stage_.input({layout_, ids_, ids_}); }

 private:
  int64_t micro_batches_;
  layout::SequenceLayout layout_;
  std::vector<int64_t> ids_;
  model::Decoder decoder_;
  language::TextStage stage_;
};

// by group: what was called, without what only a real step needs
using Said = std::map<std::string, std::vector<std::string>>;

Said said(const comm::RankRecords& records) {
  static const std::set<std::string> kOfRealSteps = {
      "weight of the step", "loss", "auxiliary loss", "metrics", "gradient norm", "sums of the optimizer"};
  Said said;
  for (const comm::CallRecord& call : records.calls) {
    if (kOfRealSteps.contains(call.name)) continue;
    std::string text = call.kind == CallKind::kExchange ? call.name : call.text;
    for (const auto& message : call.messages)
      text += fmt::format(" {} {} {}", message.direction == comm::Direction::kSend ? "to" : "from",
                          message.peer, message.tensor);
    static constexpr std::string_view kOfNumbers[] = {"rows to experts",    "rows from experts",
                                                      "choices to experts", "weights to experts",
                                                      "tokens to experts",  "sums of experts"};
    const bool of_experts =
        std::ranges::any_of(kOfNumbers, [&](std::string_view name) { return call.name.starts_with(name); });
    if (!of_experts) text += fmt::format(" {}", call.traffic.sent);
    said[records.groups[call.group].path].push_back(text);
  }
  return said;
}

void expect_what_real_ranks_call(DryRunRequest request) {
  const int64_t world = request.arrangement.mesh.world();
  std::vector<Said> real(static_cast<size_t>(world));
  comm::run_ranks(world, [&](comm::Communicator& threads) {
    const auto log = std::make_shared<comm::CallLog>(threads.rank());
    comm::Traced traced(comm::borrowed(threads), log);
    parallel::Ranks ranks(traced, request.arrangement);
    SmallTask task(request, ranks);
    recipe::OptimOptions options;
    const auto optimizer = optim::make_optimizer(options, task.parameters(), task.precision());
    train::run_step(task, *optimizer, ranks, 1, {.lr = 1e-3, .clip_norm = 1});
    real[static_cast<size_t>(threads.rank())] = said(log->records());
  });
  for (int64_t rank = 0; rank < world; ++rank) {
    request.ranks = {rank};
    EXPECT_EQ(said(dry_records(request)[0]), real[static_cast<size_t>(rank)])
        << "rank " << rank << " of " << request.arrangement.mesh.text();
  }
  request.ranks.clear();
  const DryRun all = dry_run(request);
  EXPECT_TRUE(all.comparison.agreed()) << all.comparison.text();
}

DryRunRequest small(int64_t experts, int64_t world, const layout::MeshShape& shape,
                    const recipe::ContextOptions& context = {},
                    const recipe::PipelineOptions& pipeline = {}) {
  return {.model = small_hybrid(experts),
          .arrangement = {Mesh(world, shape), context, pipeline},
          .sequence = 24,
          .rows = 2,
          .micro_batches = 4,
          .dtype = "fp32"};
}

TEST(DryRun, CallsWhatRealRanksCall) {
  expect_what_real_ranks_call(small(0, 8, {.pp = 2, .cp = 2, .tp = 2}));
  expect_what_real_ranks_call(small(4, 4, {.tp = 2, .ep = 2}));
  expect_what_real_ranks_call(small(4, 4, {.pp = 2, .ep = 2}));
  DryRunRequest flex = small(4, 4, {.tp = 2, .ep = 2, .etp = 2});
  flex.arrangement.experts = {.dispatcher = recipe::Dispatcher::kFlex, .token_groups = 2};
  expect_what_real_ranks_call(flex);
  DryRunRequest gathered = small(4, 4, {.tp = 2, .ep = 2, .etp = 2});
  gathered.arrangement.experts.dispatcher = recipe::Dispatcher::kAllGather;
  expect_what_real_ranks_call(gathered);
}

// The bytes of states that the planner counts for a recipe's method are those that the rank which sends most
// gives to its communicator in a step that trains: four micro-batches of one document in two lightning
// layers.
TEST(PlannedBytes, OfStatesAreThoseOfRealRanks) {
  using recipe::LinearContextMethod, recipe::ContextSplit;
  for (const int64_t ranks : {2, 4}) {
    for (const auto method :
         {LinearContextMethod::kRing, LinearContextMethod::kAllGather, LinearContextMethod::kAllScan}) {
      for (const ContextSplit split : {ContextSplit::kContiguous, ContextSplit::kZigzag}) {
        DryRunRequest request = small(0, ranks, {.cp = ranks}, {.linear = method, .split = split});
        request.rows = 1;
        const plan::PlanLayout planned{.cp = ranks, .context = request.arrangement.context};
        const double bytes =
            plan::exchanged_state_bytes(plan::work_of(request.model, request.sequence), planned);
        std::vector<int64_t> forward(static_cast<size_t>(ranks)), backward(forward);
        comm::run_ranks(ranks, [&](comm::Communicator& threads) {
          const auto log = std::make_shared<comm::CallLog>(threads.rank());
          comm::Traced traced(comm::borrowed(threads), log);
          parallel::Ranks placed(traced, request.arrangement);
          SmallTask task(request, placed);
          const auto optimizer = optim::make_optimizer({}, task.parameters(), task.precision());
          train::run_step(task, *optimizer, placed, 1, {.lr = 1e-3, .clip_norm = 1});
          for (const comm::CallRecord& call : log->records().calls) {
            if (!call.name.starts_with("states of the recurrence")) continue;
            (call.name.ends_with("(gradient)") ? backward : forward)[static_cast<size_t>(threads.rank())] +=
                call.traffic.sent;
          }
        });
        const double of_step = bytes * static_cast<double>(request.model.layers * request.micro_batches);
        EXPECT_EQ(static_cast<double>(std::ranges::max(forward)), of_step)
            << recipe::names_of(method)[static_cast<size_t>(method)] << " of " << ranks << " ranks, "
            << recipe::names_of(split)[static_cast<size_t>(split)];
        EXPECT_EQ(std::ranges::max(backward), std::ranges::max(forward));
        EXPECT_GT(of_step, 0);
      }
    }
  }
}

// A choice that needs whole sequences, and a balance over replicas whose share is asked for once though
// layers run again.
TEST(DryRun, CallsWhatRealRanksCallForRouters) {
  DryRunRequest request = small(4, 8, {.cp = 2, .tp = 2, .ep = 2});
  request.model.auxiliary_loss = 0;
  request.model.router = {.jitter = 0.1, .choice = recipe::RouterChoice::kSinkhorn};
  expect_what_real_ranks_call(request);
  request.model.auxiliary_loss = 0.01;
  request.model.router = {.balance_of = recipe::BalanceOf::kBatchSoFar};
  expect_what_real_ranks_call(request);
}

TEST(DryRun, CallsWhatRealRanksCallByEveryContextMethod) {
  using recipe::ContextMethod, recipe::LinearContextMethod;
  for (const auto softmax :
       {ContextMethod::kRing, ContextMethod::kAllGather, ContextMethod::kUlysses, ContextMethod::kTwoLevel}) {
    expect_what_real_ranks_call(small(0, 4, {.cp = 4}, {.softmax = softmax}));
  }
  for (const auto linear :
       {LinearContextMethod::kRing, LinearContextMethod::kAllScan, LinearContextMethod::kUlysses}) {
    expect_what_real_ranks_call(
        small(0, 4, {.cp = 4}, {.linear = linear, .split = layout::ContextSplit::kContiguous}));
  }
}

TEST(DryRun, CallsWhatRealRanksCallByEverySchedule) {
  using recipe::PipelineSchedule;
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kZbH1, PipelineSchedule::kZbV,
                              PipelineSchedule::kDualPipe}) {
    expect_what_real_ranks_call(small(0, 2, {.pp = 2}, {}, {.schedule = schedule}));
  }
  expect_what_real_ranks_call(
      small(0, 4, {.pp = 2, .tp = 2}, {}, {.schedule = PipelineSchedule::kInterleaved, .chunks = 2}));
}

TEST(DryRun, TheSampleHasEveryPlaceOfAReplicaAndWholeGroups) {
  const Mesh mesh(96, {.pp = 2, .cp = 2, .tp = 2, .ep = 4});
  const std::vector<int64_t> ranks = sampled_ranks(mesh);
  std::set<std::vector<int64_t>> places;
  for (const int64_t rank : ranks)
    places.insert({mesh.coordinate(rank, Axis::kPp), mesh.coordinate(rank, Axis::kCp),
                   mesh.coordinate(rank, Axis::kTp)});
  EXPECT_EQ(places.size(), 8u);
  const auto holds = [&](const std::vector<int64_t>& group) { return std::ranges::includes(ranks, group); };
  EXPECT_TRUE(holds(mesh.group_of(0, {Axis::kDp})));
  EXPECT_TRUE(holds(mesh.group_of(95, {Axis::kEdp})));
  EXPECT_TRUE(holds(mesh.group_of(48, {Axis::kEp})));
  EXPECT_TRUE(holds(mesh.group_of(0, {Axis::kPp})));
}

TEST(DryRun, RefusesWhatDoesNotFit) { EXPECT_THROW(dry_run(small(0, 16, {.tp = 16})), Error); }

// Two stages' pieces of the pipeline by hand: hidden states of 24 · 2 tokens in fp32 go on, their gradients
// come back.
TEST(DryRun, CountsBytes) {
  const DryRun run = dry_run(small(0, 2, {.pp = 2}));
  EXPECT_EQ(run.most.at({"pp", CallKind::kExchange}).traffic.sent, 4 * 48 * 32 * 4);
  EXPECT_EQ(run.most.at({"pp gradients", CallKind::kExchange}).traffic.sent, 4 * 48 * 32 * 4);
}

// The published models at published sizes, some ranks of them: a pipeline, and the group in which a gradient
// is summed. `longhaul bench communication` runs more.
void expect_thousands(DryRunRequest request, layout::AxisSet replicas) {
  const Mesh& mesh = request.arrangement.mesh;
  const std::vector<int64_t> pipeline = mesh.group_of(0, {Axis::kPp}), group = mesh.group_of(0, replicas);
  std::set<int64_t> ranks(pipeline.begin(), pipeline.end());
  for (size_t i = 0; i < group.size(); i += std::max<size_t>(1, group.size() / 16)) ranks.insert(group[i]);
  request.ranks.assign(ranks.begin(), ranks.end());
  const DryRun run = dry_run(request);
  EXPECT_TRUE(run.comparison.agreed()) << run.comparison.text();
  EXPECT_GT(run.comparison.whole_groups, 0);
  EXPECT_GT(run.parameter_bytes, int64_t{1} << 30);  // nobody allocated them
}

TEST(DryRun, MinimaxOn10240Ranks) {
  expect_thousands({.model = recipe::preset_model("minimax-text-01"),
                    .arrangement = {Mesh(10240, {.pp = 10, .cp = 2, .tp = 8, .ep = 32})},
                    .sequence = 65536},
                   {Axis::kEp});
}

TEST(DryRun, MegaScaleOn12288Ranks) {
  expect_thousands({.model = recipe::preset_model("megascale-175b"),
                    .arrangement = {Mesh(12288, {.pp = 8, .tp = 8}),
                                    {},
                                    {.schedule = recipe::PipelineSchedule::kInterleaved, .chunks = 6}},
                    .sequence = 2048,
                    .micro_batches = 8},
                   {Axis::kDp});
}

}  // namespace
}  // namespace longhaul::run
