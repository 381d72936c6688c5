#include "base/machine/energy_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

// A powercap folder as Linux shows it: counters of a package, of cores inside it, and of its memory.
struct Powercap {
  TemporaryFolder folder;
  void zone(const std::string& name, const std::string& called, const std::string& microjoules,
            const std::string& range = "1000000000") {
    make_folders(folder.path() / name);
    write_text_atomically(folder.path() / name / "name", called + "\n");
    write_text_atomically(folder.path() / name / "energy_uj", microjoules + "\n");
    write_text_atomically(folder.path() / name / "max_energy_range_uj", range + "\n");
  }
};

TEST(EnergyMeter, AddsPackagesAndMemoryButNotWhatIsInsideThem) {
  Powercap cap;
  cap.zone("intel-rapl:0", "package-0", "5000000");
  cap.zone("intel-rapl:0:0", "core", "1000000");
  cap.zone("intel-rapl:0:1", "dram", "700000");
  cap.zone("intel-rapl:1", "psys", "9000000");
  EnergyMeter meter(cap.folder.path());
  EXPECT_THAT(meter.sources(), ::testing::ElementsAre("RAPL package-0", "RAPL dram"));
  EXPECT_EQ(meter.joules(), 0);
  cap.zone("intel-rapl:0", "package-0", "8000000");  // 3 J
  cap.zone("intel-rapl:0:0", "core", "90000000");    // not counted
  cap.zone("intel-rapl:0:1", "dram", "1200000");     // 0.5 J
  cap.zone("intel-rapl:1", "psys", "99000000");      // not counted
  EXPECT_DOUBLE_EQ(meter.joules(), 3.5);
  EXPECT_DOUBLE_EQ(meter.joules(), 3.5);  // nothing is counted twice
}

TEST(EnergyMeter, ACounterThatWraps) {
  Powercap cap;
  cap.zone("intel-rapl:0", "package-0", "9000000", "10000000");
  EnergyMeter meter(cap.folder.path());
  cap.zone("intel-rapl:0", "package-0", "2000000", "10000000");
  EXPECT_DOUBLE_EQ(meter.joules(), 3);
}

TEST(EnergyMeter, SaysWhyThereIsNone) {
  Powercap cap;
  EXPECT_THAT(EnergyMeter(cap.folder.path() / "absent").remark(), ::testing::HasSubstr("no energy counter"));
  cap.zone("intel-rapl:0", "package-0", "none of your business");
  EnergyMeter meter(cap.folder.path());
  EXPECT_FALSE(meter.any());
  EXPECT_EQ(meter.remark(), "RAPL package-0 cannot be read");
  EXPECT_EQ(meter.joules(), 0);
}

}  // namespace
}  // namespace longhaul
