// Every sensor with made-up files of a machine: what it reports when they change, once, and what it does not.
#include "control/sensors/sensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "base/files/temporary_folder.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SensorsTest : public ::testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void say(const std::string& text) const { std::ofstream(root_ / "dev/kmsg", std::ios::app) << text; }
  MachineRoot root() const { return {.folder = root_.path(), .nvidia_smi = (root_ / "nvidia-smi").string()}; }
  // "kind code device" of each.
  static std::vector<std::string> words_of(const std::vector<HealthReport>& reports) {
    std::vector<std::string> words;
    for (const HealthReport& one : reports) {
      words.push_back(one.kind + (one.code != 0 ? " " + std::to_string(one.code) : "") + " " + one.device);
      EXPECT_FALSE(one.text.empty()) << one.kind;
    }
    return words;
  }
  using Words = std::vector<std::string>;
  TemporaryFolder root_;
};

TEST_F(SensorsTest, XidsOfTheKernelsLog) {
  put("dev/kmsg", "4,1,1,-;NVRM: Xid (PCI:0000:01:00): 79, said before anybody looked\n");
  KernelSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty());
  EXPECT_EQ(sensor.absent(), "");
  say("4,2,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
      "bus.\n SUBSYSTEM=pci\n");
  EXPECT_EQ(words_of(sensor.look()), Words{"xid 79 GPU 0000:3b:00"});
  say("4,3,3,-;NVRM: Xid (PCI:0000:3b:00): 79, again\n4,4,4,-;NVRM: Xid (0000:5e:00): 63, Row remapper: New "
      "row marked");
  EXPECT_TRUE(sensor.look().empty()) << "the same within a minute, and a line whose end has not come";
  say("\n");
  EXPECT_EQ(words_of(sensor.look()), Words{"xid 63 GPU 0000:5e:00"});
  say("12,5,5,-;NVRM: Xid (PCI:0000:01:00): 48, which a program wrote\n4,6,6,-;usb 1-1: new "
      "device\nrubbish\n");
  EXPECT_TRUE(sensor.look().empty()) << "only what the kernel says itself";
}

// An error that any program may cause counts where the program is a rank, or where numbers of processes
// cannot be compared.
TEST_F(SensorsTest, XidsOfOtherPeoplesPrograms) {
  put("dev/kmsg", "");
  const std::string other =
      "4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=99, name=python, Ch 00000008, MMU Fault\n";
  {
    KernelSensor sensor(root());
    say(other);
    EXPECT_EQ(sensor.look().size(), 1U) << "whose number 99 is cannot be known";
  }
  fs::create_directories(root_ / "proc/self/ns");
  fs::create_symlink("pid:[4026531836]", root_ / "proc/self/ns/pid");
  KernelSensor sensor(root());
  sensor.ranks_run({41, 42});
  say(other);
  EXPECT_TRUE(sensor.look().empty());
  say("4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=99, name=python, GPU has fallen off the bus.\n");
  EXPECT_EQ(sensor.look().size(), 1U) << "that is the card's, whoever used it";
  say("4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=42, name=longhaul, Ch 00000008, MMU Fault\n");
  EXPECT_EQ(words_of(sensor.look()), Words{"xid 31 GPU 0000:3b:00"});
}

TEST_F(SensorsTest, ErrorsOfDisks) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"I/O error, dev sda, sector 2048 op 0x1:(WRITE) flags 0x800", "sda"},
      {"Buffer I/O error on dev nvme0n1p2, logical block 7, lost async page write", "nvme0n1p2"},
      {"EXT4-fs error (device sdb1): ext4_lookup:1855: inode #2: comm find", "sdb1"},
      {"XFS (dm-0): metadata I/O error in \"xfs_trans_read_buf_map\" at daddr 0x1", "dm-0"},
      {"nfs: server storage-1 not responding, still trying", "storage-1"},
      {"nvme nvme0: controller is down; will reset: CSTS=0x3", "nvme0"}};
  for (const auto& [line, device] : lines) {
    const auto report = KernelSensor::report_of(line);
    ASSERT_TRUE(report) << line;
    EXPECT_EQ(report->kind, "storage");
    EXPECT_EQ(report->code, EIO);
    EXPECT_EQ(report->device, device);
  }
  for (const char* line : {"XFS (dm-0): Mounting V5 Filesystem", "EXT4-fs (sda1): mounted filesystem",
                           "nvme nvme0: 8/0/0 default/read/poll queues", "nfs: server storage-1 OK",
                           "NVRM: loading NVIDIA UNIX x86_64 Kernel Module"})
    EXPECT_FALSE(KernelSensor::report_of(line)) << line;
}

TEST_F(SensorsTest, ALogThatCannotBeReadIsSaid) {
  KernelSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty());
  EXPECT_THAT(sensor.absent(), HasSubstr("kmsg"));
}

class Links : public SensorsTest {
 protected:
  void interface(const std::string& name, const std::string& state, int64_t downs, int64_t speed = 100'000,
                 int64_t packets = 1'000'000, int64_t errors = 0) const {
    const std::string folder = "sys/class/net/" + name + "/";
    put(folder + "operstate", state + "\n");
    put(folder + "carrier_down_count", std::to_string(downs) + "\n");
    put(folder + "speed", std::to_string(speed) + "\n");
    put(folder + "statistics/rx_packets", std::to_string(packets) + "\n");
    put(folder + "statistics/rx_errors", std::to_string(errors) + "\n");
    fs::create_directories(root_ / (folder + "device"));
  }
  void port(const std::string& state, int64_t downs, const std::string& rate = "200 Gb/sec (4X HDR)",
            int64_t errors = 0) const {
    const std::string folder = "sys/class/infiniband/mlx5_0/ports/1/";
    put(folder + "state", state + "\n");
    put(folder + "rate", rate + "\n");
    put(folder + "counters/link_downed", std::to_string(downs) + "\n");
    put(folder + "counters/symbol_error", std::to_string(errors) + "\n");
  }
};

TEST_F(Links, ThatGoDownOrFlap) {
  interface("eth0", "up", 2);
  interface("eth1", "down", 0);
  LinkSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty())
      << "what was before is nobody's, and who was never up is meant to be down";
  EXPECT_TRUE(sensor.look().empty());
  interface("eth0", "down", 3);
  EXPECT_EQ(words_of(sensor.look()), Words{"network eth0"});
  EXPECT_TRUE(sensor.look().empty()) << "once";
  interface("eth0", "up", 3);
  EXPECT_TRUE(sensor.look().empty()) << "it is back";
  interface("eth0", "up", 4);
  EXPECT_EQ(words_of(sensor.look()), Words{"network eth0"}) << "down and up again between two looks";
}

TEST_F(Links, SeveralAtOnceAreOneEvent) {
  interface("eth0", "up", 0);
  port("4: ACTIVE", 0);
  LinkSensor sensor(root());
  sensor.look();
  interface("eth0", "down", 1);
  port("1: DOWN", 1);
  EXPECT_EQ(words_of(sensor.look()), Words{"network eth0, mlx5_0/1"});
}

TEST_F(Links, ThatBecomeSlowOrMakeErrors) {
  interface("eth0", "up", 0);
  port("4: ACTIVE", 0);
  LinkSensor sensor(root());
  sensor.look();
  interface("eth0", "up", 0, 25'000);
  port("4: ACTIVE", 0, "100 Gb/sec (2X HDR)");
  EXPECT_EQ(words_of(sensor.look()), (Words{"degraded_link eth0", "degraded_link mlx5_0/1"}));
  EXPECT_TRUE(sensor.look().empty());
  interface("eth0", "up", 0, 100'000, 2'000'000, 99);
  port("4: ACTIVE", 0, "200 Gb/sec (4X HDR)", 100);
  EXPECT_TRUE(sensor.look().empty()) << "a few errors are none";
  interface("eth0", "up", 0, 100'000, 3'000'000, 99 + 101);
  port("4: ACTIVE", 0, "200 Gb/sec (4X HDR)", 100 + 101);
  EXPECT_EQ(words_of(sensor.look()), (Words{"degraded_link eth0", "degraded_link mlx5_0/1"}));
  interface("eth1", "up", 0, 100'000, 1'000, 0);
  sensor.look();
  interface("eth1", "up", 0, 100'000, 10'001'000, 900);
  EXPECT_TRUE(sensor.look().empty()) << "less than one in ten thousand";
}

// In a container the way out is a virtual interface; others of that kind come and go with other containers.
TEST_F(Links, VirtualOnesCountWhereTheyLeadOut) {
  for (const std::string name : {"eth0", "veth1"}) {
    interface(name, "up", 0);
    fs::remove_all(root_ / ("sys/class/net/" + name + "/device"));
  }
  put("proc/net/route", "Iface\tDestination\tGateway\neth0\t00000000\t0100A8C0\nveth1\t0000A8C0\t00000000\n");
  LinkSensor sensor(root());
  sensor.look();
  put("proc/net/route", "Iface\tDestination\tGateway\n");  // with the link its route goes
  for (const std::string name : {"eth0", "veth1"}) put("sys/class/net/" + name + "/operstate", "down\n");
  EXPECT_EQ(words_of(sensor.look()), Words{"network eth0"});
}

TEST_F(Links, ACardThatIsGone) {
  interface("eth0", "up", 0);
  interface("eth1", "down", 0);
  LinkSensor sensor(root());
  sensor.look();
  fs::remove_all(root_ / "sys/class/net/eth0");
  fs::remove_all(root_ / "sys/class/net/eth1");
  EXPECT_EQ(words_of(sensor.look()), Words{"device_missing eth0"});
  EXPECT_TRUE(sensor.look().empty());
}

class Devices : public SensorsTest {
 protected:
  void card(const std::string& address, const std::string& kind, int64_t lanes) const {
    put("sys/bus/pci/devices/" + address + "/class", kind + "\n");
    put("sys/bus/pci/devices/" + address + "/current_link_width", std::to_string(lanes) + "\n");
  }
};

TEST_F(Devices, CardsThatFallOffTheBusOrLoseLanes) {
  card("0000:3b:00.0", "0x030200", 16);
  card("0000:5e:00.0", "0x020000", 8);
  card("0000:00:1f.2", "0x010601", 4);  // a disk controller
  DeviceSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty());
  card("0000:5e:00.0", "0x020000", 4);
  EXPECT_TRUE(sensor.look().empty()) << "twice in a row";
  EXPECT_EQ(words_of(sensor.look()), Words{"degraded_link network card 0000:5e:00.0"});
  EXPECT_TRUE(sensor.look().empty());
  fs::remove_all(root_ / "sys/bus/pci/devices/0000:3b:00.0");
  fs::remove_all(root_ / "sys/bus/pci/devices/0000:00:1f.2");
  EXPECT_EQ(words_of(sensor.look()), Words{"device_missing GPU 0000:3b:00.0"});
  EXPECT_TRUE(sensor.look().empty());
}

TEST_F(Devices, MemoryThatCannotBeCorrected) {
  put("sys/devices/system/edac/mc/mc0/ue_count", "2\n");
  DeviceSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty()) << "of before";
  put("sys/devices/system/edac/mc/mc0/ue_count", "3\n");
  EXPECT_EQ(words_of(sensor.look()), Words{"device_degraded memory mc0"});
  EXPECT_TRUE(sensor.look().empty());
}

TEST_F(Devices, HeatCountsWhereItStays) {
  const auto throttled = [&](int64_t times) {
    put("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", std::to_string(times) + "\n");
    put("sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "7\n");
  };
  throttled(0);
  HeatSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty());
  for (int64_t times = 1; times <= 5; ++times) {
    throttled(times);
    EXPECT_TRUE(sensor.look().empty());
  }
  EXPECT_TRUE(sensor.look().empty()) << "it has stopped: from the beginning";
  Words said;
  for (int64_t times = 6; times <= 20; ++times) {
    throttled(times);
    for (const std::string& word : words_of(sensor.look())) said.push_back(word);
  }
  EXPECT_EQ(said, Words{"throttled processors"});
}

class Gpus : public SensorsTest {
 protected:
  // A program in the place of nvidia-smi that prints the file "table", and says what it was asked.
  void SetUp() override {
    put("nvidia-smi", "#!/bin/sh\necho \"$@\" > " + (root_ / "asked").string() + "\ncat " +
                          (root_ / "table").string() + "\nexit $(cat " + (root_ / "code").string() + ")\n");
    fs::permissions(root_ / "nvidia-smi", fs::perms::owner_all);
    put("code", "0");
  }
  static std::string row(int64_t gpu, const std::string& throttle = "0x0000000000000001",
                         const std::string& uncorrected = "0", const std::string& waits = "No",
                         const std::string& failed = "No") {
    return "GPU-" + std::to_string(gpu) + ", 00000000:3" + std::to_string(gpu) + ":00.0, " + throttle + ", " +
           uncorrected + ", " + waits + ", " + failed + "\n";
  }
};

TEST_F(Gpus, ThatAreListedNoMore) {
  put("table", row(1) + row(2));
  GpuSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty());
  put("table", row(2));
  EXPECT_TRUE(sensor.look().empty()) << "twice in a row";
  EXPECT_EQ(words_of(sensor.look()), Words{"device_missing GPU-1"});
  EXPECT_TRUE(sensor.look().empty());
  put("table", "Unable to determine the device handle for GPU0000:32:00.0: GPU is lost.\n");
  put("code", "15");
  EXPECT_TRUE(sensor.look().empty());
  const std::vector<HealthReport> lost = sensor.look();
  ASSERT_EQ(words_of(lost), Words{"device_missing GPU-2"});
  EXPECT_THAT(lost[0].text, HasSubstr("GPU is lost"));
}

TEST_F(Gpus, MemoryAndHeat) {
  put("table", row(1, "0x0000000000000004", "3", "No", "[N/A]"));
  GpuSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty()) << "errors of before; a cap of power is no fault";
  put("table", row(1, "0x0000000000000004", "4"));
  EXPECT_EQ(words_of(sensor.look()), Words{"device_degraded GPU-1 (00000000:31:00.0)"});
  put("table", row(1, "0x0000000000000004", "4", "Yes"));
  EXPECT_EQ(words_of(sensor.look()), Words{"device_degraded GPU-1 (00000000:31:00.0)"});
  EXPECT_TRUE(sensor.look().empty());
  put("table", row(1, "0x0000000000000040", "4", "Yes", "Yes"));
  EXPECT_EQ(words_of(sensor.look()), Words{"device_broken GPU-1 (00000000:31:00.0)"});
  EXPECT_TRUE(sensor.look().empty());
  EXPECT_EQ(words_of(sensor.look()), Words{"throttled GPU-1 (00000000:31:00.0)"})
      << "the third look in a row";
  EXPECT_TRUE(sensor.look().empty());
  std::ifstream asked(root_ / "asked");
  std::string words;
  std::getline(asked, words);
  EXPECT_EQ(words.find("--query-gpu="), 0U) << "nothing that it is asked changes a setting: " << words;
}

TEST_F(Gpus, WhereThereAreNone) {
  fs::remove(root_ / "nvidia-smi");
  GpuSensor bare(root());
  EXPECT_TRUE(bare.look().empty());
  EXPECT_EQ(bare.absent(), "");
  fs::create_directories(root_ / "proc/driver/nvidia");
  GpuSensor sensor(root());
  EXPECT_TRUE(sensor.look().empty());
  EXPECT_THAT(sensor.absent(), HasSubstr("nvidia-smi"));
}

// One that never listed a GPU says nothing of a fault: images of containers bring the program along.
TEST_F(Gpus, AProgramThatNeverWorked) {
  put("table", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n");
  put("code", "9");
  GpuSensor sensor(root());
  for (int look = 0; look < 4; ++look) EXPECT_TRUE(sensor.look().empty());
}

TEST_F(SensorsTest, AFolderThatIsNotThereYetHasRoom) {
  StorageSensor sensor(root_ / "nowhere");
  EXPECT_TRUE(sensor.look().empty());
}

TEST_F(SensorsTest, PhrasesInLogsOfRanks) {
  put("rank-3.log", "an earlier start: NCCL WARN old\n");
  const auto begins = static_cast<int64_t>(fs::file_size(root_ / "rank-3.log"));
  const auto write = [&](const std::string& text) {
    std::ofstream(root_ / "rank-3.log", std::ios::app) << text;
  };
  LogSensor sensor;
  sensor.read({{.rank = 3, .file = root_ / "rank-3.log", .begins = begins},
               {.rank = 4, .file = root_ / "rank-4.log", .begins = 0}});
  EXPECT_TRUE(sensor.look().empty()) << "only lines of this start, and a log that is not there is no fault";
  write("step 1 loss 4.2\nnode-0:17 [0] NCCL WARN NET/IB : Got completion wi");
  EXPECT_TRUE(sensor.look().empty()) << "the line's end has not come";
  write("th error 12\nstep 2\nnode-0:17 [0] nccl warn again\n");
  const std::vector<HealthReport> reports = sensor.look();
  ASSERT_EQ(words_of(reports), Words{"log the log of rank 3"});
  EXPECT_EQ(reports[0].rank, 3);
  EXPECT_THAT(reports[0].text, HasSubstr("NET/IB : Got completion with error 12"));
  write("write: No space left on device\n");
  EXPECT_EQ(sensor.look().size(), 1U) << "another phrase";
  sensor.read({{.rank = 3, .file = root_ / "rank-3.log", .begins = begins}});
  write("NCCL WARN once more\n");
  EXPECT_TRUE(sensor.look().empty()) << "each phrase once in a start";
  sensor.read({{.rank = 3,
                .file = root_ / "rank-3.log",
                .begins = static_cast<int64_t>(fs::file_size(root_ / "rank-3.log"))}});
  write("NCCL WARN of the next start\n");
  EXPECT_EQ(sensor.look().size(), 1U);
  write(std::string(3 << 20, 'x') + "\ncuda error: of the end\n");
  EXPECT_EQ(sensor.look().size(), 1U) << "a flood is skipped, but for its end";
}

}  // namespace
}  // namespace longhaul::control
