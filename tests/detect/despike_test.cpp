#include "detect/despike.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace longhaul::detect {
namespace {

Pull noisy_pull(int64_t machines, int64_t seconds) {
  Pull pull{.metrics = {0, 4}, .seconds = seconds};
  for (int64_t i = 0; i < machines; ++i) pull.machines.push_back(std::to_string(i));
  const RandomStream stream(17, "despike");
  for (size_t i = 0; i < static_cast<size_t>(2 * machines * seconds); ++i) pull.values.push_back(static_cast<float>(stream.uniform(i)));
  return pull;
}

// Against a sort of each machine's last seconds, with machines beside a whole block of lanes, at the beginning too.
TEST(Despike, IsTheMedianOfTheLastSeconds) {
  for (const int64_t machines : {1, 5, 64, 70}) {
    for (const int64_t span : {int64_t{1}, int64_t{3}, int64_t{9}, kLongestDespike}) {
      const Pull raw = noisy_pull(machines, 40);
      Pull smooth = raw;
      despike(smooth, span);
      for (size_t metric = 0; metric < 2; ++metric) {
        for (int64_t s = 0; s < raw.seconds; ++s) {
          for (int64_t i = 0; i < machines; ++i) {
            std::vector<float> last;
            for (int64_t back = 0; back < span; ++back) last.push_back(raw.row(metric, std::max<int64_t>(0, s - back))[i]);
            std::ranges::sort(last);
            ASSERT_EQ(smooth.row(metric, s)[i], last[last.size() / 2]) << machines << " machines, " << span << " s, second " << s;
          }
        }
      }
    }
  }
}

TEST(Despike, KeepsWhatIsMissingAndInventsNothingBesideIt) {
  Pull pull = noisy_pull(6, 20);
  pull.row(0, 10)[3] = std::nanf("");
  const Pull raw = pull;
  despike(pull, 5);
  EXPECT_TRUE(std::isnan(pull.row(0, 10)[3]));
  for (int64_t s = 11; s < 15; ++s) EXPECT_EQ(pull.row(0, s)[3], raw.row(0, s)[3]) << "the missing second is among the last five";
  for (int64_t s = 0; s < 20; ++s) EXPECT_FALSE(std::isnan(pull.row(0, s)[2]));
}

TEST(Despike, LoneWrongSamplesGoAndALevelStays) {
  Pull pull = noisy_pull(4, 60);
  std::ranges::fill(pull.values, 0.5f);
  for (const int64_t s : {8, 20, 21, 33}) pull.row(0, s)[1] = 1.0f;  // wrong
  for (int64_t s = 30; s < 60; ++s) pull.row(0, s)[2] = 0.2f;        // a fault
  despike(pull, 9);
  for (int64_t s = 0; s < 60; ++s) {
    EXPECT_EQ(pull.row(0, s)[1], 0.5f) << s;
    EXPECT_EQ(pull.row(0, s)[2], s < 34 ? 0.5f : 0.2f) << "half a span late, " << s;
  }
}

TEST(Despike, AnEvenSpanIsRefused) {
  for (const int64_t span : {0, 2, 8, 33}) EXPECT_THROW(refuse_span(span), Error) << span;
  for (const int64_t span : {1, 9, 31}) EXPECT_NO_THROW(refuse_span(span)) << span;
}

}  // namespace
}  // namespace longhaul::detect
