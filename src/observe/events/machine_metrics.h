// Metrics of a step that tell where its tensors lay, and not what was trained: "memory/…" of train.arena and
// "offload/…" of train.offload. They are in events and on a run's page; the terminal's lines leave them out,
// and so does a comparison of runs, whose numbers do not depend on them.
#pragma once

#include <string_view>

namespace longhaul::observe {

inline constexpr std::string_view kShareOfLayer = "offload/share_layer_";  // and the layer's number

inline bool tells_of_memory(std::string_view metric) {
  return metric.starts_with("memory/") || metric.starts_with("offload/");
}

}  // namespace longhaul::observe
