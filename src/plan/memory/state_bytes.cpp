#include "plan/memory/state_bytes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <vector>

#include "plan/memory/memory.h"
#include "plan/memory/memory_layers.h"
#include "plan/memory/memory_workspace.h"
#include "plan/memory/update_memory.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::plan {
namespace {

// The temporary part during the passes through a layer.
struct Passing {
  double weights = 0, gradients = 0, gradient_shares = 0, summed = 0;
};

constexpr double kStageMessage = 16 << 20;  // parallel/pipeline/stage_gradients.h

// In addition to the gradients that so many ranks of a pipeline share, of whose layers each has so many
// bytes, in the order in which they are summed: two messages in transfer, each with this rank's part and one
// of each other rank, and the sum of the first of them. No message has tensors of two layers.
double beside_stage_sums(const std::vector<double>& layers, double ranks) {
  std::vector<double> messages;
  for (double left : layers)
    for (; left > 0; left -= messages.back()) messages.push_back(std::min(left, kStageMessage));
  double most = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const double second = i + 1 < messages.size() ? messages[i + 1] : 0;
    most = std::max(most, messages[i] * (ranks + 1) + second * ranks);
  }
  return most;
}

}  // namespace

RankState rank_state(const recipe::ModelConfig& model, recipe::Dtype dtype,
                     const recipe::OptimOptions& optimizer, const layout::MeshRank& place) {
  return rank_state(layout::parameters_of(model, place), dtype, optimizer, place);
}

RankState rank_state(const std::vector<layout::ParameterSpec>& parameters, recipe::Dtype dtype,
                     const recipe::OptimOptions& optimizer, const layout::MeshRank& place) {
  const double narrow = number(element_bytes(dtype)), wide = number(wide_bytes(dtype));
  RankState held;
  UpdateMemory updating(optimizer, wide_bytes(dtype));
  std::map<int64_t, Passing> layers;
  // by the ranks that share them and by layer, the last one first
  std::map<std::vector<int64_t>, std::map<int64_t, double, std::greater<>>> shared_by_stages;
  for (const layout::ParameterSpec& spec : parameters) {
    const layout::Placement placement =
        layout::placement_of(spec, place.mesh, place.coordinate(layout::Axis::kPp));
    const layout::Shape box =
        layout::rectangle_of(placement, place.mesh, place.rank, spec.tensor.global_shape).length;
    const double elements = number(layout::volume(box));
    if (elements == 0) continue;
    const double ranks =
        place.zero > 0 ? number(place.mesh.size(place.mesh.shared_over(layout::copied_over(placement)))) : 1;
    const double element = layout::kept_wide(spec) ? wide : narrow;
    const bool cut = ranks > 1, gradients_come = cut && place.gradients_leave() && spec.layer >= 0,
               weights_come = cut && place.zero >= 3;
    layout::Shape share = box;  // other states (row means) are those of whole rows
    share[0] = whole_bytes(number(box[0]) / ranks + 0.5);
    held.weights += element * elements / (weights_come ? ranks : 1);
    if (spec.frozen) {
      if (weights_come) layers[spec.layer].weights += element * elements;
      continue;
    }
    held.gradients += wide * elements / (gradients_come ? ranks : 1);
    held.optimizer +=
        number(recipe::state_bytes(optimizer, spec.tensor.role, spec.layer, spec.tensor.global_shape, share,
                                   wide_bytes(dtype), spec.set)) +
        (element < wide ? wide * elements / ranks : 0);
    const double pieces = number(spec.elements()) / elements;  // by tensor ranks; of whole matrices
    updating.add(spec, share, ranks * pieces);
    if (spec.trainable && spec.pipeline_ranks.size() > 1)
      shared_by_stages[spec.pipeline_ranks][spec.layer] += wide * elements / (cut ? ranks : 1);
    Passing& layer = layers[spec.layer];
    if (spec.trainable && place.mesh.size(layout::copied_over(placement)) > 1)
      layer.summed += wide * elements;
    if (weights_come) layer.weights += element * elements;
    if (gradients_come) layer.gradients += wide * elements, layer.gradient_shares += wide * elements / ranks;
  }
  for (const auto& [layer, of] : layers) held.largest_sum = std::max(held.largest_sum, of.summed);
  for (const auto& [stages, by_layer] : shared_by_stages) {
    std::vector<double> bytes;
    for (const auto& [layer, of_layer] : by_layer) bytes.push_back(of_layer);
    held.stage_sums = std::max(held.stage_sums, beside_stage_sums(bytes, number(std::ssize(stages))));
  }
  const Passing outside = layers[-1];
  layers.erase(-1);
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    const auto next = std::next(layer);
    const Passing neighbour =
        next != layers.end() && next->first == layer->first + 1 ? next->second : Passing{};
    held.passing_weights = std::max(held.passing_weights, layer->second.weights + neighbour.weights);
    held.passing_gradients = std::max(
        held.passing_gradients, layer->second.gradients + neighbour.gradients + neighbour.gradient_shares);
  }
  held.early_weights = outside.weights + (layers.empty() ? 0 : layers.begin()->second.weights);
  held.passing_weights += outside.weights;
  held.updating = updating.bytes();
  return held;
}

}  // namespace longhaul::plan
