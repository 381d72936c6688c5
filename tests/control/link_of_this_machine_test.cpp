// A real link that goes down: a pair of interfaces in a network of this test's own, where this user may make
// one.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files/temporary_folder.h"
#include "control/sensors/sensors.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

enum Outcome { kGood = 0, kNotHere = 10, kSeenTooEarly, kNotSeen, kSeenTwice, kFlapNotSeen };

// In a child of its own: the network is gone with it.
Outcome in_a_network_of_its_own(const fs::path& root) {
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return kNotHere;
  fs::create_directories(root / "sys");
  if (::mount("sysfs", (root / "sys").c_str(), "sysfs", MS_RDONLY, nullptr) != 0) return kNotHere;
  fs::create_directory_symlink("/proc", root / "proc");
  const auto types = [](const char* command) { return std::system(command) == 0; };
  if (!types("ip link add here type veth peer name there && ip link set here up && ip link set there up && "
             "ip addr add 10.77.0.1/24 dev here && ip route add default via 10.77.0.2"))
    return kNotHere;
  LinkSensor sensor({.folder = root});
  if (!sensor.look().empty() || !sensor.look().empty()) return kSeenTooEarly;
  if (!types("ip link set there down")) return kNotHere;
  const std::vector<HealthReport> down = sensor.look();
  if (down.size() != 1 || down[0].kind != "network" || down[0].device != "here") return kNotSeen;
  if (!sensor.look().empty() || !types("ip link set there up")) return kSeenTwice;
  sensor.look();
  if (!types("ip link set there down && ip link set there up")) return kNotHere;
  const std::vector<HealthReport> flap = sensor.look();
  return flap.size() == 1 && flap[0].kind == "network" ? kGood : kFlapNotSeen;
}

TEST(LinkOfThisMachine, GoesDownAndFlaps) {
  const TemporaryFolder root;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(in_a_network_of_its_own(root.path()));
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotHere)
    GTEST_SKIP() << "this user can make no network of its own, or there is no `ip`";
  EXPECT_EQ(WEXITSTATUS(status), kGood);
}

}  // namespace
}  // namespace longhaul::control
