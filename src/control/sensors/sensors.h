// Sensors report the health of a machine during a run, as HealthReports for the driver (control/faults.h
// lists the action for each). A sensor reads files of the kernel or the output of nvidia-smi, remembers what
// it saw, and reports what has become worse since. What a machine does not have is no fault: the sensor then
// reports nothing, and `absent` says why if its absence would surprise. All paths begin at a root folder, so
// that tests, and containers that have the host's files elsewhere, can give another one. Not thread-safe: one
// thread at a time.
//
//   sensor                reads                                                     reports
//   KernelSensor          dev/kmsg                                                  xid, storage
//   LinkSensor            sys/class/net, sys/class/infiniband, proc/net/route       network, degraded_link,
//                                                                                   device_missing
//   DeviceSensor          sys/bus/pci/devices, sys/devices/system/edac              device_missing,
//                                                                                   degraded_link,
//                                                                                   device_degraded
//   HeatSensor            sys/devices/system/cpu/cpu*/thermal_throttle              throttled
//   GpuSensor             nvidia-smi                                                device_missing,
//                                                                                   device_broken,
//                                                                                   device_degraded,
//                                                                                   throttled
//   StorageSensor         the run's folder                                          storage
//   LogSensor             logs of the node's ranks                                  log
//
// Source: docs/sources/reliability.md §5.3, §7.2; for logs MegaScale (arXiv 2402.15627) §4.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/machine/kernel_log.h"
#include "control/wire/messages.h"

namespace longhaul::control {

struct MachineRoot {
  std::filesystem::path folder = "/";     // where proc, sys and dev are
  std::string nvidia_smi = "nvidia-smi";  // the program
};

class Sensor {
 public:
  virtual ~Sensor() = default;
  virtual std::vector<HealthReport> look() = 0;
  virtual std::string absent() const { return ""; }  // what cannot be seen and why; empty: nothing to tell
};

// Reads the lines of the kernel's log. `processes`: those of the node's ranks, which distinguish their GPU
// errors from those of other programs.
class KernelSensor final : public Sensor {
 public:
  explicit KernelSensor(const MachineRoot& root);
  std::vector<HealthReport> look() override;
  std::string absent() const override;
  void ranks_run(std::vector<int64_t> processes) { processes_ = std::move(processes); }
  static std::optional<HealthReport> report_of(const std::string& line);

 private:
  bool is_somebody_elses(const HealthReport& report, const std::string& line) const;
  KernelLog log_;
  bool numbers_are_ours_;  // process numbers in the log are those that this process sees
  std::vector<int64_t> processes_;
  std::map<std::string, int64_t> told_ns_;  // what was reported, and when
};

class LinkSensor final : public Sensor {
 public:
  explicit LinkSensor(const MachineRoot& root) : root_(root.folder) {}
  std::vector<HealthReport> look() override;

 private:
  struct Interface {
    bool up = false;
    double downs = 0;                // times that the carrier was lost, as the kernel counts
    double speed = 0;                // the most that was seen: Mbit/s
    double packets = 0, errors = 0;  // when they were looked at last
    bool slow = false, noisy = false, gone = false;
  };
  void look_at(const std::string& name, const std::filesystem::path& folder,
               std::vector<HealthReport>& reports);
  void look_at_port(const std::string& name, const std::filesystem::path& port,
                    std::vector<HealthReport>& reports);
  static std::vector<HealthReport> in_one(const std::vector<HealthReport>& reports);
  void look_for_lost(const std::set<std::string>& present, std::vector<HealthReport>& reports);
  std::filesystem::path root_;
  std::map<std::string, Interface> interfaces_;
};

class DeviceSensor final : public Sensor {
 public:
  explicit DeviceSensor(const MachineRoot& root) : root_(root.folder) {}
  std::vector<HealthReport> look() override;

 private:
  struct Device {
    std::string name;
    double width = 0;  // lanes, the most that was seen
    int narrow = 0;    // looks in a row with fewer
    bool gone = false;
  };
  void look_at_cards(std::vector<HealthReport>& reports);
  void look_at_memory(std::vector<HealthReport>& reports);
  std::filesystem::path root_;
  std::map<std::string, Device> devices_;  // by PCI address
  std::map<std::string, double> errors_;   // of each memory controller
  bool first_ = true;
};

class HeatSensor final : public Sensor {
 public:
  explicit HeatSensor(const MachineRoot& root) : root_(root.folder) {}
  std::vector<HealthReport> look() override;

 private:
  std::filesystem::path root_;
  std::optional<double> count_;
  int rising_ = 0;  // looks in a row
  bool told_ = false;
};

class GpuSensor final : public Sensor {
 public:
  explicit GpuSensor(const MachineRoot& root) : root_(root) {}
  std::vector<HealthReport> look() override;
  std::string absent() const override { return absent_; }

 private:
  struct Gpu {
    int missing = 0, hot = 0;  // looks in a row
    double uncorrected = 0;
    bool told_missing = false, told_broken = false, told_hot = false, repair_waits = false;
  };
  using Row = std::vector<std::string>;
  std::vector<Row> rows();
  void look_at(const Row& row, std::vector<HealthReport>& reports);
  MachineRoot root_;
  std::map<std::string, Gpu> gpus_;  // by UUID
  bool there_ = true;
  std::string absent_, said_;  // said: what nvidia-smi printed in place of a table
};

class StorageSensor final : public Sensor {
 public:
  explicit StorageSensor(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::vector<HealthReport> look() override;

 private:
  std::filesystem::path folder_;
  bool told_full_ = false;
};

// Where the lines of one start of a rank are.
struct RankLog {
  int64_t rank = 0;
  std::filesystem::path file;
  int64_t begins = 0;  // bytes of earlier starts before them
};

// Reads what the ranks of the node write, as it is written, and reports lines with phrases of libraries and
// of the kernel that tell of a fault before a rank ends by it (NCCL's warnings, uncorrected errors, full
// disks): each phrase once in a start of a rank.
class LogSensor final : public Sensor {
 public:
  void read(const std::vector<RankLog>& logs);  // the ranks that run now; those of before stay known
  std::vector<HealthReport> look() override;

 private:
  struct Log {
    std::filesystem::path file;
    int64_t begins = 0, read = 0;
    std::string rest;  // a line whose end has not come
    std::set<std::string> told;
  };
  std::map<int64_t, Log> logs_;  // by rank
};

}  // namespace longhaul::control
