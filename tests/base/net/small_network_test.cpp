#include "base/net/small_network.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/clock.h"
#include "base/machine/kernel_file.h"
#include "base/process/process.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

std::string links_seen_by(const std::vector<std::string>& argv) { return run_process(argv).output; }

// Machines reach each other by way of the switch as long as their links are up; this machine sees none of it.
TEST(SmallNetwork, ALinkThatIsCutIsDownUntilItIsJoined) {
  bool usable = false;
  Worker worker("network");
  worker.post([&] {
    const SmallNetwork network(2);
    usable = network.usable();
    if (!usable) return;
    // A link needs a moment to notice.
    const auto carrier_becomes = [&](int64_t machine, bool wanted) {
      for (const Stopwatch watch; watch.seconds() < 60; pause_briefly()) {
        const std::string link =
            links_seen_by(SmallNetwork::on(machine, {"ip", "-o", "link", "show", "plug"}));
        if ((link.find("LOWER_UP") != std::string::npos) == wanted) return true;
      }
      return false;
    };
    EXPECT_NE(links_seen_by(SmallNetwork::on(1, {"ip", "addr"})).find("10.77.0.11/24"), std::string::npos);
    EXPECT_EQ(links_seen_by(SmallNetwork::on(1, {"ip", "addr"})).find("10.77.0.10"), std::string::npos)
        << "each has one link";
    EXPECT_TRUE(carrier_becomes(0, true) && carrier_becomes(1, true));
    network.cut(1);
    EXPECT_TRUE(carrier_becomes(1, false));
    EXPECT_TRUE(carrier_becomes(0, true)) << "the other one's is as it was";
    network.join(1);
    EXPECT_TRUE(carrier_becomes(1, true));
    EXPECT_EQ(kernel_text("/proc/self/net/dev").find("switch"), std::string::npos)
        << "of the process's other threads";
  });
  worker.wait();
  std::string after;
  worker.post([&] { after = kernel_text("/proc/thread-self/net/dev"); });
  worker.wait();
  EXPECT_EQ(after.find("switch"), std::string::npos) << "the thread is where it was";
  EXPECT_FALSE(std::filesystem::exists("/run/netns/machine-0"));
  if (!usable) GTEST_SKIP() << "this user can make no networks, or the programs ip and nsenter are not here";
}

}  // namespace
}  // namespace longhaul
