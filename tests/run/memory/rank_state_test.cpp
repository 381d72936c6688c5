// ctest: label=full timeout=300
// What the plan says a rank holds of weights, gradients and optimizer state at every stage of ZeRO, beside
// what ranks have made, and what comes and goes in a step beside the allocator's peaks.
#include "plan/memory/state_bytes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/files/temporary_folder.h"
#include "comm/threads/run_ranks.h"
#include "model/decoder.h"
#include "run/language_run.h"
#include "run/rank_table.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::run {
namespace {

recipe::ModelConfig config() {
  recipe::ModelConfig model;
  model.layers = 4;
  model.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kSoftmax};
  model.hidden = 128;
  model.heads = model.softmax.kv_heads = 4;
  model.head_dim = 32;
  model.intermediate = 96;
  model.vocabulary = 700;
  model.experts = 4;
  model.experts_per_token = 2;
  return model;
}

struct Layout {
  int64_t world;
  layout::MeshShape shape;
};

// Shares differ by a row of every layer from even ones, and arenas are padded: 2 % of these sizes.
TEST(RankState, IsWhatRanksHold) {
  for (const Layout& each : {Layout{2, {}}, Layout{4, {}}, Layout{4, {.tp = 2}}, Layout{4, {.ep = 2}},
                             Layout{4, {.pp = 2}}, Layout{2, {.cp = 2}}}) {
    for (const char* optimizer : {"adamw", "came", "adafactor", "lion", "muon"}) {
      for (int64_t zero = 0; zero <= 3; ++zero) {
        const parallel::Arrangement arrangement{.mesh = {each.world, each.shape}, .zero = zero};
        comm::run_ranks(each.world, [&](comm::Communicator& world) {
          parallel::Ranks ranks(world, arrangement);
          model::Decoder decoder(config(), Precision::named("bf16"), at::kCPU, model::Use::kTraining,
                                 ranks.place());
          const auto made =
              optim::make_optimizer({.name = optimizer}, decoder.parameters(), Precision::named("bf16"));
          const Holding held = holding_of(decoder.parameters(), *made);
          const plan::RankState planned =
              plan::rank_state(config(), recipe::Dtype::kBf16, {.name = optimizer}, ranks.place());
          // Masters of what is kept wide are the values themselves, which the table counts with the
          // optimizer's state too.
          double shared = 0;
          for (const auto& parameter : decoder.parameters().all()) {
            if (parameter->own_value.scalar_type() == at::kFloat)
              shared += 4 * static_cast<double>(parameter->own.length);
          }
          const auto near = [&](double plan, double counted, const char* what) {
            EXPECT_NEAR(counted, plan, 0.02 * plan)
                << what << ", " << arrangement.mesh.text() << ", zero " << zero << ", " << optimizer;
          };
          near(planned.weights, static_cast<double>(held.weights), "weights");
          near(planned.gradients, static_cast<double>(held.gradients), "gradients");
          near(planned.optimizer, static_cast<double>(held.optimizer) - shared, "optimizer");
        });
      }
    }
  }
}

// All ranks are threads of this process, so what its allocator counts is the sum of theirs: masters, states,
// narrow ones and an outer loop's.
TEST(RankState, OptimizersOfAllRanksTakeWhatIsPlanned) {
  install_cpu_allocator();
  recipe::ModelConfig model = config();
  // a row more or less of a layer is no percent
  model.hidden = 256, model.vocabulary = 1400, model.intermediate = 192;
  const auto named = [](const char* name) { return recipe::OptimOptions{.name = name}; };
  recipe::OptimOptions grouped = named("came"), narrow = named("adamw");
  grouped.groups = {{.tensors = {recipe::Role::kEmbedding, recipe::Role::kHead}, .name = "adamw"},
                    {.tensors = {recipe::Role::kExpertDown}, .name = "adafactor"}};
  narrow.state_dtype = recipe::StateDtype::kInt8;
  narrow.state_block = 64;
  const std::vector<std::pair<const char*, recipe::OptimOptions>> all = {{"adamw", named("adamw")},
                                                                         {"came", named("came")},
                                                                         {"muon", named("muon")},
                                                                         {"groups", grouped},
                                                                         {"8 bits", narrow}};
  for (const Layout& each :
       {Layout{2, {}}, Layout{4, {.tp = 2}}, Layout{4, {.ep = 2}}, Layout{4, {.pp = 2}}}) {
    for (const auto& [name, options] : all) {
      for (const int64_t zero : {0, 1, 3}) {
        const parallel::Arrangement arrangement{.mesh = {each.world, each.shape}, .zero = zero};
        const int64_t before = memory_statistics().of(MemoryPurpose::kOptimizer).bytes;
        double planned = 0, counted = 0;
        for (int64_t rank = 0; rank < each.world; ++rank) {
          planned += plan::rank_state(model, recipe::Dtype::kBf16, options,
                                      {.mesh = arrangement.mesh, .rank = rank, .zero = zero})
                         .optimizer;
        }
        comm::run_ranks(each.world, [&](comm::Communicator& world) {
          parallel::Ranks ranks(world, arrangement);
          model::Decoder decoder(model, Precision::named("bf16"), at::kCPU, model::Use::kTraining,
                                 ranks.place());
          const auto made = optim::make_optimizer(options, decoder.parameters(), Precision::named("bf16"));
          world.barrier({.name = "all hold theirs"}).wait();
          if (world.rank() == 0)
            counted = static_cast<double>(memory_statistics().of(MemoryPurpose::kOptimizer).bytes - before);
          world.barrier({.name = "it was counted"}).wait();
        });
        EXPECT_NEAR(counted, planned, 0.01 * planned)
            << name << ", " << arrangement.mesh.text() << ", zero " << zero;
      }
    }
  }
}

// Two replicas are threads of this process: the peak of a purpose is that of both. They do not come to their
// fullest moments together, so the sum of both plans is a bound, and no loose one.
TEST(RankState, BoundsWhatAStepTakes) {
  install_cpu_allocator();
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "text");
  std::ofstream file(folder / "text" / "some.txt");
  for (int i = 0; i < 4000; ++i) file << "line " << i * 7 << " of a file\n";
  file.close();
  for (int64_t zero = 0; zero <= 3; ++zero) {
    const auto request =
        RunRequest{.recipe = recipe::load_defaults({"model.layers=4",
                                                    "model.mixers=lightning,softmax",
                                                    "model.hidden=128",
                                                    "model.heads=4",
                                                    "model.kv_heads=4",
                                                    "model.head_dim=32",
                                                    "model.rotary_dim=16",
                                                    "model.intermediate=96",
                                                    "model.vocabulary=700",
                                                    "model.experts=4",
                                                    "model.experts_per_token=2",
                                                    "data.tokenizer=bytes",
                                                    "data.source=" + (folder / "text").string(),
                                                    "data.cache=" + (folder / "cache").string(),
                                                    "train.dtype=bf16",
                                                    "train.batch=4",
                                                    "train.micro_batch=1",
                                                    "train.sequence=64",
                                                    "train.steps=2",
                                                    "train.checkpoint_every=0",
                                                    "train.evaluate_every=0",
                                                    "train.threads=2",
                                                    "sample.tokens=0",
                                                    "observe.compression_baseline=false",
                                                    "observe.tensorboard=false",
                                                    "observe.report=false",
                                                    "parallel.ranks=2",
                                                    "parallel.zero=" + std::to_string(zero)}),
                   .run_folder = folder / ("zero" + std::to_string(zero)),
                   .quiet = true};
    const MemoryStatistics before = memory_statistics();
    std::thread([&] { run_training(request); }).join();
    const MemoryStatistics after = memory_statistics();
    double weights = 0, gradients = 0, optimizer = 0;
    const recipe::Recipe& recipe = request.recipe.recipe;
    for (int64_t rank = 0; rank < 2; ++rank) {
      const auto planned = plan::rank_state(recipe.model, recipe.train.dtype, {},
                                            {.mesh = {2, {}}, .rank = rank, .zero = zero});
      weights += planned.weights + planned.passing_weights;
      gradients += planned.gradients + planned.passing_gradients;
      optimizer += planned.optimizer;
    }
    const auto check = [&](MemoryPurpose purpose, double planned, double least) {
      const auto peak = static_cast<double>(after.of(purpose).peak - before.of(purpose).bytes);
      EXPECT_LE(peak, 1.05 * planned) << name_of(purpose) << ", zero " << zero;
      EXPECT_GE(peak, least * planned) << name_of(purpose) << ", zero " << zero;
    };
    check(MemoryPurpose::kParameters, weights, zero == 3 ? 0.6 : 0.95);
    check(MemoryPurpose::kGradients, gradients, zero >= 2 ? 0.6 : 0.95);
    check(MemoryPurpose::kOptimizer, optimizer, 0.95);
  }
}

}  // namespace
}  // namespace longhaul::run
