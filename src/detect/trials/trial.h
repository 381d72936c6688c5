// The whole experiment on simulated cases, in memory: for each seed, models are trained on some cases, thresholds (and the shape of the Mahalanobis
// baseline) chosen on others, and precision, recall and F1 measured on a third set that nothing was chosen on. Every variant gets the same cases and the
// same search for its thresholds.
#pragma once

#include <string>
#include <vector>

#include "detect/minder/train.h"
#include "detect/trials/tune.h"

namespace longhaul::detect {

struct TrialOptions {
  int64_t seeds = 5, first_seed = 1;
  int64_t train = 40, validate = 120, test = 300;  // cases a seed, half of them normal
  bool large = false;                              // test cases of up to 1,500 machines; training and validation keep to 64
  bool glitches = false, shifted = false;          // of the test cases alone: shifted, and of sizes that no other case has
  bool evaluation_mix = true;
  std::string held_out;           // a fault's type that only test cases have, and they no other
  bool lives = false;             // test cases of 1, 2, 4 and 6 faults one after the other, looked at in calls as the service makes them
  std::vector<std::string> rows;  // empty: all
  TrainOptions training;
};

struct TrialRow {
  std::string name;
  std::vector<Tally> seeds;
  std::vector<Verdict> verdicts;  // of all seeds, in the same order for every row
  std::vector<double> call_seconds;
};

struct TrialReport {
  std::vector<TrialRow> rows;
  std::vector<std::string> mahalanobis;  // the shapes that were chosen, a line a seed
  double train_seconds = 0;              // of all models, the slowest seed
  double worst_retained = 1;             // of any denoiser
};

std::vector<std::string> trial_rows();  // what there is to compare, by name
TrialReport run_trial(const TrialOptions& options);

// The shapes of the baseline that do best on these cases: per metric and joint.
void choose_mahalanobis(Models& models, std::span<const Pull> pulls, const std::vector<LabelledCase>& cases, uint64_t seed);

LabelledCase labelled(CaseSpec spec);  // simulated, gaps filled

}  // namespace longhaul::detect
