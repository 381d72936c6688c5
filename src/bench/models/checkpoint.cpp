#include "bench/models/checkpoint.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/memory/shared_memory.h"
#include "base/progress.h"
#include "base/statistics.h"
#include "bench/models/random_tokens.h"
#include "checkpoint/load.h"
#include "checkpoint/memory_tier/memory_recovery.h"
#include "checkpoint/memory_tier/memory_saver.h"
#include "checkpoint/optimizer_state.h"
#include "recipe/load.h"
#include "train/step.h"

namespace longhaul::bench {
namespace {

constexpr const char* kBenchRun = "bench checkpoint";

class CheckpointBench {
 public:
  explicit CheckpointBench(const CheckpointRequest& request)
      : recipe_(
            recipe::load_defaults({"model.preset=" + request.preset, "train.dtype=" + request.dtype}).recipe),
        task_({request.batch, request.micro_batch, request.sequence, request.dtype}, recipe_.model, alone_),
        optimizer_(optim::make_optimizer(recipe_.optim, task_.parameters(), task_.precision())),
        state_(*optimizer_),
        place_{.tier = shared_memory_folder("bench-checkpoint"), .node = "here"},
        nodes_(one_, place_),
        saver_(storage::local_file_system(), nodes_, {.run = kBenchRun}, nullptr) {
    task_.parameters().initialise(1);
    optimizer_->take_masters_from_values();
  }
  ~CheckpointBench() { storage::remove_tree(storage::local_file_system(), place_.tier); }

  double plain() {
    const Stopwatch watch;
    step();
    return watch.seconds();
  }
  double copied_first(double& pause_s) {
    const Stopwatch watch;
    const auto snapshot = copies_.take(checkpoint::tensors_of(providers_));
    step();
    pause_s = snapshot->pause_milliseconds() * 1e-3;
    return watch.seconds();
  }
  double beside(checkpoint::MemorySaveResult& result) {
    const Stopwatch watch;
    const auto snapshot = copies_.take(checkpoint::tensors_of(providers_), checkpoint::Changes::kInUpdates);
    saver_.save(steps_, snapshot, {.run_id = kBenchRun, .state = checkpoint::facts_of(providers_)});
    step();
    const double seconds = watch.seconds();
    result = *saver_.wait();
    if (result.failure) throw *result.failure;
    return seconds;
  }

  // The state of the last save, read from memory, beside that of the run one step later: its number of steps
  // is one less, and every file is whole.
  bool whole() {
    const auto found =
        checkpoint::newest_in_memory(storage::local_file_system(), one_, nodes_, kBenchRun, providers_, {});
    if (!found) return false;
    const int64_t steps = optimizer_->steps();
    checkpoint::load_training_state(*found, providers_);
    return optimizer_->steps() == steps - 1;
  }

 private:
  void step() {
    train::run_step(task_, *optimizer_, alone_, ++steps_,
                    {.lr = 1e-4, .clip_norm = 1, .with_gradients = [this] { copies_.settle(); }});
  }

  recipe::Recipe recipe_;
  parallel::Ranks alone_;
  RandomTokens task_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  checkpoint::OptimizerState state_;
  std::array<checkpoint::StateProvider*, 1> providers_{&state_};
  checkpoint::TierPlace place_;
  checkpoint::Writers one_;
  checkpoint::TierNodes nodes_;
  checkpoint::CopyOut copies_;
  checkpoint::MemorySaver saver_;
  int64_t steps_ = 0;
};

}  // namespace

CheckpointCost measure_checkpoint(const CheckpointRequest& request) {
  CheckpointBench bench(request);
  Progress progress("steps", 3 * (request.steps + 1));
  std::vector<double> plain, first, first_pause, beside, beside_pause, in_memory, processor;
  CheckpointCost cost;
  for (int64_t turn = 0; turn <= request.steps; ++turn) {
    double pause = 0;
    checkpoint::MemorySaveResult result;
    plain.push_back(bench.plain());
    first.push_back(bench.copied_first(pause));
    first_pause.push_back(pause);
    beside.push_back(bench.beside(result));
    beside_pause.push_back(result.pause_milliseconds * 1e-3);
    in_memory.push_back(result.seconds);
    processor.push_back(result.processor_seconds);
    cost.bytes = result.bytes;
    progress.advance(3);
    if (turn > 0) continue;
    // the first allocate
    for (auto* each : {&plain, &first, &first_pause, &beside, &beside_pause, &in_memory, &processor})
      each->clear();
  }
  cost.plain_s = median(plain);
  cost.copied_first_s = median(first);
  cost.copied_first_pause_s = median(first_pause);
  cost.beside_s = median(beside);
  cost.beside_pause_s = median(beside_pause);
  cost.in_memory_s = median(in_memory);
  cost.processor_s = median(processor);
  cost.whole = bench.whole();
  return cost;
}

nlohmann::ordered_json to_json(const CheckpointRequest& request, const CheckpointCost& cost) {
  return {{"name", "checkpoint"},
          {"preset", request.preset},
          {"dtype", request.dtype},
          {"state_bytes", cost.bytes},
          {"step_milliseconds", cost.plain_s * 1e3},
          {"copied_first_milliseconds", cost.copied_first_s * 1e3},
          {"copied_first_pause_milliseconds", cost.copied_first_pause_s * 1e3},
          {"beside_milliseconds", cost.beside_s * 1e3},
          {"beside_pause_milliseconds", cost.beside_pause_s * 1e3},
          {"pause_share", cost.pause_share()},
          {"in_memory_milliseconds", cost.in_memory_s * 1e3},
          {"processor_milliseconds", cost.processor_s * 1e3},
          {"whole", cost.whole}};
}

observe::Table table_of(const CheckpointRequest& request, const CheckpointCost& cost) {
  using observe::Align;
  observe::Table table(fmt::format("{} {}, {} of state, steps of {} × {} tokens", request.preset,
                                   request.dtype, bytes_text(cost.bytes), request.batch, request.sequence),
                       {{"checkpoint in memory"},
                        {"step", Align::kRight},
                        {"pause", Align::kRight},
                        {"of a step", Align::kRight}});
  const auto row = [&](const char* name, double step_s, double pause_s) {
    table.row({name, duration_text(step_s), fmt::format("{:.3f} ms", pause_s * 1e3),
               fmt::format("{:.2f} %", 100 * pause_s / cost.plain_s)});
  };
  row("none", cost.plain_s, 0);
  row("copied, then the next step", cost.copied_first_s, cost.copied_first_pause_s);
  row("copied and written beside it", cost.beside_s, cost.beside_pause_s);
  table.row({"  could be gone on from after", duration_text(cost.in_memory_s), "", ""});
  return table;
}

}  // namespace longhaul::bench
