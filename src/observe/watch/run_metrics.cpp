#include "observe/watch/run_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace longhaul::observe {
namespace {

using Type = MetricFamily::Type;

// For runs with and without a driver.
constexpr std::array<std::string_view, 16> kStates = {
    "INIT",     "RENDEZVOUS", "CHECK",  "LOAD",    "TRAIN",   "DRAIN",    "DONE",   "SUSPECT",
    "DIAGNOSE", "REPAIR",     "FAILED", "waiting", "running", "finished", "silent", "error"};

double as_double(int64_t value) { return static_cast<double>(value); }

// A model with experts reports these statistics of its routers in every step (model/context.h).
void add_experts(OpenMetrics& metrics, const StepReport& last, const MetricLabels& job) {
  if (const auto busiest = metric(last.metrics, "router/busiest_over_mean"))
    metrics
        .gauge("longhaul_moe_load_imbalance_ratio", "ratio",
               "Tokens of the busiest expert over the mean, of the last step, over all layers.")
        .add(job, *busiest);
  if (const auto dropped = metric(last.metrics, "router/dropped_share"))
    metrics
        .gauge("longhaul_moe_dropped_ratio", "ratio",
               "Share of the routers' choices that were dropped in the last step.")
        .add(job, *dropped);
}

void add_progress(OpenMetrics& metrics, const RunView& run, const MetricLabels& job) {
  metrics.gauge("longhaul_step", "", "Optimizer steps done.").add(job, as_double(run.step()));
  if (run.planned_steps() > 0)
    metrics.gauge("longhaul_planned_steps", "", "Optimizer steps the run is to have.")
        .add(job, as_double(run.planned_steps()));
  metrics.gauge("longhaul_generation", "", "How often the run was started.")
      .add(job, as_double(run.generation()));
  metrics.counter("longhaul_tokens", "", "Tokens trained on, those of steps done again included.")
      .add(job, as_double(run.totals.tokens));
  metrics.counter("longhaul_samples", "", "Sequences trained on, those of steps done again included.")
      .add(job, as_double(run.totals.samples));
  metrics.counter("longhaul_steps_done", "", "Steps done, those done again included.")
      .add(job, as_double(run.totals.steps));
  if (run.history.steps.empty()) return;
  const StepReport& last = run.history.steps.back();
  metrics.gauge("longhaul_loss", "", "Training loss of the last step, nats per token.").add(job, last.loss);
  metrics.gauge("longhaul_grad_norm", "", "Norm of the last step's gradient, before clipping.")
      .add(job, last.grad_norm);
  metrics.gauge("longhaul_learning_rate", "", "Learning rate of the last step.").add(job, last.learning_rate);
  metrics.gauge("longhaul_tokens_per_second", "", "Speed of the last step.").add(job, last.tokens_per_second);
  if (last.mfu)
    metrics
        .gauge("longhaul_mfu_ratio", "ratio",
               "Model FLOPs of the last step over the machine's measured peak, attention counted causally.")
        .add(job, *last.mfu);
  if (last.hfu)
    metrics
        .gauge("longhaul_hfu_ratio", "ratio",
               "FLOPs of the last step, what recomputation made a second time among them, over the measured "
               "peak.")
        .add(job, *last.hfu);
  if (const auto share = run.taken_by_others())
    metrics
        .gauge("longhaul_taken_by_others_ratio", "ratio",
               "Share of the run's cores on the first rank's machine that other programs took, when it was "
               "last measured.")
        .add(job, *share);
  if (const auto skew = run.entry_skew_s())
    metrics
        .gauge("longhaul_entry_skew_seconds", "seconds",
               "How far apart the first and the last rank came to the first call of all behind their passes, "
               "when it was last measured.")
        .add(job, *skew);
  add_experts(metrics, last, job);
  if (last.resident_bytes)
    metrics.gauge("longhaul_resident_bytes", "bytes", "Memory of rank 0's process.")
        .add(job, as_double(*last.resident_bytes));
  if (!run.history.evaluations.empty() && run.history.evaluations.back().loss)
    metrics
        .gauge("longhaul_heldout_loss", "", "Loss on held-out text at the last evaluation, nats per token.")
        .add(job, *run.history.evaluations.back().loss);
  metrics
      .family(Type::kHistogram, "longhaul_step_time_seconds", "seconds",
              "Time of steps, those done again included.")
      .add_histogram(job, StepTimes::kBounds_s, run.totals.step_times.counts, run.totals.step_times.sum_s);
  metrics.counter("longhaul_data_wait_seconds", "seconds", "Time steps waited for data.")
      .add(job, run.totals.data_wait_seconds);
}

void add_faults(OpenMetrics& metrics, const RunView& run, MetricLabels job) {
  std::map<std::string, int64_t> classes, evictions, restarts;
  for (const Incident& incident : run.incidents) {
    ++classes[incident.fault];
    if (incident.action.find("evict") != std::string::npos) ++evictions[incident.fault];
    if (incident.action.find("restart") != std::string::npos) ++restarts[incident.fault];
  }
  const auto by = [&](const char* label, const std::string& value) {
    MetricLabels labels = job;
    labels.emplace_back(label, value);
    return labels;
  };
  auto& faults = metrics.counter("longhaul_faults", "", "Incidents by their class.");
  for (const auto& [name, count] : classes) faults.add(by("class", name), as_double(count));
  auto& evicted = metrics.counter("longhaul_evictions", "", "Incidents that ended in an eviction.");
  for (const auto& [name, count] : evictions) evicted.add(by("reason", name), as_double(count));
  auto& again = metrics.counter("longhaul_restarts", "", "Restarts of the ranks.");
  int64_t explained = 0;
  for (const auto& [name, count] : restarts)
    again.add(by("cause", name), as_double(count)), explained += count;
  const int64_t all = run.status ? run.status->restarts : std::max<int64_t>(0, run.generation() - 1);
  again.add(by("cause", "other"), as_double(std::max<int64_t>(0, all - explained)));
  metrics.counter("longhaul_nan_steps", "", "Steps whose loss was not finite.")
      .add(job, as_double(run.totals.nonfinite_steps));
  metrics.counter("longhaul_skipped_steps", "", "Steps whose update was not applied.")
      .add(job, as_double(run.totals.skipped_steps));
  metrics.counter("longhaul_spike_rollbacks", "", "Rollbacks after a loss spike.")
      .add(job, as_double(run.totals.rollbacks));
  metrics.counter("longhaul_sdc_mismatches", "", "Checks against silent corruption that failed.")
      .add(job, as_double(run.totals.corruptions));
  const auto told = [&](const char* kind) {
    const auto found = run.totals.alarms.find(kind);
    return found == run.totals.alarms.end() ? 0 : found->second;
  };
  metrics.counter("longhaul_checkpoint_failures", "", "Checkpoints that could not be saved to the disk.")
      .add(job, as_double(told("disk_full") + told("checkpoint_failed")));
  auto& minder = metrics.counter("longhaul_minder_alerts", "",
                                 "Alerts of Minder by the metric in which a machine differs from its peers.");
  for (const auto& [name, count] : run.totals.minder) minder.add(by("metric", name), as_double(count));
  auto& alarms = metrics.counter("longhaul_alarms", "", "Alarms in the event stream by kind.");
  for (const auto& [kind, count] : run.totals.alarms) alarms.add(by("kind", kind), as_double(count));
}

void add_checkpoints(OpenMetrics& metrics, const RunView& run, const MetricLabels& job);

void add_time(OpenMetrics& metrics, const RunView& run, MetricLabels job) {
  metrics.gauge("longhaul_ettr_ratio", "ratio", "Effective training time: steps that count over wall time.")
      .add(job, run.effective_ratio());
  if (const auto hour = run.effective_ratio_hour())
    metrics.gauge("longhaul_ettr_window_ratio", "ratio", "The same, of the last hour.").add(job, *hour);
  if (run.time.wall > 0 && !run.history.steps.empty())
    metrics.gauge("longhaul_goodput_tokens_per_second", "", "Tokens that count over wall time.")
        .add(job, as_double(run.history.steps.back().tokens) / run.time.wall);
  auto& lost = metrics.counter("longhaul_unproductive_seconds", "seconds",
                               "Wall time that was no step that counts, by kind.");
  const std::pair<const char*, double> kinds[] = {{"repeated", run.time.repeated},
                                                  {"checkpoint", run.time.checkpoint},
                                                  {"stopped", run.time.stopped},
                                                  {"starting", run.time.starting}};
  for (const auto& [kind, seconds] : kinds) {
    MetricLabels labels = job;
    labels.emplace_back("kind", kind);
    lost.add(labels, seconds);
  }
  add_checkpoints(metrics, run, job);
}

void add_checkpoints(OpenMetrics& metrics, const RunView& run, const MetricLabels& job) {
  const auto of_tier = [&](const std::string& tier) {
    MetricLabels labels = job;
    labels.emplace_back("tier", tier);
    return labels;
  };
  if (run.loaded && run.loaded->loading_seconds) {
    metrics
        .gauge("longhaul_checkpoint_load_seconds", "seconds",
               "How long reading the last checkpoint that was read took, of the first rank.")
        .add(of_tier(run.loaded->source.value_or("disk")), *run.loaded->loading_seconds);
  }
  if (run.loaded && run.loaded->bytes) {
    metrics
        .gauge("longhaul_checkpoint_load_bytes", "bytes",
               "Size of the last checkpoint that was read, of all ranks.")
        .add(of_tier(run.loaded->source.value_or("disk")), as_double(*run.loaded->bytes));
  }
  if (run.history.checkpoints.empty()) return;
  const MetricLabels disk = of_tier("disk");
  const CheckpointSaved& saved = run.history.checkpoints.back();
  if (saved.writing_seconds) {
    metrics
        .gauge("longhaul_checkpoint_persist_seconds", "seconds",
               "How long writing the last checkpoint took while training went on.")
        .add(disk, *saved.writing_seconds);
  }
  if (saved.bytes)
    metrics.gauge("longhaul_checkpoint_bytes", "bytes", "Size of the last checkpoint, of all ranks.")
        .add(disk, as_double(*saved.bytes));
  metrics
      .gauge("longhaul_checkpoint_blocking_seconds", "seconds",
             "How long training stood still for the last checkpoint.")
      .add(job, saved.blocking_milliseconds * 1e-3);
  metrics
      .gauge("longhaul_checkpoint_last_success_timestamp_seconds", "seconds",
             "When the last checkpoint was saved, Unix time.")
      .add(disk, run.checkpoint_word.said);
  metrics.gauge("longhaul_checkpoint_last_step", "", "Step of the last checkpoint.")
      .add(disk, as_double(saved.step));
  if (run.checkpoint_interval_s() > 0)
    metrics.gauge("longhaul_checkpoint_interval_seconds", "seconds", "Median time between checkpoints.")
        .add(job, run.checkpoint_interval_s());
}

// One figure of all ranks: each of them, or the worst of a node.
class OfRanks {
 public:
  OfRanks(const MetricLabels& job, bool by_rank) : job_(job), by_rank_(by_rank) {}
  void take(const std::string& node, int64_t rank, const std::string& kind, double value,
            bool greatest = true) {
    if (!std::isfinite(value)) return;
    MetricLabels labels = job_;
    labels.emplace_back("node", node);
    if (by_rank_) labels.emplace_back("rank", fmt::to_string(rank));
    if (!kind.empty()) labels.emplace_back("phase", kind);
    const auto [found, is_new] = worst_.try_emplace(labels, value);
    if (!is_new && (greatest ? value > found->second : value < found->second)) found->second = value;
  }
  void add_to(MetricFamily& family) const {
    for (const auto& [labels, value] : worst_) family.add(labels, value);
  }

 private:
  MetricLabels job_;
  bool by_rank_;
  std::map<MetricLabels, double> worst_;
};

void add_ranks(OpenMetrics& metrics, const RunView& run, const MetricLabels& job, bool by_rank) {
  OfRanks beats(job, by_rank), progress(job, by_rank), phases(job, by_rank), scores(job, by_rank);
  if (run.status) {
    for (const RankStatus& rank : run.status->ranks) {
      if (rank.state != "running") continue;
      beats.take(rank.node, rank.rank, "", rank.beat_age_s);
      progress.take(rank.node, rank.rank, "", rank.progress_age_s);
    }
  }
  for (const auto& row : run.latencies.rows) {
    scores.take(row.place.node, row.rank, "", row.score, false);
    for (size_t p = 0; p < run.latencies.phases.size(); ++p)
      phases.take(row.place.node, row.rank, run.latencies.phases[p], row.seconds[p]);
  }
  beats.add_to(metrics.gauge("longhaul_heartbeat_age_seconds", "seconds", "Since a rank was heard."));
  progress.add_to(metrics.gauge("longhaul_progress_age_seconds", "seconds",
                                "Since a rank made progress: alive is not progressing."));
  phases.add_to(metrics.gauge("longhaul_phase_time_seconds", "seconds",
                              "Mean time of a step's phase over the last steps."));
  scores.add_to(metrics.gauge("longhaul_straggler_score", "",
                              "The peers' median work over a rank's own: below 1 it is slower."));
  if (!run.status) return;
  const auto count = [&](const char* state) {
    return as_double(std::ranges::count(run.status->nodes, state, &NodeStatus::state));
  };
  metrics.gauge("longhaul_spares", "", "Nodes that wait to replace another.").add(job, count("spare"));
  metrics.gauge("longhaul_nodes_active", "", "Nodes that hold ranks.").add(job, count("active"));
  metrics.gauge("longhaul_ranks_running", "", "Ranks that run.")
      .add(job, as_double(std::ranges::count(run.status->ranks, "running", &RankStatus::state)));
  metrics.gauge("longhaul_ranks", "", "Ranks of the run.")
      .add(job, as_double(static_cast<int64_t>(run.status->ranks.size())));
  auto& samples = metrics.gauge("longhaul_node_sample", "",
                                "Last sample of a node's machine in the units of its metric.");
  for (const NodeStatus& node : run.status->nodes) {
    for (const auto& [name, value] : node.machine) {
      MetricLabels labels = job;
      labels.insert(labels.end(), {{"node", node.node}, {"metric", name}});
      samples.add(labels, value);
    }
  }
  metrics.gauge("longhaul_status_age_seconds", "seconds", "Since the driver wrote its status.")
      .add(job, run.status_age());
}

void add_calls(OpenMetrics& metrics, const RunView& run, const MetricLabels& job) {
  if (run.calls.empty()) return;
  auto& seconds = metrics.gauge(
      "longhaul_collective_seconds", "seconds",
      "What calls of a kind took in the last recorded step, of the rank that they took longest.");
  auto& bytes = metrics.gauge("longhaul_collective_bytes", "bytes",
                              "What a rank sent and received by them, of the one with the most.");
  for (const auto& [name, use] : run.calls) {
    MetricLabels labels = job;
    labels.emplace_back("op", name.first);
    labels.emplace_back("group", name.second);
    seconds.add(labels, use.seconds);
    bytes.add(labels, as_double(use.bytes));
  }
}

}  // namespace

OpenMetrics run_metrics(std::span<const RunView* const> runs, bool by_rank) {
  OpenMetrics metrics;
  for (const RunView* run : runs) {
    const MetricLabels job = {{"job", run->job}};
    const StateText state = run->state();
    MetricLabels build = job;
    const RunStart start = run->history.start.value_or(RunStart{});
    build.insert(build.end(), {{"version", start.version},
                               {"commit", start.commit},
                               {"model", start.model},
                               {"host", start.host},
                               {"run", run->history.run}});
    metrics.family(Type::kInfo, "longhaul_build", "", "What runs, and where.").add(build, 1);
    metrics
        .family(Type::kStateSet, "longhaul_state", "", "State of the run; of its driver, where it has one.")
        .add_states(job, kStates, state.word);
    add_progress(metrics, *run, job);
    add_time(metrics, *run, job);
    add_faults(metrics, *run, job);
    add_ranks(metrics, *run, job, by_rank);
    add_calls(metrics, *run, job);
    metrics.gauge("longhaul_disk_free_ratio", "ratio", "Free part of the run folder's file system.")
        .add(job, run->disk_free_ratio);
    metrics
        .gauge("longhaul_last_event_timestamp_seconds", "seconds",
               "When rank 0 wrote its last event, Unix time.")
        .add(job, run->history.last_wall_time);
  }
  return metrics;
}

}  // namespace longhaul::observe
