// A supervised run made up for tests and pictures: a folder with events.jsonl, events/, control/status.json,
// logs/ and recorded steps, as the driver and its ranks leave them. Time can be moved on, so that a live page
// has something to show.
#pragma once

#include <cmath>
#include <filesystem>
#include <string>

#include "base/files/file.h"
#include "observe/board/run_status.h"
#include "observe/events/event.h"
#include "observe/trace/trace_file.h"

namespace longhaul::observe::test {

struct SupervisedShape {
  int64_t stages = 2, replicas = 2, tensor = 2, nodes = 4;
  int64_t steps = 400, planned = 2000;
  int64_t slow_rank = 5;  // −1: none; it takes 1.3 times as long
  int64_t stuck_rank = -1;
  int64_t traced_steps = 0;
  double begin = 1'790'000'000;
  double step_s = 0.8;
  bool incidents = true, heldout = true;
  int64_t world() const { return stages * replicas * tensor; }
};

class SupervisedRun {
 public:
  SupervisedRun(std::filesystem::path folder, const SupervisedShape& shape)
      : folder_(std::move(folder)), shape_(shape) {
    for (const char* name : {"events", "control", "logs", "trace"})
      std::filesystem::create_directories(folder_ / name);
    time_ = shape_.begin;
    start();
    for (int64_t step = 1; step <= shape_.steps; ++step) {
      if (shape_.incidents && step == shape_.steps / 2) fail_once();
      advance();
    }
    for (int64_t rank = 0; rank < shape_.world(); ++rank) {
      append("logs/rank-" + std::to_string(rank) + ".log",
             "generation 1\nstep 1 loss 7.2\n<script>alert('rank " + std::to_string(rank) +
                 "')</script> \x1b[31mred\x1b[0m\n");
      if (shape_.traced_steps > 0) trace(rank);
    }
    write_status();
  }

  double now() const { return time_; }
  int64_t step() const { return step_; }
  void advance() {
    ++step_;
    time_ += shape_.step_s;
    tokens_ += 8192;
    const double noise = 0.04 * (uniform01(step_, 1) - 0.5);
    add(StepReport{.step = step_,
                   .loss = 2.1 + 5.2 * std::exp(-static_cast<double>(step_) / 90) + noise,
                   .tokens = tokens_,
                   .tokens_per_second = 8192 / shape_.step_s * (1 + noise),
                   .grad_norm = 0.8 + 2 * std::exp(-static_cast<double>(step_) / 60) + noise,
                   .learning_rate = 3e-4 * std::min(1.0, static_cast<double>(step_) / 100),
                   .milliseconds = shape_.step_s * 1000 * (1 + noise),
                   .mfu = 0.41 * (1 + noise),
                   .data_wait_milliseconds = 3,
                   .resident_bytes = 3'400'000'000});
    if (shape_.heldout && step_ % 50 == 0)
      add(Evaluation{.step = step_,
                     .loss = 2.2 + 5.2 * std::exp(-static_cast<double>(step_) / 90),
                     .bits_per_byte = (2.2 + 5.2 * std::exp(-static_cast<double>(step_) / 90)) / 2,
                     .perplexity = 9});
    if (step_ % 50 == 0)
      add(CheckpointSaved{
          .step = step_, .path = "checkpoints/step-" + std::to_string(step_), .blocking_milliseconds = 120});
  }
  void write_status() const { write_text_atomically(status_file(folder_), to_json(status())); }
  void append(const std::string& name, const std::string& text) const {
    File::open(folder_ / name, File::Mode::kAppend).write(text);
  }
  void add(EventBody body) {
    append("events.jsonl", to_json({.common = {.run = "20261123T000000-0000000a",
                                               .generation = generation_,
                                               .wall_time = time_,
                                               .monotonic_ns = static_cast<int64_t>(time_ * 1e9)},
                                    .body = std::move(body)}) +
                               "\n");
  }
  SupervisedShape& shape() { return shape_; }

  RunStatus status() const {
    RunStatus status{.run = "20261123T000000-0000000a",
                     .recipe = "recipes/big.toml",
                     .state = "TRAIN",
                     .generation = generation_,
                     .step = step_,
                     .steps = shape_.planned,
                     .updated_wall_time = time_,
                     .started_wall_time = shape_.begin,
                     .driver = {.pid = 4000, .host = "head", .address = "127.0.0.1:9000"},
                     .restarts = generation_ - 1,
                     .productive_seconds = static_cast<double>(step_) * shape_.step_s,
                     .lost_seconds = 14,
                     .effective_ratio = 0.962,
                     .effective_ratio_hour = 0.958};
    status.mesh = {{"pp", shape_.stages}, {"dp", shape_.replicas}, {"cp", 1}, {"tp", shape_.tensor}};
    for (int64_t node = 0; node < shape_.nodes; ++node)
      status.nodes.push_back({.node = name_of_node(node),
                              .host = "10.0.0." + std::to_string(node),
                              .pid = 5000 + node,
                              .state = "active",
                              .last_beat_age_s = 0.3});
    status.nodes.back().machine = {{"cpu_usage", 37.5}, {"gpu_temperature", 61}};
    status.nodes.push_back(
        {.node = "spare-0", .host = "10.0.0.99", .pid = 5099, .state = "spare", .last_beat_age_s = 0.4});
    if (shape_.incidents)
      status.nodes.push_back(
          {.node = "node-9", .host = "10.0.0.9", .state = "evicted", .reason = "hung twice within an hour"});
    for (int64_t rank = 0; rank < shape_.world(); ++rank) status.ranks.push_back(rank_status(rank));
    return status;
  }

 private:
  static double uniform01(int64_t a, int64_t b) {
    const double x =
        std::sin(static_cast<double>(a) * 12.9898 + static_cast<double>(b) * 78.233) * 43758.5453;
    return x - std::floor(x);
  }
  std::string name_of_node(int64_t node) const { return "node-" + std::to_string(node); }

  RankStatus rank_status(int64_t rank) const {
    const bool slow = rank == shape_.slow_rank, stuck = rank == shape_.stuck_rank;
    const int64_t stage = rank / (shape_.replicas * shape_.tensor);
    const double noise = 1 + 0.02 * (uniform01(step_, rank) - 0.5),
                 work = (slow ? 1.3 : 1.0) * noise * (stage == 0 ? 1 : 0.92);
    static constexpr const char* kPhases[] = {"forward", "backward", "communication", "optimizer"};
    RankStatus status{
        .rank = rank,
        .node = name_of_node(rank * shape_.nodes / shape_.world()),
        .pid = 6000 + rank,
        .state = "running",
        .generation = generation_,
        .step = step_,
        .micro_step = rank % 4,
        .phase = stuck ? "forward" : kPhases[static_cast<size_t>(uniform01(step_ / 2, rank + 7) * 4)],
        .phase_age_s = stuck ? 300.0 : 0.1,
        .beat_age_s = 0.4,
        .progress_age_s = stuck ? 300.0 : 0.2,
        .collective = {.group = "world/dp " + std::to_string(rank % 2),
                       .name = "gradients of layers.3",
                       .kind = "reduce_scatter",
                       .state = "ended",
                       .sequence = 1000 + step_},
        .loss = 2.3,
        .gradient_norm = 0.8,
        .tokens = tokens_,
        .resident_bytes = 3'300'000'000 + rank * 10'000'000,
        .step_seconds = shape_.step_s};
    const double forward = 0.22 * work, backward = 0.41 * work, optimizer = 0.05 * work;
    status.phase_seconds = {
        {"data", 0.003 * noise},
        {"forward", forward},
        {"backward", backward},
        {"optimizer", optimizer},
        {"communication", std::max(0.01, shape_.step_s * 1.12 - forward - backward - optimizer)}};
    return status;
  }

  void start() {
    add(RunStart{.name = "big",
                 .version = "0.1.0",
                 .commit = "abcdef012345",
                 .host = "head",
                 .world_size = shape_.world(),
                 .model = "<b>linear</b>-7b",
                 .parameters = 7'000'000'000,
                 .steps = shape_.planned,
                 .tokens_per_step = 8192,
                 .sequence = 2048});
    time_ += 4;
  }

  void fail_once() {
    time_ += 9;
    generation_ = 2;
    append(
        "events/driver-0.jsonl",
        R"({"schema":1,"run":"20261123T000000-0000000a","generation":1,"rank":0,"wall_time":)" +
            std::to_string(time_ - 2) +
            R"(,"monotonic_ns":1,"event":"incident","class":"hang","rank":3,"node":"node-1","evidence":["rank 3 is in forward of layer 12 since 61 s; 7 ranks wait in reduce_scatter 1184 of world/dp 1",)" +
            R"("its thread is at linear.cpp:118 <i>"],"suspects":["rank 3"],"action":"evicted node-9, restarted on spare node-1","generation":2,"lost_steps":6,"detected_milliseconds":1210,"diagnosed_milliseconds":430,"recovered_milliseconds":3890})" +
            "\n");
    append("events/rank-3.jsonl",
           R"({"schema":1,"run":"20261123T000000-0000000a","generation":1,"rank":3,"wall_time":)" +
               std::to_string(time_ - 3) +
               R"(,"monotonic_ns":1,"event":"alarm","kind":"disk_full","message":"no space left on /data"})" +
               "\n");
    start();
    step_ -= 6;
    tokens_ -= 6 * 8192;
    add(Resume{.step = step_});
  }

  void trace(int64_t rank) const {
    TraceWriter writer(
        folder_, {.rank = rank, .generation = generation_, .pp = rank / (shape_.replicas * shape_.tensor)});
    for (int64_t step = 1; step <= shape_.traced_steps; ++step) {
      const int64_t begin = step * 1'000'000'000, work = rank == shape_.slow_rank ? 260'000'000 : 200'000'000;
      StepTrace trace{.step = step, .begin_ns = begin, .end_ns = begin + 700'000'000};
      trace.spans = {{.kind = SpanKind::kForward,
                      .begin_ns = begin,
                      .end_ns = begin + work,
                      .chunk = 0,
                      .micro_batch = 0},
                     {.kind = SpanKind::kBackward,
                      .begin_ns = begin + work,
                      .end_ns = begin + 600'000'000,
                      .chunk = 0,
                      .micro_batch = 0}};
      trace.calls = {{.group = "world",
                      .kind = "all_reduce",
                      .name = "gradients",
                      .sequence = step,
                      .sent = 100,
                      .received = 100,
                      .begin_ns = begin + 2 * work,
                      .end_ns = begin + 600'000'000,
                      .started_ns = begin + 2 * work,
                      .waited_from_ns = begin + 2 * work,
                      .waited_until_ns = begin + 600'000'000}};
      writer.write(trace);
    }
  }

  std::filesystem::path folder_;
  SupervisedShape shape_;
  double time_ = 0;
  int64_t step_ = 0, tokens_ = 0, generation_ = 1;
};

}  // namespace longhaul::observe::test
