#include "detect/minder/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul::detect {
namespace {

using ::testing::HasSubstr;

class FakeDriver final : public MachineDriver {
 public:
  std::vector<std::string> calls;
  bool has_spare = true, works = true;
  void block(const Alert& alert) override {
    if (!works) throw Error({.what = "the scheduler is away"});
    calls.push_back("block " + alert.machine);
  }
  std::optional<std::string> replace(const std::string& machine) override {
    calls.push_back("replace " + machine);
    return has_spare ? std::optional("spare-1") : std::nullopt;
  }
};

TEST(Driver, BlocksThenReplacesOnceAndNotTooMany) {
  FakeDriver driver;
  Responder responder(driver, 2);
  EXPECT_EQ(responder.act_on({.machine = "a", .raised_s = 0}).replacement, "spare-1");
  EXPECT_EQ(driver.calls, (std::vector<std::string>{"block a", "replace a"}));
  EXPECT_EQ(responder.act_on({.machine = "a", .raised_s = 10}).kind, Response::Kind::kBlockedBefore);
  driver.has_spare = false;
  EXPECT_EQ(responder.act_on({.machine = "b", .raised_s = 20}).kind, Response::Kind::kNoSpare);
  EXPECT_EQ(responder.act_on({.machine = "c", .raised_s = 30}).kind, Response::Kind::kTooMany);
  EXPECT_EQ(responder.act_on({.machine = "c", .raised_s = 3700}).kind, Response::Kind::kNoSpare);
  driver.works = false;
  const Response failed = responder.act_on({.machine = "d", .raised_s = 9000});
  EXPECT_EQ(failed.kind, Response::Kind::kFailed);
  EXPECT_THAT(failed.problem, HasSubstr("the scheduler is away"));
  driver.works = true;
  // a failure does not count as blocked
  EXPECT_EQ(responder.act_on({.machine = "d", .raised_s = 9001}).kind, Response::Kind::kNoSpare);
}

TEST(Driver, RunsACommand) {
  TemporaryFolder folder;
  const auto script = folder / "handle";
  write_text_atomically(script, "#!/bin/sh\necho \"$@\" >> " + (folder / "log").string() +
                                    "\n[ $1 = replace ] && echo spare-9\nexit 0\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  CommandDriver driver(script.string());
  driver.block({.machine = "m 1", .metric = "cpu_usage", .first_s = 300});
  EXPECT_EQ(driver.replace("m 1"), "spare-9");
  EXPECT_EQ(read_text(folder / "log"), "block m 1 cpu_usage 300\nreplace m 1\n");
}

}  // namespace
}  // namespace longhaul::detect
