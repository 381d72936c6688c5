#include "bench/ranks/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/progress.h"
#include "bench/ranks/coupled_transfers.h"
#include "kernels/linear/feed_forward.h"
#include "language/text_stage.h"
#include "layout/schedule/schedule_check.h"
#include "model/decoder.h"
#include "parallel/context/context_recurrence.h"
#include "parallel/ranks.h"
#include "parallel/tensor_parts.h"
#include "train/passes.h"

namespace longhaul::bench {
namespace {

struct Rows {
  std::vector<OverlapRow> all;
  Progress progress{"rows", 0};

  void add(OverlapRow row) {
    all.push_back(std::move(row));
    progress.advance(1);
  }
};

// ---- a model's step

class OverlapTask final : public train::Task {
 public:
  // experts: instead of one channel mixer so many, each a quarter as wide, of which a token has two.
  OverlapTask(const OverlapSizes& sizes, int64_t layers, const parallel::Ranks& ranks, int64_t experts = 0)
      : layout_(layout::make_batch(1, sizes.tokens)),
        decoder_(config(sizes, layers, experts), precision_, at::kCPU, model::Use::kTraining, ranks.place()),
        stage_(decoder_, ranks) {
    for (int64_t t = 0; t < sizes.tokens; ++t) tokens_.push_back(t * 7 % kVocabulary);
    decoder_.parameters().initialise(1);
  }
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return precision_; }
  train::StepWork prepare(int64_t) override { return {}; }
  Tensor forward(model::Context& context, int64_t, const Tensor& entering) override {
    return stage_.forward(context, text(), entering);
  }
  train::StageInput stage_input(int64_t) const override { return stage_.input(text()); }

 private:
  static constexpr int64_t kVocabulary = 64;  // what is outside the layers is small beside a layer
  static recipe::ModelConfig config(const OverlapSizes& sizes, int64_t layers, int64_t experts) {
    recipe::ModelConfig config;
    config.layers = layers;
    config.hidden = sizes.hidden;
    config.vocabulary = kVocabulary;
    config.heads = config.softmax.kv_heads = 4;
    config.head_dim = sizes.hidden / 4;
    config.softmax.rotary_dim = 0;
    config.intermediate = experts > 0 ? sizes.hidden : 4 * sizes.hidden;
    config.experts = experts;
    config.mixers = {recipe::Mixer::kLightning};
    return config;
  }
  language::PackedText text() const { return {layout_, tokens_, tokens_}; }

  Precision precision_ = Precision::named("fp32");
  layout::SequenceLayout layout_;
  std::vector<int64_t> tokens_;
  model::Decoder decoder_;
  language::TextStage stage_;
};

void keep_busy(double seconds) {
  const int64_t until = monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
  while (monotonic_ns() < until) continue;
}

struct DataParallel {
  int64_t chunks = 1, zero = 1;
  bool early = true;  // the first values are gathered while a batch is made ready; else that comes first
};

TimedSteps data_parallel_step(const OverlapSizes& sizes, const DataParallel& how,
                              const comm::LinkOptions& link, double batch_s) {
  return timed_steps(link, sizes.repetitions, [&](comm::Communicator& world, const Time& time) {
    parallel::Ranks ranks(world, {.mesh = layout::Mesh(kTraceRanks, {}), .zero = how.zero});
    OverlapTask task(sizes, how.chunks, ranks);
    time([&] {
      task.parameters().zero_gradients();
      if (!how.early) keep_busy(batch_s);
      ranks.share_values(task.parameters());
      if (how.early) keep_busy(batch_s);
      ranks.begin_step(task.parameters(), 1);
      train::Passes(task, ranks, {}).train(1);
      ranks.sum_gradients(task.parameters());
    });
  });
}

// Of `collectives` of a step, as many are exposed where the first values come late; one less where they come
// early.
void add_data_parallel(const OverlapSizes& sizes, DataParallel how, int64_t collectives, int64_t late,
                       Rows& rows) {
  const TimedSteps alone = data_parallel_step(sizes, how, {}, 0);
  // Half of the step for all: each takes less than the pass that it goes on beside.
  const double communication = alone.fastest.wall_s / 2,
               collective = communication / static_cast<double>(collectives);
  const std::string stage = how.zero == 3 ? ", weights in shares" : "";
  for (const bool early : {true, false}) {
    how.early = early;
    const TimedSteps delayed = data_parallel_step(
        sizes, how, {.bytes_per_second = alone.fastest.bytes / communication}, 1.2 * collective);
    rows.add(
        {.section = "data parallel",
         .setting = fmt::format("{} chunks{}, {}", how.chunks, stage, early ? "first values early" : "late"),
         .compute_s = alone.fastest.wall_s,
         .communication_s = communication,
         .step = delayed.fastest,
         .measured = exposed(delayed, alone, communication),
         .expected = static_cast<double>(early ? late - 1 : late) / static_cast<double>(collectives)});
  }
}

void add_data_parallel(const OverlapSizes& sizes, Rows& rows) {
  for (const int64_t chunks : {1, 2, 4, 6}) add_data_parallel(sizes, {.chunks = chunks}, 2 * chunks, 2, rows);
  // Values of each chunk for either pass, and sums; the last chunk's values, which went behind its forward
  // pass, are waited for again.
  add_data_parallel(sizes, {.chunks = 4, .zero = 3}, 3 * 4, 3, rows);
}

// ---- a pipeline's step

constexpr int64_t kMicroBatches = 8;  // of a step, and twice as many for the steady state

struct PipelineCase {
  std::string name;
  recipe::PipelineOptions options;
  bool coupled = false;
  layout::Schedule schedule(int64_t micro_batches) const {
    const layout::Schedule made =
        layout::make_schedule(layout::Pipeline(kTraceRanks, options), micro_batches);
    return coupled ? with_coupled_transfers(made) : made;
  }
};

TracedStep pipeline_step(const OverlapSizes& sizes, const PipelineCase& how, double delay_s,
                         int64_t micro_batches) {
  return timed_steps({.latency_s = delay_s}, sizes.repetitions,
                     [&](comm::Communicator& world, const Time& time) {
                       parallel::Ranks ranks(world, {.mesh = layout::Mesh(kTraceRanks, {.pp = kTraceRanks}),
                                                     .pipeline = how.options});
                       OverlapTask task(sizes, 4, ranks);
                       const layout::Schedule schedule = how.schedule(micro_batches);
                       time([&] {
                         task.parameters().zero_gradients();
                         ranks.begin_step(task.parameters(), micro_batches);
                         train::Passes(task, ranks, {}).run(schedule);
                         ranks.sum_gradients(task.parameters());
                       });
                     })
      .fastest;
}

// Seconds, and forward passes by the simulator.
struct PipelineTimes {
  TracedStep step;
  double units = 0;
};

void add_pipeline(const OverlapSizes& sizes, const PipelineCase& how, Rows& rows) {
  const auto times_of = [&](double delay, double pass_s, int64_t micro_batches) -> PipelineTimes {
    return {pipeline_step(sizes, how, delay * pass_s, micro_batches),
            layout::simulate(how.schedule(micro_batches), {.transfer = delay}).makespan};
  };
  const PipelineTimes few = times_of(0, 0, kMicroBatches), many = times_of(0, 0, 2 * kMicroBatches);
  const double pass = few.step.wall_s / few.units;  // a forward pass of all the layers of a rank
  const double steady = many.step.wall_s - few.step.wall_s, steady_units = many.units - few.units;
  for (const double delay : {0.0, 0.25, 0.5, 1.0, 2.0}) {
    const PipelineTimes short_step = times_of(delay, pass, kMicroBatches),
                        long_step = times_of(delay, pass, 2 * kMicroBatches);
    const std::string setting = fmt::format("{}, a delay of {} forward passes", how.name, delay);
    rows.add({.section = "pipeline",
              .setting = setting,
              .compute_s = few.step.wall_s,
              .communication_s = delay * pass,
              .step = short_step.step,
              .measured = short_step.step.wall_s / few.step.wall_s,
              .expected = short_step.units / few.units});
    rows.add({.section = "steady state",
              .setting = setting,
              .compute_s = steady / kMicroBatches,
              .communication_s = delay * pass,
              .step = long_step.step,
              .measured = (long_step.step.wall_s - short_step.step.wall_s) / steady,
              .expected = (long_step.units - short_step.units) / steady_units});
  }
}

void add_pipeline(const OverlapSizes& sizes, Rows& rows) {
  using enum recipe::PipelineSchedule;
  for (const PipelineCase& how :
       std::vector<PipelineCase>{{"1f1b, send with receive", {.schedule = k1F1B}, true},
                                 {"1f1b", {.schedule = k1F1B}},
                                 {"interleaved, 1 chunk", {.schedule = kInterleaved}},
                                 {"interleaved, 2 chunks", {.schedule = kInterleaved, .chunks = 2}}}) {
    add_pipeline(sizes, how, rows);
  }
}

// ---- a channel mixer of two tensor ranks

struct Weight {
  explicit Weight(std::vector<int64_t> sizes)
      : value(at::randn(sizes).mul(0.05)), gradient(at::zeros_like(value)) {
    packed.written(1);
  }
  kernels::LinearWeights weights() {
    return {.weight = value, .sinks = {.weight = gradient}, .kept = {.copies = &packed, .version = 1}};
  }
  Tensor value, gradient;
  kernels::PackedWeight packed;
};

TimedSteps tensor_parallel_step(const OverlapSizes& sizes, int64_t parts, const comm::LinkOptions& link) {
  return timed_steps(link, sizes.repetitions, [&](comm::Communicator& world, const Time& time) {
    const int64_t inner = 2 * sizes.hidden;
    Weight up({2 * inner, sizes.hidden}), down({sizes.hidden, inner});
    const Tensor x = at::randn({sizes.tokens, sizes.hidden}).requires_grad_(true),
                 dy = at::randn({sizes.tokens, sizes.hidden});
    time([&] {
      model::BlockInput input{x};
      const auto product = [&](const Tensor& tokens) {
        return kernels::feed_forward(tokens, kernels::Activation::kSwiglu, up.weights(), down.weights());
      };
      parallel::TensorParts(world, {sizes.tokens, sizes.tokens}, parts)
          .summed(input, {{.product = product}})
          .backward(dy);
    });
  });
}

void add_tensor_parallel(const OverlapSizes& sizes, Rows& rows) {
  const OverlapSizes larger{
      .tokens = 2 * sizes.tokens, .hidden = 2 * sizes.hidden, .repetitions = sizes.repetitions};
  for (const int64_t parts : {1, 2, 4, 8}) {
    const TracedStep alone = tensor_parallel_step(larger, parts, {}).fastest;
    const double communication = alone.wall_s;  // as much as computing: nothing hides it but parts
    OverlapRow row{
        .section = "tensor parallel",
        .setting = fmt::format("{} parts", parts),
        .compute_s = alone.wall_s,
        .communication_s = communication,
        .step =
            tensor_parallel_step(larger, parts, {.bytes_per_second = alone.bytes / communication}).fastest};
    row.measured = row.step.wall_s / std::max(row.compute_s, row.communication_s);
    row.expected = 1 + 1 / static_cast<double>(parts);
    rows.add(row);
  }
}

// ---- a recurrence of two context ranks

// An odd number of heads cannot be halved. Told of the rank with the inner pieces of the zig-zag, both of
// which wait for states and are waited for.
TimedSteps recurrence_step(const OverlapSizes& sizes, int64_t heads, double delay_s) {
  const auto rank = [&](comm::Communicator& world, const Time& time) {
    const int64_t tokens = sizes.tokens * kTraceRanks, channels = sizes.hidden / 4;
    const layout::SequenceView view(
        layout::make_single(tokens),
        {.context_ranks = kTraceRanks, .context_rank = world.rank(), .split = recipe::ContextSplit::kZigzag});
    const auto rows = [&] {
      return at::randn({sizes.tokens, heads, channels}).mul(0.1).requires_grad_(true);
    };
    const Tensor q = rows(), k = rows(), v = rows(), log_decay = at::full({heads}, -0.01);
    const Tensor d_o = at::randn({sizes.tokens, heads, channels});
    time([&] {
      parallel::context_recurrence(recipe::LinearContextMethod::kAllGather, world, q, k, v, log_decay, view,
                                   {})
          .backward(d_o);
    });
  };
  return timed_steps({.latency_s = delay_s}, sizes.repetitions, rank, /*traced_rank=*/1);
}

void add_context_parallel(const OverlapSizes& sizes, Rows& rows) {
  const OverlapSizes longer{
      .tokens = 32 * sizes.tokens, .hidden = sizes.hidden, .repetitions = sizes.repetitions};
  for (const bool halves : {false, true}) {
    const int64_t heads = halves ? 4 : 3;
    const TimedSteps alone = recurrence_step(longer, heads, 0);
    // In halves: half of what half of the heads take to be folded, which is what lies between the calls of
    // the two.
    const double delay = halves ? alone.fastest.apart_s / 2 : alone.fastest.wall_s / 8;
    const TimedSteps delayed = recurrence_step(longer, heads, delay);
    OverlapRow row{.section = "context parallel",
                   .setting = halves ? "states of heads in halves" : "states of all heads at once",
                   .compute_s = alone.fastest.wall_s,
                   .communication_s = 2 * delay,
                   .step = delayed.fastest,
                   .measured = exposed(delayed, alone, 2 * delay),
                   .expected = halves ? 0.0 : 1.0};
    rows.add(row);
  }
}

// ---- pairs of passes of two expert ranks

constexpr int64_t kPairedLayers = 2;

// Forward of the first micro-batch, pairs of the forward pass of each further one and the backward pass of
// the one before it, backward of the last: of one stage, as a pipeline that runs both ways has them all the
// time.
layout::Schedule paired_schedule(bool in_turns) {
  using layout::Pass;
  std::vector<layout::Action> list = {{.pass = Pass::kForward}};
  for (int64_t m = 1; m < kMicroBatches; ++m) {
    list.push_back({.pass = Pass::kForward, .micro_batch = m, .joined = true});
    list.push_back({.pass = Pass::kBackward, .micro_batch = m - 1});
  }
  list.push_back({.pass = Pass::kBackward, .micro_batch = kMicroBatches - 1});
  layout::Schedule schedule{.pipeline = layout::Pipeline(1),
                            .micro_batches = kMicroBatches,
                            .ranks = {list},
                            .most_in_flight = {2}};
  return in_turns ? with_transfers_around_pairs(std::move(schedule)) : with_transfers(std::move(schedule));
}

struct PairsCase {
  std::string name;
  bool in_turns = false, delay_gradients = false;
  double exposed_share = 0;  // of all exchanges, in time
};

TimedSteps paired_step(const OverlapSizes& sizes, const PairsCase& how, const comm::LinkOptions& link) {
  return timed_steps(link, sizes.repetitions, [&](comm::Communicator& world, const Time& time) {
    parallel::Ranks ranks(world, {.mesh = layout::Mesh(kTraceRanks, {.ep = kTraceRanks}),
                                  .pipeline = {.pairs_in_turns = how.in_turns},
                                  .experts = {.delay_gradients = how.delay_gradients}});
    OverlapTask task(sizes, kPairedLayers, ranks, /*experts=*/4);
    const layout::Schedule schedule = paired_schedule(how.in_turns);
    time([&] {
      task.parameters().zero_gradients();
      task.parameters().begin_step({});  // passes alone: no sums over ranks behind them
      train::Passes(task, ranks, {}).run(schedule);
      task.parameters().end_step();
    });
  });
}

void add_expert_pairs(const OverlapSizes& sizes, Rows& rows) {
  // A layer exchanges rows twice in either pass. Delayed, weights hide the last of the four. In turns that
  // leaves those of the first forward and of the last backward pass, which have no other one beside them.
  double bytes_per_second = 0, communication = 0;
  for (const PairsCase& each : {PairsCase{"one behind the other", false, false, 1},
                                {"one behind the other, weights delayed", false, true, 0.75},
                                {"in turns", true, true, 0.75 / kMicroBatches}}) {
    const TimedSteps alone = paired_step(sizes, each, {});
    if (communication == 0) {
      communication = alone.fastest.wall_s / 4;  // each takes less than what stands beside it
      bytes_per_second = alone.fastest.bytes / communication;
    }
    const TimedSteps delayed = paired_step(sizes, each, {.bytes_per_second = bytes_per_second});
    rows.add({.section = "expert pairs",
              .setting = each.name,
              .compute_s = alone.fastest.wall_s,
              .communication_s = communication,
              .step = delayed.fastest,
              .measured = exposed(delayed, alone, communication),
              .expected = each.exposed_share});
  }
}

}  // namespace

std::vector<OverlapRow> measure_overlap(const OverlapSizes& sizes) {
  Rows rows;
  add_data_parallel(sizes, rows);
  add_pipeline({.tokens = sizes.tokens / 2, .hidden = sizes.hidden, .repetitions = sizes.repetitions}, rows);
  add_tensor_parallel(sizes, rows);
  add_context_parallel(sizes, rows);
  add_expert_pairs(sizes, rows);
  return rows.all;
}

nlohmann::ordered_json to_json(const OverlapRow& row) {
  return {{"name", "overlap"},
          {"section", row.section},
          {"setting", row.setting},
          {"compute_s", row.compute_s},
          {"communication_s", row.communication_s},
          {"wall_s", row.step.wall_s},
          {"busy_s", row.step.busy_s},
          {"idle_s", row.step.idle_s},
          {"processor_s", row.step.processor_s},
          {"waits", row.step.waits},
          {"adds_up", row.step.adds_up},
          {"measured", row.measured},
          {"expected", row.expected}};
}

observe::Table table_of(const std::vector<OverlapRow>& rows) {
  using observe::Align;
  observe::Table table("communication beside computing, ms (two ranks, a delayed link)",
                       {{"method"},
                        {"setting"},
                        {"alone", Align::kRight},
                        {"communication", Align::kRight},
                        {"step", Align::kRight},
                        {"busy", Align::kRight},
                        {"idle", Align::kRight},
                        {"busy + idle"},
                        {"processor", Align::kRight},
                        {"measured", Align::kRight},
                        {"expected", Align::kRight}});
  const auto milliseconds = [](double seconds) { return fmt::format("{:.1f}", seconds * 1e3); };
  for (const OverlapRow& row : rows) {
    const TracedStep& step = row.step;
    table.row({row.section, row.setting, milliseconds(row.compute_s), milliseconds(row.communication_s),
               milliseconds(step.wall_s), milliseconds(step.busy_s), milliseconds(step.idle_s),
               step.adds_up ? "= step" : "IS NOT THE STEP",
               fmt::format("{:.0f} %", 100 * step.processor_s / step.busy_s),
               fmt::format("{:.3f}", row.measured), fmt::format("{:.3f}", row.expected)});
  }
  return table;
}

}  // namespace longhaul::bench
