// ctest: label=multi timeout=200
// Benches that start processes of their own: their results are checked, their times are not.
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/started_program.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

class RankBenches : public StartedProgram {
 protected:
  std::vector<nlohmann::json> lines_of(const std::vector<std::string>& words) const {
    const ProcessResult result = run(words);
    EXPECT_EQ(result.status, 0) << result.output << result.errors;
    std::vector<nlohmann::json> lines;
    std::istringstream text(result.output);
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

// Of 32 tokens with 16 channels in fp32 and two experts each a rank sends 7/8 over ep 8, to and fro in both
// passes; over ep 2 a half, and all rows to three more ranks that share the experts.
TEST_F(RankBenches, MappingsOfExpertsSendWhatTheFormulasSay) {
  const auto rows = lines_of({"bench", "folding", "--tokens", "32", "--hidden", "16", "--intermediate", "32",
                              "--turns", "1", "--near", "100", "--far", "50", "--json"});
  ASSERT_EQ(rows.size(), 10u);
  for (const auto& row : rows) {
    EXPECT_TRUE(row["good"].get<bool>()) << row.dump();
    const double row_bytes = 32 * 16 * 4 * row["chosen"].get<double>();
    const bool cut = row["etp"].get<int64_t>() == 4;
    EXPECT_EQ(row["bytes_counted"].get<double>(), 4 * row_bytes * (cut ? 0.5 + 3 : 7.0 / 8)) << row.dump();
    // Emulated links take at least as long as their bytes.
    EXPECT_GE(row["seconds"].get<double>(), 0.99 * row["exchange_seconds_by_rates"].get<double>())
        << row.dump();
  }
  EXPECT_EQ(rows[2]["mapping"], "cp8 ep8, not folded");
  EXPECT_NEAR(rows[2]["exchange_seconds_by_rates"].get<double>(), 4 * (32 * 16 * 4 * 2 * 7.0 / 8) / 50e6,
              1e-9);
  const ProcessResult refused = run({"bench", "folding", "--tokens", "40"});
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.errors, HasSubstr("multiples of 32"));
}

// Half a minute of each way with a failure every ten seconds: each run comes back and trains.
TEST_F(RankBenches, RunsThatAreKilledTrainOn) {
  const auto rows = lines_of({"bench", "goodput", "--minutes", "0.5", "--mean", "10", "--checkpoint", "2",
                              "--queue", "0", "--folder", path("goodput"), "--json"});
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) {
    EXPECT_GT(row["failures"].get<int64_t>(), 0) << row.dump();
    EXPECT_GT(row["steps"].get<int64_t>(), 0) << row.dump();
    EXPECT_GT(row["useful_seconds"].get<double>(), 0) << row.dump();
    EXPECT_LE(row["useful_seconds"].get<double>() + row["down_seconds"].get<double>() +
                  row["again_seconds"].get<double>(),
              1.02 * row["wall_seconds"].get<double>())
        << row.dump();
  }
  EXPECT_EQ(rows[2]["way"], "memory");
  EXPECT_LE(rows[2]["steps_again"].get<int64_t>(), rows[2]["failures"].get<int64_t>())
      << "a step at most for each failure";
  EXPECT_EQ(run({"bench", "goodput", "--folder", path("goodput")}).status, 64) << "runs are there already";
}

}  // namespace
}  // namespace longhaul::cli
