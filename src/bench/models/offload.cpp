#include "bench/models/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/memory/memory_purpose.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "kernels/saved/host_offload.h"
#include "model/arena.h"
#include "model/context.h"
#include "model/decoder.h"
#include "recipe/load.h"
#include "tensor/cpu_allocator.h"
#include "tensor/replay_arena.h"
#include "tensor/to_tensor.h"
#include "train/offload.h"
#include "train/step_arena.h"

namespace longhaul::bench {
namespace {

using recipe::Recompute;

// Shares are chosen in the third pass.
constexpr int64_t kUncounted = 3;

struct Way {
  std::string name;
  Recompute recompute = Recompute::kNone;
  std::unique_ptr<kernels::HostOffload> offload{};
  std::unique_ptr<ReplayArena> arena{};
  bool warm = false;
  std::vector<double> seconds{};
  OffloadLine line{};
};

class Passes {
 public:
  Passes(const OffloadRequest& request, const recipe::Recipe& recipe)
      : layout_(layout::make_single(request.sequence)), decoder_(recipe.model, Precision::named("bf16")) {
    decoder_.parameters().initialise(request.seed);
    const RandomStream random(request.seed, "bench/offload/tokens");
    std::vector<int64_t> tokens(static_cast<size_t>(layout_.tokens()));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int64_t>(random.below(i, static_cast<uint64_t>(recipe.model.vocabulary)));
    ids_ = to_tensor(tokens);
    labels_ = to_tensor(layout::shifted_labels(layout_, tokens));
    ways_.push_back({.name = "none"});
    ways_.push_back({.name = "none, planned", .arena = std::make_unique<ReplayArena>(*tensor_heap())});
    ways_.push_back({.name = "selective", .recompute = Recompute::kSelective});
    ways_.push_back({.name = "tokens", .recompute = Recompute::kTokens});
    ways_.push_back({.name = "full", .recompute = Recompute::kFull});
    for (const char* share : {"0", "auto", "1"}) add_host(share, request.link_gb_per_s * 1e9, recipe.train);
  }

  std::vector<Way>& ways() { return ways_; }

  // Seconds of one forward and backward pass.
  double run(Way& way, bool counted) {
    decoder_.set_recompute(way.recompute);
    decoder_.set_offload(way.offload.get());
    decoder_.parameters().zero_gradients();
    const kernels::HostOffload::Use before = use_of(way);
    const MemoryPurposeScope scope(MemoryPurpose::kActivations);
    const int64_t held = memory_statistics().of(MemoryPurpose::kActivations).bytes;
    reset_memory_peaks();
    const Stopwatch watch;
    {
      std::optional<ReplayArena::Scope> planned;
      if (way.arena != nullptr) planned.emplace(*way.arena);
      pass();
    }
    const double seconds = watch.seconds();
    if (way.arena != nullptr) plan(way);
    if (!counted) return seconds;
    way.seconds.push_back(seconds);
    const kernels::HostOffload::Use after = use_of(way);
    way.line.moved_bytes = static_cast<double>(after.moved_bytes - before.moved_bytes);
    way.line.waited_s += after.waited_s - before.waited_s;
    way.line.host_bytes = after.room_bytes;
    way.line.file_bytes = static_cast<double>(after.file_bytes - before.file_bytes);
    way.line.peak_bytes =
        std::max(way.line.peak_bytes, memory_statistics().of(MemoryPurpose::kActivations).peak - held);
    return seconds;
  }

  // The gradients of the last pass, which the next one overwrites.
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all;
    for (const auto& arena : decoder_.parameters().arenas()) {
      if (arena->trains()) all.push_back(arena->gradients);
    }
    return all;
  }

 private:
  void pass() {
    decoder_.parameters().begin_step([](model::Arena&) {});
    model::LocalOps ops;
    model::Context context(ops, decoder_.precision());
    const Tensor loss = decoder_.loss(context, decoder_.hidden(context, ids_, layout_), labels_);
    decoder_.parameters().all_announced();
    loss.backward();
    decoder_.parameters().end_step();
  }
  // The second pass is the plan's, behind one in which threads have made what they keep.
  static void plan(Way& way) {
    way.line.missed = way.arena->use().unplanned;
    if (way.arena->planned()) return;
    const MemoryLog log = way.arena->take_log();
    if (std::exchange(way.warm, true) == false) return;
    train::KeptPlan kept = train::plan_of(log);
    way.line.block_bytes = kept.arena.bytes;
    way.line.live_bytes = kept.live_bytes;
    way.arena->set_plan(std::move(kept.arena));
  }
  void add_host(const std::string& share, double bytes_per_second, const recipe::TrainOptions& train) {
    std::vector<Tensor> weights;
    for (const auto& arena : decoder_.parameters().arenas()) weights.push_back(arena->values);
    Way& way = ways_.emplace_back(Way{.name = "host, " + share, .recompute = Recompute::kTokens});
    kernels::HostOffloadOptions options{.stays = weights, .bytes_per_second = bytes_per_second};
    if (train.offload_memory > 0) {
      options.room_bytes = train.offload_memory;
      options.file_folder = train.offload_folder.empty() ? std::filesystem::temp_directory_path()
                                                         : path_of_text(train.offload_folder);
    }
    way.offload = train::make_host_offload(share, options);
  }
  static kernels::HostOffload::Use use_of(const Way& way) {
    return way.offload != nullptr ? way.offload->use() : kernels::HostOffload::Use{};
  }

  layout::SequenceLayout layout_;
  model::Decoder decoder_;
  Tensor ids_, labels_;
  std::vector<Way> ways_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

OffloadLine line_of(const Way& way, const Way& none) {
  OffloadLine line = way.line;
  line.way = way.name;
  line.seconds = median(way.seconds);
  std::vector<double> ratios;
  for (size_t i = 0; i < way.seconds.size(); ++i) ratios.push_back(none.seconds[i] / way.seconds[i]);
  line.against_none = median(ratios);
  line.waited_s /= static_cast<double>(way.seconds.size());
  return line;
}

// How far the block of planned addresses is above what lives at one time: the least that is possible.
std::string block_text(const OffloadLine& line) {
  if (line.block_bytes == 0) return "";
  const double above = 100.0 * static_cast<double>(line.block_bytes - line.live_bytes) /
                       static_cast<double>(std::max<int64_t>(1, line.live_bytes));
  return fmt::format("{}, {:.1f} % above what lives{}", bytes_text(line.block_bytes), above,
                     line.missed > 0 ? fmt::format("; {} missed", line.missed) : "");
}

}  // namespace

std::vector<OffloadLine> bench_offload(const OffloadRequest& request) {
  std::vector<std::string> entries = {"model.preset=" + request.preset, "train.batch=1",
                                      "train.micro_batch=1",
                                      fmt::format("train.sequence={}", request.sequence)};
  entries.insert(entries.end(), request.overrides.begin(), request.overrides.end());
  Passes passes(request, recipe::load_defaults(entries).recipe);
  std::vector<Way>& ways = passes.ways();
  Progress progress("passes", (request.rounds + kUncounted) * std::ssize(ways));
  std::vector<Tensor> expected;
  for (int64_t round = 0; round < request.rounds + kUncounted; ++round) {
    for (Way& way : ways) {
      passes.run(way, round >= kUncounted);
      if (round > 0 && expected.empty()) {
        for (const Tensor& gradient : passes.gradients()) expected.push_back(gradient.clone());
      } else if (round > 0) {
        const std::vector<Tensor> found = passes.gradients();
        for (size_t i = 0; i < found.size(); ++i)
          way.line.same_gradients = way.line.same_gradients && found[i].equal(expected[i]);
      }
      progress.advance(1);
    }
  }
  std::vector<OffloadLine> lines;
  for (const Way& way : ways) lines.push_back(line_of(way, ways.front()));
  return lines;
}

observe::Table table_of(const std::vector<OffloadLine>& lines) {
  using observe::Align;
  observe::Table table("where layers keep what their backward pass reads", {{"way"},
                                                                            {"pass", Align::kRight},
                                                                            {"speed", Align::kRight},
                                                                            {"activations", Align::kRight},
                                                                            {"of none", Align::kRight},
                                                                            {"to the host", Align::kRight},
                                                                            {"to the file", Align::kRight},
                                                                            {"waited", Align::kRight},
                                                                            {"block"},
                                                                            {"gradients"}});
  for (const OffloadLine& line : lines) {
    table.row(
        {line.way, fmt::format("{:.3f} s", line.seconds), fmt::format("{:.2f}", line.against_none),
         bytes_text(line.peak_bytes),
         fmt::format("{:.0f} %", 100.0 * static_cast<double>(line.peak_bytes) /
                                     static_cast<double>(std::max<int64_t>(1, lines[0].peak_bytes))),
         line.moved_bytes > 0 ? bytes_text(static_cast<int64_t>(line.moved_bytes - line.file_bytes)) : "",
         line.file_bytes > 0 ? bytes_text(static_cast<int64_t>(line.file_bytes)) : "",
         line.moved_bytes > 0 ? fmt::format("{:.3f} s", line.waited_s) : "", block_text(line),
         line.same_gradients ? "same bits" : "OTHER BITS"});
  }
  return table;
}

nlohmann::ordered_json to_json(const OffloadLine& line) {
  return {{"way", line.way},
          {"seconds", line.seconds},
          {"against_none", line.against_none},
          {"peak_bytes", line.peak_bytes},
          {"moved_bytes", line.moved_bytes},
          {"waited_s", line.waited_s},
          {"host_bytes", line.host_bytes},
          {"file_bytes", line.file_bytes},
          {"block_bytes", line.block_bytes},
          {"live_bytes", line.live_bytes},
          {"missed", line.missed},
          {"same_gradients", line.same_gradients}};
}

}  // namespace longhaul::bench
