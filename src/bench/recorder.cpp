// What a rank pays for telling where it is (observe/board/rank_board.h): a phase, and a call of a
// communicator with its record, each with a board and without, checked by reading back what was written; then
// whole steps of a small model on two ranks, with boards (phases, flight recorder, the thread that beats) and
// with nothing of the kind, in turns: ratios of neighbouring steps, and the quartiles between which half of
// them lie.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/memory/shared_memory.h"
#include "base/statistics.h"
#include "bench/benchmark.h"
#include "bench/models/random_tokens.h"
#include "bench/register.h"
#include "comm/single.h"
#include "comm/threads/run_ranks.h"
#include "comm/wrappers/traced.h"
#include "observe/trace/spans.h"
#include "optim/optimizer.h"
#include "recipe/load.h"
#include "train/step.h"

namespace longhaul::bench {
namespace {

constexpr int kTimes = 1000;

Result result_of(const std::string& what, const std::function<void()>& work, bool right) {
  Result result{.name = "recorder", .shape = what, .dtype = "", .error = right ? -1.0 : 1.0};
  const Timing time = time_of([&] {
    for (int i = 0; i < kTimes; ++i) work();
  });
  result.passes.push_back({.name = "", .time = time});
  result.figures.emplace_back("nanoseconds_each", time.median * 1e6 / kTimes);
  return result;
}

void bench_with(observe::BoardWriter& board, const observe::BoardReader* reader, Results& into) {
  const std::string with = reader != nullptr ? "with a board" : "without a board";
  observe::SpanRecorder spans;
  spans.show_on(board);
  const auto phase = [&] { const observe::SpanScope scope(spans, observe::SpanKind::kForward, 0, 1); };
  phase();
  into.push_back(result_of("phase, " + with, phase, reader == nullptr || reader->progress().micro_step == 1));

  const auto alone = std::make_shared<comm::Single>();
  const auto log = std::make_shared<comm::CallLog>(0, 256);
  comm::Traced traced(comm::borrowed(*alone), log);
  log->show_on(board);
  const Tensor numbers = at::ones({4});
  const auto call = [&] { traced.all_reduce(numbers, comm::Reduction::kSum, {"numbers"}).wait(); };
  call();
  into.push_back(result_of("call of a group of one, " + with, call,
                           reader == nullptr || reader->calls().calls.back().name == "numbers"));
}

// One rank's model; with a board, or without calls and phases being noted anywhere.
struct Stepping {
  Stepping(comm::Communicator& world, const recipe::Recipe& recipe, observe::BoardWriter* board)
      : log(std::make_shared<comm::CallLog>(world.rank(), 2048)), traced(comm::borrowed(world), log) {
    comm::Communicator& group = board != nullptr ? static_cast<comm::Communicator&>(traced) : world;
    ranks.emplace(group, parallel::Arrangement{.mesh = {world.size(), {}}});
    task.emplace(RandomTokensRequest{.batch = 4, .micro_batch = 1, .sequence = 128}, recipe.model, *ranks);
    task->parameters().initialise(1);
    optimizer = optim::make_optimizer(recipe.optim, task->parameters(), task->precision());
    if (board == nullptr) return;
    ranks->spans()->show_on(*board);
    log->show_on(*board);
  }
  double milliseconds(comm::Communicator& world, int64_t step) {
    world.barrier({.name = "turn"}).wait();
    const Stopwatch watch;
    train::run_step(*task, *optimizer, *ranks, step, {.lr = 1e-4, .clip_norm = 1});
    ranks->spans()->board().step_ended({.step = step, .seconds = watch.seconds()});
    world.barrier({.name = "turn"}).wait();
    return watch.milliseconds();
  }
  std::shared_ptr<comm::CallLog> log;
  comm::Traced traced;
  std::optional<parallel::Ranks> ranks;
  std::optional<RandomTokens> task;
  std::unique_ptr<optim::Optimizer> optimizer;
};

void bench_steps(const std::filesystem::path& folder, Results& into) {
  constexpr int64_t kPairs = 60;
  const recipe::Recipe recipe =
      recipe::load_defaults({"model.preset=first-run", "model.layers=2", "train.dtype=bf16"}).recipe;
  std::vector<double> ratios, with, without;
  int64_t told = -1;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const std::filesystem::path file = folder / fmt::format("steps-{}", world.rank());
    observe::BoardWriter board(file, {.rank = world.rank()});
    board.enter(observe::RankPhase::kIdle);
    // A world for each: calls past a wrapper would be counted twice.
    const auto worlds =
        world.split({{.name = "noted", .groups = {{0, 1}}}, {.name = "plain", .groups = {{0, 1}}}});
    Stepping noted(*worlds[0], recipe, &board), plain(*worlds[1], recipe, nullptr);
    for (int64_t pair = 0; pair <= kPairs; ++pair) {
      const bool first = pair % 2 == 0;
      double times[2];
      for (const bool is_noted : {first, !first})
        times[is_noted ? 1 : 0] = (is_noted ? noted : plain).milliseconds(world, pair + 1);
      if (pair == 0 || world.rank() != 0) continue;  // memory is taken
      without.push_back(times[0]);
      with.push_back(times[1]);
      ratios.push_back(times[1] / times[0]);
    }
    if (world.rank() == 0) told = observe::BoardReader::open(file)->progress().step;
  });
  std::ranges::sort(ratios);
  std::ranges::sort(with);
  Result result{.name = "recorder",
                .shape = "steps of 2 ranks, with boards over without",
                .dtype = "bf16",
                .error = told == kPairs + 1 ? -1.0 : 1.0};
  result.passes.push_back(
      {.name = "", .time = {median(with), with.front(), with.back(), static_cast<int64_t>(with.size())}});
  const auto at = [&](double share) {
    return ratios[static_cast<size_t>(share * static_cast<double>(ratios.size() - 1))];
  };
  result.figures = {{"without_milliseconds", median(without)},
                    {"ratio", at(0.5)},
                    {"ratio_quarter", at(0.25)},
                    {"ratio_three_quarters", at(0.75)}};
  into.push_back(std::move(result));
}

}  // namespace

void bench_recorder(const Request&, Results& into) {
  observe::BoardWriter none;
  bench_with(none, nullptr, into);
  const std::filesystem::path folder = shared_memory_folder("bench-recorder");
  observe::BoardWriter board(folder / "board", {});
  const auto reader = observe::BoardReader::open(folder / "board");
  bench_with(board, &*reader, into);
  bench_steps(folder, into);
  std::filesystem::remove_all(folder);
}

}  // namespace longhaul::bench
