// The JSON of messages: everything that is sent comes back, and nothing else is taken.
#include "control/wire/messages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace longhaul::control {
namespace {

RankBeat a_beat() {
  RankBeat beat{.rank = 3,
                .generation = 7,
                .pid = 4711,
                .beat_age_s = 0.25,
                .progress_age_s = 1.5,
                .step = 12,
                .micro_step = 2};
  beat.phase = "communication";
  beat.task_phase = {.name = "rollout", .allowed_s = 900.5, .done = 3, .whole = 64};
  beat.collective = {
      .group = "world/dp 0", .name = "gradients", .kind = "all_reduce", .state = "started", .sequence = 812};
  beat.loss = 2.5;
  beat.resident_bytes = 5'000'000'000, beat.device_bytes = 70'000'000'000;
  beat.gradient_norm = std::numeric_limits<double>::infinity();
  beat.phase_seconds = {{"forward", 0.5}, {"backward", 1.25}};
  beat.background = {{.name = "write checkpoint", .age_s = 2.5, .allowed_s = 12}};
  beat.error = {.code = 67, .text = "a \"quoted\" line\nand \x01 more"};
  return beat;
}

TEST(Messages, ComeBackAsTheyWere) {
  NodeHello hello{.version = "0.1.0",
                  .run = "runs/first",
                  .node = "node-0",
                  .host = "a",
                  .boot_id = "b",
                  .address = "10.0.0.1"};
  hello.running = {a_beat(), RankBeat{}};
  hello.ended = {RankExited{.rank = 1, .status = 137, .out_of_memory = true, .last_words = "ümläut"}};
  const std::vector<NodeMessage> of_node = {
      hello,
      NodeBeat{.generation = 7,
               .free_port = 40001,
               .running = {a_beat()},
               .ended = {},
               .machine = {{"cpu_usage", 12.5}, {"gpu_temperature", 61}}},
      RankExited{.rank = 1, .generation = 7, .status = 139, .age_s = 0.003, .stopped = true, .stack = "a\nb"},
      HealthReport{.kind = "xid", .code = 79, .rank = 2, .device = "GPU-1", .text = "fell off the bus"},
      CheckResults{
          .id = 5,
          .suite = "preflight",
          .checks = {{.name = "disk", .passed = false, .measured = 0.5, .limit = 1, .unit = "GB/s"}}},
      Evidence{.generation = 7, .rank = 0, .calls = "{}", .stacks = "main", .process = "T", .last = true},
      KeysRenewed{.generation = 4}};
  for (const NodeMessage& message : of_node)
    EXPECT_EQ(node_message(to_text(message), "test"), message) << to_text(message);

  const std::vector<DriverMessage> of_driver = {
      Welcome{.run = "r",
              .generation = 4,
              .command = {.words = {"train", "r.toml"}, .options = {"--run", "r"}, .terminal = true}},
      StartRanks{.generation = 5,
                 .world = 4,
                 .ranks = {2, 3},
                 .node_rank = 1,
                 .nodes = 2,
                 .master_address = "h",
                 .master_port = 1234,
                 .overrides = {"a=b"},
                 .probe = true},
      StopRanks{.generation = 5, .grace_s = 0.5, .save = true, .reason = "why"},
      RunChecks{.id = 1, .suite = "stop_time", .limit_s = 600, .peers = {"a:1"}},
      GatherEvidence{.generation = 3},
      Release{.reason = "done", .evicted = true},
      StillHere{},
      RenewKeys{.generation = 4}};
  for (const DriverMessage& message : of_driver)
    EXPECT_EQ(driver_message(to_text(message), "test"), message) << to_text(message);

  const std::vector<ClientMessage> of_client = {
      StatusRequest{}, EvictRequest{.target = "3", .reason = "slow"}, DrainRequest{.reason = "enough"}};
  for (const ClientMessage& message : of_client)
    EXPECT_EQ(client_message(to_text(message), "test"), message) << to_text(message);
  EXPECT_EQ(answer_from_text(to_text(Answer{.good = false, .text = "no"}), "test"),
            (Answer{.good = false, .text = "no"}));
}

TEST(Messages, NumbersThatAreNotFinite) {
  RankBeat beat;
  beat.loss = std::nan("");
  beat.gradient_norm = -std::numeric_limits<double>::infinity();
  const std::string text = to_text(NodeMessage(NodeBeat{.running = {beat}}));
  const auto again = std::get<NodeBeat>(node_message(text, "test"));
  EXPECT_TRUE(std::isnan(again.running[0].loss));
  EXPECT_EQ(again.running[0].gradient_norm, beat.gradient_norm);
}

TEST(Messages, BytesThatAreNotTextAreReplaced) {
  const std::string text = to_text(NodeMessage(RankExited{.last_words = "\xff\xfe end"}));
  EXPECT_EQ(std::get<RankExited>(node_message(text, "test")).last_words, "\xEF\xBF\xBD\xEF\xBF\xBD end");
}

// Each of these is refused with the peer's name, and none is taken for another message.
TEST(Messages, WhatIsNotOneIsRefused) {
  const std::string good = to_text(DriverMessage(GatherEvidence{.generation = 3}));
  ASSERT_EQ(good, R"({"generation":3,"type":"gather_evidence"})");
  const std::vector<std::string> bad = {
      "",
      "[]",
      "7",
      "null",
      R"({"generation":3})",                                    // no type
      R"({"generation":3,"type":7})",                           // not a text
      R"({"generation":3,"type":"gather"})",                    // unknown
      R"({"type":"gather_evidence"})",                          // a field too few
      R"({"generation":3,"more":1,"type":"gather_evidence"})",  // too many
      R"({"generation":3.5,"type":"gather_evidence"})",         // not whole
      R"({"generation":"3","type":"gather_evidence"})",         // text
      R"({"generation":1e30,"type":"gather_evidence"})",        // out of range
      R"({"generation":3,"generation":4,"type":"gather_evidence"})",
      R"({"generation":3,"type":"gather_evidence"} x)",
      to_text(NodeMessage(NodeBeat{})),  // of the other side
      to_text(ClientMessage(StatusRequest{})),
  };
  for (const std::string& text : bad) {
    try {
      driver_message(text, "peer 10.0.0.9");
      ADD_FAILURE() << "taken: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCommunication) << text;
      EXPECT_NE(error.fields().where.find("peer 10.0.0.9"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace longhaul::control
