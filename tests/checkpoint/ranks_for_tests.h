// What ranks of a mesh hold of a model of every kind of split, for the tests of checkpoints of several ranks.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include "comm/threads/run_ranks.h"
#include "layout/mesh.h"
#include "training_for_tests.h"

namespace longhaul::checkpoint {

// A model of every kind of split: experts, shared bounds, a tied embedding, grouped heads.
inline recipe::ModelConfig model_of_all_splits() {
  recipe::ModelConfig config = longhaul::testing::hybrid_experts_post_norm();
  config.layers = 4;
  config.mixers = {recipe::Mixer::kHgrn2, recipe::Mixer::kSoftmax};
  config.tie_embeddings = true;
  return config;
}

// What a rank of a mesh holds: bf16 weights with fp32 masters and moments.
struct RankTraining {
  explicit RankTraining(const layout::MeshRank& place = {})
      : decoder(model_of_all_splits(), Precision::named("bf16"), at::kCPU, model::Use::kTraining, place),
        optimizer(optim::make_optimizer({}, decoder.parameters(), Precision::named("bf16"))) {}

  model::Decoder decoder;
  std::unique_ptr<optim::Optimizer> optimizer;
  OptimizerState optimizer_state{*optimizer};
  std::array<StateProvider*, 1> state{&optimizer_state};
};

// Different numbers in every tensor, none of them special.
inline void fill(RankTraining& training, uint64_t seed) {
  for (StateEntry& entry : tensors_of(training.state)) {
    entry.view.copy_(longhaul::testing::random_tensor(entry.view.sizes(), ++seed));
  }
  training.optimizer->set_steps(static_cast<int64_t>(seed));
  training.optimizer->refresh_values();
}

inline std::map<std::string, Tensor> wholes_of(RankTraining& training) {
  std::map<std::string, Tensor> wholes;
  for (const StateEntry& entry : tensors_of(training.state)) wholes[entry.name] = entry.view;
  return wholes;
}

inline Tensor box_of(Tensor whole, const layout::Rectangle& box) {
  for (size_t d = 0; d < box.length.size(); ++d)
    whole = whole.narrow(static_cast<int64_t>(d), box.offset[d], box.length[d]);
  return whole;
}

inline std::unique_ptr<comm::Communicator> group_of_writers(comm::Communicator& world) {
  layout::GroupKind all{.name = "writers", .groups = {{}}};
  for (int64_t rank = 0; rank < world.size(); ++rank) all.groups[0].push_back(rank);
  return std::move(world.split({all})[0]);
}

inline void expect_boxes_of(const std::map<std::string, Tensor>& wholes, RankTraining& training) {
  for (const StateEntry& entry : tensors_of(training.state)) {
    EXPECT_TRUE(at::equal(entry.view, box_of(wholes.at(entry.name), entry.held)))
        << entry.name << entry.held.text();
  }
  for (const auto& parameter : training.decoder.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const auto& part = parameter->parts[i];
      const Tensor rounded =
          box_of(wholes.at(part.spec.tensor.name), part.held).to(parameter->value.scalar_type());
      EXPECT_TRUE(at::equal(parameter->part_of(parameter->value.detach(), i), rounded))
          << part.spec.tensor.name;
    }
  }
}

}  // namespace longhaul::checkpoint
