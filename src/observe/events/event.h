// The events of a run: rare, typed records from which every display is made. There is one struct per event.
// Its fields are declared once, in fields(); writer, reader and documentation check iterate over that list.
//
//   Event event{.common = {…}, .body = Evaluation{.step = 100, .loss = 1.25, .bits_per_byte = 1.71}};
//   std::string line = to_json(event);                // one line, no newline
//   std::optional<Event> again = from_json(line);
//
// Losses are in nats per token. A step's number is the number of completed optimizer steps after it: the
// first step is 1. The written form is docs/formats/events.md. The structs are plain values without thread
// rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace longhaul::observe {

inline constexpr int64_t kEventSchema = 1;  // raised only when an old reader would misread a new file

enum class Digits { kShortest, kSeventeen };  // kShortest reads back to the same number too

template <class Owner, class Member>
struct Field {
  std::string_view name;
  Member Owner::*member;  // std::optional: left out of the event when it has no value
  Digits digits = Digits::kShortest;
};
template <class Owner, class Member>
Field(std::string_view, Member Owner::*) -> Field<Owner, Member>;
template <class Owner, class Member>
Field(std::string_view, Member Owner::*, Digits) -> Field<Owner, Member>;

// Metrics: numbers under names that a task gives them: "accuracy", "reward/mean". An empty map is left out of
// the event.
using Metrics = std::map<std::string, double>;

// RunStart: the first record of every process that trains: what it runs, on which machine, and how large the
// run is.
struct RunStart {
  static constexpr std::string_view kName = "run_start";
  std::string name;     // name of the run folder or recipe, for titles
  std::string version;  // version of Longhaul
  std::string commit;
  std::string compiler;
  std::string libtorch;
  std::string host;
  std::string operating_system;
  std::string processor;
  std::vector<std::string> cpu_features;
  std::string device;
  std::string dtype;
  int64_t threads = 0;
  int64_t seed = 0;
  int64_t world_size = 1;
  std::string recipe_hash;
  std::string model;  // preset or family
  int64_t parameters = 0;
  // Those that one token uses: only the chosen experts; without embedding, positions and head.
  int64_t parameters_per_token = 0;
  int64_t steps = 0;  // planned; 0: until stopped
  int64_t tokens_per_step = 0;
  int64_t sequence = 0;  // tokens
  int64_t vocabulary = 0;
  // For forward and backward pass. Attention is counted in two ways: causal (used for `mfu`) and full (PaLM's
  // convention).
  std::optional<double> flops_per_token, flops_per_token_full_attention;
  std::optional<double> peak_flops_per_second;  // measured on this machine
  std::optional<int64_t> training_tokens;       // one epoch
  std::optional<int64_t> training_bytes;
  std::optional<int64_t> heldout_bytes;
  std::optional<int64_t> memory_bytes;  // of the machine
  std::optional<int64_t> cores;         // of the machine, usable ones
  // The meters that give the steps' joules; none: the machine has none.
  std::optional<std::string> energy_meters;
  std::optional<int64_t> planned_memory_bytes;  // peak of tensor memory, as planned
  static constexpr auto fields();
};

struct StepReport {
  static constexpr std::string_view kName = "step";
  int64_t step = 0;
  double loss = 0;     // nats per token, mean over the step's tokens
  int64_t tokens = 0;  // trained so far, including this step
  double tokens_per_second = 0;
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double milliseconds = 0;  // the whole step, including the wait for data
  // 0..1 of the measured peak; attention is counted causally: half of the square
  std::optional<double> mfu;
  // the same with the whole square counted, as others report it
  std::optional<double> mfu_full_attention;
  std::optional<double> hfu;                     // as mfu, but recomputed operations are counted twice
  std::optional<double> model_flops_per_second;  // causal
  std::optional<double> data_wait_milliseconds;
  std::optional<double> auxiliary_loss;
  std::optional<int64_t> resident_bytes;
  // Since the last report, including evaluation and saving between: the sum of processor time over cores, and
  // the energy that the machine's meters counted.
  std::optional<double> processor_milliseconds, energy_joules;
  // The share (0..1) of the run's cores on the first rank's machine that other programs took since this was
  // told last, at least a second ago.
  std::optional<double> taken_by_others;
  // The peak from this step on, which computed faster than the peak that had been measured.
  std::optional<double> peak_flops_per_second;
  // The time between the first and the last rank's entry into the first call of all ranks after their passes
  // (observe.entry_skew_every).
  std::optional<double> entry_skew_milliseconds;
  std::optional<bool> skipped;  // the update was not applied (non-finite gradient)
  std::optional<double> epoch;  // how often the training data have been read, including this step
  Metrics metrics;              // other measurements of the task
  static constexpr auto fields();
};

// OuterRound: a round of an outer loop has ended (optim.outer).
struct OuterRound {
  static constexpr std::string_view kName = "outer_round";
  int64_t step = 0, round = 0;  // rounds count from 0
  int64_t steps = 0;            // number of steps of the round
  // Why the round was synchronous, for a method that hides exchanges; empty: it was not.
  std::string synchronous;
  std::optional<int64_t> applied;    // the round whose mean the weights have taken; none: nothing had arrived
  std::optional<int64_t> fragment;   // the fragment of the layers that was exchanged; none: all weights
  double exchange_milliseconds = 0;  // for what was applied, from its start until it had arrived
  double waited_milliseconds = 0;    // the part of it in which no step was trained
  double update_milliseconds = 0;    // time of the weight update
  double gap = 1;                    // staleness gap: the divisor of a late outer gradient
  std::optional<double> strain;      // for co2, a lower bound: unstable from 1 on
  double gradient_norm = 0, momentum_norm = 0, movement = 0, clipped = 0;
  std::optional<double> loss;  // mean over all islands, and over the steps of the round that was applied
  static constexpr auto fields();
};

// OuterEvery: the value that was chosen for optim.outer_every = 0.
struct OuterEvery {
  static constexpr std::string_view kName = "outer_every";
  int64_t step = 0, every = 0;
  double step_milliseconds = 0, exchange_milliseconds = 0, update_milliseconds = 0;
  std::string reason;
  static constexpr auto fields();
};

// BatchGrowth: the batch was doubled after this step, because of the measured critical batch size
// (optim.batch_growth).
struct BatchGrowth {
  static constexpr std::string_view kName = "batch_growth";
  int64_t step = 0;
  int64_t batch = 0, batch_before = 0;  // sequences per step
  double critical_batch_tokens = 0;     // over all measurements, the latest ones with the highest weight
  static constexpr auto fields();
};

struct Evaluation {
  static constexpr std::string_view kName = "evaluation";
  int64_t step = 0;
  // For held-out text; what the task does not measure is left out.
  std::optional<double> loss;           // nats per token
  std::optional<double> bits_per_byte;  // per byte of all those documents
  std::optional<double> perplexity;
  Metrics metrics;  // other measurements of the task
  static constexpr auto fields();
};

// Entries of `metrics` that have a field of their own are moved there.
Evaluation evaluation_of(int64_t step, Metrics metrics);

// CompressionBaseline: what general compressors reach on the held-out documents, joined in path order.
struct CompressionBaseline {
  static constexpr std::string_view kName = "compression_baseline";
  double gzip_bits_per_byte = 0;    // gzip -9
  double xz_bits_per_byte = 0;      // xz -9
  std::optional<int64_t> of_bytes;  // only so many of the first bytes; none: all of them
  static constexpr auto fields();
};

struct CheckpointSaved {
  static constexpr std::string_view kName = "checkpoint";
  int64_t step = 0;
  std::string path;                       // relative to the run folder
  double blocking_milliseconds = 0;       // how long training was blocked
  std::optional<double> writing_seconds;  // how long writing took while training went on
  std::optional<int64_t> bytes;           // of all ranks' files
  static constexpr auto fields();
};

struct Resume {
  static constexpr std::string_view kName = "resume";
  // Step of the checkpoint: the next step is step + 1, and later steps earlier in the file are void.
  int64_t step = 0;
  std::optional<std::string> source;      // "memory": of nodes; none: the disk
  std::optional<double> loading_seconds;  // from looking for the checkpoint to the state being in its place
  std::optional<int64_t> bytes;           // of all ranks' files of the checkpoint
  static constexpr auto fields();
};

struct Alarm {
  static constexpr std::string_view kName = "alarm";
  std::string kind;  // "disk_full", "events_lost", "loss_spike", …
  std::string message;
  std::optional<std::string> metric;  // of minder: in which a machine differs from its peers
  // of events_lost: the steps whose reports are missing; none: no step's is
  std::optional<int64_t> first_step, last_step;
  static constexpr auto fields();
};

struct NonFinite {
  static constexpr std::string_view kName = "nonfinite";
  int64_t step = 0;
  std::string layer;   // "layers.3", "embedding"
  std::string tensor;  // "layers.3.mixer.q.weight", or what the layer computed: "output"
  std::string phase;   // "forward", "loss" or "gradient"
  static constexpr auto fields();
};

struct Sample {
  static constexpr std::string_view kName = "sample";
  int64_t step = 0;
  std::string prompt;
  std::string text;  // only the completion
  static constexpr auto fields();
};

// MeasuredMemory: the allocator's count for one purpose, written after the last step: one event per purpose,
// then "together" and "of the machine", which also holds free blocks kept for later use. The planned bytes
// are given too.
struct MeasuredMemory {
  static constexpr std::string_view kName = "memory";
  std::string purpose;
  int64_t bytes = 0, peak_bytes = 0;
  std::optional<int64_t> planned_bytes;  // planned peak
  static constexpr auto fields();
};

// IncidentReport: a fault and the reaction to it. The driver writes it when the incident is over; a rank
// writes it when it has reacted itself. `rank` replaces the field of the writing process: it is the rank that
// caused the fault.
struct IncidentReport {
  static constexpr std::string_view kName = "incident";
  int64_t id = 0;                     // number within a run and writer, from 1
  std::string fault;                  // "class": "user_code", "hang", "host_out_of_memory", …
  int64_t rank = -1;                  // −1: no single rank
  std::string node;                   // empty: unknown
  std::vector<std::string> evidence;  // observations
  std::vector<std::string> suspects;  // "rank 3", "node-1"
  std::string action;                 // what was done: "restart", "evict_node", "stop", …
  int64_t ended_generation = 0;       // generation of the ranks in which it happened
  std::optional<int64_t> step;        // completed steps when it happened
  int64_t lost_steps = 0;             // steps that are done again
  bool recovered = false;             // training goes on
  // Times from the fault, as far as its time is known, until it was noticed; for a hang from its deadline;
  // then until the verdict, and until the next step.
  double detected_milliseconds = 0;
  std::optional<double> overdue_milliseconds, diagnosed_milliseconds, recovered_milliseconds;
  static constexpr auto fields();
};

// DriverState: the driver has changed its state (docs/sources/reliability.md §5.1).
struct DriverState {
  static constexpr std::string_view kName = "driver_state";
  std::string state;  // "TRAIN"
  std::string reason;
  int64_t ranks_generation = 0, ranks = 0;
  static constexpr auto fields();
};

struct End {
  static constexpr std::string_view kName = "end";
  std::string reason;  // "finished", "signal", "until_time", "error", "probe" (it saved nothing, on purpose)
  int64_t step = 0;
  static constexpr auto fields();
};

using EventBody = std::variant<RunStart, StepReport, OuterRound, OuterEvery, BatchGrowth, Evaluation,
                               CompressionBaseline, CheckpointSaved, Resume, Alarm, NonFinite, Sample,
                               MeasuredMemory, IncidentReport, DriverState, End>;

struct Common {
  int64_t schema = kEventSchema;
  std::string run;         // equal for all processes and restarts of a run
  int64_t generation = 1;  // grows by one at each restart
  int64_t rank = 0;
  double wall_time = 0;      // Unix seconds, for people
  int64_t monotonic_ns = 0;  // for durations within one process
  static constexpr auto fields();
};

struct Event {
  Common common;
  EventBody body;
};

std::string_view name_of(const EventBody& body);

// One line without its newline. Numbers that are not finite are written as null, and "note" names them:
// "loss=nan". Bytes that are not UTF-8 become U+FFFD.
std::string to_json(const Event& event);

// std::nullopt: this version does not know the event's name. Error 65 with `where` for any other mismatch.
std::optional<Event> from_json(std::string_view line, std::string_view where = "");
Common common_from_json(std::string_view line, std::string_view where = "");  // for any event, known or not

// Calls body.template operator()<Type>() for every type of EventBody.
template <class Body>
void for_each_event_type(Body&& body) {
  [&]<size_t... i>(std::index_sequence<i...>) {
    (body.template operator()<std::variant_alternative_t<i, EventBody>>(), ...);
  }
  (std::make_index_sequence<std::variant_size_v<EventBody>>{});
}

template <class Type, class Body>
void for_each_field(Body&& body) {
  std::apply([&](const auto&... field) { (body(field), ...); }, Type::fields());
}

constexpr auto Common::fields() {
  return std::tuple{Field{"schema", &Common::schema},         Field{"run", &Common::run},
                    Field{"generation", &Common::generation}, Field{"rank", &Common::rank},
                    Field{"wall_time", &Common::wall_time},   Field{"monotonic_ns", &Common::monotonic_ns}};
}
constexpr auto RunStart::fields() {
  using R = RunStart;
  return std::tuple{Field{"name", &R::name},
                    Field{"version", &R::version},
                    Field{"commit", &R::commit},
                    Field{"compiler", &R::compiler},
                    Field{"libtorch", &R::libtorch},
                    Field{"host", &R::host},
                    Field{"operating_system", &R::operating_system},
                    Field{"processor", &R::processor},
                    Field{"cpu_features", &R::cpu_features},
                    Field{"device", &R::device},
                    Field{"dtype", &R::dtype},
                    Field{"threads", &R::threads},
                    Field{"seed", &R::seed},
                    Field{"world_size", &R::world_size},
                    Field{"recipe_hash", &R::recipe_hash},
                    Field{"model", &R::model},
                    Field{"parameters", &R::parameters},
                    Field{"parameters_per_token", &R::parameters_per_token},
                    Field{"steps", &R::steps},
                    Field{"tokens_per_step", &R::tokens_per_step},
                    Field{"sequence", &R::sequence},
                    Field{"vocabulary", &R::vocabulary},
                    Field{"flops_per_token", &R::flops_per_token},
                    Field{"flops_per_token_full_attention", &R::flops_per_token_full_attention},
                    Field{"peak_flops_per_second", &R::peak_flops_per_second},
                    Field{"training_tokens", &R::training_tokens},
                    Field{"training_bytes", &R::training_bytes},
                    Field{"heldout_bytes", &R::heldout_bytes},
                    Field{"memory_bytes", &R::memory_bytes},
                    Field{"cores", &R::cores},
                    Field{"energy_meters", &R::energy_meters},
                    Field{"planned_memory_bytes", &R::planned_memory_bytes}};
}
constexpr auto StepReport::fields() {
  using S = StepReport;
  return std::tuple{Field{"step", &S::step},
                    Field{"loss", &S::loss, Digits::kSeventeen},
                    Field{"tokens", &S::tokens},
                    Field{"tokens_per_second", &S::tokens_per_second},
                    Field{"grad_norm", &S::grad_norm, Digits::kSeventeen},
                    Field{"learning_rate", &S::learning_rate},
                    Field{"milliseconds", &S::milliseconds},
                    Field{"mfu", &S::mfu},
                    Field{"mfu_full_attention", &S::mfu_full_attention},
                    Field{"hfu", &S::hfu},
                    Field{"model_flops_per_second", &S::model_flops_per_second},
                    Field{"data_wait_milliseconds", &S::data_wait_milliseconds},
                    Field{"auxiliary_loss", &S::auxiliary_loss, Digits::kSeventeen},
                    Field{"resident_bytes", &S::resident_bytes},
                    Field{"processor_milliseconds", &S::processor_milliseconds},
                    Field{"energy_joules", &S::energy_joules},
                    Field{"taken_by_others", &S::taken_by_others},
                    Field{"peak_flops_per_second", &S::peak_flops_per_second},
                    Field{"entry_skew_milliseconds", &S::entry_skew_milliseconds},
                    Field{"skipped", &S::skipped},
                    Field{"epoch", &S::epoch},
                    Field{"metrics", &S::metrics, Digits::kSeventeen}};
}
constexpr auto OuterRound::fields() {
  using O = OuterRound;
  return std::tuple{Field{"step", &O::step},
                    Field{"round", &O::round},
                    Field{"steps", &O::steps},
                    Field{"synchronous", &O::synchronous},
                    Field{"applied", &O::applied},
                    Field{"fragment", &O::fragment},
                    Field{"exchange_milliseconds", &O::exchange_milliseconds},
                    Field{"waited_milliseconds", &O::waited_milliseconds},
                    Field{"update_milliseconds", &O::update_milliseconds},
                    Field{"gap", &O::gap},
                    Field{"strain", &O::strain},
                    Field{"gradient_norm", &O::gradient_norm, Digits::kSeventeen},
                    Field{"momentum_norm", &O::momentum_norm, Digits::kSeventeen},
                    Field{"movement", &O::movement, Digits::kSeventeen},
                    Field{"clipped", &O::clipped},
                    Field{"loss", &O::loss, Digits::kSeventeen}};
}
constexpr auto OuterEvery::fields() {
  using O = OuterEvery;
  return std::tuple{Field{"step", &O::step},
                    Field{"every", &O::every},
                    Field{"step_milliseconds", &O::step_milliseconds},
                    Field{"exchange_milliseconds", &O::exchange_milliseconds},
                    Field{"update_milliseconds", &O::update_milliseconds},
                    Field{"reason", &O::reason}};
}
constexpr auto BatchGrowth::fields() {
  using B = BatchGrowth;
  return std::tuple{Field{"step", &B::step}, Field{"batch", &B::batch},
                    Field{"batch_before", &B::batch_before},
                    Field{"critical_batch_tokens", &B::critical_batch_tokens}};
}
constexpr auto Evaluation::fields() {
  using E = Evaluation;
  return std::tuple{Field{"step", &E::step}, Field{"loss", &E::loss, Digits::kSeventeen},
                    Field{"bits_per_byte", &E::bits_per_byte, Digits::kSeventeen},
                    Field{"perplexity", &E::perplexity, Digits::kSeventeen},
                    Field{"metrics", &E::metrics, Digits::kSeventeen}};
}
constexpr auto CompressionBaseline::fields() {
  return std::tuple{Field{"gzip_bits_per_byte", &CompressionBaseline::gzip_bits_per_byte},
                    Field{"xz_bits_per_byte", &CompressionBaseline::xz_bits_per_byte},
                    Field{"of_bytes", &CompressionBaseline::of_bytes}};
}
constexpr auto CheckpointSaved::fields() {
  return std::tuple{Field{"step", &CheckpointSaved::step}, Field{"path", &CheckpointSaved::path},
                    Field{"blocking_milliseconds", &CheckpointSaved::blocking_milliseconds},
                    Field{"writing_seconds", &CheckpointSaved::writing_seconds},
                    Field{"bytes", &CheckpointSaved::bytes}};
}
constexpr auto Resume::fields() {
  return std::tuple{Field{"step", &Resume::step}, Field{"source", &Resume::source},
                    Field{"loading_seconds", &Resume::loading_seconds}, Field{"bytes", &Resume::bytes}};
}
constexpr auto Alarm::fields() {
  return std::tuple{Field{"kind", &Alarm::kind}, Field{"message", &Alarm::message},
                    Field{"metric", &Alarm::metric}, Field{"first_step", &Alarm::first_step},
                    Field{"last_step", &Alarm::last_step}};
}
constexpr auto NonFinite::fields() {
  return std::tuple{Field{"step", &NonFinite::step}, Field{"layer", &NonFinite::layer},
                    Field{"tensor", &NonFinite::tensor}, Field{"phase", &NonFinite::phase}};
}
constexpr auto Sample::fields() {
  return std::tuple{Field{"step", &Sample::step}, Field{"prompt", &Sample::prompt},
                    Field{"text", &Sample::text}};
}
constexpr auto MeasuredMemory::fields() {
  using M = MeasuredMemory;
  return std::tuple{Field{"purpose", &M::purpose}, Field{"bytes", &M::bytes},
                    Field{"peak_bytes", &M::peak_bytes}, Field{"planned_bytes", &M::planned_bytes}};
}
constexpr auto IncidentReport::fields() {
  using I = IncidentReport;
  return std::tuple{Field{"id", &I::id},
                    Field{"class", &I::fault},
                    Field{"rank", &I::rank},
                    Field{"node", &I::node},
                    Field{"evidence", &I::evidence},
                    Field{"suspects", &I::suspects},
                    Field{"action", &I::action},
                    Field{"ended_generation", &I::ended_generation},
                    Field{"step", &I::step},
                    Field{"lost_steps", &I::lost_steps},
                    Field{"recovered", &I::recovered},
                    Field{"detected_milliseconds", &I::detected_milliseconds},
                    Field{"overdue_milliseconds", &I::overdue_milliseconds},
                    Field{"diagnosed_milliseconds", &I::diagnosed_milliseconds},
                    Field{"recovered_milliseconds", &I::recovered_milliseconds}};
}
constexpr auto DriverState::fields() {
  using D = DriverState;
  return std::tuple{Field{"state", &D::state}, Field{"reason", &D::reason},
                    Field{"ranks_generation", &D::ranks_generation}, Field{"ranks", &D::ranks}};
}
constexpr auto End::fields() { return std::tuple{Field{"reason", &End::reason}, Field{"step", &End::step}}; }

}  // namespace longhaul::observe
