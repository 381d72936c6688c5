#include "bench/plan_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/children.h"
#include "base/process/signals.h"
#include "base/progress.h"
#include "base/statistics.h"
#include "bench/models/small_text.h"
#include "observe/events/run_history.h"
#include "observe/format.h"
#include "observe/table.h"
#include "plan/step_time.h"
#include "recipe/load.h"
#include "run/local_cluster.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWarmSteps = 3;

// One rank, all of its options at their middle.
constexpr std::string_view kRecipe =
    "version = 1\n[model]\nlayers = 6\nhidden = 192\nheads = 3\nkv_heads = 3\nhead_dim = 64\nvocabulary = "
    "2048\n"
    "mixers = [\"lightning\", \"softmax\"]\nintermediate = 512\nrotary_dim = 32\n[data]\ntokenizer = "
    "\"bytes\"\n"
    "[train]\nbatch = 8\nmicro_batch = 2\nsequence = 256\nevaluate_every = 0\ncheckpoint_every = 0\n"
    "[sample]\ntokens = 0\n[observe]\ncompression_baseline = false\nreport = false\n";

struct Measured {
  plan::Work work;
  plan::PlanLayout layout;
  int64_t batch = 0;
};

void run_one(const PlanCheckRequest& request, const fs::path& folder, const fs::path& run,
             const PlanCheckRow& row) {
  const bool launched = request.processes && row.ranks > 1;
  ChildStart start{.argv = {fs::canonical("/proc/self/exe").string()},
                   .environment = {"NO_COLOR=1"},
                   .log = run.string() + ".log",
                   .own_session = true};
  if (launched) {
    for (const std::string& word : {std::string("launch"), std::string("-n"), std::to_string(row.ranks),
                                    std::string("--restarts"), std::string("0")})
      start.argv.push_back(word);
  } else {
    start.argv.emplace_back("train");
  }
  start.argv.push_back((folder / "recipe.toml").string());
  for (const std::string& each : row.overrides) start.argv.push_back(each);
  start.argv.push_back(fmt::format("train.steps={}", request.steps));
  if (!launched) start.argv.push_back(fmt::format("parallel.ranks={}", row.ranks));
  start.argv.emplace_back("--run");
  start.argv.push_back(run.string());
  const pid_t child = start_child(start);
  std::optional<int> status;
  while (!(status = exit_of(child))) {
    if (!pause_unless_stopped(0.02)) {
      Children::signal(child, SIGKILL);
      throw_if_stop_requested("the runs");
    }
  }
  if (*status == 0) return;
  throw Error({.code = ExitCode::kInternal,
               .what = fmt::format("the run {} failed", row.name),
               .found = fmt::format("exit code {}", *status),
               .where = run.string() + ".log"});
}

Measured measure(const PlanCheckRequest& request, const fs::path& folder, PlanCheckRow& row,
                 const std::string& name) {
  const fs::path run = folder / name;
  run_one(request, folder, run, row);
  const observe::RunHistory history = observe::read_run(run);
  std::vector<double> took;
  for (size_t i = kWarmSteps; i < history.steps.size(); ++i)
    took.push_back(history.steps[i].milliseconds * 1e-3);
  LONGHAUL_ASSERT(!took.empty(), "{} steps of {}", history.steps.size(), run.string());
  const double seconds = median(std::move(took));
  if (row.measured_s == 0 || seconds < row.measured_s) row.measured_s = seconds;
  for (const observe::MeasuredMemory& memory : history.memory) {
    if (row.ranks > 1 || memory.purpose != "together" || !memory.planned_bytes) continue;
    row.measured_bytes = static_cast<double>(memory.peak_bytes),
    row.planned_bytes = static_cast<double>(*memory.planned_bytes);
  }
  recipe::Recipe recipe = recipe::load(run / "recipe.toml").recipe;
  recipe.parallel.ranks = row.ranks;
  return {.work = plan::work_of(recipe.model, recipe.train.sequence),
          .layout = plan::layout_of_recipe(recipe),
          .batch = recipe.train.batch};
}

// The constants that are fitted to this machine, as logarithms: of products, memory, a layer, a message, the
// link, attention, recurrences, a step.
constexpr size_t kConstants = 8;
struct Constants {
  std::array<double, kConstants> logs{};
};

using Machines = std::map<int64_t, plan::Cluster>;  // this one, dealt out to so many ranks

plan::Cluster cluster_with(const Constants& constants, const Machines& machines, int64_t ranks) {
  plan::Cluster cluster = machines.at(ranks);
  cluster.efficiency = {.products = std::exp(constants.logs[0]),
                        .memory = std::exp(constants.logs[1]),
                        .layer_s = std::exp(constants.logs[2]),
                        .source = "fitted by bench plan",
                        .message_s = std::exp(constants.logs[3]),
                        .attention = std::exp(constants.logs[5]),
                        .recurrence = std::exp(constants.logs[6]),
                        .step_s = std::exp(constants.logs[7]),
                        .by_size = false};
  cluster.device.link_rate = cluster.device.nic_rate =
      std::exp(constants.logs[4]) / static_cast<double>(ranks);
  return cluster;
}

double planned(const Constants& constants, const Machines& machines, const Measured& of, int64_t ranks) {
  return plan::step_parts(of.work, of.layout, of.batch, cluster_with(constants, machines, ranks),
                          plan::default_practice(of.layout))
      .total();
}

// The bounds of each constant, so that none makes up for noise: shares of what was measured, microseconds to
// tens of milliseconds, 1 MB/s to 100 GB/s.
constexpr std::array<std::pair<double, double>, kConstants> kBounds = {
    {{0.02, 1}, {0.05, 1}, {1e-6, 0.02}, {1e-6, 0.02}, {1e6, 1e11}, {0.002, 1}, {0.002, 1}, {1e-6, 1}}};

// Each constant in turn up or down, by smaller and smaller factors, where the seen rows come nearer by it.
Constants fitted(const std::vector<PlanCheckRow>& rows, const std::vector<Measured>& of,
                 const Machines& machines) {
  const plan::Cluster& start = machines.at(1);
  Constants best{{std::log(start.efficiency.products), std::log(start.efficiency.memory),
                  std::log(start.efficiency.layer_s), std::log(1e-4), std::log(start.device.link_rate),
                  std::log(0.2), std::log(0.2), std::log(1e-3)}};
  const auto distance = [&](const Constants& constants) {
    double sum = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].seen)
        sum += std::pow(std::log(planned(constants, machines, of[i], rows[i].ranks) / rows[i].measured_s), 2);
    }
    return sum;
  };
  double least = distance(best);
  for (double step = 1; step > 0.005; step *= 0.7) {
    for (int round = 0; round < 6; ++round) {
      for (size_t i = 0; i < best.logs.size(); ++i) {
        for (const double by : {step, -step}) {
          Constants next = best;
          next.logs[i] =
              std::clamp(best.logs[i] + by, std::log(kBounds[i].first), std::log(kBounds[i].second));
          if (const double now = distance(next); now < least) least = now, best = next;
        }
      }
    }
  }
  return best;
}

}  // namespace

std::vector<PlanCheckRow> plan_check_rows() {
  const auto row = [](std::string name, int64_t ranks, bool seen, std::vector<std::string> overrides) {
    return PlanCheckRow{
        .name = std::move(name), .overrides = std::move(overrides), .ranks = ranks, .seen = seen};
  };
  const std::vector<std::string> wide = {"model.hidden=384", "model.heads=6", "model.kv_heads=6",
                                         "model.intermediate=1024"};
  const std::vector<std::string> two_tensor_ranks = {"parallel.tp=2", "model.heads=4", "model.kv_heads=4",
                                                     "model.head_dim=48",
                                                     "model.rotary_dim=16"};  // heads that two can share
  return {
      row("one rank", 1, true, {}),
      row("micro-batch 1", 1, false, {"train.micro_batch=1"}),
      row("micro-batch 8", 1, true, {"train.micro_batch=8"}),
      row("batch 16", 1, false, {"train.batch=16"}),
      row("sequence 64", 1, false, {"train.sequence=64"}),
      row("sequence 1,024", 1, true, {"train.sequence=1024", "train.micro_batch=1"}),
      row("2 layers", 1, true, {"model.layers=2"}),
      row("12 layers", 1, false, {"model.layers=12"}),
      row("width 384", 1, true, wide),
      row("sequence 128, batch 4", 1, true, {"train.sequence=128", "train.batch=4", "train.micro_batch=2"}),
      row("softmax only, sequence 512", 1, true, {"model.mixers=[\"softmax\"]", "train.sequence=512"}),
      row("lightning only, sequence 512", 1, true, {"model.mixers=[\"lightning\"]", "train.sequence=512"}),
      row("4 layers, vocabulary 8,192", 1, false, {"model.layers=4", "model.vocabulary=8192"}),
      row("dp2, sequence 512", 2, false, {"train.sequence=512"}),
      row("softmax only", 1, false, {"model.mixers=[\"softmax\"]"}),
      row("lightning only", 1, false, {"model.mixers=[\"lightning\"]"}),
      row("recompute", 1, false, {"train.recompute=full"}),
      row("dp2", 2, true, {}),
      row("dp2, micro-batch 4", 2, false, {"train.micro_batch=4"}),
      row("dp2 zero1", 2, false, {"parallel.zero=1"}),
      row("dp2 zero2", 2, false, {"parallel.zero=2"}),
      row("dp2 zero3", 2, true, {"parallel.zero=3"}),
      row("tp2", 2, true, two_tensor_ranks),
      row("cp2", 2, false, {"parallel.cp=2"}),
      row("pp2", 2, true, {"parallel.pp=2"}),
      row("pp2, micro-batch 1", 2, false, {"parallel.pp=2", "train.micro_batch=1"}),
      row("pp2 zb-h1", 2, false, {"parallel.pp=2", "parallel.schedule=zb-h1"}),
      row("dp2, width 384", 2, false, wide),
      row("dp4", 4, false, {}),
      row("dp4 zero1", 4, false, {"parallel.zero=1"}),
      row("dp2 pp2", 4, true, {"parallel.pp=2"}),
      row("dp2 cp2", 4, false, {"parallel.cp=2"}),
      row("dp2 tp2", 4, false, two_tensor_ranks)};
}

PlanCheck check_plan(const PlanCheckRequest& request) {
  std::optional<TemporaryFolder> temporary;
  if (request.folder.empty()) temporary.emplace();
  const fs::path folder = fs::absolute(temporary ? temporary->path() : request.folder);
  write_small_text(folder / "text", 400);
  std::ofstream(folder / "recipe.toml") << kRecipe;
  PlanCheck check{.rows = plan_check_rows(), .efficiency = {}};
  std::vector<Measured> of;
  for (PlanCheckRow& row : check.rows) {
    row.overrides.push_back(fmt::format("data.source={}", (folder / "text").string()));
    row.overrides.push_back(fmt::format("data.cache={}", (folder / "cache").string()));
  }
  Progress progress("runs", request.rounds * static_cast<int64_t>(check.rows.size()));
  for (int64_t round = 0; round < request.rounds; ++round) {
    of.clear();
    for (size_t i = 0; i < check.rows.size(); ++i) {
      of.push_back(measure(request, folder, check.rows[i], fmt::format("run-{:02}-{}", i, round)));
      progress.advance(1);
    }
  }
  Machines machines;
  for (const PlanCheckRow& row : check.rows) machines.try_emplace(row.ranks, run::local_cluster(row.ranks));
  const Constants constants = fitted(check.rows, of, machines);
  const plan::Cluster cluster = cluster_with(constants, machines, 1);
  check.efficiency = cluster.efficiency;
  check.link_rate = cluster.device.link_rate;
  std::vector<double> measured, said;
  for (size_t i = 0; i < check.rows.size(); ++i) {
    PlanCheckRow& row = check.rows[i];
    row.planned_s = planned(constants, machines, of[i], row.ranks);
    if (row.planned_bytes)
      check.worst_memory_error =
          std::max(check.worst_memory_error, std::abs(*row.planned_bytes / *row.measured_bytes - 1));
    if (row.seen) continue;
    measured.push_back(row.measured_s), said.push_back(row.planned_s);
    check.mean_error += std::abs(row.error());
    check.worst_error = std::max(check.worst_error, std::abs(row.error()));
  }
  check.mean_error /= static_cast<double>(measured.size());
  check.correlation = rank_correlation(measured, said);
  check.pair_order = pair_order_correlation(measured, said);
  if (request.keep)
    run::keep_local_constants(
        {.efficiency = check.efficiency, .link_rate = check.link_rate, .worst_error = check.worst_error});
  return check;
}

std::string text_of(const PlanCheck& check, bool colours) {
  using enum observe::Align;
  observe::Table table("steps as planned and as measured on this machine", {{"run"},
                                                                            {"ranks", kRight},
                                                                            {"measured", kRight},
                                                                            {"planned", kRight},
                                                                            {"off by", kRight},
                                                                            {"memory off by", kRight},
                                                                            {""}});
  for (const PlanCheckRow& row : check.rows) {
    const std::string memory =
        row.planned_bytes ? fmt::format("{:+.1f} %", 100 * (*row.planned_bytes / *row.measured_bytes - 1))
                          : std::string();
    table.row({row.name, fmt::format("{}", row.ranks), observe::milliseconds_text(1e3 * row.measured_s),
               observe::milliseconds_text(1e3 * row.planned_s), fmt::format("{:+.0f} %", 100 * row.error()),
               memory, row.seen ? "the constants were set with it" : ""});
  }
  return table.text(colours) +
         fmt::format(
             "\nOf those predicted: off by {:.1f} % in the mean, {:.1f} % at most; rank correlation {:.2f}, "
             "Kendall's τ {:.2f}. "
             "Memory on one rank: {:.1f} % at most.\n"
             "Constants: products {:.3f} of the measured peak, attention {:.3f}, recurrences {:.3f}, memory "
             "{:.3f}, a layer {:.0f} µs, a step {:.1f} ms, a message "
             "{:.0f} µs, {:.2f} GB/s between ranks.\n",
             100 * check.mean_error, 100 * check.worst_error, check.correlation, check.pair_order,
             100 * check.worst_memory_error, check.efficiency.products, check.efficiency.attention,
             check.efficiency.recurrence, check.efficiency.memory, 1e6 * check.efficiency.layer_s,
             1e3 * check.efficiency.step_s, 1e6 * check.efficiency.message_s, 1e-9 * check.link_rate);
}

nlohmann::ordered_json to_json(const PlanCheck& check) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PlanCheckRow& row : check.rows) {
    rows.push_back({{"name", row.name},
                    {"ranks", row.ranks},
                    {"seen", row.seen},
                    {"measured_seconds", row.measured_s},
                    {"planned_seconds", row.planned_s},
                    {"error", row.error()}});
    if (row.planned_bytes)
      rows.back().update({{"measured_bytes", *row.measured_bytes}, {"planned_bytes", *row.planned_bytes}});
  }
  return {{"rows", std::move(rows)},
          {"mean_error", check.mean_error},
          {"worst_error", check.worst_error},
          {"rank_correlation", check.correlation},
          {"kendall_tau", check.pair_order},
          {"worst_memory_error", check.worst_memory_error},
          {"products_efficiency", check.efficiency.products},
          {"memory_efficiency", check.efficiency.memory},
          {"attention_efficiency", check.efficiency.attention},
          {"recurrence_efficiency", check.efficiency.recurrence},
          {"layer_seconds", check.efficiency.layer_s},
          {"step_seconds", check.efficiency.step_s},
          {"message_seconds", check.efficiency.message_s},
          {"link_bytes_per_second", check.link_rate}};
}

}  // namespace longhaul::bench
