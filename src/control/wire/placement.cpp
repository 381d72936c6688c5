#include "control/wire/placement.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul::control {
namespace {

[[noreturn]] void refuse(const std::string& expected, const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "the environment does not say which rank this process is",
               .expected = expected,
               .found = found,
               .where = "the environment",
               .hint = "start ranks with `longhaul launch -n N`, torchrun or srun; or unset RANK and "
                       "WORLD_SIZE to train with one process"});
}

int64_t number_in(const Environment& environment, const std::string& name, int64_t least, int64_t most) {
  const std::optional<std::string> text = environment(name);
  if (!text) refuse(name + ", which belongs to the others that are set", "it is not set");
  const std::optional<int64_t> number = parse_number<int64_t>(*text);
  if (!number || *number < least || *number > most)
    refuse(fmt::format("{} as a number from {} to {}", name, least, most), fmt::format("{}={}", name, *text));
  return *number;
}

constexpr int64_t kMostRanks = int64_t{1} << 24;

// The engines that set torchrun's variables. Ray's own variables of a worker are from memory.
std::string setter_of_ranks(const Environment& environment) {
  if (environment(kLaunched)) return "longhaul launch";
  if (environment("TORCHELASTIC_RUN_ID")) return "torchrun";
  if (environment("RAY_JOB_ID") || environment("RAY_RAYLET_PID")) return "Ray";
  if (environment("PET_NNODES")) return "Kubeflow";
  if (environment("JOB_COMPLETION_INDEX")) return "JobSet";
  return "RANK and WORLD_SIZE";
}

// Kubeflow counts pods where others count processes: RANK is the pod's number, WORLD_SIZE the number of all
// processes in the pods.
void require_one_process_a_pod(const Environment& environment) {
  const std::string processes = environment("PET_NPROC_PER_NODE").value_or("1");
  if (processes == "1" || processes == "auto" || processes == "cpu" || processes == "gpu") return;
  refuse("one rank a pod: Kubeflow's RANK is the number of a pod, not of a process",
         "PET_NPROC_PER_NODE=" + processes);
}

Placement torchrun_place(const Environment& environment) {
  Placement place{.engine = setter_of_ranks(environment)};
  if (place.engine == "Kubeflow") require_one_process_a_pod(environment);
  place.size = number_in(environment, "WORLD_SIZE", 1, kMostRanks);
  place.rank = number_in(environment, "RANK", 0, place.size - 1);
  if (place.size == 1) return place;
  if (environment("LOCAL_WORLD_SIZE"))
    place.local_size = number_in(environment, "LOCAL_WORLD_SIZE", 1, place.size);
  // A pod has one rank, and Kubeflow gives no local rank.
  if (place.engine != "Kubeflow" || environment("LOCAL_RANK"))
    place.local_rank = number_in(environment, "LOCAL_RANK", 0, place.size - 1);
  place.node_rank = place.engine == "Kubeflow" ? place.rank : place.rank / place.local_size;
  for (const char* const name : {"NODE_RANK", "GROUP_RANK"}) {
    if (environment(name)) place.node_rank = number_in(environment, name, 0, place.size - 1);
  }
  const std::optional<std::string> host = environment("MASTER_ADDR");
  if (!host) refuse("MASTER_ADDR, the address of rank 0", "it is not set");
  place.host = *host;
  place.port = static_cast<uint16_t>(number_in(environment, "MASTER_PORT", 1, 65535));
  place.own_store = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("False") != "True";
  place.attempt = environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return place;
}

// Kubeflow's Trainer v2 numbers pods and sets no RANK. The middle of the address has changed between its
// releases, so it is taken as it is.
Placement kubeflow_place(const Environment& environment) {
  require_one_process_a_pod(environment);
  Placement place{.engine = "Kubeflow"};
  place.size = number_in(environment, "PET_NNODES", 1, kMostRanks);
  place.rank = number_in(environment, "PET_NODE_RANK", 0, place.size - 1);
  place.node_rank = place.rank;
  if (place.size == 1) return place;
  const std::optional<std::string> host = environment("PET_MASTER_ADDR");
  if (!host) refuse("PET_MASTER_ADDR, the address of rank 0", "it is not set");
  place.host = *host;
  place.port = static_cast<uint16_t>(number_in(environment, "PET_MASTER_PORT", 1, 65535));
  return place;
}

// Other jobs on the machine use other ports, and so do other steps of this job, which may run at the same
// time.
int64_t port_of_step(const Environment& environment) {
  constexpr int64_t kPorts = 20000,
                    // a job's first steps differ from the next jobs'; coprime to kPorts, so that all ports
      // are used
      kApart = 131;
  const std::string step = environment("SLURM_STEP_ID").value_or("0");
  // for a step of several components, its first part
  const int64_t number = leading_number<int64_t>(step).value_or(0);
  return 20000 +
         (number_in(environment, "SLURM_JOB_ID", 0, INT64_MAX) % kPorts * kApart + number % kPorts) % kPorts;
}

Placement slurm_place(const Environment& environment) {
  Placement place{.engine = "Slurm"};
  place.size =
      number_in(environment, environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1,
                kMostRanks);
  place.rank = number_in(environment, "SLURM_PROCID", 0, place.size - 1);
  if (place.size == 1) return place;
  place.local_rank = number_in(environment, "SLURM_LOCALID", 0, place.size - 1);
  if (environment("SLURM_NODEID"))
    place.node_rank = number_in(environment, "SLURM_NODEID", 0, place.size - 1);
  std::optional<std::string> tasks = environment("SLURM_STEP_TASKS_PER_NODE");
  if (!tasks) tasks = environment("SLURM_TASKS_PER_NODE");
  if (tasks) place.local_size = tasks_on(*tasks, place.node_rank);
  std::optional<std::string> nodes = environment("SLURM_STEP_NODELIST");
  if (!nodes) nodes = environment("SLURM_JOB_NODELIST");
  std::optional<std::string> host = environment("MASTER_ADDR");
  if (!host && nodes) host = hosts_in(*nodes).front();
  if (!host) refuse("SLURM_JOB_NODELIST, or MASTER_ADDR, the address of rank 0", "neither is set");
  place.host = *host;
  place.port =
      static_cast<uint16_t>(environment("MASTER_PORT") ? number_in(environment, "MASTER_PORT", 1, 65535)
                                                       : port_of_step(environment));
  place.attempt = fmt::format("{}.{}", environment("SLURM_STEP_ID").value_or("0"),
                              environment("SLURM_RESTART_COUNT").value_or("0"));
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

namespace {

constexpr int64_t kMostHosts = 1 << 20;  // in one list: it may be anybody's

// "03-12", "20": the numbers with the zeros they are written with.
void add_hosts(std::vector<std::string>& hosts, const std::string& before, const std::string& range,
               const std::string& after, const std::string& list) {
  const size_t dash = range.find('-');
  const std::string first = range.substr(0, dash),
                    last = dash == std::string::npos ? first : range.substr(dash + 1);
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(first) || !is_number(last)) refuse("a list of nodes as Slurm writes it", list);
  for (int64_t number = std::stoll(first); number <= std::stoll(last); ++number) {
    if (static_cast<int64_t>(hosts.size()) >= kMostHosts)
      refuse("a list of less than a million nodes", brief(list));
    hosts.push_back(before + fmt::format("{:0{}}", number, first.size()) + after);
  }
}

// One name, or several written as one: "n[03-12,20]-a".
void add_hosts(std::vector<std::string>& hosts, const std::string& name, const std::string& list) {
  const size_t open = name.find('['), close = name.find(']');
  if (open == std::string::npos && close == std::string::npos && !name.empty()) return hosts.push_back(name);
  if (open == std::string::npos || close == std::string::npos || close < open)
    refuse("a list of nodes as Slurm writes it", list);
  size_t begin = open + 1;
  while (begin <= close) {
    const size_t end = std::min(close, name.find(',', begin));
    add_hosts(hosts, name.substr(0, open), name.substr(begin, end - begin), name.substr(close + 1), list);
    begin = end + 1;
  }
}

}  // namespace

std::vector<std::string> hosts_in(const std::string& slurm_nodes) {
  std::vector<std::string> hosts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= slurm_nodes.size(); ++i) {
    if (i < slurm_nodes.size() && slurm_nodes[i] == '[') inside = true;
    if (i < slurm_nodes.size() && slurm_nodes[i] == ']') inside = false;
    if (i < slurm_nodes.size() && (slurm_nodes[i] != ',' || inside)) continue;
    add_hosts(hosts, slurm_nodes.substr(begin, i - begin), slurm_nodes);
    begin = i + 1;
  }
  return hosts;
}

int64_t tasks_on(const std::string& slurm_tasks, int64_t node) {
  const char* at = slurm_tasks.data();
  const char* const end = at + slurm_tasks.size();
  while (at < end) {
    int64_t tasks = 0, times = 1;
    const char* next = std::from_chars(at, end, tasks).ptr;
    if (tasks < 1) break;
    if (end - next > 2 && next[0] == '(' && next[1] == 'x') {
      next = std::from_chars(next + 2, end, times).ptr;
      if (times < 1 || next == end || *next++ != ')') break;
    }
    if (next != end && *next != ',') break;
    if (node < times) return tasks;
    node -= times;
    at = next == end ? end : next + 1;
  }
  refuse("tasks of each node as Slurm writes them, \"8(x2),4\"", slurm_tasks);
}

Placement find_place(const Environment& environment) {
  if (environment("RANK") || environment("WORLD_SIZE")) return torchrun_place(environment);
  if (environment("PET_NODE_RANK") && environment("PET_NNODES")) return kubeflow_place(environment);
  // For a step only: sbatch's own script and salloc's shell have SLURM_PROCID too, but are alone.
  if (environment("SLURM_PROCID") && environment("SLURM_STEP_ID")) return slurm_place(environment);
  return {};
}

}  // namespace longhaul::control
