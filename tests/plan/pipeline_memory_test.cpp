// What a rank of a pipeline holds beside a stage in its backward pass, by hand.
#include "plan/memory/pipeline_memory.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul::plan {
namespace {

using layout::PipelineSchedule;

// Of a V of four stages over two ranks the second rank has both in the middle, one after the other. Stage 1:
// received hidden states, and those that it made. Stage 2 reads these, makes some that leave, and gets a
// gradient: four. Then the gradient of what entered stage 2 is stage 1's, beside the two it has; what was
// received is read itself.
TEST(BesideStages, OfAVTheGradientStaysOnItsRank) {
  const layout::Pipeline pipeline(2, {.schedule = PipelineSchedule::kZbV, .chunks = 2});
  const layout::Schedule schedule = layout::make_schedule(pipeline, 1);
  const auto beside = beside_stages(schedule, 1, {{.hidden = 1}, {.hidden = 1}});
  ASSERT_EQ(beside.size(), 2u);
  const auto most = [](const BesideStage& stage) {
    return std::max(stage.backward.value_or(0), stage.backward_input.value_or(0));
  };
  EXPECT_EQ(most(beside[1]), 4);
  EXPECT_EQ(most(beside[0]), 2);
}

// A 1F1B pipeline of three ranks: the first one has three micro-batches under way when one goes backward; of
// the two others each holds what the stage kept and what leaves, of its own what leaves and the gradient; and
// as soon as no forward pass is left the next one's gradient is on its way.
TEST(BesideStages, Of1F1B) {
  const layout::Schedule schedule =
      layout::make_schedule(layout::Pipeline(3, {.schedule = PipelineSchedule::k1F1B}), 6);
  const auto beside = beside_stages(schedule, 0, {{.kept = 10, .hidden = 1}});
  ASSERT_EQ(beside.size(), 1u);
  ASSERT_TRUE(beside[0].backward);
  EXPECT_EQ(*beside[0].backward, 2 * (10 + 1) + 1 + 1 + 1);
  EXPECT_FALSE(beside[0].backward_input);
}

}  // namespace
}  // namespace longhaul::plan
