#include "posttrain/preference/reference_scores.h"

#include "checkpoint/published/naming.h"

namespace longhaul::posttrain {

ReferenceScores::ReferenceScores(int64_t train, int64_t held_out, bool writes)
    : train_n2_(at::zeros({train, 2}, at::kDouble)),
      held_out_n2_(at::zeros({held_out, 2}, at::kDouble)),
      writes_(writes) {}

void ReferenceScores::set(const Tensor& train, const Tensor& held_out) {
  train_n2_.copy_(train);
  held_out_n2_.copy_(held_out);
  known_ = true;
}

std::vector<checkpoint::StateEntry> ReferenceScores::tensors() {
  std::vector<checkpoint::StateEntry> entries;
  const auto add = [&](const char* name, const Tensor& scores) {
    if (scores.numel() == 0) return;
    const layout::Shape shape(scores.sizes().begin(), scores.sizes().end());
    entries.push_back({.name = std::string(checkpoint::kTaskPrefix) + name,
                       .file = checkpoint::kTaskFiles,
                       .role = "task",
                       .shape = shape,
                       .held = layout::Rectangle::whole(shape),
                       .view = scores,
                       .written_here = writes_});
  };
  add("reference.train", train_n2_);
  add("reference.held_out", held_out_n2_);
  return entries;
}

nlohmann::json ReferenceScores::facts() { return {{"preference_reference_known", known_}}; }

void ReferenceScores::restore(const checkpoint::SavedFacts& saved) {
  known_ = saved.at("preference_reference_known").get<bool>();
}

}  // namespace longhaul::posttrain
