// docs/sources/moe-parallel-folding.md §12.4: where every gradient is 1, the global norm is the root of the
// number of parameters, whatever ranks hold: each element counts once.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/threads/run_ranks.h"
#include "layout/parameters.h"
#include "model/decoder.h"
#include "optim/gradient_norm.h"
#include "parallel/ranks.h"
#include "support/models.h"

namespace longhaul::train {
namespace {

struct ExpertMesh {
  int64_t ranks;
  layout::MeshShape shape;
  int64_t zero = 0;
  recipe::PipelineOptions pipeline{};
};

TEST(UnitGradients, HaveTheNormOfTheirNumberOnEveryExpertMesh) {
  recipe::ModelConfig config = longhaul::testing::hybrid_experts_post_norm();
  config.tie_embeddings = true;  // lies on two stages
  config.layers = 4;
  const double expected = std::sqrt(static_cast<double>(layout::parameter_count(config)));
  using enum recipe::PipelineSchedule;
  for (const ExpertMesh& each :
       std::vector<ExpertMesh>{{1, {}},
                               {4, {.tp = 2, .ep = 4}},
                               {8, {.cp = 2, .tp = 2, .ep = 4}},
                               {4, {.ep = 2, .etp = 2}},
                               {4, {.etp = 4}},
                               {8, {.tp = 2, .ep = 2, .etp = 2}, 1},
                               {8, {.tp = 2, .ep = 4}, 2},
                               {8, {.cp = 2, .ep = 2}, 3},
                               {8, {.ep = 2, .copies = 2}, 3},
                               {8, {.pp = 2, .tp = 2, .ep = 2}, 1},
                               {8, {.pp = 2, .tp = 2, .ep = 4}, 0, {.schedule = kDualPipe}},
                               {8, {.pp = 2, .ep = 2, .etp = 2}, 3, {.schedule = kZbV}}}) {
    const parallel::Arrangement arrangement{
        .mesh = {each.ranks, each.shape}, .pipeline = each.pipeline, .zero = each.zero};
    comm::run_ranks(each.ranks, [&](comm::Communicator& world) {
      parallel::Ranks ranks(world, arrangement);
      model::Decoder decoder(config, Precision::named("fp64"), at::kCPU, model::Use::kTraining,
                             ranks.place());
      for (const auto& parameter : decoder.parameters().all()) {
        ASSERT_TRUE(parameter->trainable());
        parameter->own_grad.fill_(1);
      }
      const optim::GradientNorm norm = optim::gradient_norm(
          decoder.parameters(), 1, [&](const Tensor& squares) { ranks.sum(squares, "gradient norm"); });
      EXPECT_DOUBLE_EQ(norm.norm, expected) << arrangement.mesh.text() << ", zero " << each.zero;
    });
  }
}

}  // namespace
}  // namespace longhaul::train
