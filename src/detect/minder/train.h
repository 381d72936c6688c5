// Training the denoisers: windows of eight seconds of one machine, drawn from pulls without labels, Adam, on this machine in minutes. Each model is
// a pure function of the data and the seed, whatever the number of threads (one trains a metric).
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
  double beta = 1e-5;  // weight of the KL term; 1e-4 already costs metrics of small variance their signal, 1e-2 all
  uint64_t seed = 0;
  std::vector<size_t> metrics = metric_choice("used");
  std::vector<Limits> limits = limits_with({});
  MahalanobisShape mahalanobis, mahalanobis_joint = {.axes = 6};
};

TrainedVae train_vae(std::span<const Pull> pulls, const std::vector<size_t>& metrics, const TrainOptions& options,
                     const std::function<void()>& step_done = {});

// All models, without thresholds and priority (tune.h, priority.h). Shows its progress.
Models train_models(std::span<const Pull> pulls, const TrainOptions& options);

}  // namespace longhaul::detect
