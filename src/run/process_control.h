// The implementations of a trainer's RunControl. The control of the first rank handles the signals of its
// process and keeps the report page and the measured memory up to date. Other processes handle their signals.
// A rank that is one of several threads follows the first rank.
#pragma once

#include <optional>
#include <vector>

#include "control/engines/deadline.h"
#include "observe/report/report_writer.h"
#include "run/run_facts.h"
#include "train/trainer.h"

namespace longhaul::run {

class SignalControl : public train::RunControl {
 public:
  int stop_requested() override;
  bool save_requested() override;
  bool continued() override;
  bool pause(double seconds) override;
};

// For a process other than that of the first rank.
class OtherRankControl final : public SignalControl {
 public:
  OtherRankControl(observe::EventWriter& events, const RunFacts& facts) : events_(events), facts_(facts) {}
  void trained() override;

 private:
  observe::EventWriter& events_;
  const RunFacts& facts_;
};

class FollowingControl final : public train::RunControl {
 public:
  bool pause(double) override { return true; }  // the first rank waits, and this rank waits for it
};

class FirstRankControl final : public SignalControl {
 public:
  FirstRankControl(observe::EventWriter& events, const RunFacts& facts);
  int stop_requested() override;  // also when the engine's deadline is near
  void evaluated() override;
  void trained() override;
  // The report page is written when the run has ended in any way; a run that now belongs to another start is
  // not touched.
  train::Outcome run_to_its_end(train::Trainer& trainer);
  const std::vector<observe::MeasuredMemory>& measured() const { return measured_; }

 private:
  observe::EventWriter& events_;
  const RunFacts& facts_;
  control::Deadline deadline_;
  std::optional<observe::ReportWriter> report_;
  std::vector<observe::MeasuredMemory> measured_;
};

}  // namespace longhaul::run
