// ctest: label=fast timeout=60
// The search for deadly samples as the driver leads it: which generation tries what, when the driver dies in
// between, when nobody is guilty.
#include <algorithm>

#include "control/driver/batch_search.h"
#include "driver_bench.h"

namespace longhaul::control {
namespace {

constexpr const char* kDeath = "crashed in the loader";

class DriverSearch : public Driver {
 protected:
  // A run of two nodes with eight samples a step, that dies again and again of the same after ten steps: all
  // eight are passed over.
  void start_search() {
    bench.emplace(2, 0);
    bench->plan.batches = {{.from_step = 0, .samples = 8}};
    bench->begin();
    bench->join_all();
    bench->train(0, 10);
    for (int times = 0; times < 3; ++times) {
      bench->ends(0, 139, kDeath);
      bench->wait(4);
      bench->beats(10, 10);
    }
    ASSERT_TRUE(search().active);
    ASSERT_EQ(bench->skips.back(), (std::vector<data::SampleRange>{{80, 88}}));
  }
  const SearchChanged& search() { return bench->core->ledger().search; }
  data::SampleRange tried() {
    return bench->skips.empty() || bench->skips.back().empty() ? data::SampleRange{}
                                                               : bench->skips.back().back();
  }
  // The driver has died behind the last entry of this journal; the next one finds the daemons with the ranks
  // of that generation, further on.
  void come_back(const std::vector<JournalEntry>& journal) {
    Ledger ledger;
    for (const JournalEntry& entry : journal) ledger.apply(entry, Policy());
    const RunPlan plan = bench->plan;
    bench.emplace(2, 0);
    bench->plan = plan;
    bench->now_s = ledger.last_s + 1;
    bench->begin(journal);
    bench->running = {{"node-0", {0, 1}}, {"node-1", {2, 3}}};
    for (const auto& [node, ranks] : std::map(bench->running)) {
      NodeHello hello = bench->hello(node);
      hello.generation = ledger.generation;
      for (const int64_t rank : ranks)
        hello.running.push_back({.rank = rank,
                                 .generation = ledger.generation,
                                 .pid = 100 + rank,
                                 .step = 13,
                                 .resumed_step = 10});
      bench->send(FromNode{node, hello});
    }
    bench->wait(3);
    EXPECT_EQ(bench->core->generation(), ledger.generation + 1) << "the ranks of the probe before are ended";
  }
  template <class Entry>
  std::vector<JournalEntry> journal_to_last() const {
    const auto is_one = [](const JournalEntry& entry) { return std::holds_alternative<Entry>(entry.body); };
    return {bench->journal.begin(),
            std::find_if(bench->journal.rbegin(), bench->journal.rend(), is_one).base()};
  }
  // Probes until the search is over, in each of which the ranks die where this sample is read. Returns how
  // many there were.
  int probe(int64_t deadly) {
    int probes = 0;
    for (; search().active && probes < 12; ++probes) {
      const data::SampleRange passed = tried();
      EXPECT_TRUE(bench->starts.back().probe) << "what it trains is not the run's";
      bench->beats(10, 10);
      if (deadly >= 0 && (deadly < passed.begin || deadly >= passed.end)) {
        bench->ends(0, 139, kDeath);
      } else {
        bench->train(10, 12);
      }
      bench->wait(8);
    }
    return probes;
  }
};

TEST_F(DriverSearch, EverySampleIsFoundAlone) {
  for (int64_t deadly = 80; deadly < 88; ++deadly) {
    start_search();
    EXPECT_LE(probe(deadly), 5) << deadly;
    EXPECT_EQ(bench->core->ledger().skipped, (std::vector<data::SampleRange>{{deadly, deadly + 1}}))
        << deadly;
    EXPECT_FALSE(bench->finish.has_value());
  }
}

// Two crashes that were not the data's: nothing is passed over, and the run trains on.
TEST_F(DriverSearch, WithoutADeathNobodyIsGuilty) {
  start_search();
  probe(-1);
  EXPECT_FALSE(search().active);
  EXPECT_TRUE(bench->core->ledger().skipped.empty());
  EXPECT_EQ(tried(), data::SampleRange{}) << "the last generation passes over nothing";
  EXPECT_FALSE(bench->finish.has_value());
  EXPECT_FALSE(bench->starts.back().probe) << "and commits its steps";
  bench->train(10, 12);
  EXPECT_EQ(bench->core->state(), State::kTrain);
}

// The driver dies when the journal has the next probe and its generation is not yet begun: what the old
// generation outlives says nothing of it.
TEST_F(DriverSearch, AProbeBelongsToItsGeneration) {
  start_search();
  bench->train(10, 12);
  const std::vector<JournalEntry> journal = journal_to_last<SearchChanged>();
  ASSERT_EQ(std::get<SearchChanged>(journal.back().body).skipped_end, 84);
  come_back(journal);
  EXPECT_EQ(search().skipped_begin, 80);
  EXPECT_EQ(search().skipped_end, 84) << "the next one is tried, not judged";
  EXPECT_EQ(tried(), (data::SampleRange{80, 84}));
  probe(87);
  EXPECT_EQ(bench->core->ledger().skipped, (std::vector<data::SampleRange>{{87, 88}}));
}

// The same where the search has just ended: the generation that was a probe, and keeps nothing, does not
// become the run.
TEST_F(DriverSearch, AProbeDoesNotBecomeTheRun) {
  start_search();
  probe(84);
  come_back(journal_to_last<SamplesSkipped>());
  EXPECT_FALSE(search().active) << "one entry ends the search and passes over";
  EXPECT_EQ(tried(), (data::SampleRange{84, 85}));
  EXPECT_FALSE(bench->starts.back().probe);
}

}  // namespace
}  // namespace longhaul::control
