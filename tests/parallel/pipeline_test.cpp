// The executor walks every schedule over stages written by hand: stage s multiplies by w[s], the last one sums. The loss of micro-batch m is
// sum(x[m]) Π w, the gradient of w[s] is Σ over m of that without w[s].
#include "parallel/pipeline.h"

#include <gtest/gtest.h>

#include "comm/run_ranks.h"

namespace longhaul::parallel {
namespace {

using enum layout::PipelineSchedule;

constexpr int64_t kMicroBatches = 8;
double factor(int64_t stage) { return 1 + 0.25 * static_cast<double>(stage); }
Tensor input(int64_t micro_batch) { return at::arange(6, at::kDouble).view({3, 2}).add(micro_batch); }

void walk(int64_t p, const layout::PipelineOptions& options) {
  const layout::Pipeline pipeline(p, options);
  double product = 1, sum = 0;
  for (int64_t stage = 0; stage < pipeline.stages(); ++stage) product *= factor(stage);
  for (int64_t m = 0; m < kMicroBatches; ++m) sum += input(m).sum().item<double>();
  std::vector<double> losses(static_cast<size_t>(p), 0), gradients(static_cast<size_t>(pipeline.stages()), 0);
  std::mutex adding;
  comm::run_ranks(p, [&](comm::Communicator& world) {
    const layout::Mesh mesh(p, {.pp = p});
    const Ranks ranks(world, {.mesh = mesh, .pipeline = options});
    model::ParameterSet none({}, Precision::named("fp64"), at::kCPU);
    std::vector<Tensor> weights;
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      weights.push_back(at::full({}, factor(ranks.place().stage_of(chunk)), at::kDouble).requires_grad_(true));
    }
    std::vector<Tensor> own;
    const StageCalls calls{.forward =
                               [&](int64_t chunk, int64_t m, const Tensor& entering) {
                                 const int64_t stage = ranks.place().stage_of(chunk);
                                 EXPECT_EQ(entering.defined(), stage > 0);
                                 const Tensor leaving = (stage == 0 ? input(m) : entering) * weights[static_cast<size_t>(chunk)];
                                 if (stage < pipeline.stages() - 1) return leaving;
                                 own.push_back(leaving.sum());
                                 return own.back();
                               },
                           .entering =
                               [&](int64_t) {
                                 return at::full({3, 2}, NAN, at::kDouble);
                               }};
    run_schedule(layout::make_schedule(pipeline, kMicroBatches), ranks, none, calls);
    const std::scoped_lock lock(adding);
    for (const Tensor& loss : own) losses[static_cast<size_t>(world.rank())] += loss.item<double>();
    for (int64_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      gradients[static_cast<size_t>(ranks.place().stage_of(chunk))] += weights[static_cast<size_t>(chunk)].grad().item<double>();
    }
  });
  double loss = 0;
  for (const double each : losses) loss += each;
  EXPECT_NEAR(loss / (sum * product), 1, 1e-12);
  for (int64_t stage = 0; stage < pipeline.stages(); ++stage) {
    EXPECT_NEAR(gradients[static_cast<size_t>(stage)] / (sum * product / factor(stage)), 1, 1e-12) << "stage " << stage;
  }
}

TEST(PipelineExecutor, GivesEveryGradientUnderEverySchedule) {
  for (const int64_t p : {1, 2, 3, 4}) {
    for (const layout::PipelineOptions& options : std::vector<layout::PipelineOptions>{
             {kGpipe}, {k1F1B}, {kInterleaved, 1}, {kInterleaved, 2}, {kInterleaved, 3}, {kZbH1}, {kZbV}, {kDualPipe}}) {
      if (options.schedule == kDualPipe && p % 2 != 0) continue;
      SCOPED_TRACE(::testing::Message() << "p " << p << " schedule " << static_cast<int>(options.schedule) << " chunks " << options.chunks);
      walk(p, options);
    }
  }
}

}  // namespace
}  // namespace longhaul::parallel
