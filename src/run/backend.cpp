#include "run/backend.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "comm/c10d/nccl.h"

namespace longhaul::run {
namespace {

using recipe::Backend;
constexpr const char* kKey = "parallel.backend";

// Not by who wrote the resolved recipe of an earlier run, in which every key has a value.
bool said_by_someone(const recipe::Origin& origin) { return origin.kind != recipe::Origin::Kind::kDefault && origin.earlier != "default"; }

[[noreturn]] void refuse(const recipe::LoadedRecipe& recipe, ErrorFields fields) {
  fields.code = ExitCode::kUsage;
  fields.where = fmt::format("{} ({})", kKey, recipe.origin(kKey).text());
  throw Error(std::move(fields));
}

}  // namespace

void require_backend(const recipe::LoadedRecipe& recipe, const comm::Placement& place) {
  const Backend backend = recipe.recipe.parallel.backend;
  const bool alone = place.engine == comm::Placement{}.engine;
  const std::string launch =
      program_command(fmt::format("launch -n {} {} …", std::max<int64_t>(2, recipe.recipe.parallel.world()), shell_quoted(recipe.source)));
  if (backend == Backend::kNccl && !comm::has_nccl()) {
    refuse(recipe, {.what = "ranks cannot exchange over NCCL",
                    .expected = "a Longhaul that NCCL is compiled into",
                    .found = "this one was built without it",
                    .hint = fmt::format("{}=gloo: processes, over TCP; or {}=threads", kKey, kKey)});
  }
  if ((backend == Backend::kGloo || backend == Backend::kNccl) && alone) {
    refuse(recipe, {.what = "the ranks are to be processes, and this process was started alone",
                    .expected = "as many processes as ranks, which `longhaul launch`, torchrun or srun start",
                    .found = "no RANK and WORLD_SIZE, and no step of Slurm, in the environment",
                    .hint = launch});
  }
  if (backend == Backend::kThreads && place.size > 1 && said_by_someone(recipe.origin(kKey))) {
    refuse(recipe, {.what = "the ranks are to be threads of one process, and several processes were started",
                    .expected = fmt::format("{}=gloo, or one process", kKey),
                    .found = fmt::format("{} processes, by {}", place.size, place.engine),
                    .hint = fmt::format("leave {} out: ranks are then what was started", kKey)});
  }
}

}  // namespace longhaul::run
