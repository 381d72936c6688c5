// ctest: label=fast timeout=120
// A driver's look at its nodes' samples: a machine that stands apart is named by its node, its like are those
// of the same stage, and what cannot be judged is nobody's fault.
#include "control/driver/minder_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "base/files/temporary_folder.h"
#include "base/process/process.h"
#include "detect/samples/sample_ring.h"
#include "detect/trials/simulate.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

class MinderWatchTest : public ::testing::Test {
 protected:
  // Fifteen minutes that end now, of eight machines of which one has a network card that drops out.
  void write_rings() {
    made_ = detect::simulate({.machines = 8, .seed = 8, .fault = "nic_dropout"});
    const detect::Pull& truth = made_.pull;
    const double begin_s = std::floor(wall_time_s()) - static_cast<double>(truth.seconds);
    for (int64_t i = 0; i < 8; ++i) {
      const std::string node = fmt::format("node-{}", i), host = fmt::format("host-{}", i);
      detect::SampleRingWriter ring = detect::SampleRingWriter::open(
          folder_ / "samples" / (node + ".ring"), {.node = node, .host = host, .boot = host});
      for (int64_t second = 0; second < truth.seconds; ++second) {
        detect::SampleValues values = detect::no_values();
        for (size_t m = 0; m < truth.metrics.size(); ++m) {
          const detect::Metric& metric = detect::metrics()[truth.metrics[m]];
          values[truth.metrics[m]] = static_cast<float>(
              metric.low + (metric.high - metric.low) * static_cast<double>(truth.row(m, second)[i]));
        }
        ring.write(begin_s + static_cast<double>(second), values);
      }
    }
  }
  static std::vector<MinderPeer> peers(const std::function<std::string(int64_t)>& likes) {
    std::vector<MinderPeer> all;
    for (int64_t i = 0; i < 8; ++i)
      all.push_back({fmt::format("node-{}", i), fmt::format("host-{}", i), likes(i)});
    return all;
  }
  std::vector<MinderAlert> looked_at(const std::vector<MinderPeer>& peers) const {
    MinderWatch minder({.run_folder = folder_.path(),
                        .models = detect::untrained_models(),
                        .variant = detect::Variant::kMean});
    minder.look(peers);
    for (const Stopwatch watch; !minder.idle() && watch.seconds() < 60;) pause_briefly();
    return minder.alerts();
  }
  TemporaryFolder folder_;
  detect::Case made_;
};

TEST_F(MinderWatchTest, AMachineThatStandsApartIsNamedByItsNode) {
  write_rings();
  const std::vector<MinderAlert> alerts = looked_at(peers([](int64_t) { return "stage 0"; }));
  ASSERT_FALSE(alerts.empty());
  for (const MinderAlert& alert : alerts)
    EXPECT_EQ(alert.node, fmt::format("node-{}", made_.faults.at(0).machine)) << alert.text;
  EXPECT_THAT(alerts[0].text, HasSubstr("stood apart"));
}

// Of a stage of its own it is like nobody, and the others are well.
TEST_F(MinderWatchTest, NodesOfOtherStagesAreNoPeers) {
  write_rings();
  const int64_t faulty = made_.faults.at(0).machine;
  EXPECT_TRUE(looked_at(peers([&](int64_t i) { return i == faulty ? "stage 1" : "stage 0"; })).empty());
}

TEST_F(MinderWatchTest, WithoutSamplesNothingIsSaid) {
  EXPECT_TRUE(looked_at(peers([](int64_t) { return "stage 0"; })).empty());
}

}  // namespace
}  // namespace longhaul::control
