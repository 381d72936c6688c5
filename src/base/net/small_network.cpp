#include "base/net/small_network.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/process/own_mounts.h"
#include "base/process/process.h"

namespace longhaul {
namespace {

constexpr const char* kNetworks = "/run/netns";  // where ip keeps those that have a name
constexpr int64_t kMostMachines = 200, kFirstAddress = 10;

std::string name_of_machine(int64_t machine) { return fmt::format("machine-{}", machine); }
std::string port_of(int64_t machine) { return fmt::format("port-{}", machine); }  // of the switch

bool ip(const std::string& words) {
  std::vector<std::string> argv = {"ip"};
  std::istringstream split(words);
  for (std::string word; split >> word;) argv.push_back(word);
  return run_process(argv).status == 0;
}

// Names that no other network of this machine meets.
bool names_of_its_own() {
  std::error_code refused;
  std::filesystem::create_directories(kNetworks, refused);
  return sees_mounts_of_its_own() && ::mount("none", kNetworks, "tmpfs", 0, "size=1m") == 0;
}

bool plug_in(int64_t machine) {
  const std::string name = name_of_machine(machine), port = port_of(machine);
  return ip("netns add " + name) &&
         ip(fmt::format("link add {} type veth peer name plug netns {}", port, name)) &&
         ip(fmt::format("link set {} master switch up", port)) &&
         ip(fmt::format("-n {} addr add {}/24 dev plug", name, SmallNetwork::address_of(machine))) &&
         ip(fmt::format("-n {} link set lo up", name)) && ip(fmt::format("-n {} link set plug up", name));
}

}  // namespace

SmallNetwork::SmallNetwork(int64_t machines) {
  LONGHAUL_ASSERT(machines >= 0 && machines <= kMostMachines, "{} machines", machines);
  before_ = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (before_ < 0 || !names_of_its_own() || ::unshare(CLONE_NEWNET) != 0) return;
  try {
    usable_ = ip("link set lo up") && ip("link add switch type bridge") &&
              ip(fmt::format("addr add {}/24 dev switch", kAtSwitch)) && ip("link set switch up");
    for (int64_t machine = 0; usable_ && machine < machines; ++machine) usable_ = plug_in(machine);
  } catch (const Error&) {
    usable_ = false;  // there is no such program
  }
}

SmallNetwork::~SmallNetwork() {
  if (before_ < 0) return;
  ::setns(before_, CLONE_NEWNET);
  ::close(before_);
  if (usable_) ::umount2(kNetworks, MNT_DETACH);
}

std::string SmallNetwork::address_of(int64_t machine) {
  return fmt::format("10.77.0.{}", kFirstAddress + machine);
}

// nsenter rather than ip: that would hide /sys/fs/cgroup.
std::vector<std::string> SmallNetwork::on(int64_t machine, const std::vector<std::string>& argv) {
  std::vector<std::string> words = {"nsenter",
                                    fmt::format("--net={}/{}", kNetworks, name_of_machine(machine)), "--"};
  words.insert(words.end(), argv.begin(), argv.end());
  return words;
}

void SmallNetwork::cut(int64_t machine) const { ip(fmt::format("link set {} down", port_of(machine))); }

void SmallNetwork::join(int64_t machine) const { ip(fmt::format("link set {} up", port_of(machine))); }

}  // namespace longhaul
