// Files of /proc and /sys as machines have them, in a folder: what is made of them, computed by hand.
#include "base/machine/machine_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class MachineCountersTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    make_folders(path.parent_path());
    write_text_atomically(path, text);
  }
  MachineCounters read() const { return read_machine_counters(files_); }

  TemporaryFolder folder_;
  MachineFiles files_{.proc = folder_ / "proc", .sys = folder_ / "sys", .disk = folder_.path()};
};

TEST_F(MachineCountersTest, OfAMachineWithTwoInterfacesAndAnRdmaPort) {
  put("proc/stat",
      "cpu  2539252 871979 671065 702938 21254 0 21070 11905 500 20\n"
      "cpu0 1264990 423440 338057 369217 8441 0 9607 5941 0 0\nintr 1 2 3\n");
  put("proc/meminfo",
      "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    4000000 kB\nBuffers:       "
      "   100000 kB\n");
  put("proc/net/dev",
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo "
      "colls carrier compressed\n"
      "    lo: 98919047704 82648285    0    0    0     0          0         0 98919047704 82648285    0    0 "
      "   0     0       0          0\n"
      "  eth0: 197947348   22203    0    0    0     0          0         0  1673754   20609    0    0    0   "
      "  0       0          0\n"
      "enp1s0:18446744073709551615 1 0 0 0 0 0 0 18446744073709551614 2 0 0 0 0 0 0\n");
  put("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "1000\n");
  put("sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_ecn_marked_roce_packets", "7\n");
  const MachineCounters counters = read();
  ASSERT_TRUE(counters.processors);
  // Guests (500, 20) are in user and nice already; everything but the fourth field is work.
  EXPECT_EQ(counters.processors->all, 2539252u + 871979 + 671065 + 702938 + 21254 + 0 + 21070 + 11905);
  EXPECT_EQ(counters.processors->worked, counters.processors->all - 702938);
  EXPECT_DOUBLE_EQ(*counters.memory_share, 0.75);  // 4 of 16 GB are available
  EXPECT_THAT(counters.network_sent,
              ElementsAre(Pair("enp1s0", 18446744073709551614u), Pair("eth0", 1673754u)));
  EXPECT_THAT(counters.rdma_sent, ElementsAre(Pair("mlx5_0/1", 4000u)));  // units of four octets
  EXPECT_THAT(counters.ecn_marked, ElementsAre(Pair("mlx5_0/1", 7u)));
  EXPECT_TRUE(counters.cnp_handled.empty()) << "this port has no such counter";
  ASSERT_TRUE(counters.disk_share);
  EXPECT_GT(*counters.disk_share, 0);
  EXPECT_LT(*counters.disk_share, 1);
}

// By the names of drivers that are about; how long pauses lasted is no number of frames, and taking a pause
// back is none.
TEST_F(MachineCountersTest, PauseFramesThatWereSent) {
  EXPECT_EQ(pause_frames_sent({{"tx_prio0_pause", 3},
                               {"tx_prio3_pause", 40},
                               {"tx_prio3_pause_duration", 999},
                               {"tx_prio3_pause_transition", 9},
                               {"rx_prio3_pause", 77},
                               {"tx_pause_ctrl_phy", 5000}}),
            43u);
  EXPECT_EQ(
      pause_frames_sent({{"tx_pfc_ena_frames_pri0", 1}, {"tx_pfc_ena_frames_pri5", 2}, {"tx_pfc_frames", 3}}),
      3u);
  EXPECT_EQ(
      pause_frames_sent(
          {{"tx_priority_1_xoff.nic", 4}, {"tx_priority_1_xon.nic", 400}, {"rx_priority_1_xoff.nic", 4000}}),
      4u);
  EXPECT_EQ(pause_frames_sent({{"tx_pause_ctrl_phy", 6}, {"tx_packets", 600}}), 6u);
  EXPECT_EQ(pause_frames_sent({{"tx_flow_control_xoff", 8}}), 8u);
  EXPECT_EQ(pause_frames_sent({{"rx_queue_0_packets", 6}}), std::nullopt);
}

TEST_F(MachineCountersTest, PausesOfInterfacesWithADeviceBehindThem) {
  make_folders(folder_ / "sys/class/net/eth0/device");
  make_folders(folder_ / "sys/class/net/veth1");
  std::vector<std::string> asked;
  files_.statistics_of = [&](const std::string& interface) {
    asked.push_back(interface);
    return NetworkStatistics{{"tx_prio3_pause", 12}};
  };
  EXPECT_THAT(read().pauses_sent, ElementsAre(Pair("eth0", 12u)));
  EXPECT_THAT(asked, ElementsAre("eth0"));
}

// What this machine's own driver answers, whatever it counts; the loopback has no counters.
TEST(NetworkStatistics, OfThisMachine) {
  EXPECT_TRUE(network_statistics("lo").empty());
  EXPECT_TRUE(network_statistics("no such interface").empty());
  EXPECT_TRUE(network_statistics("").empty());
  std::error_code none;
  for (const auto& interface : std::filesystem::directory_iterator("/sys/class/net", none)) {
    for (const auto& [name, value] : network_statistics(interface.path().filename().string()))
      EXPECT_FALSE(name.empty()) << value;
  }
}

TEST_F(MachineCountersTest, WhatIsNotThereHasNoValue) {
  files_.disk = folder_ / "absent";
  const MachineCounters counters = read();
  EXPECT_FALSE(counters.processors || counters.memory_share || counters.disk_share);
  EXPECT_TRUE(counters.network_sent.empty() && counters.rdma_sent.empty());
  EXPECT_GT(counters.at_ns, 0);
}

TEST_F(MachineCountersTest, DamagedAndForeignFilesHaveNone) {
  put("proc/stat", "cpu  12 13\n");                // no idle time in it
  put("proc/meminfo", "MemTotal: 16000000 kB\n");  // of a kernel before 3.14
  put("proc/net/dev", "eth0: 1 2 3\nnothing here\n");
  put("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "N/A (no PMA)\n");
  const MachineCounters counters = read();
  EXPECT_FALSE(counters.processors || counters.memory_share);
  EXPECT_TRUE(counters.network_sent.empty() && counters.rdma_sent.empty());
}

TEST_F(MachineCountersTest, OfProcessesAlone) {
  put("proc/stat", "cpu  500 0 300 1000 100 0 0 100 0 0\n");
  put("proc/meminfo", "MemTotal:       1000000 kB\nMemAvailable:    900000 kB\n");
  // Fields 14 and 15: 70 + 30 ticks; the name of the second holds what could be taken for the end of it.
  put("proc/41/stat", "41 (longhaul) S 1 41 41 0 -1 4194560 100 0 0 0 70 30 5 5 20 0 4 0 100 1000 10\n");
  put("proc/41/status", "Name:\tlonghaul\nVmRSS:\t  900000 kB\nRssAnon:\t  200000 kB\n");
  put("proc/42/stat", "42 (a) b (c) R 1 42 42 0 -1 4194560 100 0 0 0 8 2 5 5 20 0 4 0 100 1000 10\n");
  put("proc/42/status", "Name:\ta\nRssAnon:\t   50000 kB\n");
  const std::vector<int64_t> processes = {41, 42, 43};  // 43 has ended
  const MachineCounters counters = read_process_counters(processes, files_);
  ASSERT_TRUE(counters.processors);
  EXPECT_EQ(counters.processors->worked, 110u);
  EXPECT_EQ(counters.processors->all, 2000u);
  EXPECT_DOUBLE_EQ(*counters.memory_share, 0.25);
  EXPECT_TRUE(counters.network_sent.empty());
  EXPECT_FALSE(read_process_counters(std::vector<int64_t>{43}, files_).processors) << "of nobody";
}

TEST(MachineCountersHere, TheKernelTellsThem) {
  const MachineCounters counters = read_machine_counters();
  ASSERT_TRUE(counters.processors && counters.memory_share && counters.disk_share);
  EXPECT_GT(counters.processors->worked, 0u);
  EXPECT_LT(counters.processors->worked, counters.processors->all);
  EXPECT_GT(*counters.memory_share, 0);
  EXPECT_LT(*counters.memory_share, 1);
}

}  // namespace
}  // namespace longhaul
