#include "bench/models/elastic.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "bench/models/random_tokens.h"
#include "comm/threads/run_ranks.h"
#include "optim/optimizer.h"
#include "recipe/load.h"
#include "tensor/cpu_allocator.h"
#include "train/step.h"

namespace longhaul::bench {
namespace {

// One of the two on one rank.
struct ElasticRun {
  ElasticRun(const ElasticRequest& request, const recipe::Recipe& recipe, comm::Communicator& world,
             bool elastic)
      : ranks(world, {.mesh = {world.size(), {}}, .elastic = elastic}),
        task({request.batch, request.micro_batch, request.sequence, request.dtype}, recipe.model, ranks),
        optimizer(optim::make_optimizer(recipe.optim, task.parameters(), task.precision())) {}
  parallel::Ranks ranks;
  RandomTokens task;
  std::unique_ptr<optim::Optimizer> optimizer;
  int64_t held = 0;  // bytes of all ranks' state
  std::vector<double> milliseconds, numbers;
  int64_t most = 0;  // bytes beside it
};

void wait_for_all(comm::Communicator& world) { world.barrier({.name = "turn"}).wait(); }

int64_t bytes_in_use() { return memory_statistics().total.bytes; }

// A step while the other one waits.
void take_turn(ElasticRun& trained, comm::Communicator& world, int64_t step) {
  wait_for_all(world);
  const int64_t before = bytes_in_use();
  if (world.rank() == 0) reset_memory_peaks();
  wait_for_all(world);
  const Stopwatch watch;
  const train::StepResult result =
      train::run_step(trained.task, *trained.optimizer, trained.ranks, step, {.lr = 1e-4, .clip_norm = 1.0});
  wait_for_all(world);
  if (step > 1) trained.milliseconds.push_back(watch.milliseconds());
  trained.numbers.insert(trained.numbers.end(), {result.loss, result.gradient_norm});
  if (world.rank() == 0) trained.most = std::max(trained.most, memory_statistics().total.peak - before);
  wait_for_all(world);
}

std::unique_ptr<ElasticRun> made(const ElasticRequest& request, const recipe::Recipe& recipe,
                                 comm::Communicator& world, bool elastic) {
  wait_for_all(world);
  const int64_t before = bytes_in_use();
  wait_for_all(world);
  auto trained = std::make_unique<ElasticRun>(request, recipe, world, elastic);
  wait_for_all(world);
  trained->held = bytes_in_use() - before;
  wait_for_all(world);
  return trained;
}

ElasticSide side_of(ElasticRun& trained) {
  std::ranges::sort(trained.milliseconds);
  return {trained.milliseconds[trained.milliseconds.size() / 2], trained.held + trained.most};
}

}  // namespace

std::vector<ElasticRow> measure_elastic(const ElasticRequest& request) {
  constexpr int64_t kMostRanks = 4;
  if (request.batch % (request.micro_batch * kMostRanks) != 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the sequences of a step cannot be dealt out to 4 ranks",
                 .expected = fmt::format("a multiple of {}", request.micro_batch * kMostRanks),
                 .found = std::to_string(request.batch),
                 .where = "--batch",
                 .hint = fmt::format("--batch {}", request.micro_batch * kMostRanks)});
  }
  const recipe::Recipe recipe =
      recipe::load_defaults({"model.preset=" + request.preset, "train.dtype=" + request.dtype}).recipe;
  std::vector<ElasticRow> rows;
  Progress progress("steps", 6 * (request.steps + 1));
  for (int64_t count = 1; count <= kMostRanks; count *= 2) {
    ElasticRow row{.ranks = count, .tokens = static_cast<double>(request.batch * request.sequence)};
    comm::run_ranks(count, [&](comm::Communicator& world) {
      const auto usual = made(request, recipe, world, false), elastic = made(request, recipe, world, true);
      for (int64_t step = 1; step <= request.steps + 1; ++step) {
        for (ElasticRun* each : {usual.get(), elastic.get()}) {
          take_turn(*each, world, step);
          if (world.rank() == 0) progress.advance(1);
        }
      }
      if (world.rank() != 0) return;
      row.usual = side_of(*usual);
      row.elastic = side_of(*elastic);
      row.numbers = elastic->numbers;
    });
    rows.push_back(row);
  }
  return rows;
}

bool same_bits(const std::vector<ElasticRow>& rows) {
  return std::ranges::all_of(rows,
                             [&](const ElasticRow& row) { return row.numbers == rows.front().numbers; });
}

nlohmann::ordered_json to_json(const ElasticRequest& request, const ElasticRow& row) {
  const auto of = [&](const ElasticSide& side) {
    return nlohmann::ordered_json{{"milliseconds", side.milliseconds},
                                  {"tokens_per_second", row.rate(side)},
                                  {"peak_bytes", side.peak_bytes}};
  };
  return {{"name", "elastic"},
          {"preset", request.preset},
          {"dtype", request.dtype},
          {"ranks", row.ranks},
          {"micro_batches", request.batch / request.micro_batch},
          {"usual", of(row.usual)},
          {"elastic", of(row.elastic)},
          {"speed", row.rate(row.elastic) / row.rate(row.usual)},
          {"memory", static_cast<double>(row.elastic.peak_bytes) / static_cast<double>(row.usual.peak_bytes)},
          {"loss", row.numbers[row.numbers.size() - 2]}};
}

observe::Table table_of(const ElasticRequest& request, const std::vector<ElasticRow>& rows) {
  using observe::Align;
  observe::Table table(
      fmt::format("{} {}, {} micro-batches of {} × {} tokens a step", request.preset, request.dtype,
                  request.batch / request.micro_batch, request.micro_batch, request.sequence),
      {{"ranks"},
       {"tokens/s", Align::kRight},
       {"elastic", Align::kRight},
       {"speed", Align::kRight},
       {"peak memory", Align::kRight},
       {"elastic", Align::kRight},
       {"memory", Align::kRight},
       {"last elastic loss", Align::kRight}});
  for (const ElasticRow& row : rows) {
    table.row({std::to_string(row.ranks), fmt::format("{:.0f}", row.rate(row.usual)),
               fmt::format("{:.0f}", row.rate(row.elastic)),
               fmt::format("{:.2f}", row.rate(row.elastic) / row.rate(row.usual)),
               bytes_text(row.usual.peak_bytes), bytes_text(row.elastic.peak_bytes),
               fmt::format("{:.2f}", static_cast<double>(row.elastic.peak_bytes) /
                                         static_cast<double>(row.usual.peak_bytes)),
               fmt::format("{:.17g}", row.numbers[row.numbers.size() - 2])});
  }
  return table;
}

}  // namespace longhaul::bench
