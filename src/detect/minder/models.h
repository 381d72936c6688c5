// Models: the result of training, in one safetensors file: the autoencoder of each metric with the limits to
// which its values were scaled, an autoencoder of all metrics (INT), the Mahalanobis baselines, the
// thresholds of every variant, and the order of the metrics. docs/guides/detect.md describes the format.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "detect/samples/continuity.h"
#include "detect/samples/metrics.h"
#include "detect/trials/mahalanobis.h"

namespace longhaul::detect {

// Variants. minder: one autoencoder per metric; raw: no denoising; mean: the mean of a metric's window;
// robust-z: the deviation of that mean from the median of all machines in units of their median absolute
// deviation; con: the outputs of the autoencoders, concatenated; int: one autoencoder of all metrics; md,
// md-joint: Mahalanobis distance, of each metric or of all.
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
  // The following are measured at the end of training, over windows drawn from the training data.
  double error = 0;  // mean squared error of the reconstructions
  double kl = 0;
  // Variance of reconstructions / variance of windows. Near 0 the model ignores its latent and is of no use.
  double retained = 0;
};

struct Models {
  std::vector<size_t> metrics;  // metrics for which there is a model
  std::vector<Limits> limits;   // kMetrics of them
  std::vector<TrainedVae> vaes;
  TrainedVae joint;
  std::vector<MahalanobisModel> mahalanobis;  // in the order of `metrics`
  MahalanobisModel mahalanobis_joint;
  std::map<std::string, std::vector<Threshold>> thresholds;  // by variant, one threshold per channel
  // all metrics, first those that the decision tree uses
  std::vector<size_t> priority;
  // how many of them it uses; 0: there were no labelled cases
  size_t in_tree = 0;

  // The channels in the order of `order`, for those of `metrics` only.
  std::vector<Channel> channels(Variant variant, const std::vector<size_t>& order) const;
  Threshold threshold(Variant variant, const Channel& channel) const;
};

// Models for the variants that learn nothing (mean, raw): all metrics in the paper's order, windows of eight
// seconds, and thresholds of the mean that were chosen on simulated cases. A run compares its nodes with them
// where nobody has trained models.
Models untrained_models();

void save_models(const std::filesystem::path& file, const Models& models);
// Error (66) where the file is damaged or of another kind or version.
Models load_models(const std::filesystem::path& file);

}  // namespace longhaul::detect
