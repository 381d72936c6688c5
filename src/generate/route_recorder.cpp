#include "generate/route_recorder.h"

#include "generate/engine.h"

namespace longhaul::generate {

void RouteRecorder::read(std::span<const Continuation> continuations, const model::Routes& routes) {
  int64_t first = 0;
  for (const auto& [row, ids, adapter] : continuations) {
    Sequence& sequence = of_rows_[row];
    sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
    for (const auto& [block, choice_tk] : routes)
      sequence.choices[block].push_back(choice_tk.narrow(0, first, std::ssize(ids)));
    first += std::ssize(ids);
  }
}

RoutedSequence RouteRecorder::take(int64_t row) {
  const auto node = of_rows_.extract(row);
  RoutedSequence routed{node.mapped().ids, {}};
  for (const auto& [block, parts] : node.mapped().choices) routed.routes[block] = at::cat(parts).cpu();
  return routed;
}

}  // namespace longhaul::generate
