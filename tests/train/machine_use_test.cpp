// What a step's report says of the machine is of that step: meters count on from step to step.
#include "train/machine_use.h"

#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul::train {
namespace {

TEST(MachineUseOfSteps, JoulesAreThoseSinceTheReportBefore) {
  TemporaryFolder folder;
  const std::filesystem::path zone = folder / "intel-rapl:0";
  make_folders(zone);
  write_text_atomically(zone / "name", "package-0\n");
  write_text_atomically(zone / "max_energy_range_uj", "1000000000\n");
  const auto counted = [&](const char* microjoules) {
    write_text_atomically(zone / "energy_uj", microjoules);
  };
  counted("5000000");
  MachineUse use(EnergyMeter(folder.path()));
  const auto told = [&] {
    observe::StepReport report;
    use.tell(report);
    EXPECT_GE(report.processor_milliseconds.value_or(-1), 0);
    return report.energy_joules.value_or(-1);
  };
  counted("8000000");
  EXPECT_DOUBLE_EQ(told(), 3);
  counted("8500000");
  EXPECT_DOUBLE_EQ(told(), 0.5);
  EXPECT_DOUBLE_EQ(told(), 0);
}

}  // namespace
}  // namespace longhaul::train
