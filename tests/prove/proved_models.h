// What several tests prove: models, and that layouts of them give what one process gives.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "prove/prove.h"
#include "support/nightly.h"

namespace longhaul::prove {

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

inline recipe::ModelConfig dense_linear() {
  recipe::ModelConfig config;
  config.mixers = {recipe::Mixer::kLightning};
  return config;
}

// Masked tokens, of models that read whole documents.
inline recipe::ModelConfig without_order() {
  recipe::ModelConfig config;
  config.mixers = {recipe::Mixer::kLightnet, recipe::Mixer::kSoftmax};
  config.causal = false;
  config.lightnet.positions = true;
  config.softmax.kv_heads = 4;
  return config;
}

inline void expect_proved(const recipe::ModelConfig& config,
                          const std::vector<recipe::ParallelOptions>& all) {
  std::vector<ProofLayout> layouts;
  for (const recipe::ParallelOptions& each : all) layouts.push_back(proof_layout(each));
  for (const Proof& proof : prove({.model = config, .layouts = layouts})) {
    EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst, kProofBound) << proof.layout << ": " << proof.tensor;
  }
}

// The usual layouts; `every`: each of them, or one of so many (all in nightly.whole_prove).
inline void expect_equal(const recipe::ModelConfig& config, bool experts,
                         const std::string& optimizer = "adamw", size_t every = 1) {
  std::vector<ProofLayout> layouts;
  const std::vector<ProofLayout> usual = proof_layouts({});
  const size_t apart = longhaul::testing::takes_all() ? 1 : every;
  for (size_t i = 0; i < usual.size(); i += apart) layouts.push_back(usual[i]);
  const std::vector<Proof> proofs =
      prove({.model = config, .optim = {.name = optimizer}, .layouts = layouts});
  ASSERT_EQ(proofs.size(), layouts.size());
  // by documents, packed or in whole rows, and by the order of sums
  std::map<std::string, std::string> before;
  for (const Proof& proof : proofs) {
    EXPECT_TRUE(proof.holds) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst, kProofBound) << proof.layout << ": " << proof.tensor;
    const bool of_experts =
        proof.layout.find("-ep") != std::string::npos || proof.layout.find("-etp") != std::string::npos;
    const bool over_shares = proof.layout == "dp4-zero3-elastic" && optimizer == "came";
    EXPECT_EQ(proof.status, of_experts && !experts ? Proof::Status::kSkipped
                            : over_shares          ? Proof::Status::kRefused
                                                   : Proof::Status::kTried)
        << proof.layout << ": " << proof.reason;
    EXPECT_EQ(proof.tensor.empty(), proof.status != Proof::Status::kTried) << "nothing was compared";
    if (proof.status != Proof::Status::kTried) continue;
    if (proof.layout.starts_with("workers")) {  // they save more than others could read
      EXPECT_EQ(proof.resumed_from, "");
      continue;
    }
    const bool elastic = proof.layout.ends_with("-elastic");
    EXPECT_TRUE(!elastic || proof.worst == 0)
        << proof.layout << ": " << proof.worst << " in " << proof.tensor;
    std::string& earlier = before[elastic                               ? "elastic"
                                  : proof.layout.ends_with("-weighted") ? "weighted"
                                  : proof.layout.ends_with("-embedded") ? "embedded"
                                  : proof.layout.ends_with("-rows")     ? "rows"
                                                                        : "packed"];
    EXPECT_EQ(proof.resumed_from, earlier.empty() ? "one" : earlier);
    earlier = proof.layout;
  }
}

}  // namespace longhaul::prove
