// From counters to metrics, with rates computed by hand: counters that wrap, that begin again, that are not
// there.
#include "detect/samples/machine_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/process.h"

namespace longhaul::detect {
namespace {

float of(const SampleValues& values, std::string_view metric) { return values[metric_named(metric, "")]; }

MachineCounters at(double second, MachineCounters counters) {
  counters.at_ns = static_cast<int64_t>(second * 1e9);
  return counters;
}

constexpr double kNoPower = std::numeric_limits<double>::quiet_NaN();

TEST(MachineSample, RatesOfTwoLooks) {
  const MachineCounters before = at(10, {.processors = {{.worked = 1000, .all = 4000}},
                                         .memory_share = 0.5,
                                         .disk_share = 0.25,
                                         .network_sent = {{"eth0", 1'000'000'000}, {"eth1", 500}},
                                         .rdma_sent = {{"mlx5_0/1", 0}},
                                         .ecn_marked = {{"mlx5_0/1", 100}},
                                         .cnp_handled = {{"mlx5_0/1", 3}}});
  const MachineCounters after = at(12, {.processors = {{.worked = 1150, .all = 4200}},
                                        .memory_share = 0.75,
                                        .disk_share = 0.125,
                                        .network_sent = {{"eth0", 4'000'000'000}, {"eth1", 1'000'000'500}},
                                        .rdma_sent = {{"mlx5_0/1", 6'000'000'000}},
                                        .ecn_marked = {{"mlx5_0/1", 150}},
                                        .cnp_handled = {{"mlx5_0/1", 3}}});
  const SampleValues values = sample_between(before, after, 250);
  EXPECT_FLOAT_EQ(of(values, "cpu_usage"), 75);           // 150 of 200 ticks
  EXPECT_FLOAT_EQ(of(values, "memory_usage"), 75);        // as it is now
  EXPECT_FLOAT_EQ(of(values, "disk_usage"), 12.5);        //
  EXPECT_FLOAT_EQ(of(values, "tcp_throughput"), 2);       // (3 + 1) GB in 2 s
  EXPECT_FLOAT_EQ(of(values, "tcp_rdma_throughput"), 5);  // 2 + 6 GB in 2 s
  EXPECT_FLOAT_EQ(of(values, "ecn_packet_rate"), 25);     //
  EXPECT_FLOAT_EQ(of(values, "cnp_packet_rate"), 0);      // none came: that is a value
  EXPECT_FLOAT_EQ(of(values, "gpu_power_draw"), 250);
  int64_t measured = 0;
  for (const float value : values) measured += !std::isnan(value);
  EXPECT_EQ(measured, 8) << "what no counter tells is missing, not zero";
}

// Minder's first metric, from counters of two interfaces; and GPUs as NVML tells them.
TEST(MachineSample, PausesAndGpus) {
  const MachineCounters before = at(10, {.pauses_sent = {{"eth0", 100}, {"eth1", 7}}}),
                        after = at(12, {.pauses_sent = {{"eth0", 700}, {"eth1", 7}}});
  const SampleValues values =
      sample_between(before, after, kNoPower,
                     {.busy_percent = 93, .memory_percent = 41.5, .temperature_c = 66, .clock_mhz = 1755});
  EXPECT_FLOAT_EQ(of(values, "pfc_tx_packet_rate"), 300);  // 600 frames in 2 s
  EXPECT_FLOAT_EQ(of(values, "gpu_duty_cycle"), 93);
  EXPECT_FLOAT_EQ(of(values, "gpu_memory_used"), 41.5);
  EXPECT_FLOAT_EQ(of(values, "gpu_temperature"), 66);
  EXPECT_FLOAT_EQ(of(values, "gpu_clocks"), 1755);
  const SampleValues bare = sample_between(at(10, {}), at(12, {}), kNoPower);
  for (const char* metric :
       {"pfc_tx_packet_rate", "gpu_duty_cycle", "gpu_memory_used", "gpu_temperature", "gpu_clocks"})
    EXPECT_TRUE(std::isnan(of(bare, metric))) << metric;
}

TEST(MachineSample, CountersThatGoBackOrAreGoneHaveNoRate) {
  const MachineCounters before = at(0, {.processors = {{.worked = 1000, .all = 4000}},
                                        .memory_share = 0.5,
                                        .network_sent = {{"eth0", 4'294'967'000}, {"eth1", 10}},
                                        .ecn_marked = {{"mlx5_0/1", 5}}});
  const MachineCounters reset = at(1, {.processors = {{.worked = 900, .all = 4100}},
                                       .network_sent = {{"eth0", 200}, {"eth1", 2'000'000'010}}});
  const SampleValues values = sample_between(before, reset, kNoPower);
  for (const char* metric : {"cpu_usage", "tcp_throughput", "memory_usage", "ecn_packet_rate",
                             "gpu_power_draw", "tcp_rdma_throughput"})
    EXPECT_TRUE(std::isnan(of(values, metric))) << metric;
  // An interface that came in between has sent all its bytes at another time; one that is gone tells nothing
  // of itself.
  const MachineCounters others =
      at(1, {.network_sent = {{"eth1", 1'000'000'010}, {"veth7", 999'999'999'999}}});
  EXPECT_FLOAT_EQ(of(sample_between(before, others, kNoPower), "tcp_throughput"), 1);
}

TEST(MachineSample, LooksTooFarApartAreNoSecond) {
  const MachineCounters before = at(0, {.processors = {{.worked = 0, .all = 0}}, .memory_share = 0.5});
  for (const double second : {0.0, 0.1, 30.0}) {
    const SampleValues values = sample_between(
        before, at(second, {.processors = {{.worked = 10, .all = 20}}, .memory_share = 0.5}), 100);
    EXPECT_TRUE(std::isnan(of(values, "cpu_usage")) && std::isnan(of(values, "gpu_power_draw"))) << second;
    EXPECT_FLOAT_EQ(of(values, "memory_usage"), 50) << "what is no rate stands";
  }
}

// A package that draws 100 W, on a machine without GPUs: its counter wraps once.
TEST(MachineSample, PowerOfProcessorsWhereThereIsNoGpu) {
  const TemporaryFolder folder;
  const auto zone = [&](const char* microjoules) {
    make_folders(folder / "sys/class/powercap/intel-rapl:0");
    write_text_atomically(folder / "sys/class/powercap/intel-rapl:0/name", "package-0\n");
    write_text_atomically(folder / "sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n");
    write_text_atomically(folder / "sys/class/powercap/intel-rapl:0/energy_uj", microjoules);
  };
  zone("262093328850\n");
  MachineSampler sampler({.proc = folder / "proc", .sys = folder / "sys", .disk = folder.path()});
  EXPECT_TRUE(std::isnan(of(sampler.next(), "gpu_power_draw"))) << "there is no second to measure yet";
  const Stopwatch watch;
  while (watch.seconds() < 0.5) {
  }
  zone("50000000\n");  // 50 J up to the wrap, 50 J behind it
  const float power = of(sampler.next(), "gpu_power_draw");
  if (EnergyMeter(folder / "none").gpus() == 0) {
    EXPECT_NEAR(power, 100 / 0.5, 60) << "W; the second look came some milliseconds later";
  }
}

TEST(MachineSample, OfThisMachineAndOfThisProcess) {
  MachineSampler machine, own;
  const std::vector<int64_t> processes = {process_id()};
  machine.next(), own.next(processes);
  volatile double sum = 0;
  for (const Stopwatch watch; watch.seconds() < 0.6;) sum = sum + 1;
  const SampleValues all = machine.next(), mine = own.next(processes);
  EXPECT_GT(of(all, "cpu_usage"), 0);
  EXPECT_LE(of(all, "cpu_usage"), 100);
  EXPECT_GT(of(mine, "cpu_usage"), 0);
  EXPECT_LE(of(mine, "cpu_usage"), of(all, "cpu_usage") + 10) << "the looks are not at one moment";
  EXPECT_GT(of(all, "memory_usage"), of(mine, "memory_usage"));
  EXPECT_GT(of(mine, "memory_usage"), 0);
  EXPECT_TRUE(std::isnan(of(mine, "disk_usage")) && std::isnan(of(mine, "tcp_throughput")))
      << "that is the machine's";
  EXPECT_TRUE(std::isnan(of(all, "nvlink_bandwidth")));
}

}  // namespace
}  // namespace longhaul::detect
