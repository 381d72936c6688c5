#include "bench/ranks/folding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/statistics.h"
#include "base/threads/parallel.h"
#include "comm/gloo/rank_processes.h"
#include "comm/world.h"
#include "comm/wrappers/delayed.h"
#include "comm/wrappers/traced.h"
#include "layout/methods/methods.h"
#include "parallel/mesh_ops.h"

namespace longhaul::bench {

// From the process that asks to the ranks, and back.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FoldingRequest, near_bytes_per_second, far_bytes_per_second, tokens,
                                   hidden, intermediate, turns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FoldingRow, experts, chosen, ep, etp, ranks_of_node, bytes_counted,
                                   bytes_formula, exchange_s, seconds, without_links_s, ratio, exchange_ratio,
                                   same_results)

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kRequest = "request.json";
constexpr const char* kRows = "rows.json";

double real(int64_t x) { return static_cast<double>(x); }

// Numbers between −1 and 1 that are the same wherever they are made.
Tensor spread(std::vector<int64_t> sizes, int64_t which) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(count, at::kDouble).mul(1.7).add(0.31 * real(which)).sin().to(at::kFloat).view(sizes);
}

// The mappings of a model; the first is folded, and the others are compared with it.
std::vector<FoldingRow> mappings(int64_t experts, int64_t chosen) {
  const FoldingRow row{.experts = experts, .chosen = chosen, .ep = 8};
  std::vector<FoldingRow> rows;
  for (const int64_t of_node : {8, 4, 1}) rows.push_back(row), rows.back().ranks_of_node = of_node;
  for (const int64_t of_node : {8, 4}) {
    rows.push_back(row);
    rows.back().ep = 2, rows.back().etp = 4, rows.back().ranks_of_node = of_node;
  }
  return rows;
}

// Two products with an activation between them, of the experts that this rank has, or of its part of them.
// The weights of an expert are the same in every mapping.
class Experts {
 public:
  Experts(const FoldingRequest& request, const FoldingRow& row, const layout::MeshRank& place) {
    const int64_t here = row.experts / row.ep, inner = request.intermediate * 8 / row.experts / row.etp,
                  first = place.coordinate(layout::Axis::kEp) * here,
                  begin = place.coordinate(layout::Axis::kEtp) * inner;
    for (int64_t e = first; e < first + here; ++e) {
      const int64_t all = inner * row.etp;
      const Tensor up = spread({all, request.hidden}, 2 * e), down = spread({request.hidden, all}, 2 * e + 1);
      up_.push_back(up.narrow(0, begin, inner).contiguous().requires_grad_(true));
      down_.push_back(down.narrow(1, begin, inner).contiguous().requires_grad_(true));
    }
  }
  Tensor of(const Tensor& rows, const std::vector<int64_t>& rows_per_expert) const {
    std::vector<Tensor> results;
    int64_t begin = 0;
    for (size_t e = 0; e < up_.size(); ++e) {
      const Tensor own = rows.narrow(0, begin, rows_per_expert[e]);
      results.push_back(at::linear(at::silu(at::linear(own, up_[e])), down_[e]));
      begin += rows_per_expert[e];
    }
    return at::cat(results);
  }

 private:
  std::vector<Tensor> up_, down_;
};

// One mapping with links, on this rank; or without, for what computing takes.
class Side {
 public:
  Side(const FoldingRequest& request, const FoldingRow& row, comm::Communicator& world, bool links)
      : log_(std::make_shared<comm::CallLog>(world.rank())),
        delayed_(comm::borrowed(world),
                 std::make_shared<comm::Link>(
                     comm::LinkOptions{.bytes_per_second = links ? request.near_bytes_per_second : 0}),
                 nodes_of(request, row)),
        traced_(comm::borrowed(delayed_), log_),
        groups_(traced_, layout::Mesh(kFoldingRanks, {.ep = row.ep, .etp = row.etp})),
        ops_(groups_, {}, {}),
        experts_(request, row, groups_.place()),
        choices_{.choice_tk = even_choices(request, row, world.rank()),
                 .weight_tk = at::full({request.tokens, row.chosen}, 1 / real(row.chosen)),
                 .experts = row.experts},
        hidden_(spread({request.tokens, request.hidden}, 1000 + world.rank()).requires_grad_(true)) {}

  // One forward and one backward pass, from the moment when all ranks begin until all have ended.
  double seconds() {
    hidden_.mutable_grad() = Tensor();
    meet();
    const Stopwatch watch;
    result_ = ops_.experts(hidden_, choices_,
                           [&](const Tensor& rows, const std::vector<int64_t>& of_expert, const auto&) {
                             return experts_.of(rows, of_expert);
                           });
    result_.backward(at::ones_like(result_));
    meet();
    return watch.seconds();
  }
  // Rows, without the counts of them that go ahead.
  int64_t bytes_of_one() {
    const auto sum = [&] {
      int64_t bytes = 0;
      for (const comm::CallRecord& call : log_->records().calls) {
        if (!call.name.starts_with("rows of experts")) bytes += call.traffic.sent;
      }
      return bytes;
    };
    const int64_t before = sum();
    seconds();
    return sum() - before;
  }
  Tensor results() const { return at::cat({result_.detach(), hidden_.grad()}); }

 private:
  static comm::DelayedNodes nodes_of(const FoldingRequest& request, const FoldingRow& row) {
    comm::DelayedNodes nodes{.times_slower = request.near_bytes_per_second / request.far_bytes_per_second};
    for (int64_t rank = 0; rank < kFoldingRanks; ++rank)
      nodes.node_of_rank.push_back(rank / row.ranks_of_node);
    return nodes;
  }
  // Every expert has equally many rows of every rank.
  static Tensor even_choices(const FoldingRequest& request, const FoldingRow& row, int64_t rank) {
    return at::arange(request.tokens * row.chosen)
        .add(rank)
        .remainder(row.experts)
        .view({request.tokens, row.chosen});
  }
  void meet() { delayed_.barrier({.name = "turn"}).wait(); }

  std::shared_ptr<comm::CallLog> log_;
  comm::Delayed delayed_;
  comm::Traced traced_;
  parallel::MeshGroups groups_;
  parallel::MeshOps ops_;
  Experts experts_;
  model::ExpertChoices choices_;
  Tensor hidden_, result_;
};

// Adds the bytes and seconds of both passes: rows go to experts and back, and are gathered and reduced over
// the ranks that share them. Of the other ranks of a group some are on the own node.
void add_formulas(const FoldingRequest& request, FoldingRow& row) {
  const auto [sent, within] = layout::kExpertParallelism.sent(
      {.hidden = real(4 * request.tokens * request.hidden), .rows_per_token = real(row.chosen)},
      {.ep = row.ep, .etp = row.etp});
  row.bytes_formula = std::llround(4 * (sent + within));
  const auto seconds = [&](double bytes, int64_t size, int64_t stride) {
    if (size == 1) return 0.0;
    const int64_t near = std::clamp<int64_t>(row.ranks_of_node / stride, 1, size) - 1;
    const double here = bytes * real(near) / real(size - 1);
    return std::max(here / request.near_bytes_per_second, (bytes - here) / request.far_bytes_per_second);
  };
  row.exchange_s = 4 * (seconds(sent, row.ep, row.etp) + seconds(within, row.etp, 1));
}

void measure_model(const FoldingRequest& request, comm::Communicator& world, std::vector<FoldingRow>& rows) {
  std::vector<std::unique_ptr<Side>> sides, free;
  for (FoldingRow& row : rows) {
    add_formulas(request, row);
    sides.push_back(std::make_unique<Side>(request, row, world, true));
    free.push_back(std::make_unique<Side>(request, row, world, false));
    row.bytes_counted = sides.back()->bytes_of_one();
    free.back()->seconds();
  }
  std::vector<std::vector<double>> took(rows.size()), alone(rows.size());
  for (int64_t turn = 0; turn < request.turns; ++turn) {
    for (size_t i = 0; i < rows.size(); ++i) {
      took[i].push_back(sides[i]->seconds());
      alone[i].push_back(free[i]->seconds());
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<double> ratios, of_exchange;
    for (size_t turn = 0; turn < took[i].size(); ++turn) {
      ratios.push_back(took[i][turn] / took[0][turn]);
      of_exchange.push_back((took[i][turn] - alone[i][turn]) / (took[0][turn] - alone[0][turn]));
    }
    rows[i].seconds = median(took[i]), rows[i].without_links_s = median(alone[i]);
    rows[i].ratio = median(ratios), rows[i].exchange_ratio = median(of_exchange);
    const Tensor expected = sides[0]->results(), found = sides[i]->results();
    rows[i].same_results =
        found.sub(expected).abs().max().item<double>() <= 1e-4 * expected.abs().max().item<double>();
  }
}

}  // namespace

std::string FoldingRow::mapping() const {
  if (etp > 1) return fmt::format("etp{} ep{}", etp, ep);
  const char* const folded = ranks_of_node == kFoldingRanks ? "folded"
                             : ranks_of_node == 1           ? "not folded"
                                                            : "half folded";
  return fmt::format("cp{} ep{}, {}", ep, ep, folded);
}
std::string FoldingRow::nodes() const {
  return fmt::format("{} of {}", kFoldingRanks / ranks_of_node, ranks_of_node);
}

void require_even(const FoldingRequest& request) {
  if (request.tokens % 32 == 0 && request.intermediate % 32 == 0) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "64 experts of an eighth, cut over four ranks, do not come out even",
               .expected = "--tokens and --intermediate that are multiples of 32",
               .found = fmt::format("{} and {}", request.tokens, request.intermediate),
               .hint = "bench folding --tokens 128 --intermediate 256"});
}

std::vector<FoldingRow> measure_folding(const FoldingRequest& request) {
  const TemporaryFolder folder;
  write_text_atomically(folder / kRequest, Json(request).dump());
  comm::require_all_end_well({.size = kFoldingRanks,
                              .words = {"bench", "folding", "--as-rank", folder.path().string()},
                              .threads = std::max<int64_t>(1, threads() / kFoldingRanks),
                              .folder = folder.path()});
  return Json::parse(read_text(folder / kRows)).get<std::vector<FoldingRow>>();
}

void measure_folding_as_rank(const fs::path& folder) {
  const FoldingRequest request = Json::parse(read_text(folder / kRequest)).get<FoldingRequest>();
  const auto world = comm::join_world();
  std::vector<FoldingRow> all;
  for (const auto& [experts, chosen] : {std::pair<int64_t, int64_t>{8, 2}, {64, 8}}) {
    std::vector<FoldingRow> rows = mappings(experts, chosen);
    measure_model(request, *world, rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  if (world->rank() == 0) write_text_atomically(folder / kRows, Json(all).dump());
}

nlohmann::ordered_json to_json(const FoldingRequest& request, const FoldingRow& row) {
  return {{"name", "folding"},
          {"experts", row.experts},
          {"chosen", row.chosen},
          {"mapping", row.mapping()},
          {"ep", row.ep},
          {"etp", row.etp},
          {"ranks_of_node", row.ranks_of_node},
          {"near_bytes_per_second", request.near_bytes_per_second},
          {"far_bytes_per_second", request.far_bytes_per_second},
          {"bytes_counted", row.bytes_counted},
          {"bytes_formula", row.bytes_formula},
          {"exchange_seconds_by_rates", row.exchange_s},
          {"seconds", row.seconds},
          {"seconds_without_links", row.without_links_s},
          {"times_folded", row.ratio},
          {"exchange_times_folded", row.exchange_ratio},
          {"good", row.good()}};
}

observe::Table table_of(const FoldingRequest& request, const std::vector<FoldingRow>& rows) {
  using observe::Align;
  observe::Table table(
      fmt::format("a layer of experts on {} ranks, {:g} MB/s on a node and {:g} MB/s between nodes",
                  kFoldingRanks, request.near_bytes_per_second / 1e6, request.far_bytes_per_second / 1e6),
      {{"experts"},
       {"mapping"},
       {"nodes"},
       {"MB sent", Align::kRight},
       {"by rates", Align::kRight},
       {"measured", Align::kRight},
       {"without links", Align::kRight},
       {"times folded", Align::kRight},
       {"links alone", Align::kRight},
       {"by rates", Align::kRight},
       {""}});
  const FoldingRow* folded = nullptr;
  for (const FoldingRow& row : rows) {
    if (folded == nullptr || folded->experts != row.experts) folded = &row;
    table.row({fmt::format("{} of {}", row.chosen, row.experts), row.mapping(), row.nodes(),
               fmt::format("{:.2f}", real(row.bytes_counted) / 1e6),
               fmt::format("{:.0f} ms", 1e3 * row.exchange_s), fmt::format("{:.0f} ms", 1e3 * row.seconds),
               fmt::format("{:.0f} ms", 1e3 * row.without_links_s), fmt::format("{:.2f}", row.ratio),
               fmt::format("{:.2f}", row.exchange_ratio),
               fmt::format("{:.2f}", row.exchange_s / folded->exchange_s),
               !row.same_results                        ? "OTHER RESULTS"
               : row.bytes_counted != row.bytes_formula ? "OTHER BYTES"
                                                        : "equal"});
  }
  return table;
}

}  // namespace longhaul::bench
