// How low runs come at equal tokens (`longhaul bench quality`; docs/sources/optimizers.md §12, docs/sources/co2.md §12): a small hybrid of linear and softmax attention (1.3 M parameters,
// first-run's made smaller) trained on the texts of first-run, by one optimizer after the other, by workers under one outer loop after the other, with narrow
// optimizer states. What is compared is bits per byte of all texts held out, behind the last step.
//
// Each optimizer has the learning rate of its grid that came lowest with seed 0 (and of rates beyond it, while the last one is the best), or one below where another
// seed fails with that; neither seed is used again. Then it trains with seeds 1, 2, …, which are of weights and of the order of the data. Rows are told as mean and
// standard deviation over those seeds, and as the mean of the differences from the first row of the part with the same seed, with that mean's standard error. A
// rate at an end of what was tried is marked: others might have been better.
//
// A run that has ended leaves its numbers in the folder, under a name that says all of its recipe, so a bench that was stopped goes on where it was, and parts share
// runs. What has not ended goes on from its last checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

using Overrides = std::vector<std::string>;  // "optim.lr=0.001"

struct QualityRequest {
  std::vector<std::string> parts;  // of quality_parts(); empty: all
  int64_t steps = 600;             // of 2,048 tokens; some parts have more, or fewer
  int64_t seeds = 3;               // beside 0 and the one behind the last, which pick rates
  std::filesystem::path folder;    // of results; empty: nothing is kept
  Overrides overrides;             // of all runs, above everything else
};

// A learning rate to be picked: all rows that name it train with the same.
struct RateGrid {
  std::string name;
  Overrides overrides;
  std::vector<double> rates;  // rising
};

struct QualityRow {
  std::string label, grid;  // the name of its RateGrid
  Overrides overrides;
};
struct QualityPart {
  std::string name, title;
  std::vector<QualityRow> rows;  // the first is what the others are compared with
};

std::vector<RateGrid> rate_grids(int64_t steps);
std::vector<QualityPart> quality_parts(int64_t steps);

struct RunFigures {
  double bits_per_byte = 0;  // of everything held out; infinite where the run did not come to its end, or to no number
  double worst_loss = 0;     // of its steps behind the first tenth, nats a token
  double step_s = 0;         // median
  double state_bytes = 0;    // of a parameter, beside its master; outer loops' counted in
  int64_t tokens = 0;
  std::string commit;
  bool diverged() const;
};
using QualityRunner = std::function<RunFigures(const Overrides& overrides)>;

// Trains, or finds what an earlier bench has left. Error 75 where a signal asks to stop.
QualityRunner quality_runner(const QualityRequest& request);
Overrides overrides_of_run(const QualityRequest& request, const Overrides& own, double lr, int64_t seed);

struct Spread {
  int64_t count = 0;
  double mean = 0, deviation = 0;  // of the sample: with count − 1; 0 of one
  double error() const;            // of the mean: deviation / √count
};
Spread spread_of(const std::vector<double>& numbers);

struct PickedRate {
  double lr = 0;
  bool at_end = false;                             // of the grid
  std::vector<std::pair<double, double>> tried{};  // rate, bits per byte
};
PickedRate picked(std::vector<std::pair<double, double>> tried);  // of the lowest; kUsage where none came to its end

struct QualityResult {
  std::string label;
  PickedRate rate;
  std::vector<RunFigures> runs;  // by seed
  Spread bits, difference;       // of runs that did not diverge; from the part's first row, same seeds
  int64_t diverged = 0;
  double worst_loss = 0, step_s = 0, state_bytes = 0;  // of all runs the largest; the median
};
struct QualityOfPart {
  QualityPart part;
  std::vector<QualityResult> rows;
};

// `ended`: of each part as soon as it is done.
std::vector<QualityOfPart> measure_quality(const QualityRequest& request, const QualityRunner& run,
                                           const std::function<void(const QualityOfPart&)>& ended = {});
int64_t count_quality_runs(const QualityRequest& request);  // different ones

observe::Table table_of(const QualityRequest& request, const QualityOfPart& part);
nlohmann::ordered_json to_json(const QualityRequest& request, const QualityOfPart& part, const QualityResult& row);

}  // namespace longhaul::bench
