// What `bench quality` compares.
#include <fmt/format.h>

#include <algorithm>

#include "bench/models/quality.h"

namespace longhaul::bench {
namespace {

constexpr int64_t kWorkers = 4, kRound = 12;  // steps of a round, but in the part that changes it

// Four rates, each twice the one before. Where rates are from: docs/guides/optimizers.md beside AdamW's,
// which such models like at some thousandths.
std::vector<double> grid_from(double first) { return {first, 2 * first, 4 * first, 8 * first}; }

const Overrides kAdamw = {"optim.name=adamw", "optim.beta2=0.95", "optim.weight_decay=0.1"};
const Overrides kLamb = {"optim.name=lamb", "optim.beta2=0.95", "optim.eps=1e-6", "optim.weight_decay=0.1"};
const Overrides kCame = {"optim.name=came", "optim.beta2=0.95", "optim.beta3=0.995",
                         "optim.weight_decay=0.1"};
const Overrides kAdafactor = {"optim.name=adafactor", "optim.relative_step=false",
                              "optim.scale_by_weights=false", "optim.weight_decay=0.1"};

Overrides with(Overrides some, const Overrides& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

Overrides of_steps(int64_t steps) {
  return {fmt::format("train.steps={}", steps), fmt::format("train.evaluate_every={}", steps),
          fmt::format("optim.warmup_steps={}", std::max<int64_t>(1, steps / 20))};
}

// Four times the sequences in a step, a quarter of the steps.
Overrides large_batch(int64_t steps) {
  return with(of_steps(std::max<int64_t>(1, steps / 4)), {"train.batch=32"});
}

Overrides workers(const std::string& method, int64_t every, const Overrides& more = {}) {
  return with(with(kAdamw, {fmt::format("optim.outer={}", method), fmt::format("optim.outer_every={}", every),
                            fmt::format("parallel.ranks={}", kWorkers), "train.micro_batch=2"}),
              more);
}

QualityPart outer_loops() {
  const Overrides free = {"optim.outer_guard=false"},
                  constant = {"optim.outer_guard=false", "optim.outer_gap=constant"};
  const auto row = [](const char* label, const Overrides& overrides) {
    return QualityRow{label, "adamw", overrides};
  };
  return {"outer",
          fmt::format("{} workers that meet every {} steps, beside synchronous training", kWorkers, kRound),
          {row("adamw, synchronous", kAdamw), row("local_sgd", workers("local_sgd", kRound)),
           row("slowmo", workers("slowmo", kRound)), row("diloco", workers("diloco", kRound)),
           row("co2", workers("co2", kRound)), row("co2 without guard", workers("co2", kRound, free)),
           row("co2 without guard, penalty", workers("co2", kRound, constant)),
           row("co2 without guard, clip", workers("co2", kRound, with(free, {"optim.outer_clip=0"}))),
           row("co2 without guard, penalty, clip",
               workers("co2", kRound, with(constant, {"optim.outer_clip=0"}))),
           row("co2 without momentum", workers("co2", kRound, {"optim.outer_momentum=0"})),
           row("delay_corrected", workers("delay_corrected", kRound)),
           row("streaming", workers("streaming", kRound))}};
}

QualityPart rounds() {
  QualityPart part{"rounds",
                   fmt::format("{} workers, rounds of more and more steps", kWorkers),
                   {{"adamw, synchronous", "adamw", kAdamw}}};
  for (const char* method : {"local_sgd", "co2", "delay_corrected"}) {
    for (const int64_t every : {1, 3, 6, 12, 24, 48})
      part.rows.push_back({fmt::format("{}, {}", method, every), "adamw", workers(method, every)});
  }
  return part;
}

QualityPart narrow_states(int64_t steps) {
  QualityPart part{
      "states", "optimizer states in fewer bytes, over 1,000 steps where the others have 600", {}};
  for (const auto& [name, overrides] : {std::pair("adamw", kAdamw), {"came", kCame}}) {
    for (const char* dtype : {"float32", "bfloat16", "int8"}) {
      part.rows.push_back(
          {fmt::format("{}, {}", name, dtype), name,
           with(overrides, with(of_steps(steps * 5 / 3), {fmt::format("optim.state_dtype={}", dtype)}))});
    }
  }
  return part;
}

QualityPart came_start(int64_t steps) {
  const auto row = [&](const char* label, const char* beta3, int64_t warmup) {
    return QualityRow{
        label, "came",
        with(kCame, {fmt::format("optim.beta3={}", beta3), fmt::format("optim.warmup_steps={}", warmup)})};
  };
  QualityRow corrected = row("beta3 0.9999, no warm-up, corrected", "0.9999", 0);
  corrected.overrides.emplace_back("optim.correct_residuals=true");
  const int64_t usual = std::max<int64_t>(1, steps / 20), long_one = std::max<int64_t>(1, steps / 3);
  return {"came",
          "CAME's start: its residuals begin at 0, so early steps are too large, the longer the nearer beta3 "
          "is to 1",
          {row("beta3 0.995", "0.995", usual), row("beta3 0.995, no warm-up", "0.995", 0),
           row("beta3 0.9999", "0.9999", usual), row("beta3 0.9999, no warm-up", "0.9999", 0),
           row("beta3 0.9999, long warm-up", "0.9999", long_one), corrected}};
}

}  // namespace

std::vector<RateGrid> rate_grids(int64_t steps) {
  return {{"adamw", kAdamw, grid_from(1e-3)},
          {"came", kCame, grid_from(7e-4)},
          {"adafactor", kAdafactor, grid_from(1e-3)},
          {"lamb", kLamb, grid_from(2.5e-3)},
          {"lion", {"optim.name=lion", "optim.beta2=0.99", "optim.weight_decay=0.5"}, grid_from(2e-4)},
          {"muon", {"optim.name=muon", "optim.weight_decay=0.1"}, grid_from(1e-3)},
          {"sm3", {"optim.name=sm3", "optim.weight_decay=0.01"}, grid_from(1.25e-2)},
          {"sgd", {"optim.name=sgd", "optim.weight_decay=0.001"}, grid_from(0.05)},
          // Outer momenta multiply what workers move by, so their best inner rates lie lower.
          {"co2, own rate", workers("co2", kRound), grid_from(5e-4)},
          {"slowmo, own rate", workers("slowmo", kRound), grid_from(5e-4)},
          {"diloco, own rate", workers("diloco", kRound), grid_from(5e-4)},
          {"adamw, batch x 4", with(kAdamw, large_batch(steps)), grid_from(1e-3)},
          {"lamb, batch x 4", with(kLamb, large_batch(steps)), grid_from(2.5e-3)},
          {"came, batch x 4", with(kCame, large_batch(steps)), grid_from(7e-4)}};
}

std::vector<QualityPart> quality_parts(int64_t steps) {
  QualityPart optimizers{"optimizers", "optimizers at equal tokens", {}},
      batch{"batch", "four times the batch, a quarter of the steps", {}}, outer = outer_loops();
  for (const RateGrid& grid : rate_grids(steps)) {
    if (grid.name.ends_with("x 4"))
      batch.rows.push_back({grid.name, grid.name, grid.overrides});
    else if (grid.name.ends_with("own rate"))
      outer.rows.push_back({grid.name, grid.name, grid.overrides});
    else
      optimizers.rows.push_back({grid.name, grid.name, grid.overrides});
  }
  batch.rows.push_back({"adamw, one batch", "adamw", kAdamw});
  return {std::move(optimizers), std::move(batch), std::move(outer), rounds(),
          narrow_states(steps),  came_start(steps)};
}

}  // namespace longhaul::bench
