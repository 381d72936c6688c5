// Every stage of ZeRO trains what whole copies train: parameters after twenty steps of AdamW and of LAMB,
// whose trust ratios are of whole tensors, on ranks that share copies alone and beside tensor and pipeline
// ranks (docs/sources/megascale.md §15, V4; there are no buckets here whose size could matter: a layer is
// one).
// ctest: label=full timeout=600
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "comm/threads/run_ranks.h"
#include "optim/optimizer.h"
#include "prove/prove_task.h"
#include "proved_models.h"
#include "train/step.h"

namespace longhaul::prove {
namespace {

constexpr int64_t kZeroSteps = 20;

struct TwentySteps {
  std::vector<double> losses;
  std::map<std::string, Tensor> parameters;  // whole, in fp64
};

TwentySteps after_steps(const recipe::ModelConfig& config, const recipe::OptimOptions& optim,
                        const recipe::ParallelOptions& parallel, const std::string& dtype) {
  const ProofLayout layout = proof_layout(parallel);
  TwentySteps all;
  std::mutex adding;
  comm::run_ranks(parallel.world(), [&](comm::Communicator& world) {
    parallel::Ranks ranks(world, arrangement_of(config, layout));
    ProofTask task(config, Precision::named(dtype), ranks, layout);
    const auto optimizer = optim::make_optimizer(optim, task.parameters(), task.precision(), kProofSeed);
    ranks.share_values(task.parameters());
    std::vector<double> losses;
    for (int64_t step = 1; step <= kZeroSteps; ++step) {
      losses.push_back(train::run_step(task, *optimizer, ranks, step,
                                       {.lr = 1e-2, .clip_norm = 1.0, .seed = kProofSeed, .router = {}})
                           .loss);
    }
    const std::scoped_lock lock(adding);
    if (world.rank() == 0) all.losses = losses;
    for (size_t p = 0; p < task.parameters().all().size(); ++p) {
      const model::Parameter& parameter = *task.parameters().all()[p];
      for (size_t i = 0; i < parameter.parts.size(); ++i) {
        const model::Part& part = parameter.parts[i];
        const std::string& name = part.spec.tensor.name;
        auto [whole, is_new] = all.parameters.try_emplace(name);
        if (is_new) whole->second = at::full(part.spec.tensor.global_shape, NAN, at::kDouble);
        if (part.own.empty()) continue;
        Tensor box = whole->second;
        for (size_t d = 0; d < part.own.length.size(); ++d)
          box = box.narrow(static_cast<int64_t>(d), part.own.offset[d], part.own.length[d]);
        box.copy_(parameter.own_part_of(optimizer->masters()[p], i));
      }
    }
  });
  return all;
}

void expect_equal_steps(const recipe::OptimOptions& optim, recipe::ParallelOptions parallel,
                        const std::string& dtype, double bound) {
  const recipe::ModelConfig config = made_small(hybrid(), parallel);
  parallel.zero = 0;
  const TwentySteps copies = after_steps(config, optim, parallel, dtype);
  EXPECT_LT(copies.losses.back(), 0.95 * copies.losses.front()) << "something is learnt";
  for (const int64_t zero : {1, 2, 3}) {
    parallel.zero = zero;
    const TwentySteps shares = after_steps(config, optim, parallel, dtype);
    SCOPED_TRACE(fmt::format("{} {}, zero {} of {} ranks, tp {}, pp {}", optim.name, dtype, zero,
                             parallel.world(), parallel.tp, parallel.pp));
    ASSERT_EQ(shares.parameters.size(), copies.parameters.size());
    for (const auto& [name, whole] : copies.parameters) {
      const double scale = whole.abs().max().item<double>();
      EXPECT_TRUE(scale > 0) << name << " was put together from all ranks, and is no number nowhere";
      EXPECT_LE((shares.parameters.at(name) - whole).abs().max().item<double>(), bound * scale) << name;
    }
    for (size_t step = 0; step < copies.losses.size(); ++step)
      EXPECT_NEAR(shares.losses[step], copies.losses[step], 10 * bound * copies.losses[step]) << step;
  }
}

// fp32: what two orders of a sum leave after twenty steps. ε is as large as in other proofs: an element whose
// gradient is nothing but rounding moves by the whole rate otherwise, in a direction that rounding decides.
TEST(ZeroSteps, TwentyOfEveryStageAreThoseOfWholeCopies) {
  for (const char* name : {"adamw", "lamb"}) {
    recipe::OptimOptions optim{.name = name, .eps = 1e-2};
    for (const recipe::ParallelOptions& each :
         std::vector<recipe::ParallelOptions>{{.ranks = 3}, {.ranks = 4, .tp = 2}, {.ranks = 4, .pp = 2}}) {
      expect_equal_steps(optim, each, "fp64", 1e-12);
      expect_equal_steps(optim, each, "fp32", 1e-6);
    }
  }
}

}  // namespace
}  // namespace longhaul::prove
