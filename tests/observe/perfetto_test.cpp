// Perfetto's protobuf, read again by a decoder of the test's own: packets, tracks with their parents, begins
// and ends that nest, flows from sends to receives.
#include "observe/trace/perfetto_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace longhaul::observe {
namespace {

// A message as its fields: varints and fixed numbers, or bytes.
struct Fields {
  std::multimap<int, uint64_t> numbers;
  std::multimap<int, std::string> texts;
  uint64_t number(int field) const { return numbers.contains(field) ? numbers.find(field)->second : 0; }
  std::string text(int field) const { return texts.contains(field) ? texts.find(field)->second : ""; }
};

Fields decoded(std::string_view bytes) {
  Fields fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.size()) {
    const uint64_t key = varint();
    const int field = static_cast<int>(key >> 3);
    if ((key & 7) == 0) {
      fields.numbers.emplace(field, varint());
    } else if ((key & 7) == 1) {
      uint64_t value = 0;
      for (int i = 0; i < 8; ++i)
        value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes.at(at++))) << (8 * i);
      fields.numbers.emplace(field, value);
    } else {
      EXPECT_EQ(key & 7, 2u);
      const uint64_t size = varint();
      fields.texts.emplace(field, std::string(bytes.substr(at, size)));
      at += size;
    }
  }
  return fields;
}

// Rank 0 sends, rank 1 has waited since before; a sum runs over the end of a pass, and another call beside
// it.
std::vector<RankTrace> two_ranks() {
  StepTrace first{.step = 5, .begin_ns = 100, .end_ns = 1100},
      second{.step = 5, .begin_ns = 100, .end_ns = 1100};
  first.spans = {{.kind = SpanKind::kForward, .begin_ns = 100, .end_ns = 500, .chunk = 0, .micro_batch = 2},
                 {.kind = SpanKind::kBackward, .begin_ns = 500, .end_ns = 1000}};
  second.spans = {{.kind = SpanKind::kData, .begin_ns = 100, .end_ns = 150}};
  CallSpan sends{
      .group = "world/pp 0", .kind = "exchange", .name = "hidden \"states\"", .begin_ns = 600, .end_ns = 700},
      receives = sends;
  sends.sends_to = {1};
  receives.receives_from = {0}, receives.begin_ns = 300, receives.started_ns = 300,
  receives.waited_from_ns = 310, receives.waited_until_ns = 690;
  first.calls = {sends,
                 {.group = "world/dp 0",
                  .kind = "all_reduce",
                  .name = "a",
                  .sequence = 1,
                  .begin_ns = 50,
                  .end_ns = 400},
                 {.group = "world/dp 0",
                  .kind = "all_reduce",
                  .name = "b",
                  .sequence = 2,
                  .begin_ns = 300,
                  .end_ns = 450}};
  second.calls = {receives};
  return {{.rank = {.rank = 0}, .steps = {first}}, {.rank = {.rank = 1, .pp = 1}, .steps = {second}}};
}

TEST(PerfettoTrace, TracksNestAndFlowsMeet) {
  std::string bytes;
  write_perfetto_trace(two_ranks(), [&](std::string_view part) { bytes += part; });
  std::map<uint64_t, std::string> names;
  std::map<uint64_t, uint64_t> parents;
  std::map<uint64_t, std::vector<std::pair<uint64_t, std::string>>> open;  // track → (since, name)
  std::map<uint64_t, uint64_t> last;
  std::multimap<std::string, uint64_t> seen;  // name → begin
  std::map<uint64_t, uint64_t> flow_begin, flow_end;
  for (const auto& [field, packet_bytes] : decoded(bytes).texts) {
    ASSERT_EQ(field, 1) << "a trace is packets";
    const Fields packet = decoded(packet_bytes);
    EXPECT_EQ(packet.number(10), 1u) << "all of one sequence";
    if (packet.texts.contains(60)) {
      const Fields track = decoded(packet.text(60));
      names[track.number(1)] = track.texts.contains(3) ? decoded(track.text(3)).text(6) : track.text(2);
      if (track.numbers.contains(5)) parents[track.number(1)] = track.number(5);
      continue;
    }
    const Fields event = decoded(packet.text(11));
    const uint64_t track = event.number(11), at = packet.number(8), type = event.number(9);
    EXPECT_GE(at, last[track]) << "in order of time within a track";
    last[track] = at;
    if (type == 1) open[track].emplace_back(at, event.text(23)), seen.emplace(event.text(23), at);
    if (type == 2) {
      ASSERT_FALSE(open[track].empty());
      open[track].pop_back();
    }
    for (auto [begin, end] = event.numbers.equal_range(47); begin != end; ++begin)
      flow_begin[begin->second] = at;
    for (auto [begin, end] = event.numbers.equal_range(48); begin != end; ++begin)
      flow_end[begin->second] = at;
  }
  for (const auto& [track, slices] : open) EXPECT_TRUE(slices.empty()) << names[track];
  std::multiset<std::string> all;
  for (const auto& [track, name] : names) all.insert(name);
  EXPECT_EQ(all,
            (std::multiset<std::string>{"rank 0 (pp 0, dp 0, cp 0, tp 0)", "rank 1 (pp 1, dp 0, cp 0, tp 0)",
                                        "compute", "compute", "data", "communication dp",
                                        "communication dp (2)", "communication pp", "communication pp"}));
  EXPECT_EQ(parents.size(), 7u) << "every row is of a rank";
  for (const auto& [track, parent] : parents) EXPECT_TRUE(names.at(parent).starts_with("rank "));
  EXPECT_EQ(seen.count("forward 2"), 1u);
  std::multiset<uint64_t> begins;
  for (auto [each, end] = seen.equal_range("exchange: hidden \"states\""); each != end; ++each)
    begins.insert(each->second - seen.find("step 5")->second);
  EXPECT_EQ(begins, (std::multiset<uint64_t>{200, 500}))
      << "nanoseconds from the step's begin: rank 1 asked before rank 0 sent";
  EXPECT_EQ(seen.count("stands still: exchange: hidden \"states\""), 1u);
  ASSERT_EQ(flow_begin.size(), 1u);
  ASSERT_EQ(flow_end.size(), 1u);
  EXPECT_EQ(flow_begin.begin()->first, flow_end.begin()->first);
  EXPECT_LT(flow_begin.begin()->second, flow_end.begin()->second)
      << "from the send to when it had come, though it was asked for before";
}

TEST(PerfettoTrace, APartOfAFileStillOpens) {
  std::string bytes;
  std::vector<size_t> ends;
  write_perfetto_trace(two_ranks(), [&](std::string_view part) { ends.push_back((bytes += part).size()); });
  EXPECT_GT(ends.size(), 20u);
  for (const size_t end : ends) EXPECT_NO_THROW(decoded(std::string_view(bytes).substr(0, end)));
}

}  // namespace
}  // namespace longhaul::observe
