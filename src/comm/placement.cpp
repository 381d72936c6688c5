#include "comm/placement.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace longhaul::comm {
namespace {

[[noreturn]] void refuse(const std::string& expected, const std::string& found) {
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "the environment does not say which rank this process is",
       .expected = expected,
       .found = found,
       .where = "the environment",
       .hint = "start ranks with `longhaul launch -n N`, torchrun or srun; or unset RANK and WORLD_SIZE to train with one process"});
}

int64_t number_in(const Environment& environment, const std::string& name, int64_t least, int64_t most) {
  const std::optional<std::string> text = environment(name);
  if (!text) refuse(name + ", which belongs to the others that are set", "it is not set");
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (problem != std::errc() || end != text->data() + text->size() || number < least || number > most) {
    refuse(fmt::format("{} as a number from {} to {}", name, least, most), fmt::format("{}={}", name, *text));
  }
  return number;
}

constexpr int64_t kMostRanks = int64_t{1} << 24;

Placement torchrun_place(const Environment& environment) {
  Placement place{.engine = environment("TORCHELASTIC_RUN_ID") ? "torchrun" : "RANK and WORLD_SIZE"};
  if (environment(kLaunched)) place.engine = "longhaul launch";
  place.size = number_in(environment, "WORLD_SIZE", 1, kMostRanks);
  place.rank = number_in(environment, "RANK", 0, place.size - 1);
  if (place.size == 1) return place;
  if (environment("LOCAL_WORLD_SIZE")) place.local_size = number_in(environment, "LOCAL_WORLD_SIZE", 1, place.size);
  place.local_rank = number_in(environment, "LOCAL_RANK", 0, place.size - 1);
  const std::optional<std::string> host = environment("MASTER_ADDR");
  if (!host) refuse("MASTER_ADDR, the address of rank 0", "it is not set");
  place.host = *host;
  place.port = static_cast<uint16_t>(number_in(environment, "MASTER_PORT", 1, 65535));
  place.own_store = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("False") != "True";
  place.attempt = environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return place;
}

Placement slurm_place(const Environment& environment) {
  Placement place{.engine = "Slurm"};
  place.size = number_in(environment, environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1, kMostRanks);
  place.rank = number_in(environment, "SLURM_PROCID", 0, place.size - 1);
  if (place.size == 1) return place;
  place.local_rank = number_in(environment, "SLURM_LOCALID", 0, place.size - 1);
  std::optional<std::string> nodes = environment("SLURM_STEP_NODELIST");
  if (!nodes) nodes = environment("SLURM_JOB_NODELIST");
  std::optional<std::string> host = environment("MASTER_ADDR");
  if (!host && nodes) host = first_host(*nodes);
  if (!host) refuse("SLURM_JOB_NODELIST, or MASTER_ADDR, the address of rank 0", "neither is set");
  place.host = *host;
  // Other jobs on the machine take other ports.
  place.port = static_cast<uint16_t>(environment("MASTER_PORT") ? number_in(environment, "MASTER_PORT", 1, 65535)
                                                                : 20000 + number_in(environment, "SLURM_JOB_ID", 0, INT64_MAX) % 20000);
  place.attempt = fmt::format("{}.{}", environment("SLURM_STEP_ID").value_or("0"), environment("SLURM_RESTART_COUNT").value_or("0"));
  return place;
}

}  // namespace

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

std::vector<std::string> environment_of_rank(int64_t rank, int64_t size, uint16_t port) {
  return {fmt::format("RANK={}", rank),
          fmt::format("WORLD_SIZE={}", size),
          fmt::format("LOCAL_RANK={}", rank),
          fmt::format("LOCAL_WORLD_SIZE={}", size),
          "MASTER_ADDR=127.0.0.1",
          fmt::format("MASTER_PORT={}", port)};
}

std::string first_host(const std::string& slurm_nodes) {
  const size_t end = slurm_nodes.find_first_of(",[");
  std::string host = slurm_nodes.substr(0, end);
  if (end == std::string::npos || slurm_nodes[end] == ',') return host;
  const size_t close = slurm_nodes.find(']', end);
  if (close == std::string::npos) refuse("a list of nodes as Slurm writes it", slurm_nodes);
  host += slurm_nodes.substr(end + 1, slurm_nodes.find_first_of(",-]", end + 1) - end - 1);
  return host + slurm_nodes.substr(close + 1, slurm_nodes.find(',', close) - close - 1);
}

Placement find_place(const Environment& environment) {
  if (environment("RANK") || environment("WORLD_SIZE")) return torchrun_place(environment);
  // Of a step: sbatch's own script and salloc's shell have SLURM_PROCID too, and are alone.
  if (environment("SLURM_PROCID") && environment("SLURM_STEP_ID")) return slurm_place(environment);
  return {};
}

}  // namespace longhaul::comm
