#include "bench/models/outer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/progress.h"
#include "base/statistics.h"
#include "bench/models/outer_processes.h"
#include "bench/models/random_tokens.h"
#include "comm/threads/run_ranks.h"
#include "comm/wrappers/delayed.h"
#include "optim/outer/outer.h"
#include "recipe/load.h"
#include "train/step.h"

namespace longhaul::bench {
namespace {

constexpr double kLr = 1e-4;
constexpr int64_t kEndless = 1 << 30;  // steps that are left of the run
constexpr int64_t kSynchronous = -1;   // instead of a round's steps: no outer loop

recipe::ModelConfig config_of(const OuterRequest& request) {
  recipe::ModelConfig config;
  config.layers = request.layers;
  config.hidden = request.hidden;
  config.vocabulary = request.vocabulary;
  config.heads = config.softmax.kv_heads = 4;
  config.head_dim = request.hidden / 4;
  config.intermediate = 4 * request.hidden;
  config.mixers = {recipe::Mixer::kLightning};
  return config;
}

// A wrapper counts the calls: each has a group of its own.
std::shared_ptr<comm::Communicator> own_world(comm::Communicator& threads) {
  layout::GroupKind all{.name = "side",
                        .groups = {std::vector<int64_t>(static_cast<size_t>(threads.size()))}};
  std::iota(all.groups[0].begin(), all.groups[0].end(), int64_t{0});
  return std::move(threads.split({all}, {.name = "side"})[0]);
}

// One of the four on one rank.
class Side {
 public:
  // every: of CO2's rounds, 0: it is to choose; or kSynchronous: steps of all ranks.
  Side(const OuterRequest& request, comm::Communicator& threads, bool slow, int64_t every)
      : world_(own_world(threads), std::make_shared<comm::Link>(comm::LinkOptions{
                                       .bytes_per_second = slow ? request.bytes_per_second : 0})),
        ranks_(world_, every < 0 ? parallel::Arrangement{.mesh = {threads.size(), {}}}
                                 : parallel::Arrangement{.mesh = {1, {}}, .workers = threads.size()}),
        task_({request.batch * threads.size(), request.batch, request.sequence, request.dtype},
              config_of(request), ranks_),
        optimizer_(optim::make_optimizer({}, task_.parameters(), task_.precision())) {
    if (every < 0) return;
    loop_ = std::make_unique<optim::OuterLoop>(
        recipe::OuterOptions{.method = recipe::Outer::kCo2, .every = every}, *optimizer_, task_.parameters(),
        ranks_);
  }

  std::optional<optim::OuterRound> step() {
    const Stopwatch watch;
    const train::StepResult result =
        train::run_step(task_, *optimizer_, ranks_, ++steps_, {.lr = kLr, .clip_norm = 1.0});
    if (!loop_) return std::nullopt;
    return loop_->after_step({.lr = kLr, .loss = result.loss, .seconds = watch.seconds(), .left = kEndless});
  }
  optim::OuterRound round() {
    for (;;) {
      if (const auto ended = step()) return *ended;
    }
  }
  optim::OuterLoop& loop() { return *loop_; }
  model::ParameterSet& parameters() { return task_.parameters(); }

 private:
  comm::Delayed world_;
  parallel::Ranks ranks_;
  RandomTokens task_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::OuterLoop> loop_;
  int64_t steps_ = 0;
};

void meet_workers(comm::Communicator& world) { world.barrier({.name = "turn"}).wait(); }

struct Turn {
  double seconds = 0, waited_s = 0;
};

// Rounds behind one that is not timed; what is on its way then ends before another side's turn.
Turn rounds_of(Side& side, comm::Communicator& world, int64_t rounds) {
  side.round();
  meet_workers(world);
  Turn turn;
  const Stopwatch watch;
  for (int64_t r = 0; r < rounds; ++r) turn.waited_s += side.round().waited_s;
  meet_workers(world);
  turn.seconds = watch.seconds();
  side.loop().settle();
  meet_workers(world);
  return turn;
}

Turn steps_of(Side& side, comm::Communicator& world, int64_t steps) {
  meet_workers(world);
  const Stopwatch watch;
  for (int64_t s = 0; s < steps; ++s) side.step();
  meet_workers(world);
  return {.seconds = watch.seconds()};
}

bool same_on_all(const model::ParameterSet& parameters, comm::Communicator& world) {
  uint64_t hash = 0;
  for (const auto& parameter : parameters.all()) {
    const Tensor& value = parameter->value;
    const std::string bytes(static_cast<const char*>(value.const_data_ptr()),
                            static_cast<size_t>(value.nbytes()));
    hash = hash * 31 + xxh3(bytes);
  }
  const Tensor all = at::empty({world.size()}, at::kLong);
  world.all_gather(at::full({1}, static_cast<int64_t>(hash), at::kLong), all, {"weights"}).wait();
  return all.eq(all[0]).all().item<bool>();
}

struct Rates {
  std::vector<double> co2, co2_free, adamw, adamw_free, kept, adamw_kept;
  double waited_s = 0, seconds = 0;
};

// What a row says of turns.
void tell(const Rates& rates, OuterRow& row) {
  row.co2 = median(rates.co2), row.co2_free = median(rates.co2_free), row.adamw = median(rates.adamw);
  row.adamw_free = median(rates.adamw_free), row.kept = median(rates.kept),
  row.adamw_kept = median(rates.adamw_kept);
  row.waited = rates.waited_s / rates.seconds;
}

// Nothing leaves one worker: what a turn over a slow link keeps of one over a free link is how far equal
// turns differ.
OuterRow row_of_one(const OuterRequest& request, comm::Communicator& world,
                    const std::function<void()>& turn_done) {
  OuterRow row{.workers = 1,
               .parameters = layout::parameter_count(config_of(request)),
               .reason = "one worker has nobody to meet"};
  Side slow(request, world, true, kSynchronous), free(request, world, false, kSynchronous);
  for (Side* side : {&slow, &free}) side->step();
  const double tokens = static_cast<double>(request.batch * request.sequence * request.steps);
  Rates rates;
  for (int64_t turn = 0; turn < request.turns; ++turn) {
    const Turn on_slow = steps_of(slow, world, request.steps), on_free = steps_of(free, world, request.steps);
    for (auto* each : {&rates.co2, &rates.adamw}) each->push_back(tokens / on_slow.seconds);
    for (auto* each : {&rates.co2_free, &rates.adamw_free}) each->push_back(tokens / on_free.seconds);
    for (auto* each : {&rates.kept, &rates.adamw_kept}) each->push_back(on_free.seconds / on_slow.seconds);
    rates.seconds += on_slow.seconds;
    row.step_s = on_free.seconds / static_cast<double>(request.steps);
    turn_done();
  }
  tell(rates, row);
  row.same_weights = true;
  return row;
}

OuterRow row_of_several(const OuterRequest& request, comm::Communicator& world,
                        const std::function<void()>& turn_done) {
  OuterRow row{.workers = world.size()};
  Side slow(request, world, true, 0);
  const auto choice = slow.round().choice;
  row.every = choice->every, row.reason = choice->reason, row.step_s = choice->step_s,
  row.exchange_s = choice->exchange_s;
  Side free(request, world, false, row.every), adamw(request, world, true, kSynchronous),
      adamw_free(request, world, false, kSynchronous);
  row.parameters = layout::parameter_count(config_of(request));
  for (Side* side : {&free, &adamw, &adamw_free}) side->step();  // what is made at the first use
  free.round();
  const double tokens = static_cast<double>(request.batch * world.size() * request.sequence);
  const double of_rounds = tokens * static_cast<double>(request.rounds * row.every),
               of_steps = tokens * static_cast<double>(request.steps);
  Rates rates;
  for (int64_t turn = 0; turn < request.turns; ++turn) {
    const Turn on_slow = rounds_of(slow, world, request.rounds),
               on_free = rounds_of(free, world, request.rounds);
    const Turn adamw_slow = steps_of(adamw, world, request.steps),
               adamw_on_free = steps_of(adamw_free, world, request.steps);
    rates.co2.push_back(of_rounds / on_slow.seconds), rates.co2_free.push_back(of_rounds / on_free.seconds);
    rates.adamw.push_back(of_steps / adamw_slow.seconds),
        rates.adamw_free.push_back(of_steps / adamw_on_free.seconds);
    rates.kept.push_back(on_free.seconds / on_slow.seconds),
        rates.adamw_kept.push_back(adamw_on_free.seconds / adamw_slow.seconds);
    rates.waited_s += on_slow.waited_s, rates.seconds += on_slow.seconds;
    if (world.rank() == 0) turn_done();
  }
  tell(rates, row);
  row.same_weights = same_on_all(slow.parameters(), world) && same_on_all(free.parameters(), world);
  return row;
}

OuterRow one_call(const OuterRequest& request, int64_t workers, Progress& progress) {
  if (request.processes) {
    OuterRow row = measure_outer_in_processes(request, workers);
    progress.advance(request.turns);
    return row;
  }
  OuterRow row;
  comm::run_ranks(workers, [&](comm::Communicator& world) {
    const OuterRow of_rank = measure_outer_on(request, world, [&] { progress.advance(1); });
    if (world.rank() == 0) row = of_rank;
  });
  return row;
}

}  // namespace

OuterRow measure_outer_on(const OuterRequest& request, comm::Communicator& world,
                          const std::function<void()>& turn_done) {
  return world.size() == 1 ? row_of_one(request, world, turn_done)
                           : row_of_several(request, world, turn_done);
}

std::vector<OuterRow> measure_outer(const OuterRequest& request) {
  std::vector<OuterRow> rows;
  Progress progress("turns", request.calls * request.turns * static_cast<int64_t>(request.workers.size()));
  for (const int64_t workers : request.workers) {
    std::vector<OuterRow> calls;
    for (int64_t call = 0; call < request.calls; ++call)
      calls.push_back(one_call(request, workers, progress));
    std::ranges::sort(calls, {}, &OuterRow::kept);
    OuterRow row = calls[calls.size() / 2];
    row.same_weights = std::ranges::all_of(calls, &OuterRow::same_weights);
    for (const OuterRow& call : calls) {
      row.kept_of_calls.push_back(call.kept);
      row.adamw_kept_of_calls.push_back(call.adamw_kept);
    }
    std::ranges::sort(row.adamw_kept_of_calls);
    rows.push_back(std::move(row));
  }
  return rows;
}

nlohmann::ordered_json to_json(const OuterRequest& request, const OuterRow& row) {
  return {
      {"name", "outer"},
      {"workers", row.workers},
      {"processes", request.processes},
      {"bytes_per_second", request.bytes_per_second},
      {"parameters", row.parameters},
      {"tokens_per_step", request.batch * row.workers * request.sequence},
      {"dtype", request.dtype},
      {"every", row.every},
      {"reason", row.reason},
      {"step_s", row.step_s},
      {"exchange_s", row.exchange_s},
      {"tokens_per_second",
       {{"co2", row.co2}, {"co2_free", row.co2_free}, {"adamw", row.adamw}, {"adamw_free", row.adamw_free}}},
      {"kept", row.kept},
      {"adamw_kept", row.adamw_kept},
      {"kept_of_calls", row.kept_of_calls},
      {"adamw_kept_of_calls", row.adamw_kept_of_calls},
      {"waited", row.waited},
      {"same_weights", row.same_weights}};
}

namespace {

// And, of several calls, from which to which.
std::string kept_text(double kept, const std::vector<double>& of_calls) {
  if (of_calls.size() < 2) return fmt::format("{:.2f}", kept);
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", median(of_calls), of_calls.front(), of_calls.back());
}

}  // namespace

observe::Table table_of(const OuterRequest& request, const std::vector<OuterRow>& rows) {
  using observe::Align;
  observe::Table table(fmt::format("tokens/s over links of {:.0f} MB/s a worker, and free ones",
                                   request.bytes_per_second / 1e6),
                       {{"workers"},
                        {"steps a round", Align::kRight},
                        {"co2", Align::kRight},
                        {"free", Align::kRight},
                        {"kept", Align::kRight},
                        {"waited", Align::kRight},
                        {"adamw", Align::kRight},
                        {"free", Align::kRight},
                        {"kept", Align::kRight},
                        {"weights"}});
  for (const OuterRow& row : rows) {
    table.row({std::to_string(row.workers), row.every > 0 ? std::to_string(row.every) : "-",
               fmt::format("{:.0f}", row.co2), fmt::format("{:.0f}", row.co2_free),
               kept_text(row.kept, row.kept_of_calls), fmt::format("{:.1f}%", 100 * row.waited),
               fmt::format("{:.0f}", row.adamw), fmt::format("{:.0f}", row.adamw_free),
               kept_text(row.adamw_kept, row.adamw_kept_of_calls), row.same_weights ? "equal" : "DIFFER"});
  }
  return table;
}

}  // namespace longhaul::bench
