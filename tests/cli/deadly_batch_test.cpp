// ctest: label=fault timeout=600
// A sample that ends every rank that reads it, as a user sees it: the run finds it by halving, leaves it out,
// and ends well.
#include "cli/supervised_run.h"

namespace longhaul::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t kDeadly = 33;  // with four samples a step the second of step 9

class DeadlyBatch : public SupervisedRun {
 protected:
  // No two samples alike, so that a loss tells which were read.
  DeadlyBatch() {
    for (int file = 0; file < 20; ++file) {
      std::string text;
      for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + (i * i + file * (i + 7)) % 26);
      std::ofstream(folder_ / "text" / (std::to_string(file) + ".txt")) << text << "\n";
    }
  }
};

TEST_F(DeadlyBatch, IsFoundAndPassedOver) {
  Words options = long_run(14);
  options.push_back("data.prefetch=1");
  const auto expected = undisturbed(options, 2);
  ASSERT_EQ(expected.size(), 14u);
  Child child(words({"launch", "-n", "2"}, options),
              {"NO_COLOR=1", fmt::format("LONGHAUL_FAULTS=data.sample:step={} segfault", kDeadly)},
              folder_ / "output");
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_THAT(child.output(), HasSubstr("samples 33 to 33 kill every rank that reads them"));

  const json skipped = json::parse(read_text(run_ / "control/skip.json"));
  EXPECT_THAT(skipped.dump(), HasSubstr("\"begin\":33,\"by\":\"driver\",\"end\":34"));
  const json incident = last_incident();
  EXPECT_EQ(incident.value("class", ""), "deadly_batch") << incident;
  EXPECT_EQ(incident.value("action", ""), "skip samples 33 to 33") << incident;

  const auto found = losses(run_);
  ASSERT_EQ(found.size(), 14u);
  for (int64_t step = 1; step <= 8; ++step) EXPECT_EQ(found.at(step), expected.at(step)) << step;
  // Step 9 has the samples 32, 34, 35 and 36 then.
  EXPECT_NE(found.at(9), expected.at(9));
}

}  // namespace
}  // namespace longhaul::cli
