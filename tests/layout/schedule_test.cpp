// Schedules: the golden orders and makespans of docs/sources/megascale.md §10.4, formulas of bubbles and of
// what is held, every method at random sizes, and lists with planted mistakes, which the checker refuses.
#include "layout/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <algorithm>

#include "base/error.h"
#include "layout/random.h"
#include "layout/schedule/schedule_check.h"
#include "layout/schedule/schedule_orders.h"
#include "recipe/options/option.h"

namespace longhaul::layout {
namespace {

using enum PipelineSchedule;
using testing::HasSubstr;

Schedule made(PipelineSchedule kind, int64_t p, int64_t m, int64_t v = 1) {
  return make_schedule(Pipeline(p, {kind, v, {}}), m);
}

struct Golden {
  PipelineSchedule kind;
  int64_t p, m, v;
  double makespan;
};

TEST(ScheduleGolden, Makespans) {
  for (const Golden& each : std::vector<Golden>{{k1F1B, 4, 8, 1, 33},
                                                {k1F1B, 4, 16, 1, 57},
                                                {k1F1B, 8, 24, 1, 93},
                                                {k1F1B, 8, 32, 1, 117},
                                                {kZbH1, 4, 8, 1, 27},
                                                {kZbH1, 4, 16, 1, 51},
                                                {kZbH1, 8, 24, 1, 79},
                                                {kZbH1, 8, 32, 1, 103},
                                                {kInterleaved, 2, 4, 2, 13.5},
                                                {kInterleaved, 4, 8, 2, 28.5},
                                                {kInterleaved, 4, 8, 3, 27},
                                                {kInterleaved, 4, 16, 2, 52.5},
                                                {kInterleaved, 3, 6, 2, 21},
                                                {kInterleaved, 8, 32, 6, 99.5},
                                                {kDualPipe, 4, 8, 1, 26},
                                                {kDualPipe, 8, 16, 1, 54},
                                                {kDualPipe, 8, 20, 1, 66}}) {
    const Timeline timeline =
        simulate(with_transfers_around_pairs(passes_of(Pipeline(each.p, {each.kind, each.v, {}}), each.m)));
    EXPECT_NEAR(timeline.makespan, each.makespan, 1e-9)
        << recipe::name_of_value(each.kind) << " p " << each.p << " m " << each.m;
    for (const double busy : timeline.busy) EXPECT_NEAR(busy, 3.0 * static_cast<double>(each.m), 1e-9);
  }
}

// Eleven layers in four stages: three, three, three and two.
TEST(PipelineStages, FirstLayersOfEach) {
  const auto first = [](int64_t layers) {
    std::string text;
    for (const bool each : first_of_stages(Pipeline(4), 11, layers)) text += each ? '1' : '0';
    return text;
  };
  EXPECT_EQ(first(0), "11111111111");
  EXPECT_EQ(first(1), "10010010010");
  EXPECT_EQ(first(2), "11011011011");
  EXPECT_EQ(first(9), "11111111111");
}

TEST(ScheduleGolden, Orders) {
  const Schedule interleaved = made(kInterleaved, 2, 4, 2);
  EXPECT_EQ(text(interleaved.ranks[0]),
            "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3");
  EXPECT_EQ(text(interleaved.ranks[1]),
            "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
  EXPECT_EQ(text(made(kZbH1, 4, 8).ranks[3]),
            "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3 W0.0 F0.4 B0.4 W0.1 F0.5 B0.5 W0.2 F0.6 B0.6 W0.3 F0.7 "
            "B0.7 W0.4 W0.5 W0.6 W0.7");
  EXPECT_EQ(text(made(kGpipe, 2, 3).ranks[1]), "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
  EXPECT_EQ(text(made(k1F1B, 3, 4).ranks[0]), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
}

TEST(ScheduleGolden, WarmUpOfInterleaved) {
  std::vector<int64_t> small, large;
  for (int64_t rank = 0; rank < 4; ++rank) small.push_back(interleaved_warm_up(rank, 4, 2, 8, 4));
  for (int64_t rank = 0; rank < 8; ++rank) large.push_back(interleaved_warm_up(rank, 8, 6, 32, 8));
  EXPECT_EQ(small, (std::vector<int64_t>{10, 8, 6, 4}));
  EXPECT_EQ(large, (std::vector<int64_t>{54, 52, 50, 48, 46, 44, 42, 40}));
}

// The whole exchange between two ranks, written out: receives start one pass ahead, sends right behind their
// pass.
TEST(ScheduleGolden, Transfers) {
  const Schedule schedule = made(k1F1B, 2, 2);
  std::vector<std::string> first, last;
  for (const Action& action : schedule.ranks[0]) first.push_back(text(action));
  for (const Action& action : schedule.ranks[1]) last.push_back(text(action));
  EXPECT_THAT(first, testing::ElementsAre("F0.0", "start sending the hidden states of 0.0 to rank 1",   //
                                          "start receiving the gradient of 0.0 from rank 1", "F0.1",    //
                                          "start sending the hidden states of 0.1 to rank 1",           //
                                          "start receiving the gradient of 0.1 from rank 1",            //
                                          "wait for the gradient of 0.0 from rank 1",                   //
                                          "wait until the hidden states of 0.0 are at rank 1", "B0.0",  //
                                          "wait for the gradient of 0.1 from rank 1",                   //
                                          "wait until the hidden states of 0.1 are at rank 1", "B0.1"));
  EXPECT_THAT(last, testing::ElementsAre("start receiving the hidden states of 0.0 from rank 0",  //
                                         "wait for the hidden states of 0.0 from rank 0", "F0.0",
                                         "start receiving the hidden states of 0.1 from rank 0", "B0.0",  //
                                         "start sending the gradient of 0.0 to rank 0",                   //
                                         "wait for the hidden states of 0.1 from rank 0", "F0.1", "B0.1",
                                         "wait until the gradient of 0.0 are at rank 0",  //
                                         "start sending the gradient of 0.1 to rank 0",
                                         "wait until the gradient of 0.1 are at rank 0"));
}

TEST(Schedule, BubblesAndWhatIsHeldFollowTheFormulas) {
  Draw draw("schedule/formulas");
  for (int round = 0; round < 200; ++round) {
    const int64_t p = draw.between(1, 8), m = draw.between(p, 4 * p), v = draw.between(1, 4);
    SCOPED_TRACE(testing::Message() << "p " << p << " m " << m << " v " << v);
    const auto ranks = static_cast<double>(p), batches = static_cast<double>(m);
    const Timeline gpipe = simulate(made(kGpipe, p, m)), plain = simulate(made(k1F1B, p, m)),
                   split = simulate(made(kZbH1, p, m));
    EXPECT_NEAR(gpipe.bubble, (ranks - 1) / (batches + ranks - 1), 1e-12);
    EXPECT_NEAR(plain.bubble, (ranks - 1) / (batches + ranks - 1), 1e-12);
    EXPECT_NEAR(split.makespan, 3 * batches + ranks - 1, 1e-9) << "a third of the bubble";
    for (int64_t rank = 0; rank < p; ++rank) {
      EXPECT_EQ(gpipe.peak_in_flight[static_cast<size_t>(rank)], m);
      EXPECT_EQ(plain.peak_in_flight[static_cast<size_t>(rank)], std::min(p - rank, m));
      EXPECT_EQ(split.peak_in_flight[static_cast<size_t>(rank)], std::min(p, m));
    }
    const int64_t whole = m / p * p;  // of runs of p
    const Timeline interleaved = simulate(made(kInterleaved, p, whole, v));
    EXPECT_NEAR(interleaved.makespan, 3 * (static_cast<double>(whole) + (ranks - 1) / static_cast<double>(v)),
                1e-9)
        << "bubble over v";
    const Timeline folded = simulate(made(kZbV, p, m));
    if (m >= 2 * p) {
      EXPECT_NEAR(folded.makespan, 3 * batches + (ranks - 1) / 2, 1e-9) << "only the way in idles";
    }
  }
}

std::vector<PipelineSchedule> all_kinds() { return {kGpipe, k1F1B, kInterleaved, kZbH1, kZbV, kDualPipe}; }

// Nothing here knows the orders: the checker alone says that each is whole, matched and free of deadlock.
TEST(Schedule, EveryMethodIsWithoutFlawAtAnySize) {
  Draw draw("schedule/any size");
  for (int round = 0; round < 300; ++round) {
    const PipelineSchedule kind = draw.one_of(all_kinds());
    int64_t p = draw.between(1, 8), m = draw.between(1, 40),
            v = kind == kInterleaved ? draw.between(1, 4) : 1;
    if (kind == kInterleaved) m = std::max(m, p);
    if (kind == kDualPipe) p = (p + 1) / 2 * 2, m = 2 * p + m / 2 * 2;
    SCOPED_TRACE(testing::Message() << recipe::name_of_value(kind) << " p " << p << " m " << m << " v " << v);
    const Schedule schedule = made(kind, p, m, v);
    EXPECT_EQ(flaw_of(schedule), "");
    EXPECT_EQ(flaw_of(forward_schedule(schedule.pipeline, draw.between(1, 9))), "");
    const Timeline timeline =
        simulate(schedule, {.forward = 1.3, .backward_input = 1.1, .backward_weight = 0.7, .transfer = 0.2});
    for (const double busy : timeline.busy) EXPECT_NEAR(busy, 3.1 * static_cast<double>(m), 1e-9);
    EXPECT_GE(timeline.makespan, 3.1 * static_cast<double>(m) - 1e-9);
  }
}

// Over NCCL the calls of a communicator are carried out in order. With one for each channel some methods
// would stand still; with one for each way of messages none does, at any size.
TEST(Schedule, OverCallsInOrderEachWayNeedsItsOwnQueue) {
  for (const int64_t p : {2, 4, 8}) {
    SCOPED_TRACE(testing::Message() << "p " << p);
    for (const PipelineSchedule kind : {kGpipe, k1F1B, kZbH1})
      EXPECT_EQ(flaw_of(made(kind, p, 2 * p), Messages::kInOrderByChannel), "");
    EXPECT_THAT(flaw_of(made(kInterleaved, p, 2 * p, 2), Messages::kInOrderByChannel),
                HasSubstr("these wait for ever"));
    EXPECT_THAT(flaw_of(made(kDualPipe, p, 2 * p), Messages::kInOrderByChannel),
                HasSubstr("these wait for ever"));
  }
  Draw draw("schedule/in order");
  for (int round = 0; round < 150; ++round) {
    const PipelineSchedule kind = draw.one_of(all_kinds());
    int64_t p = draw.between(1, 8), m = draw.between(1, 20),
            v = kind == kInterleaved ? draw.between(1, 4) : 1;
    if (kind == kInterleaved) m = std::max(m, p);
    if (kind == kDualPipe) p = (p + 1) / 2 * 2, m = 2 * p + m / 2 * 2;
    SCOPED_TRACE(testing::Message() << recipe::name_of_value(kind) << " p " << p << " m " << m << " v " << v);
    const Schedule schedule = made(kind, p, m, v);
    EXPECT_EQ(flaw_of(schedule, Messages::kInOrderByWay), "");
    EXPECT_EQ(flaw_of(with_transfers_around_pairs(passes_of(schedule.pipeline, m)), Messages::kInOrderByWay),
              "");
    EXPECT_EQ(flaw_of(forward_schedule(schedule.pipeline, m), Messages::kInOrderByWay), "");
    std::set<MessageWay> used;
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (const Action& action : schedule.ranks[rank]) {
        if (action.transfer()) used.insert(way_of(static_cast<int64_t>(rank), action));
      }
    }
    EXPECT_THAT(ways_of(schedule.pipeline), testing::ElementsAreArray(used));
  }
}

// A pair's forward pass sends before the backward pass begins, and the gradient comes while the forward pass
// runs: no message of a full pipeline is waited for, where both wait for all that the pair needs and send
// when it ends each one is.
TEST(Schedule, MessagesOfAPairTravelBesideItsOtherPass) {
  const Schedule schedule = made(kDualPipe, 4, 16);
  int64_t pairs = 0;
  for (const auto& list : schedule.ranks) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (!list[i].joined) continue;
      ++pairs;
      const auto backward = std::find_if(list.begin() + static_cast<ptrdiff_t>(i), list.end(),
                                         [](const Action& each) { return each.backward(); });
      const std::span inside(list.begin() + static_cast<ptrdiff_t>(i) + 1, backward);
      for (const Action& each : inside) EXPECT_TRUE(each.transfer()) << text(each);
      const bool sends = schedule.stage_of(&list - schedule.ranks.data(), list[i]) < 3;
      EXPECT_EQ(std::ranges::count(inside, Pass::kStartSend, &Action::pass), sends ? 1 : 0) << text(list[i]);
    }
  }
  EXPECT_GT(pairs, 40);
  Draw draw("schedule/pairs");
  for (int round = 0; round < 50; ++round) {
    const Pipeline pipeline(2 * draw.between(1, 4), {kDualPipe, 1, {}});
    const int64_t m = 2 * pipeline.ranks() + 2 * draw.between(0, 6);
    SCOPED_TRACE(testing::Message() << "p " << pipeline.ranks() << " m " << m);
    const auto makespan = [&](const Schedule& of, double transfer) {
      return simulate(of, {.transfer = transfer}).makespan;
    };
    const Schedule own = make_schedule(pipeline, m),
                   around = with_transfers_around_pairs(passes_of(pipeline, m));
    EXPECT_LE(makespan(own, 0), makespan(around, 0) + 1e-9);
    EXPECT_LE(makespan(own, 0.5), makespan(around, 0.5) + 1e-9);
  }
  const auto added = [&](auto with, int64_t m) {
    const Schedule of = with(passes_of(Pipeline(4, {kDualPipe, 1, {}}), m));
    return simulate(of, {.transfer = 0.5}).makespan - simulate(of).makespan;
  };
  EXPECT_NEAR(added(with_transfers, 64), added(with_transfers, 16), 1e-9) << "once the pipeline is full";
  EXPECT_GT(added(with_transfers_around_pairs, 64), added(with_transfers_around_pairs, 16) + 10);
}

// A pair in turns takes as long as both passes compute, or exchange: by hand, with passes of 1.5, 1.5 and 1
// of which 0.5 each is exchanged.
TEST(Schedule, PairsInTurnsHideWhatIsExchanged) {
  const Pipeline apart(4, {kDualPipe, 1, {}, false}), in_turns(4, {kDualPipe, 1, {}, true});
  EXPECT_FALSE(make_schedule(apart, 16).pairs_in_turns);
  const Schedule schedule = make_schedule(in_turns, 16);
  ASSERT_TRUE(schedule.pairs_in_turns);
  EXPECT_EQ(flaw_of(schedule), "");
  for (const auto& [exchange, pair] : {std::pair(0.5, 3.0), {1.75, 3.5}}) {
    const Timeline timeline = simulate(
        schedule, {.forward = 1.5, .backward_input = 1.5, .backward_weight = 1, .exchange = exchange});
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      const auto pairs = static_cast<double>(std::ranges::count(schedule.ranks[rank], true, &Action::joined));
      EXPECT_NEAR(timeline.busy[rank], 16 * 4 - pairs * (4 - pair), 1e-9);
      for (size_t i = 0; i < timeline.ranks[rank].size(); ++i) {
        const PassSpan& span = timeline.ranks[rank][i];
        EXPECT_EQ(span.in_turns, span.action.joined || (i > 0 && timeline.ranks[rank][i - 1].action.joined));
        if (span.action.joined) {
          EXPECT_NEAR(timeline.ranks[rank][i + 1].end - span.begin, pair, 1e-9);
        }
      }
    }
  }
}

// Transfers that take less than a pass cost nothing once the pipeline is full: what is added does not grow
// with the micro-batches.
TEST(Schedule, TransfersHideBehindPasses) {
  for (const PipelineSchedule kind : {kGpipe, kInterleaved}) {
    const auto added = [&](int64_t m) {
      const Schedule schedule = made(kind, 4, m, kind == kInterleaved ? 2 : 1);
      return simulate(schedule, {.transfer = 0.2}).makespan - simulate(schedule).makespan;
    };
    EXPECT_LT(added(32), added(8) + (kind == kGpipe ? 1e-9 : 12)) << recipe::name_of_value(kind);
  }
}

TEST(Schedule, RefusesWhatAMethodCannotTake) {
  EXPECT_THROW(made(kInterleaved, 4, 3, 2), Error);
  EXPECT_THROW(made(kDualPipe, 4, 7), Error);
  EXPECT_THROW(made(kDualPipe, 4, 6), Error);
  EXPECT_THROW(made(kDualPipe, 3, 8), Error);
  EXPECT_THROW(made(k1F1B, 2, 0), Error);
  EXPECT_THROW(made(k1F1B, 2, 4, 2), Error);
  EXPECT_THROW(made(kZbV, 2, 4, 3), Error);
  EXPECT_THROW(Pipeline(2, {kZbV, 1, {4, 4}}), Error);
  EXPECT_EQ(interleaved_run(4, 8), 4);
  EXPECT_EQ(interleaved_run(2, 5), 3);
  EXPECT_EQ(interleaved_run(4, 7), 7);
}

TEST(Pipeline, StagesLieWhereTheMethodPutsThem) {
  EXPECT_EQ(Pipeline(2, {kInterleaved, 3, {}}).stage_of({1, 2}), 5);
  EXPECT_EQ(Pipeline(4, {kZbV, 1, {}}).stage_of({0, 1}), 7);
  EXPECT_EQ(Pipeline(4, {kZbV, 1, {}}).hop(0, 4), (Hop{3, 1}));
  EXPECT_EQ(Pipeline(4, {kDualPipe, 1, {}}).ranks_of(1), (std::vector<int64_t>{1, 2}));
  for (const PipelineSchedule kind : all_kinds()) {
    const Pipeline pipeline(4, {kind, kind == kInterleaved ? 3 : 1, {}});
    for (int64_t route = 0; route < pipeline.routes(); ++route) {
      for (int64_t stage = 0; stage < pipeline.stages(); ++stage)
        EXPECT_EQ(pipeline.stage_of(pipeline.hop(route, stage)), stage);
    }
  }
  const Pipeline uneven(2, {k1F1B, 1, {1, 4}});
  EXPECT_EQ(uneven.layers_of(1, 5), (Range{1, 4}));
  EXPECT_EQ(uneven.stage_with(0, 5), 0);
  EXPECT_EQ(uneven.stage_with(1, 5), 1);
  EXPECT_THROW(uneven.layers_of(0, 6), Error);
}

size_t index_of(const std::vector<Action>& list, Pass pass, int64_t nth = 0) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].pass == pass && nth-- == 0) return i;
  }
  ADD_FAILURE();
  return 0;
}

TEST(ScheduleCheck, RefusesPlantedMistakes) {
  const auto broken = [](const std::function<void(std::vector<std::vector<Action>>&)>& spoil,
                         PipelineSchedule kind = k1F1B) {
    Schedule schedule = made(kind, 3, 4);
    spoil(schedule.ranks);
    return flaw_of(schedule);
  };
  const auto erase = [](std::vector<Action>& list, Pass pass) {
    list.erase(list.begin() + static_cast<ptrdiff_t>(index_of(list, pass)));
  };
  EXPECT_EQ(broken([](auto&) {}), "");
  // The first rank waits for the first gradient before its second micro-batch, for which the second rank
  // waits before it gives the gradient.
  EXPECT_THAT(broken([](auto& ranks) {
                auto& list = ranks[0];
                for (const Pass pass : {Pass::kWaitReceive, Pass::kStartReceive}) {
                  const auto from = list.begin() + static_cast<ptrdiff_t>(index_of(list, pass));
                  const auto to = list.begin() + static_cast<ptrdiff_t>(index_of(list, Pass::kForward, 1));
                  std::rotate(pass == Pass::kWaitReceive ? to : list.begin() + 2, from, from + 1);
                }
              }),
              HasSubstr("wait for ever"));
  EXPECT_THAT(broken([&](auto& ranks) { erase(ranks[1], Pass::kStartSend); }), HasSubstr("in its place"));
  EXPECT_THAT(broken([&](auto& ranks) { erase(ranks[1], Pass::kStartReceive); }), HasSubstr("never started"));
  EXPECT_THAT(broken([&](auto& ranks) { erase(ranks[1], Pass::kWaitReceive); }),
              HasSubstr("its input is not there"));
  EXPECT_THAT(broken([&](auto& ranks) { erase(ranks[1], Pass::kWaitSend); }), HasSubstr("not everything"));
  EXPECT_THAT(broken([](auto& ranks) { ranks[2].push_back({.pass = Pass::kForward}); }), HasSubstr("twice"));
  EXPECT_THAT(broken([](auto& ranks) { ranks[2].push_back({.pass = Pass::kForward, .micro_batch = 4}); }),
              HasSubstr("does not come here"));
  EXPECT_THAT(broken([](auto& ranks) { ranks[2].push_back({.pass = Pass::kForward, .chunk = 1}); }),
              HasSubstr("does not come here"));
  EXPECT_THAT(
      broken([](auto& ranks) { std::erase(ranks[2], Action{.pass = Pass::kBackward, .micro_batch = 3}); }),
      HasSubstr("the tensor is not there yet"));
  EXPECT_THAT(
      broken([](auto& ranks) { std::erase(ranks[0], Action{.pass = Pass::kBackward, .micro_batch = 3}); }),
      HasSubstr("micro-batch 3 has no backward pass in stage 0"));
  EXPECT_THAT(broken([](auto& ranks) { ranks[1].pop_back(), ranks[1].pop_back(); }), testing::Not(""));
  EXPECT_THAT(
      broken(
          [&](auto& ranks) { std::erase(ranks[0], Action{.pass = Pass::kBackwardWeight, .micro_batch = 3}); },
          kZbH1),
      HasSubstr("gradient of weights"));
  EXPECT_THAT(broken(
                  [](auto& ranks) {
                    auto& list = ranks[0];
                    std::swap(list[index_of(list, Pass::kBackwardInput)],
                              list[index_of(list, Pass::kBackwardWeight)]);
                  },
                  kZbH1),
              testing::Not(""));
  // All forward passes first: right, but it holds more than 1F1B promises.
  Schedule greedy = made(kGpipe, 3, 4);
  greedy.most_in_flight = made(k1F1B, 3, 4).most_in_flight;
  EXPECT_THAT(flaw_of(greedy), HasSubstr("more than 3 activations"));
}

}  // namespace
}  // namespace longhaul::layout
