#include "bench/driver/drill_cluster.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/process/children.h"
#include "base/process/signals.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "node-";
constexpr int64_t kWithRanks = 2;

int64_t machine_of(const std::string& node) { return std::stoll(node.substr(std::string(kName).size())); }

// Before anything at the switch is used.
const SmallNetwork& must_be_usable(const SmallNetwork& network) {
  if (network.usable()) return network;
  throw Error({.code = ExitCode::kInternal,
               .what = "no network of this process's own could be made",
               .where = "bench faults"});
}

}  // namespace

DrillCluster::DrillCluster(int64_t machines)
    : machines_(machines),
      network_(machines),
      proxy_((must_be_usable(network_), Endpoint{SmallNetwork::kAtSwitch, 0}),
             parse_endpoint(kDriver, "the driver of a drill")) {}

DrillCluster::~DrillCluster() {
  for (const int daemon : daemons_) {
    if (!exit_of(daemon)) Children::signal(daemon, SIGKILL);
  }
}

void DrillCluster::start(const fs::path& run, int64_t slots, const std::vector<std::string>& environment) {
  const std::string driver = Endpoint{SmallNetwork::kAtSwitch, proxy_.port()}.text(),
                    program = fs::canonical("/proc/self/exe").string();
  for (int64_t machine = 0; machine < machines_; ++machine) {
    const std::string name = fmt::format("{}{}", kName, machine);
    std::vector<std::string> argv = {program,           "node",
                                     "--driver",        driver,
                                     "--secret",        run / "control" / "secret",
                                     "--name",          name,
                                     "--slots",         std::to_string(slots),
                                     "--shares-machine"};
    if (machine >= kWithRanks) argv.emplace_back("--spare");
    daemons_.push_back(start_child({.argv = SmallNetwork::on(machine, argv),
                                    .environment = environment,
                                    .log = run.parent_path() / (name + ".log"),
                                    .death_signal = SIGTERM,
                                    .own_session = true}));
  }
}

void DrillCluster::cut(const std::string& node) const { network_.cut(machine_of(node)); }

void DrillCluster::join(const std::string& node) const { network_.join(machine_of(node)); }

void DrillCluster::silence(const std::string& node) {
  proxy_.silence(SmallNetwork::address_of(machine_of(node)));
}

}  // namespace longhaul::bench
