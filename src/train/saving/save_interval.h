// SaveInterval: when a checkpoint on the disk is due where train.checkpoint_every = −1. It uses Daly's
// interval (plan/reliability/checkpoint_interval.h) with the measured cost of saving and with the time
// between failures of this job: earlier starts that ended without reporting an end count as failures, and the
// recipe's expectation counts as one more. The interval lies between one step and 30 minutes, and is never
// shorter than a save takes. Rank 0 keeps it and tells the other ranks.
#pragma once

#include <filesystem>

#include "base/clock.h"
#include "checkpoint/disk/save.h"
#include "recipe/sections/train_options.h"

namespace longhaul::train {

// What the events of a run say about its earlier starts.
struct EarlierStarts {
  double trained_s = 0;
  int64_t failures = 0;  // starts that did not end by themselves or by request
};
EarlierStarts earlier_starts(const std::filesystem::path& events, int64_t generation);

class SaveInterval {
 public:
  SaveInterval(const recipe::TrainOptions& train, const EarlierStarts& earlier);
  bool due() const { return since_.seconds() >= interval_s(); }  // asked after a step
  void began() { since_ = Stopwatch(); }                         // a save
  void ended(const checkpoint::SaveResult& result);
  double interval_s() const;

 private:
  double expected_s_;
  EarlierStarts earlier_;
  double pause_s_ = 1, writing_s_ = 0;  // of the last save
  Stopwatch start_, since_;
};

}  // namespace longhaul::train
