// What is behind a trainer's RunControl: the signals of its process; of the first rank also what a run keeps up to date beside its events, the
// page and the memory that training took; nothing of a rank that is one of several threads, which goes along with the first.
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

// Of another process than the first rank's.
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
  bool pause(double) override { return true; }  // the first rank waits, and this one for it
};

class FirstRankControl final : public SignalControl {
 public:
  FirstRankControl(observe::EventWriter& events, const RunFacts& facts);
  int stop_requested() override;  // when the engine's deadline is near, too
  void evaluated() override;
  void trained() override;
  // The page stands when the run has ended, however it ended; a run that is someone else's by now is not touched.
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
