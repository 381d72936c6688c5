// Compares the quality that runs reach with equal numbers of tokens (`longhaul bench quality`;
// docs/sources/optimizers.md §12, docs/sources/co2.md §12): a small hybrid of linear and softmax attention
// (1.3 M parameters, first-run's made smaller) is trained on the texts of first-run, with one optimizer
// after the other, with workers under one outer loop after the other, and with narrow optimizer states. The
// measure is bits per byte of all held-out texts after the last step.
//
// Each optimizer uses the learning rate of its grid that gave the lowest bits with seed 0 (the grid is
// extended while its last rate is the best), or a rate below it if another seed fails with that rate;
// neither seed is used again. Then it trains with seeds 1, 2, …, which determine the weights and the order
// of the data. A row reports mean and standard deviation over those seeds, and the mean of the differences
// from the first row of the part with the same seeds, with the standard error of that mean. A rate at an
// end of the tried range is marked, because others might have been better.
//
// A finished run leaves its numbers in the folder, under a name that encodes its whole recipe. So a
// benchmark that was stopped continues where it was, and parts share runs. An unfinished run continues from
// its last checkpoint.
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
  std::vector<std::string> parts;  // names from quality_parts(); empty: all
  int64_t steps = 600;             // steps of 2,048 tokens; some parts have more, or fewer
  int64_t seeds = 3;               // in addition to seed 0 and the one after the last, which choose the rates
  std::filesystem::path folder;    // folder of results; empty: nothing is kept
  Overrides overrides;             // overrides for all runs, with the highest priority
};

// A learning rate to be chosen: all rows that name it train with the same rate.
struct RateGrid {
  std::string name;
  Overrides overrides;
  std::vector<double> rates;  // ascending
};

struct QualityRow {
  std::string label, grid;  // the name of its RateGrid
  Overrides overrides;
};
struct QualityPart {
  std::string name, title;
  std::vector<QualityRow> rows;  // the others are compared with the first
};

std::vector<RateGrid> rate_grids(int64_t steps);
std::vector<QualityPart> quality_parts(int64_t steps);

struct RunFigures {
  // Bits per byte of everything held out; infinite if the run did not finish, or the result is not a
  // number.
  double bits_per_byte = 0;
  double worst_loss = 0;  // of the steps after the first tenth, nats per token
  double step_s = 0;      // median
  // Bytes of state per parameter in addition to its master, outer loops' state included.
  double state_bytes = 0;
  int64_t tokens = 0;
  std::string commit;
  bool diverged() const;
};
using QualityRunner = std::function<RunFigures(const Overrides& overrides)>;

// Trains, or takes the result that an earlier benchmark has left. Error 75 when a signal asks to stop.
QualityRunner quality_runner(const QualityRequest& request);
Overrides overrides_of_run(const QualityRequest& request, const Overrides& own, double lr, int64_t seed);

struct Spread {
  int64_t count = 0;
  double mean = 0, deviation = 0;  // deviation: of the sample, with count − 1; 0 for one
  double error() const;            // of the mean: deviation / √count
};
Spread spread_of(const std::vector<double>& numbers);

struct PickedRate {
  double lr = 0;
  bool at_end = false;                             // the rate is at an end of the grid
  std::vector<std::pair<double, double>> tried{};  // rate, bits per byte
};
// The rate with the lowest value; kUsage if no run finished.
PickedRate picked(std::vector<std::pair<double, double>> tried);

struct QualityResult {
  std::string label;
  PickedRate rate;
  std::vector<RunFigures> runs;  // by seed
  // bits: of runs that did not diverge; difference: from the part's first row, same seeds.
  Spread bits, difference;
  int64_t diverged = 0;
  double worst_loss = 0, step_s = 0, state_bytes = 0;  // the largest of all runs; the median; state bytes
};
struct QualityOfPart {
  QualityPart part;
  std::vector<QualityResult> rows;
};

// `ended`: called with each part as soon as it is done.
std::vector<QualityOfPart> measure_quality(const QualityRequest& request, const QualityRunner& run,
                                           const std::function<void(const QualityOfPart&)>& ended = {});
int64_t count_quality_runs(const QualityRequest& request);  // the number of different runs

observe::Table table_of(const QualityRequest& request, const QualityOfPart& part);
nlohmann::ordered_json to_json(const QualityRequest& request, const QualityOfPart& part,
                               const QualityResult& row);

}  // namespace longhaul::bench
