#include "observe/events/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/file.h"
#include "support/places.h"

namespace longhaul::observe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Common kCommon{.run = "r", .generation = 2, .rank = 0, .wall_time = 1.5, .monotonic_ns = 7};

std::string line_of(EventBody body) { return to_json({.common = kCommon, .body = std::move(body)}); }

template <class Body>
Body through_json(const Body& body) {
  const auto event = from_json(line_of(body));
  return std::get<Body>(event.value().body);
}

std::string refusal(const std::string& line) {
  try {
    from_json(line, "file:3");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.fields().where, StartsWith("file:3"));
    return error.what();
  }
  return "accepted";
}

TEST(Event, IsOneLineWithTheCommonFieldsFirst) {
  EXPECT_EQ(
      line_of(Resume{.step = 12}),
      R"({"schema":1,"run":"r","generation":2,"rank":0,"wall_time":1.5,"monotonic_ns":7,"event":"resume","step":12})");
}

TEST(Event, LossesHaveSeventeenDigits) {
  EXPECT_THAT(
      line_of(StepReport{.step = 1, .loss = 0.1, .grad_norm = 2}),
      HasSubstr(
          R"("loss":0.10000000000000001,"tokens":0,"tokens_per_second":0,"grad_norm":2.0000000000000000,)"));
  EXPECT_THAT(line_of(Evaluation{.loss = 1.0 / 3}), HasSubstr(R"("loss":0.33333333333333331)"));
}

TEST(Event, NumbersReadBackBitForBit) {
  for (const double value : {0.1, 1.0 / 3, 1e-320, -0.0, 1.7976931348623157e308, 2.3025850929940457}) {
    const auto step = through_json(
        StepReport{.loss = value, .grad_norm = value, .learning_rate = value, .milliseconds = value});
    EXPECT_EQ(std::bit_cast<uint64_t>(step.loss), std::bit_cast<uint64_t>(value)) << value;
    EXPECT_EQ(std::bit_cast<uint64_t>(step.grad_norm), std::bit_cast<uint64_t>(value)) << value;
    EXPECT_EQ(step.milliseconds, value);
  }
  EXPECT_EQ(through_json(StepReport{.tokens = INT64_MAX}).tokens, INT64_MAX);
}

TEST(Event, NonFiniteNumbersAreNullWithANote) {
  const double infinity = std::numeric_limits<double>::infinity();
  const StepReport bad{.loss = std::nan(""), .grad_norm = infinity, .learning_rate = -infinity};
  const std::string line = line_of(bad);
  EXPECT_THAT(line, HasSubstr(R"("loss":null)"));
  EXPECT_THAT(line, HasSubstr(R"("note":"loss=nan; grad_norm=inf; learning_rate=-inf")"));
  const auto read = through_json(bad);
  EXPECT_TRUE(std::isnan(read.loss));
  EXPECT_EQ(read.grad_norm, infinity);
  EXPECT_EQ(read.learning_rate, -infinity);
}

TEST(Event, WhatATaskMeasuresGoesByItsNames) {
  const StepReport step{.metrics = {{"accuracy", 1.0 / 3}, {"reward/\"mean\"", std::nan("")}}};
  EXPECT_THAT(line_of(step), HasSubstr(R"("metrics":{"accuracy":0.33333333333333331,"reward/\"mean\"":null},)"
                                       R"("note":"metrics.reward/\"mean\"=nan")"));
  const Metrics read = through_json(step).metrics;
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read.at("accuracy"), 1.0 / 3);
  EXPECT_TRUE(std::isnan(read.at("reward/\"mean\"")));
  EXPECT_TRUE(through_json(StepReport{}).metrics.empty());
  EXPECT_THAT(
      refusal(
          R"({"schema":1,"run":"r","generation":2,"rank":0,"wall_time":1,"monotonic_ns":7,"event":"evaluation","step":1,"metrics":[1]})"),
      HasSubstr("numbers by name"));
}

// The three numbers of text keep the fields that they have always had.
TEST(Event, AnEvaluationsNamedNumbers) {
  const Evaluation of_text = evaluation_of(3, {{"bits_per_byte", 2}, {"loss", 1}, {"perplexity", 4}});
  const std::string line = line_of(of_text);
  EXPECT_EQ(
      line.substr(line.find("\"step\"")),
      R"("step":3,"loss":1.0000000000000000,"bits_per_byte":2.0000000000000000,"perplexity":4.0000000000000000})");
  const Evaluation other = through_json(evaluation_of(3, {{"loss", 0.5}, {"solved", 0.25}}));
  EXPECT_EQ(other.loss, 0.5);
  EXPECT_FALSE(other.bits_per_byte);
  EXPECT_EQ(other.metrics, (Metrics{{"solved", 0.25}}));
}

TEST(Event, OptionalFieldsAreLeftOutWhenUnset) {
  EXPECT_EQ(line_of(StepReport{}).find("mfu"), std::string::npos);
  const auto step = through_json(StepReport{.mfu = 0.5,
                                            .mfu_full_attention = 0.625,
                                            .hfu = 0.75,
                                            .resident_bytes = 9,
                                            .entry_skew_milliseconds = 12.5,
                                            .skipped = true,
                                            .epoch = 1.5});
  EXPECT_EQ(step.hfu, 0.75);
  EXPECT_EQ(step.entry_skew_milliseconds, 12.5);
  EXPECT_EQ(step.mfu, 0.5);
  EXPECT_EQ(step.mfu_full_attention, 0.625);
  EXPECT_EQ(step.resident_bytes, 9);
  EXPECT_EQ(step.skipped, true);
  EXPECT_EQ(step.epoch, 1.5);
  EXPECT_FALSE(step.data_wait_milliseconds.has_value());
}

TEST(Event, TextIsEscapedAndAlwaysUtf8) {
  const auto sample =
      through_json(Sample{.prompt = "a\"b\\\n\t\x01", .text = "gr\xc3\xbc\xc3\x9f \xff\xc3 end"});
  EXPECT_EQ(sample.prompt, "a\"b\\\n\t\x01");
  EXPECT_EQ(sample.text, "gr\xc3\xbc\xc3\x9f \xef\xbf\xbd\xef\xbf\xbd end");
  EXPECT_EQ(line_of(Sample{.text = "a\nb"}).find('\n'), std::string::npos);
}

TEST(Event, EveryTypeReadsBack) {
  int types = 0;
  for_each_event_type([&]<class Body>() {
    ++types;
    const auto event = from_json(line_of(Body{}));
    ASSERT_TRUE(event.has_value()) << Body::kName;
    EXPECT_TRUE(std::holds_alternative<Body>(event->body)) << Body::kName;
    EXPECT_EQ(event->common.generation, 2);
    EXPECT_EQ(line_of(event->body), line_of(Body{}));
  });
  EXPECT_EQ(types, 16);
  EXPECT_EQ(through_json(RunStart{.cpu_features = {"avx2", "fma"}}).cpu_features,
            (std::vector<std::string>{"avx2", "fma"}));
}

TEST(Event, ALaterVersionsEventsAndFieldsArePassedOver) {
  std::string line = line_of(Resume{.step = 3});
  line.insert(line.size() - 1, R"(,"new_field":[1])");
  EXPECT_EQ(std::get<Resume>(from_json(line)->body).step, 3);
  line.replace(line.find("resume"), 6, "future");
  EXPECT_FALSE(from_json(line).has_value());
  EXPECT_EQ(common_from_json(line).run, "r");
}

// `rank` stands among the fields of every line, and once only.
TEST(Event, AnIncidentSaysWhoseFaultItWas) {
  IncidentReport incident{.id = 3,
                          .fault = "hang",
                          .rank = 5,
                          .node = "node-1",
                          .evidence = {"all wait", "rank 5 does not"},
                          .suspects = {"rank 5"}};
  incident.action = "evict_node";
  incident.ended_generation = 7;
  incident.step = 120;
  incident.lost_steps = 2;
  incident.detected_milliseconds = 61000.5;
  const std::string line = line_of(incident);
  EXPECT_EQ(
      line,
      R"({"schema":1,"run":"r","generation":2,"wall_time":1.5,"monotonic_ns":7,"event":"incident","id":3,"class":"hang","rank":5,)"
      R"("node":"node-1","evidence":["all wait","rank 5 does not"],"suspects":["rank 5"],"action":"evict_node","ended_generation":7,)"
      R"("step":120,"lost_steps":2,"recovered":false,"detected_milliseconds":61000.5})");
  EXPECT_EQ(common_from_json(line).rank, 5);
  const IncidentReport read = through_json(incident);
  EXPECT_EQ(read.rank, 5);
  EXPECT_EQ(read.evidence, incident.evidence);
  EXPECT_EQ(read.step, incident.step);
  EXPECT_EQ(read.recovered_milliseconds, std::nullopt);
  EXPECT_EQ(
      through_json(DriverState{.state = "TRAIN", .reason = "first step", .ranks_generation = 4, .ranks = 8})
          .ranks,
      8);
}

TEST(Event, WhatDoesNotFitIsRefusedWithItsPlace) {
  const std::string good = line_of(Resume{.step = 3});
  auto changed = [&](const std::string& from, const std::string& to) {
    return std::string(good).replace(good.find(from), from.size(), to);
  };
  EXPECT_THAT(refusal("{\"schema\":"), HasSubstr("JSON in UTF-8"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("one JSON object a line"));
  EXPECT_THAT(refusal(changed(",\"step\":3", "")), HasSubstr("the field \"step\""));
  EXPECT_THAT(refusal(changed("\"step\":3", "\"step\":3.5")),
              AllOf(HasSubstr("/step"), HasSubstr("a whole number"), HasSubstr("3.5")));
  EXPECT_THAT(refusal(changed("\"step\":3", "\"step\":18446744073709551615")), HasSubstr("a whole number"));
  EXPECT_THAT(refusal(changed("\"run\":\"r\"", "\"run\":5")),
              AllOf(HasSubstr("/run"), HasSubstr("a string")));
  EXPECT_THAT(refusal(changed("\"schema\":1", "\"schema\":2")), HasSubstr("newer Longhaul"));
  EXPECT_THAT(refusal(changed("\"event\":\"resume\"", "\"event\":1")),
              AllOf(HasSubstr("/event"), HasSubstr("a string")));
}

TEST(Event, ThePageOfTheFormatNamesEveryEventAndField) {
  const std::string page = read_text(source_folder() + "/docs/formats/events.md");
  for_each_field<Common>(
      [&](const auto& field) { EXPECT_THAT(page, HasSubstr("`" + std::string(field.name) + "`")); });
  for_each_event_type([&]<class Body>() {
    const std::string heading = "### `" + std::string(Body::kName) + "`";
    const auto begin = page.find(heading + "\n");
    ASSERT_NE(begin, std::string::npos) << heading;
    const std::string section = page.substr(begin, page.find("\n#", begin + 4) - begin);
    for_each_field<Body>([&](const auto& field) {
      EXPECT_THAT(section, HasSubstr("`" + std::string(field.name) + "`"))
          << "in the section of " << Body::kName;
    });
  });
}

}  // namespace
}  // namespace longhaul::observe
