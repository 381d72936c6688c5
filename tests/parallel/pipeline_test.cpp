// The executor walks every schedule over stages written by hand: stage s multiplies by w[s], the last one
// sums. The loss of micro-batch m is sum(x[m]) Π w, the gradient of w[s] is Σ over m of that without w[s].
#include "parallel/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "comm/threads/run_ranks.h"
#include "kernels/differentiable.h"
#include "layout/schedule/schedule_check.h"
#include "parallel/in_order.h"

namespace longhaul::parallel {
namespace {

using enum layout::PipelineSchedule;
using ::testing::ElementsAre;

constexpr int64_t kMicroBatches = 8;

// Stages that are functions of a test.
class CallsOf final : public StageCalls {
 public:
  using Forward = std::function<Tensor(int64_t chunk, int64_t micro_batch, const Tensor& entering)>;
  explicit CallsOf(Forward forward) : forward_(std::move(forward)) {}

 private:
  Tensor forward_chunk(int64_t chunk, int64_t micro_batch, const Tensor& entering) override {
    return forward_(chunk, micro_batch, entering);
  }
  Tensor input_memory(int64_t) override { return at::full({3, 2}, NAN, at::kDouble); }

  Forward forward_;
};

double factor(int64_t stage) { return 1 + 0.25 * static_cast<double>(stage); }
Tensor input(int64_t micro_batch) { return at::arange(6, at::kDouble).view({3, 2}).add(micro_batch); }

// in_order: over a communicator that carries calls out in order, as NCCL's does.
void walk(int64_t p, const layout::PipelineOptions& options, bool in_order) {
  const layout::Pipeline pipeline(p, options);
  double product = 1, sum = 0;
  for (int64_t stage = 0; stage < pipeline.stages(); ++stage) product *= factor(stage);
  for (int64_t m = 0; m < kMicroBatches; ++m) sum += input(m).sum().item<double>();
  std::vector<double> losses(static_cast<size_t>(p), 0), gradients(static_cast<size_t>(pipeline.stages()), 0);
  std::mutex adding;
  const auto body = [&](comm::Communicator& world) {
    const layout::Mesh mesh(p, {.pp = p});
    const Ranks ranks(world, {.mesh = mesh, .pipeline = options});
    model::ParameterSet none({}, Precision::named("fp64"), at::kCPU);
    std::vector<Tensor> weights;
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      weights.push_back(
          at::full({}, factor(ranks.place().stage_of(chunk)), at::kDouble).requires_grad_(true));
    }
    std::vector<Tensor> own;
    CallsOf calls([&](int64_t chunk, int64_t m, const Tensor& entering) {
      const int64_t stage = ranks.place().stage_of(chunk);
      EXPECT_EQ(entering.defined(), stage > 0);
      const Tensor leaving = (stage == 0 ? input(m) : entering) * weights[static_cast<size_t>(chunk)];
      if (stage < pipeline.stages() - 1) return leaving;
      own.push_back(leaving.sum());
      return own.back();
    });
    run_schedule(layout::make_schedule(pipeline, kMicroBatches), ranks, none, calls);
    const std::scoped_lock lock(adding);
    for (const Tensor& loss : own) losses[static_cast<size_t>(world.rank())] += loss.item<double>();
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      gradients[static_cast<size_t>(ranks.place().stage_of(chunk))] +=
          weights[static_cast<size_t>(chunk)].grad().item<double>();
    }
  };
  comm::run_ranks(p,
                  [&](comm::Communicator& world) {
                    if (!in_order) return body(world);
                    longhaul::testing::InOrder ordered(world);
                    body(ordered);
                  },
                  {.timeout = std::chrono::seconds(60)});
  double loss = 0;
  for (const double each : losses) loss += each;
  EXPECT_NEAR(loss / (sum * product), 1, 1e-12);
  for (int64_t stage = 0; stage < pipeline.stages(); ++stage) {
    EXPECT_NEAR(gradients[static_cast<size_t>(stage)] / (sum * product / factor(stage)), 1, 1e-12)
        << "stage " << stage;
  }
}

TEST(PipelineExecutor, GivesEveryGradientUnderEverySchedule) {
  for (const int64_t p : {1, 2, 3, 4}) {
    for (const layout::PipelineOptions& options : std::vector<layout::PipelineOptions>{{kGpipe},
                                                                                       {k1F1B},
                                                                                       {kInterleaved, 1},
                                                                                       {kInterleaved, 2},
                                                                                       {kInterleaved, 3},
                                                                                       {kZbH1},
                                                                                       {kZbV},
                                                                                       {kDualPipe}}) {
      if (options.schedule == kDualPipe && p % 2 != 0) continue;
      SCOPED_TRACE(::testing::Message() << "p " << p << " schedule " << static_cast<int>(options.schedule)
                                        << " chunks " << options.chunks);
      for (const bool in_order : {false, true}) walk(p, options, in_order);
    }
  }
}

// ---- pairs in turns, of one stage on one rank: a pass notes where it is, and passes there

struct Paired {
  std::vector<std::string> done;
  std::string fails;  // throws where it comes to this
  void at(const std::string& place) {
    done.push_back(place);
    if (place == fails) throw std::runtime_error(place);
  }
};

// x, behind one place of a layer: "F1 a" and a turn; back: "B1 a" and a turn.
Tensor behind_place(Paired& paired, Turns& turns, const std::string& place, const Tensor& x) {
  const auto come_to = [&paired, &turns](const std::string& where) {
    paired.at(where);
    turns.pass();
  };
  return kernels::differentiable("place", {x}, [&]() -> kernels::Recorded {
    come_to("F" + place);
    return {.results = {x.clone()}, .backward = [=](const kernels::BackwardCall& call) {
              come_to("B" + place);
              return std::vector<Tensor>{call.gradients[0]};
            }};
  })[0];
}

// Forward of micro-batch 0, pairs of (1, 0) and (2, 1), backward of 2.
layout::Schedule paired_schedule() {
  using layout::Pass;
  layout::Schedule schedule{
      .pipeline = layout::Pipeline(1), .micro_batches = 3, .ranks = {}, .most_in_flight = {2}};
  schedule.ranks = {{{.pass = Pass::kForward},
                     {.pass = Pass::kForward, .micro_batch = 1, .joined = true},
                     {.pass = Pass::kBackward},
                     {.pass = Pass::kForward, .micro_batch = 2, .joined = true},
                     {.pass = Pass::kBackward, .micro_batch = 1},
                     {.pass = Pass::kBackward, .micro_batch = 2}}};
  return layout::with_transfers_around_pairs(std::move(schedule));
}

// → the span of each turn, and the gradient of the one weight.
std::pair<std::vector<std::string>, double> run_paired(Paired& paired) {
  std::pair<std::vector<std::string>, double> result;
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const Ranks ranks(world, {.mesh = layout::Mesh(1, {}), .pipeline = {.pairs_in_turns = true}});
    model::ParameterSet none({}, Precision::named("fp64"), at::kCPU);
    const Tensor weight = at::full({}, 3.0, at::kDouble).requires_grad_(true);
    const std::thread::id own = std::this_thread::get_id();
    CallsOf calls([&](int64_t, int64_t m, const Tensor&) {
      EXPECT_TRUE(at::GradMode::is_enabled());
      EXPECT_TRUE(ranks.spans()->computes_here());
      EXPECT_EQ(std::this_thread::get_id() == own, m == 0) << "a pair's forward pass has a thread of its own";
      Tensor x = input(m) * weight;
      for (const char* const place : {" a", " b"})
        x = behind_place(paired, *ranks.turns(), std::to_string(m) + place, x);
      return x.sum();
    });
    ranks.spans()->start(0);
    run_schedule(paired_schedule(), ranks, none, calls);
    for (const observe::Span& span : ranks.spans()->stop().spans)
      result.first.push_back((span.kind == observe::SpanKind::kForward ? "F" : "B") +
                             std::to_string(span.micro_batch));
    result.second = weight.grad().item<double>();
  });
  return result;
}

TEST(PipelineExecutor, PassesOfAPairTakeTurns) {
  EXPECT_EQ(layout::flaw_of(paired_schedule()), "");
  Paired paired;
  const auto [spans, gradient] = run_paired(paired);
  EXPECT_THAT(paired.done, ElementsAre("F0 a", "F0 b",                  // alone
                                       "B0 b", "F1 a", "B0 a", "F1 b",  // the gradients' way is the other one
                                       "B1 b", "F2 a", "B1 a", "F2 b",  //
                                       "B2 b", "B2 a"));
  EXPECT_THAT(spans,
              ElementsAre("F0", "B0", "F1", "B0", "F1", "B0", "F1", "B1", "F2", "B1", "F2", "B1", "F2", "B2"))
      << "one behind the other, whosever turn it is";
  double sum = 0;
  for (int64_t m = 0; m < 3; ++m) sum += input(m).sum().item<double>();
  EXPECT_DOUBLE_EQ(gradient, sum);
}

// Whichever pass fails: its exception comes out, the other one has stopped where it was, and neither is run
// any further.
TEST(PipelineExecutor, AFailureInAPairEndsBothPasses) {
  for (const auto& [fails, last] :
       {std::pair("F1 a", "B0 b"), {"F1 b", "B0 a"}, {"B0 b", "F0 b"}, {"B1 a", "F2 a"}}) {
    Paired paired{.done = {}, .fails = fails};
    try {
      run_paired(paired);
      ADD_FAILURE() << fails;
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), fails);
    }
    EXPECT_EQ(paired.done.back(), fails);
    EXPECT_EQ(paired.done[paired.done.size() - 2], last);
  }
}

}  // namespace
}  // namespace longhaul::parallel
