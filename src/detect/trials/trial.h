// The whole experiment on simulated cases, in memory. For each seed, models are trained on some cases,
// thresholds (and the shape of the Mahalanobis baseline) are chosen on others, and precision, recall and F1
// are measured on a third set on which nothing was chosen. Every variant gets the same cases and the same
// search for its thresholds.
#pragma once

#include <string>
#include <vector>

#include "detect/minder/train.h"
#include "detect/trials/tune.h"

namespace longhaul::detect {

struct TrialOptions {
  int64_t seeds = 5, first_seed = 1;
  int64_t train = 40, validate = 120, test = 300;  // cases per seed, half of them normal
  // test cases of up to 1,500 machines; training and validation use up to 64
  bool large = false;
  // For the test cases only; shifted ones also have sizes that no other case has.
  bool glitches = false, shifted = false;
  bool evaluation_mix = true;
  std::string held_out;  // the fault type of all faulty test cases; no other case has it
  // Test cases have 1, 2, 4 or 6 successive faults, and are examined in calls as the service makes them.
  bool lives = false;
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
  std::vector<std::string> mahalanobis;  // the chosen shapes, one line per seed
  double train_seconds = 0;              // for all models, of the slowest seed
  double worst_retained = 1;             // of any denoiser
};

std::vector<std::string> trial_rows();  // names of all rows that can be compared
TrialReport run_trial(const TrialOptions& options);

// Chooses the shapes of the baseline that do best on these cases, per metric and joint.
void choose_mahalanobis(Models& models, std::span<const Pull> pulls, const std::vector<LabelledCase>& cases,
                        uint64_t seed);

LabelledCase labelled(CaseSpec spec);  // simulated, with gaps filled

}  // namespace longhaul::detect
