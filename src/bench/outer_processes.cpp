#include "bench/outer_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/launch.h"
#include "base/network.h"
#include "base/parallel.h"
#include "base/temporary_folder.h"
#include "comm/placement.h"
#include "comm/world.h"

namespace longhaul::bench {

// From the process that asks to the workers, and back.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OuterRequest, bytes_per_second, layers, hidden, vocabulary, sequence, batch, dtype, turns, rounds, steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OuterRow, workers, every, parameters, reason, step_s, exchange_s, waited, co2, co2_free, adamw, adamw_free,
                                   kept, adamw_kept, same_weights)

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kRequest = "request.json";
constexpr const char* kRow = "row.json";

}  // namespace

OuterRow measure_outer_in_processes(const OuterRequest& request, int64_t workers) {
  const TemporaryFolder folder;
  write_text_atomically(folder / kRequest, Json(request).dump());
  const uint16_t port = free_port();
  const int64_t share = std::max<int64_t>(1, threads() / workers);
  std::vector<LaunchedProcess> ranks;
  for (int64_t rank = 0; rank < workers; ++rank) {
    LaunchedProcess& one = ranks.emplace_back();
    one.argv = {fs::canonical("/proc/self/exe").string(), "bench", "outer", "--as-rank", folder.path().string()};
    one.environment = comm::environment_of_rank(rank, workers, port);
    one.environment.push_back(fmt::format("OMP_NUM_THREADS={}", share));
    one.log = folder / fmt::format("rank-{}.log", rank);
  }
  const LaunchResult result = launch(ranks, static_cast<int>(ExitCode::kCommunication));
  if (result.first) {
    throw Error({.code = ExitCode::kCommunication,
                 .what = fmt::format("worker {} of {} ended with {}", *result.first, workers, result.statuses[*result.first]),
                 .expected = "all workers to end well",
                 .found = read_text(*ranks[*result.first].log)});
  }
  return Json::parse(read_text(folder / kRow)).get<OuterRow>();
}

void measure_outer_as_rank(const fs::path& folder) {
  const OuterRequest request = Json::parse(read_text(folder / kRequest)).get<OuterRequest>();
  const auto world = comm::join_world();
  const OuterRow row = measure_outer_on(request, *world, [] {});
  if (world->rank() == 0) write_text_atomically(folder / kRow, Json(row).dump());
}

}  // namespace longhaul::bench
