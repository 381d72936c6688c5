// What kernels of a kind of accelerator reach of its data sheet, and how that was found: fitted on published rows (published.h) that are marked so,
// none of which counts as a prediction.
#pragma once

#include <filesystem>
#include <vector>

#include "observe/events/run_history.h"
#include "plan/cluster.h"
#include "plan/published.h"

namespace longhaul::plan {

// The constants in use. Of kinds without published rows: those of the nearest kind.
Efficiency efficiency_of(const Accelerator& device);

double median_step_seconds(const observe::RunHistory& run);  // of a run with steps

// Such that what is predicted of a run is what its steps took (their median): all constants by one factor. From a run folder's recipe and
// events; kData where it has no finished step.
Efficiency calibrated(const std::filesystem::path& run, Cluster cluster);

// The least mean error over these rows, on a grid of constants beside the share of the peak that attention reaches.
Efficiency fitted(const std::vector<PublishedRow>& rows, double attention);
// The one factor, in whole percents, that does so for rows of one cluster with the constants in use.
double fitted_reach(std::vector<PublishedRow> rows);
// Likewise what shows of the shorter of a layer's exchange and passes (kLayerExposed), in steps of five percent.
double fitted_layer_exposed(std::vector<PublishedRow> rows);
double mean_error(const std::vector<PublishedRow>& rows, const Efficiency& efficiency);

}  // namespace longhaul::plan
