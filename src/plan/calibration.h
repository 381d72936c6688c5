// Calibration: the share of its data sheet that kernels on an accelerator reach, and how it was found: it is
// fitted on published rows (published.h) that are marked as such and never count as predictions.
#pragma once

#include <filesystem>
#include <vector>

#include "observe/events/run_history.h"
#include "plan/cluster.h"
#include "plan/published.h"

namespace longhaul::plan {

// The constants in use. An accelerator without published rows has those of the most similar one.
Efficiency efficiency_of(const Accelerator& device);

double median_step_seconds(const observe::RunHistory& run);  // the run must have steps

// Scales all constants by one factor so that the prediction for a run equals the median time of its steps.
// Reads the recipe and events of a run folder; kData where it has no completed step.
Efficiency calibrated(const std::filesystem::path& run, Cluster cluster);

// The constants with the least mean error over these rows, from a grid; `attention` is the share of the peak
// that attention reaches.
Efficiency fitted(const std::vector<PublishedRow>& rows, double attention);
// The one factor, in whole percents, with the least mean error for rows of one cluster with the constants in
// use.
double fitted_reach(std::vector<PublishedRow> rows);
// The value of kLayerExposed (the visible part of the shorter of a layer's exchange and passes) with the
// least mean error, in steps of five percent.
double fitted_layer_exposed(std::vector<PublishedRow> rows);
double mean_error(const std::vector<PublishedRow>& rows, const Efficiency& efficiency);

}  // namespace longhaul::plan
