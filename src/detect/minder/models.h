// What training leaves for later calls, in one safetensors file: the autoencoder of each metric with the limits its values were brought to, one over
// all metrics (INT), the Mahalanobis baselines, thresholds of every variant, and the order of the metrics. docs/guides/detect.md has the format.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "detect/samples/continuity.h"
#include "detect/samples/metrics.h"
#include "detect/trials/mahalanobis.h"

namespace longhaul::detect {

// minder: an autoencoder a metric; raw: no denoising; mean: of a metric's window its mean alone; robust-z: the mean's deviation from the median of all
// machines in units of their median absolute deviation; con: the autoencoders' outputs behind one another; int: one autoencoder of all metrics;
// md, md-joint: Mahalanobis distance, of each metric or of all.
enum class Variant { kMinder, kRaw, kMean, kRobustZ, kCon, kInt, kMd, kMdJoint };
inline constexpr Variant kVariants[] = {Variant::kMinder, Variant::kRaw, Variant::kMean, Variant::kRobustZ,
                                        Variant::kCon,    Variant::kInt, Variant::kMd,   Variant::kMdJoint};
std::vector<std::string> variant_names();
std::string_view name_of(Variant variant);
Variant variant_named(std::string_view name);  // Error (64)

struct TrainedVae {
  std::vector<size_t> metrics;  // one, or all of INT
  VaeShape shape;
  std::vector<float> parameters;
  // At the end of training, over windows drawn from the training data.
  double error = 0;  // mean squared error of reconstructions
  double kl = 0;
  double retained = 0;  // variance of reconstructions / variance of windows: near 0, the latent was given up and the model tells nothing
};

struct Models {
  std::vector<size_t> metrics;  // that there is a model of
  std::vector<Limits> limits;   // kMetrics of them
  std::vector<TrainedVae> vaes;
  TrainedVae joint;
  std::vector<MahalanobisModel> mahalanobis;  // as metrics
  MahalanobisModel mahalanobis_joint;
  std::map<std::string, std::vector<Threshold>> thresholds;  // by variant, a channel each
  std::vector<size_t> priority;                              // all metrics, first come those that the decision tree uses
  size_t in_tree = 0;                                        // how many of them it uses; 0: there was no truth to learn from

  // In the order of `order`, those of `metrics` only.
  std::vector<Channel> channels(Variant variant, const std::vector<size_t>& order) const;
  Threshold threshold(Variant variant, const Channel& channel) const;
};

// For the variants that learn nothing (mean, raw): all metrics in the paper's order, windows of eight seconds, and thresholds of the mean that were
// chosen on simulated cases. What a run compares its nodes by where nobody has trained models.
Models untrained_models();

void save_models(const std::filesystem::path& file, const Models& models);
Models load_models(const std::filesystem::path& file);  // Error (66) for what is damaged, of another kind or version

}  // namespace longhaul::detect
