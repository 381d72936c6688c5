#include "observe/report/report_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

namespace longhaul::observe {
namespace {

TEST(ReportWriter, ACallWhileAPageIsBeingMadeIsPassedOverAndHoldsNobodyUp) {
  std::atomic<int> made = 0;
  std::promise<void> begun, gate;
  ReportWriter writer(
      [&] {
        if (++made == 1) begun.set_value(), gate.get_future().wait();
      },
      [] { return 0.0; });
  writer.refresh();
  begun.get_future().wait();
  for (int i = 0; i < 100; ++i) writer.refresh();
  EXPECT_EQ(made, 1);
  gate.set_value();
  writer.finish();
  EXPECT_EQ(made, 2) << "the last page is made whatever went before, and only that";
}

// A page that takes 3 s is followed by none for 60 s.
TEST(ReportWriter, PagesTakeATwentiethOfOneCoreAtMost) {
  std::atomic<double> now_s = 0;
  std::atomic<int> made = 0;
  ReportWriter writer(
      [&] {
        now_s = now_s + 3;
        ++made;
      },
      [&] { return now_s.load(); });
  writer.finish();  // from 0 to 3
  now_s = 3 + 59.9;
  writer.refresh();
  writer.finish();
  EXPECT_EQ(made, 2) << "the refresh came too soon";
  now_s = now_s + 60.1;
  writer.refresh();
  writer.finish();
  EXPECT_EQ(made, 4);
}

TEST(ReportWriter, APageThatCannotBeMadeEndsNothing) {
  int tries = 0;
  ReportWriter writer([&] {
    ++tries;
    throw std::runtime_error("no room");
  });
  writer.refresh();
  EXPECT_NO_THROW(writer.finish());
  EXPECT_EQ(tries, 2);
}

}  // namespace
}  // namespace longhaul::observe
