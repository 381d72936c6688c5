#include "run/process_control.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process/signals.h"
#include "control/engines/engine.h"
#include "detect/samples/run_machines.h"
#include "observe/report/report.h"
#include "plan/footprint/footprint_report.h"
#include "run/memory.h"

namespace longhaul::run {

int SignalControl::stop_requested() { return stop_signal(); }
bool SignalControl::save_requested() { return take_save_request(); }
bool SignalControl::continued() { return take_continued(); }
bool SignalControl::pause(double seconds) { return pause_unless_stopped(seconds); }

namespace {

std::vector<observe::MeasuredMemory> told_memory(observe::EventWriter& events, const RunFacts& facts) {
  const std::vector<observe::MeasuredMemory> measured = measured_memory(facts.memory, facts.device);
  for (const auto& purpose : measured) events.write(purpose);
  return measured;
}

}  // namespace

void OtherRankControl::trained() { told_memory(events_, facts_); }

FirstRankControl::FirstRankControl(observe::EventWriter& events, const RunFacts& facts)
    : events_(events), facts_(facts), deadline_(control::find_engine()->deadline()) {
  if (!facts.recipe.recipe.observe.report) return;
  report_.emplace([folder = facts.run_folder] {
    observe::write_report(folder, plan::footprint_section(folder, detect::machines_of_run(folder)));
  });
}

int FirstRankControl::stop_requested() {
  if (stop_signal() == 0 && deadline_.near(wall_time_s())) {
    log_info("this job will be ended at {}: saving now", wall_time_text(deadline_.end_s()));
    request_stop_for_time();
  }
  return SignalControl::stop_requested();
}

void FirstRankControl::evaluated() {
  if (report_) report_->refresh();
}

void FirstRankControl::trained() { measured_ = told_memory(events_, facts_); }

train::Outcome FirstRankControl::run_to_its_end(train::Trainer& trainer) {
  try {
    const train::Outcome outcome = trainer.run();
    if (report_) report_->finish();
    return outcome;
  } catch (const Error& error) {
    if (report_ && error.code() != ExitCode::kFenced) report_->finish();
    throw;
  }
}

}  // namespace longhaul::run
