#include "run/rank_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/progress.h"
#include "model/arena.h"
#include "observe/table.h"

namespace longhaul::run {
namespace {

constexpr int64_t kNumbers = sizeof(Holding) / sizeof(int64_t);
static_assert(kNumbers == 6, "a Holding travels as its numbers");

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

// "0–3", or "0–1, 6–7" of a rank with two stages; "–" where it has none.
std::string layers_of(const layout::MeshRank& place, int64_t layers) {
  std::vector<int64_t> all;
  for (int64_t chunk = 0; chunk < place.pipeline().chunks(); ++chunk) {
    const layout::Range range = place.pipeline().layers_of(place.stage_of(chunk), layers);
    for (int64_t layer = range.begin; layer < range.end(); ++layer) all.push_back(layer);
  }
  std::ranges::sort(all);
  return all.empty() ? "–" : text_of(all);
}

}  // namespace

Holding holding_of(const model::ParameterSet& parameters, optim::Optimizer& optimizer,
                   const optim::OuterLoop* outer) {
  Holding held;
  const layout::MeshRank& place = parameters.place();
  for (const auto& parameter : parameters.all()) {
    held.values += parameter->value.numel();
    if (!parameter->trainable()) continue;
    if (place.mesh.size(parameter->gradient_partial_over) > 1)
      held.summed += static_cast<int64_t>(parameter->grad.nbytes());
  }
  for (const auto& arena : parameters.arenas()) {
    held.weights +=
        static_cast<int64_t>(arena->values_come ? arena->own_values.nbytes() : arena->values.nbytes());
    if (!arena->trains()) continue;
    held.gradients += static_cast<int64_t>(arena->gradients_come ? arena->own_gradients.nbytes()
                                                                 : arena->gradients.nbytes());
  }
  for (const optim::StateTensor& tensor : optimizer.state())
    held.optimizer += static_cast<int64_t>(tensor.view.nbytes());
  if (outer == nullptr) return held;
  for (const optim::StateTensor& tensor : outer->state())
    held.optimizer += static_cast<int64_t>(tensor.view.nbytes());
  return held;
}

std::vector<Holding> gather_holdings(const parallel::Ranks& ranks, const Holding& own) {
  if (ranks.world() == nullptr) return {own};
  std::vector<Holding> all(static_cast<size_t>(ranks.world()->size()));
  const Tensor mine = at::empty({1, kNumbers}, at::kLong),
               theirs = at::empty({ranks.world()->size(), kNumbers}, at::kLong);
  std::memcpy(mine.mutable_data_ptr(), &own, sizeof own);
  ranks.world()->all_gather(mine, theirs, {.name = "what the ranks hold"}).wait();
  std::memcpy(all.data(), theirs.const_data_ptr(), all.size() * sizeof(Holding));
  return all;
}

std::string rank_table(const layout::Mesh& mesh, const recipe::PipelineOptions& pipeline, int64_t layers,
                       const std::vector<Holding>& holdings, bool colours) {
  using observe::Align;
  observe::Table table(mesh.text(), {{"rank"},
                                     {"layers"},
                                     {"parameters", Align::kRight},
                                     {"weights", Align::kRight},
                                     {"gradients", Align::kRight},
                                     {"optimizer state", Align::kRight},
                                     {"gradients summed a step", Align::kRight},
                                     {"planned at its fullest", Align::kRight}});
  using Held = std::pair<Holding, std::string>;
  std::vector<std::pair<Held, std::vector<int64_t>>> alike;
  for (size_t rank = 0; rank < holdings.size(); ++rank) {
    const Held held{holdings[rank],
                    layers_of({mesh, static_cast<int64_t>(rank) % mesh.world(), pipeline}, layers)};
    const auto same = std::ranges::find(alike, held, [](const auto& each) { return each.first; });
    auto& row = same != alike.end() ? *same : alike.emplace_back(held, std::vector<int64_t>{});
    row.second.push_back(static_cast<int64_t>(rank));
  }
  for (const auto& [each, ranks] : alike) {
    const auto& [held, of_layers] = each;
    table.row({text_of(ranks), of_layers, count_text(held.values), bytes_text(held.weights),
               bytes_text(held.gradients), bytes_text(held.optimizer), bytes_text(held.summed),
               held.planned > 0 ? bytes_text(held.planned) : "–"});
  }
  return table.text(colours);
}

nlohmann::json calls_between(const Totals& before, const Totals& after) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [of, totals] : after) {
    const auto earlier = before.find(of);
    const comm::CallTotals base = earlier == before.end() ? comm::CallTotals{} : earlier->second;
    if (totals.calls > base.calls) {
      list.push_back({of.first, comm::name_of(of.second), totals.calls - base.calls,
                      totals.traffic.sent - base.traffic.sent});
    }
  }
  return list;
}

std::string traffic_table(const std::vector<nlohmann::json>& ranks, int64_t step, bool colours) {
  using observe::Align;
  struct Row {
    int64_t calls = 0, most = 0, all = 0;
  };
  std::map<std::pair<std::string, std::string>, Row> rows;
  Row total;
  for (const nlohmann::json& rank : ranks) {
    Row own;
    for (const nlohmann::json& each : rank) {
      Row& row = rows[{each[0], each[1]}];
      const int64_t calls = each[2], sent = each[3];
      row = {std::max(row.calls, calls), std::max(row.most, sent), row.all + sent};
      own = {own.calls + calls, own.most + sent, own.all + sent};
    }
    total = {std::max(total.calls, own.calls), std::max(total.most, own.most), total.all + own.all};
  }
  observe::Table table(fmt::format("bytes sent in step {}", step), {{"group"},
                                                                    {"call"},
                                                                    {"calls of a rank", Align::kRight},
                                                                    {"most of a rank", Align::kRight},
                                                                    {"all ranks", Align::kRight}});
  const auto cells = [](const std::string& group, const std::string& call, const Row& row) {
    return std::vector<std::string>{group, call, count_text(row.calls), bytes_text(row.most),
                                    bytes_text(row.all)};
  };
  for (const auto& [of, row] : rows) {
    // the others are among ranks of groups of one
    if (row.all > 0) table.row(cells(of.first, of.second, row));
  }
  table.total(cells("all", "", total));
  return table.text(colours);
}

}  // namespace longhaul::run
