// What several tests prove: a hybrid model with experts, and that layouts of it give what one process gives.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "train/prove.h"

namespace longhaul::train {

inline recipe::ModelConfig hybrid() {
  recipe::ModelConfig config;
  config.mixers = {recipe::Mixer::kHgrn2, recipe::Mixer::kLightning, recipe::Mixer::kSoftmax};
  config.experts = 4;
  config.auxiliary_loss = 0.1;
  config.z_loss = 0.01;
  config.wiring = recipe::Wiring::kPostNorm;
  config.beta = 0.9;
  config.tie_embeddings = true;
  return config;
}

inline void expect_proved(const recipe::ModelConfig& config, const std::vector<recipe::ParallelOptions>& all) {
  std::vector<ProofLayout> layouts;
  for (const recipe::ParallelOptions& each : all) layouts.push_back(proof_layout(each));
  for (const Proof& proof : prove({.model = config, .layouts = layouts})) {
    EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst, kProofBound) << proof.layout << ": " << proof.tensor;
  }
}

}  // namespace longhaul::train
