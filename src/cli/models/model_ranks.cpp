#include "cli/models/model_ranks.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/error.h"
#include "comm/placement.h"
#include "comm/threads/run_ranks.h"

namespace longhaul::cli {
namespace {

constexpr int64_t kMostRanks = 1024;

void require_threads(const RankOptions& options, const comm::Placement& place) {
  if (place.size == 1) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "other ranks are here than --tp and --pp ask for",
       .expected = fmt::format("{} ranks, or one process whose threads are the ranks", options.ranks()),
       .found = fmt::format("{} ranks", place.size),
       .where = place.engine,
       .hint = fmt::format("start {} ranks, or leave the launcher out", options.ranks())});
}

}  // namespace

void add_rank_options(Command& command, RankOptions& options) {
  command
      .option("--tp", options.tp,
              "ranks that share the tensors of each layer; threads of this process, or the processes that "
              "torchrun or srun started")
      .at_least(1)
      .at_most(kMostRanks)
      .default_shown();
  command.option("--pp", options.pp, "stages of layers; their ranks times --tp are all")
      .at_least(1)
      .at_most(kMostRanks)
      .default_shown();
}

void on_ranks(const RankOptions& options, const char* command, comm::IdentityParts told,
              const std::function<void(comm::Communicator* world)>& body) {
  if (options.ranks() == 1) return body(nullptr);
  const comm::Placement place = comm::find_place();
  if (place.size == options.ranks()) {
    told.insert(told.end(), {{"--tp", std::to_string(options.tp)}, {"--pp", std::to_string(options.pp)}});
    std::string all;
    for (const auto& [option, value] : told) all += fmt::format("{} {}\n", option, value);
    const auto world = comm::join_world({.identity = {{command, sha256_hex(all), told}}}, place);
    return body(world.get());
  }
  require_threads(options, place);
  comm::run_ranks(options.ranks(), [&](comm::Communicator& world) { body(&world); });
}

ModelOnRanks open_on_ranks(const std::filesystem::path& path, const std::string& dtype, at::Device device,
                           checkpoint::ModelForm form, const RankOptions& options,
                           comm::Communicator* world) {
  ModelOnRanks opened;
  form.ranks = world;
  if (world != nullptr) {
    form.place = [&](const recipe::ModelConfig& config) {
      recipe::ParallelOptions parallel;
      parallel.tp = options.tp;
      parallel.pp = options.pp;
      const parallel::Arrangement arrangement = parallel::arrangement_of(config, parallel, world->size());
      parallel::require_possible(config, arrangement);
      opened.ranks = std::make_unique<parallel::Ranks>(*world, arrangement);
      return opened.ranks->place();
    };
  }
  opened.model = checkpoint::open_model(path, dtype, device, form);
  return opened;
}

}  // namespace longhaul::cli
