#include "bench/models/outer_processes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/threads/parallel.h"
#include "comm/gloo/rank_processes.h"
#include "comm/world.h"

namespace longhaul::bench {

// From the process that asks to the workers, and back.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OuterRequest, bytes_per_second, layers, hidden, vocabulary, sequence,
                                   batch, dtype, turns, rounds, steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OuterRow, workers, every, parameters, reason, step_s, exchange_s, waited,
                                   co2, co2_free, adamw, adamw_free, kept, adamw_kept, same_weights)

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kRequest = "request.json";
constexpr const char* kRow = "row.json";

}  // namespace

OuterRow measure_outer_in_processes(const OuterRequest& request, int64_t workers) {
  const TemporaryFolder folder;
  write_text_atomically(folder / kRequest, Json(request).dump());
  comm::require_all_end_well({.size = workers,
                              .words = {"bench", "outer", "--as-rank", folder.path().string()},
                              .threads = std::max<int64_t>(1, threads() / workers),
                              .folder = folder.path()});
  return Json::parse(read_text(folder / kRow)).get<OuterRow>();
}

void measure_outer_as_rank(const fs::path& folder) {
  const OuterRequest request = Json::parse(read_text(folder / kRequest)).get<OuterRequest>();
  const auto world = comm::join_world();
  const OuterRow row = measure_outer_on(request, *world, [] {});
  if (world->rank() == 0) write_text_atomically(folder / kRow, Json(row).dump());
}

}  // namespace longhaul::bench
