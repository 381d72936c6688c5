#include "train/rank_table.h"

#include <fmt/format.h>

#include <cstring>

#include "base/progress.h"
#include "model/arena.h"
#include "observe/table.h"

namespace longhaul::train {
namespace {

constexpr int64_t kNumbers = sizeof(Holding) / sizeof(int64_t);
static_assert(kNumbers == 5, "a Holding travels as its numbers");

// "0, 2–3"
std::string text_of(const std::vector<int64_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += last == i ? std::to_string(ranks[i]) : fmt::format("{}–{}", ranks[i], ranks[last]);
    i = last;
  }
  return text;
}

}  // namespace

Holding holding_of(const model::ParameterSet& parameters, optim::Optimizer& optimizer) {
  Holding held;
  const layout::MeshRank& place = parameters.place();
  for (const auto& parameter : parameters.all()) {
    held.values += parameter->value.numel();
    if (!parameter->trainable()) continue;
    if (place.mesh.size(parameter->gradient_partial_over) > 1) held.summed += static_cast<int64_t>(parameter->grad.nbytes());
  }
  for (const auto& arena : parameters.arenas()) {
    held.weights += static_cast<int64_t>(arena->values_come ? arena->own_values.nbytes() : arena->values.nbytes());
    if (!arena->trains()) continue;
    held.gradients += static_cast<int64_t>(arena->gradients_come ? arena->own_gradients.nbytes() : arena->gradients.nbytes());
  }
  for (const optim::StateTensor& tensor : optimizer.state()) held.optimizer += static_cast<int64_t>(tensor.view.nbytes());
  return held;
}

std::vector<Holding> gather_holdings(const parallel::Ranks& ranks, const Holding& own) {
  if (ranks.world() == nullptr) return {own};
  std::vector<Holding> all(static_cast<size_t>(ranks.world()->size()));
  const Tensor mine = at::empty({1, kNumbers}, at::kLong), theirs = at::empty({ranks.world()->size(), kNumbers}, at::kLong);
  std::memcpy(mine.mutable_data_ptr(), &own, sizeof own);
  ranks.world()->all_gather(mine, theirs, {.name = "what the ranks hold"}).wait();
  std::memcpy(all.data(), theirs.const_data_ptr(), all.size() * sizeof(Holding));
  return all;
}

std::string rank_table(const layout::Mesh& mesh, const std::vector<Holding>& holdings, bool colours) {
  using observe::Align;
  observe::Table table(mesh.text(), {{"rank"},
                                     {"parameters", Align::kRight},
                                     {"weights", Align::kRight},
                                     {"gradients", Align::kRight},
                                     {"optimizer state", Align::kRight},
                                     {"gradients summed a step", Align::kRight}});
  std::vector<std::pair<Holding, std::vector<int64_t>>> alike;
  for (size_t rank = 0; rank < holdings.size(); ++rank) {
    const auto same = std::ranges::find(alike, holdings[rank], [](const auto& each) { return each.first; });
    auto& row = same != alike.end() ? *same : alike.emplace_back(holdings[rank], std::vector<int64_t>{});
    row.second.push_back(static_cast<int64_t>(rank));
  }
  for (const auto& [held, ranks] : alike) {
    table.row({text_of(ranks), count_text(held.values), bytes_text(held.weights), bytes_text(held.gradients), bytes_text(held.optimizer),
               bytes_text(held.summed)});
  }
  return table.text(colours);
}

}  // namespace longhaul::train
