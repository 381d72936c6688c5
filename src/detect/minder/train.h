// Trains the denoisers: windows of eight seconds of one machine, drawn from pulls without labels, with Adam,
// in minutes on one machine. Each model is a pure function of the data and the seed, whatever the number of
// threads (each trains one metric).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "detect/minder/models.h"

namespace longhaul::detect {

struct TrainOptions {
  VaeShape shape;
  int64_t steps = 4000, batch = 512;
  double rate = 3e-3;  // 6e-4 over the last 30 %
  // Weight of the KL term. With 1e-4 metrics of small variance already lose their signal, with 1e-2 all do.
  double beta = 1e-5;
  uint64_t seed = 0;
  std::vector<size_t> metrics = metric_choice("used");
  std::vector<Limits> limits = limits_with({});
  MahalanobisShape mahalanobis, mahalanobis_joint = {.axes = 6};
};

TrainedVae train_vae(std::span<const Pull> pulls, const std::vector<size_t>& metrics,
                     const TrainOptions& options, const std::function<void()>& step_done = {});

// Trains all models, without thresholds and priority (tune.h, priority.h). Prints its progress.
Models train_models(std::span<const Pull> pulls, const TrainOptions& options);

}  // namespace longhaul::detect
