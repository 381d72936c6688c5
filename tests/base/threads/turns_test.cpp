#include "base/threads/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/memory/memory_purpose.h"
#include "base/process/training_wait.h"
#include "base/threads/parallel.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

TEST(Turns, GoOnWhereTheOtherPasses) {
  Turns turns;
  std::vector<std::string> done;
  const auto body = [&](const std::string& name, int passes) {
    return [&, name, passes] {
      for (int i = 0; i < passes; ++i) {
        done.push_back(name + std::to_string(i));
        turns.pass();
      }
      done.push_back(name + " ends");
    };
  };
  std::vector<int> began;
  turns.run({.first = body("a", 2), .second = body("b", 4), .begins = [&](Turns::Body whose) {
               began.push_back(whose);
             }});
  EXPECT_THAT(done, ElementsAre("a0", "b0", "a1", "b1", "a ends", "b2", "b3", "b ends"));
  EXPECT_THAT(began, ElementsAre(0, 1, 0, 1, 0, 1)) << "nobody passes to one that has ended";
  done.clear();
  turns.run({.first = body("a", 3), .second = body("b", 0)});
  EXPECT_THAT(done, ElementsAre("a0", "b ends", "a1", "a2", "a ends"));
}

TEST(Turns, MayWaitForTheEndOfTheOther) {
  for (const bool second_waits : {false, true}) {
    Turns turns;
    std::string done;
    const auto waits = [&] {
      turns.pass();
      done += "w";
      turns.let_end();
      turns.pass();
      done += "W";
    };
    const auto goes_on = [&] {
      for (int i = 0; i < 3; ++i) {
        done += "g";
        turns.pass();
      }
      done += "G";
    };
    if (second_waits) {
      turns.run({.first = goes_on, .second = waits});
    } else {
      turns.run({.first = waits, .second = goes_on});
    }
    EXPECT_EQ(done, second_waits ? "ggwgGW" : "gwggGW");
    turns.let_end();  // outside of a run there is nobody
  }
}

TEST(Turns, PassNothingOutsideOfARun) {
  Turns turns;
  turns.pass();
  turns.let_end();
  turns.run({.first = [] {}, .second = [] {}});
  turns.pass();
}

TEST(Turns, TheSecondBodyTakesOverFromTheCaller) {
  Turns turns;
  std::set<std::thread::id> others;
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    const MemoryPurposeScope purpose(MemoryPurpose::kActivations);
    const TrainingThread trains(count == 3);
    turns.run(
        {.first = [caller = std::this_thread::get_id()] { EXPECT_EQ(std::this_thread::get_id(), caller); },
         .second =
             [&] {
               EXPECT_EQ(threads(), count);
               EXPECT_EQ(MemoryPurposeScope::current(), MemoryPurpose::kActivations);
               EXPECT_EQ(TrainingThread::current(), count == 3);
               others.insert(std::this_thread::get_id());
             }});
  }
  set_threads(before);
  EXPECT_EQ(others.size(), 1u) << "one thread for all runs";
  EXPECT_FALSE(others.contains(std::this_thread::get_id()));
}

// Whose body fails, the other one ends where it has passed, with all that it holds; the next run begins anew.
TEST(Turns, AnExceptionEndsBothAndIsThrown) {
  Turns turns;
  const auto held = std::make_shared<int>();
  for (const bool first_fails : {true, false}) {
    const auto fails = [&] {
      const std::shared_ptr<int> mine = held;
      turns.pass();
      throw std::runtime_error("this one");
    };
    bool went_on = false;
    const auto waits = [&] {
      const std::shared_ptr<int> mine = held;
      try {
        turns.pass();
        turns.pass();
      } catch (...) {
        throw std::logic_error("a consequence");  // not the first
      }
      went_on = true;
    };
    const auto run = [&] {
      if (first_fails) {
        turns.run({.first = fails, .second = waits});
      } else {
        turns.run({.first = waits, .second = fails});
      }
    };
    try {
      run();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "this one");
    }
    EXPECT_FALSE(went_on);
  }
  EXPECT_EQ(held.use_count(), 1);
  int ran = 0;
  turns.run({.first = [&] { ++ran; }, .second = [&] { ++ran; }});
  EXPECT_EQ(ran, 2);
}

TEST(Turns, ASecondBodyWhoseTurnNeverCameIsNotRun) {
  Turns turns;
  bool ran = false;
  EXPECT_THROW(
      turns.run({.first = [] { throw std::runtime_error("at once"); }, .second = [&] { ran = true; }}),
      std::runtime_error);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace longhaul
