#include "control/checks/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "control/checks/machine_checks.h"

namespace longhaul::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::filesystem::path script(const TemporaryFolder& folder, const std::string& body) {
  const auto path = folder / "script";
  write_text_atomically(path, "#!/bin/bash\n" + body + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

CheckFinding good(const Check& check, double) { return {.name = check.name, .found = "well"}; }

std::vector<std::string> names_of(const SelfCheckReport& report) {
  std::vector<std::string> names;
  for (const auto& finding : report.results)
    names.push_back(finding.name + " " + std::string(name_of(finding.status)));
  return names;
}

TEST(SelfCheck, RunsWhatIsAskedFor) {
  EXPECT_EQ(run_self_check({}, good).results.size(), all_checks().size());
  EXPECT_THAT(names_of(run_self_check({.only = {"memory", "disk"}}, good)),
              ElementsAre("disk passed", "memory passed"));
  EXPECT_TRUE(run_self_check({}, good).passed());
  EXPECT_EQ(run_self_check({}, good).worst(), nullptr);
}

TEST(SelfCheck, ACheckThatThrowsHasFailedAndTheOthersRun) {
  const auto report =
      run_self_check({.only = {"disk", "memory"}}, [](const Check& check, double limit_s) -> CheckFinding {
        if (check.name == "disk") throw std::runtime_error("broken");
        return good(check, limit_s);
      });
  EXPECT_THAT(names_of(report), ElementsAre("disk failed", "memory passed"));
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.worst()->name, "disk");
  EXPECT_THAT(report.worst()->found, HasSubstr("broken"));
}

// In children that are no Longhaul: one that hangs, one that crashes, one that says nonsense, one that
// answers.
TEST(SelfCheck, AChildThatHangsCrashesOrTalksNonsenseIsAResult) {
  const TemporaryFolder folder;
  const auto program = script(folder, R"(case $3 in
  versions) sleep 100 & wait ;;
  network) kill -SEGV $$ ;;
  disk) echo '{"name": "disk", "status": "splendid", "values": {}, "fingerprints": []}' ;;
  gpu) echo 'no words' >&2; exit 3 ;;
  product) echo not json ;;
  memory) [[ -z $RANK$WORLD_SIZE$SLURM_STEP_ID ]] && echo '{"name": "memory", "status": "slow", "found": "f", "values": {"a_per_second": 2.5}, "fingerprints": [{"name": "n", "value": "v", "of_model": true}]}' ;;
esac)");
  setenv("RANK", "1", 1), setenv("WORLD_SIZE", "2", 1);
  SelfCheckOptions options{.folder = folder.path(),
                           .only = {"versions", "network", "disk", "gpu", "product", "memory"}};
  const auto inside = checks_in_children(program, options);
  const auto report = run_self_check(options, [&](const Check& check, double limit_s) {
    return inside(check, check.name == "versions" ? 0.5 : limit_s);
  });
  unsetenv("RANK"), unsetenv("WORLD_SIZE");
  EXPECT_THAT(names_of(report), ElementsAre("versions failed", "network failed", "disk failed", "gpu failed",
                                            "product failed", "memory slow"));
  EXPECT_THAT(report.results[0].found, HasSubstr("no end within"));
  EXPECT_LT(report.results[0].seconds, 20);
  EXPECT_THAT(report.results[1].found, HasSubstr("signal 11"));
  EXPECT_THAT(report.results[3].found, HasSubstr("exit status 3: no words"));
  EXPECT_EQ(report.results[5].values.at("a_per_second"), 2.5);
  EXPECT_THAT(report.results[5].fingerprints, ElementsAre(Fingerprint{"n", "v", true}));
}

TEST(SelfCheck, AReportIsReadAsItWasWritten) {
  SelfCheckReport report{.node = "n\"1", .boot = "b", .model = "m", .wall_time = 5.25, .seconds = 2};
  report.results = {{.name = "disk",
                     .found = "f\n",
                     .seconds = 1,
                     .values = {{"x", 1e-300}},
                     .fingerprints = {{"a", "b", false}}}};
  report.results[0].make(CheckStatus::kSlow, "limit", "advice");
  report.results[0].make(CheckStatus::kFailed, "worse", "do");
  report.results[0].make(CheckStatus::kSlow, "not this one", "");
  const auto again = SelfCheckReport::from_json(nlohmann::json::parse(report.to_json().dump()), "here");
  EXPECT_EQ(again.to_json(), report.to_json());
  EXPECT_EQ(again.results[0].limit, "worse");
  EXPECT_EQ(again.node, "n\"1");
  EXPECT_FALSE(again.passed());
  for (const char* wrong : {"[]", "{}", R"({"node": 3, "checks": []})", R"({"node": "n", "checks": [{}]})"}) {
    EXPECT_THROW(SelfCheckReport::from_json(nlohmann::json::parse(wrong), "here"), Error) << wrong;
  }
}

TEST(SelfCheck, SignaturesAreOfAllFingerprints) {
  CheckFinding finding{.name = "x"};
  EXPECT_EQ(finding.signature(), "");
  finding.fingerprints = {{"a", "1"}};
  const std::string one = finding.signature();
  finding.fingerprints = {{"a", "2"}};
  EXPECT_NE(finding.signature(), one);
}

TEST(Limits, AreChangedByName) {
  Limits limits;
  EXPECT_EQ(limits["disk_free_bytes"], 1e9);
  limits.set("disk_free_bytes=5e3");
  EXPECT_EQ(limits["disk_free_bytes"], 5e3);
  for (const char* wrong : {"disk_free_bytes", "disk_free_bytes=", "disk_free_bytes=-1",
                            "disk_free_bytes=inf", "disk_free_bytes=1x", "disk_fre_bytes=1", "=3"}) {
    EXPECT_THROW(limits.set(wrong), Error) << wrong;
  }
}

TEST(MemoryCheck, SeesAWordThatChanged) {
  std::vector<uint64_t> words(200003, 0xdeadbeef);
  EXPECT_EQ(wrong_words(words), 0);
  EXPECT_EQ(wrong_words(words, [](std::span<uint64_t> all) { all[150001] ^= 1; }), 2);
  EXPECT_EQ(wrong_words(words, [](std::span<uint64_t> all) { all[0] |= uint64_t{1} << 63; }), 1)
      << "a bit that sticks is wrong in one of the two patterns";
  EXPECT_EQ(wrong_words(words, [](std::span<uint64_t> all) { all[7] = all[8]; }), 2) << "an address line";
  EXPECT_EQ(memory_check({.plant = true}).status, CheckStatus::kFailed);
}

TEST(DiskCheck, LooksAtRoomAndBytes) {
  const TemporaryFolder folder;
  CheckContext context{.folder = folder.path()};
  context.limits.set("disk_bytes=4e6"), context.limits.set("disk_write_bytes_per_second=0"),
      context.limits.set("disk_fsync_milliseconds=1e9");
  EXPECT_EQ(disk_check(context).status, CheckStatus::kPassed);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it leaves nothing";
  CheckContext full = context;
  full.limits.set("disk_free_bytes=1e18");
  EXPECT_EQ(disk_check(full).status, CheckStatus::kFailed);
  CheckContext slow = context;
  slow.limits.set("disk_write_bytes_per_second=1e15");
  EXPECT_EQ(disk_check(slow).status, CheckStatus::kSlow);
  context.plant = true;
  EXPECT_EQ(disk_check(context).status, CheckStatus::kFailed);
  context.folder = "/proc/nowhere";
  EXPECT_EQ(disk_check(context).status, CheckStatus::kFailed);
}

void write_lines(const std::filesystem::path& folder, const std::map<std::string, std::string>& files) {
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text << "\n";
  }
}

TEST(NetworkCheck, ReadsInterfacesAndPorts) {
  const TemporaryFolder folder;
  const auto net = folder / "net";
  write_lines(net, {{"eth0/device/x", ""},
                    {"eth0/operstate", "up"},
                    {"eth0/speed", "100000"},
                    {"eth0/statistics/rx_packets", "1000000"},
                    {"eth0/statistics/rx_errors", "50"},
                    {"docker0/operstate", "down"}});
  const auto well = network_check({}, net);
  EXPECT_EQ(well.status, CheckStatus::kPassed) << well.found;
  EXPECT_EQ(well.values.at("eth0_bits_per_second"), 1e11);
  EXPECT_GT(well.values.at("loopback_bytes_per_second"), 0);
  write_lines(net, {{"eth0/statistics/rx_errors", "5000"}});
  EXPECT_EQ(network_check({}, net).status, CheckStatus::kSlow) << "5 in 1000 packets";
  write_lines(net, {{"eth0/statistics/rx_errors", "0"}, {"eth0/operstate", "down"}});
  EXPECT_EQ(network_check({}, net).status, CheckStatus::kSlow);
  write_lines(net, {{"eth0/operstate", "up"}});
  write_lines(folder / "infiniband",
              {{"mlx5_0/ports/1/state", "4: ACTIVE"}, {"mlx5_0/ports/1/rate", "400 Gb/sec"}});
  EXPECT_EQ(network_check({}, net).status, CheckStatus::kPassed);
  write_lines(folder / "infiniband", {{"mlx5_0/ports/1/state", "1: DOWN"}});
  EXPECT_EQ(network_check({}, net).status, CheckStatus::kFailed);
}

// A card of 16 lanes at 16 GT/s; another in a slot of half its lanes, then at half its speed.
TEST(NetworkCheck, SeesCardsInTooNarrowSlots) {
  const TemporaryFolder folder;
  const auto net = folder / "net";
  write_lines(net, {{"eth0/operstate", "up"},
                    {"eth0/device/current_link_width", "16"},
                    {"eth0/device/max_link_width", "16"},
                    {"eth0/device/current_link_speed", "16.0 GT/s PCIe"},
                    {"eth0/device/max_link_speed", "16.0 GT/s PCIe"}});
  const auto well = network_check({}, net);
  EXPECT_EQ(well.status, CheckStatus::kPassed) << well.found;
  EXPECT_EQ(well.values.at("eth0_pcie_gigatransfers_per_second"), 256);
  write_lines(net, {{"eth0/device/current_link_width", "8"}});
  const auto narrow = network_check({}, net);
  EXPECT_EQ(narrow.status, CheckStatus::kSlow);
  EXPECT_THAT(narrow.found, ::testing::HasSubstr("eth0 has 8 lanes of PCIe at 16 GT/s"));
  write_lines(net, {{"eth0/device/current_link_width", "16"}});
  write_lines(folder / "infiniband", {{"mlx5_0/ports/1/state", "4: ACTIVE"},
                                      {"mlx5_0/device/current_link_width", "16"},
                                      {"mlx5_0/device/max_link_width", "16"},
                                      {"mlx5_0/device/current_link_speed", "16.0 GT/s PCIe"},
                                      {"mlx5_0/device/max_link_speed", "32.0 GT/s PCIe"}});
  EXPECT_EQ(network_check({}, net).status, CheckStatus::kSlow);
}

// Rows as nvidia-smi writes them: name, driver, lanes, most lanes, temperature, uncorrected errors, rows
// pending and failed, retired pages.
TEST(GpuCheck, ReadsTheTableOfNvidiaSmi) {
  const TemporaryFolder folder;
  const auto status = [&](const std::string& rows, double gpus = 2) {
    CheckContext context;
    context.limits.set(fmt::format("gpus={}", gpus));
    return gpu_check(context, script(folder, "cat <<'E'\n" + rows + "\nE").string());
  };
  const std::string h100 = "NVIDIA H100, 550.54, 16, 16, 41, 0, No, No, [N/A]",
                    a100 = "NVIDIA A100, 550.54, 16, 16, 50, [N/A], [N/A], [N/A], No";
  EXPECT_EQ(status(h100 + "\n" + a100).status, CheckStatus::kPassed);
  EXPECT_EQ(status(h100 + "\n" + a100).values.at("gpus"), 2);
  EXPECT_EQ(status(h100).status, CheckStatus::kFailed) << "one is missing";
  EXPECT_EQ(status("NVIDIA H100, 550.54, 16, 16, 41, 3, No, No, [N/A]", 1).status, CheckStatus::kFailed)
      << "uncorrected errors";
  EXPECT_EQ(status("NVIDIA H100, 550.54, 16, 16, 41, 0, No, Yes, [N/A]", 1).status, CheckStatus::kFailed)
      << "rows that cannot be remapped";
  EXPECT_EQ(status("NVIDIA H100, 550.54, 16, 16, 41, 0, Yes, No, [N/A]", 1).status, CheckStatus::kSlow)
      << "a repair waits";
  EXPECT_EQ(status("NVIDIA H100, 550.54, 8, 16, 41, 0, No, No, [N/A]", 1).status, CheckStatus::kSlow)
      << "half the lanes";
  EXPECT_EQ(status("NVIDIA H100, 550.54, 16, 16, 95, 0, No, No, [N/A]", 1).status, CheckStatus::kSlow)
      << "hot";
  EXPECT_EQ(gpu_check({}, "no-such-nvidia-smi").status, CheckStatus::kSkipped);
  CheckContext wanted;
  wanted.limits.set("gpus=1");
  EXPECT_EQ(gpu_check(wanted, "no-such-nvidia-smi").status, CheckStatus::kFailed);
  const auto broken = gpu_check(
      {}, script(folder,
                 "echo 'Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error'; exit 15")
              .string());
  EXPECT_EQ(broken.status, CheckStatus::kFailed);
  EXPECT_THAT(broken.found, HasSubstr("Unable to determine"));
}

TEST(VersionsCheck, HoldsWhatMustBeTheSame) {
  const auto finding = versions_check({}, {{"LibTorch", "2.13.0"}});
  std::set<std::string> names;
  for (const auto& print : finding.fingerprints) names.insert(print.name);
  EXPECT_THAT(names, ElementsAre("C library", "LibTorch", "commit", "compiler", "longhaul"));
}

}  // namespace
}  // namespace longhaul::control
