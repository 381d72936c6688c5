#include "run/run_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/process/training_wait.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "checkpoint/disk/disk_need.h"
#include "checkpoint/disk/new_folder.h"
#include "checkpoint/disk/writers.h"
#include "comm/clock_offset.h"
#include "data/corpus/compression_baseline.h"
#include "layout/freezing.h"
#include "observe/events/event_log.h"
#include "observe/table.h"
#include "observe/tensorboard.h"
#include "observe/terminal.h"
#include "optim/schedule.h"
#include "recipe/sections/unread_options.h"
#include "recipe/write.h"
#include "run/memory.h"
#include "run/process_control.h"
#include "run/rank_table.h"
#include "run/start_warnings.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::run {
namespace {

// Where sequences change their length on the way; empty: they do not.
std::function<train::FlopsOfToken(int64_t)> flops_of_sequence(const RunFacts& facts) {
  recipe::Recipe recipe = facts.recipe.recipe;
  const optim::TrainSchedule schedule(recipe.optim, recipe.train);
  if (!schedule.changes_sequence()) return {};
  std::map<int64_t, train::FlopsOfToken> by_sequence;
  for (const optim::StageState& stage : schedule.stages()) {
    recipe.train.sequence = stage.sequence;
    const auto model = facts.task.plan(recipe);
    const plan::TokenFlops flops = model->flops();
    by_sequence[stage.sequence] = {flops.causal(), flops.full(), model->flops_again()};
  }
  return [by_sequence](int64_t sequence) { return by_sequence.at(sequence); };
}

void add_displays(observe::EventWriter& events, const RunRequest& request) {
  const recipe::Recipe& recipe = request.recipe.recipe;
  events.add(
      std::make_shared<observe::Terminal>(observe::TerminalOptions{.stream = stdout,
                                                                   .colours = colours_wanted(stdout),
                                                                   .alarm_colours = colours_wanted(stderr),
                                                                   .quiet = request.quiet,
                                                                   .log_every = recipe.train.log_every}));
  if (recipe.observe.tensorboard)
    events.add(std::make_shared<observe::TensorBoard>(request.run_folder / "tensorboard"));
}

// Beside the checkpoints, what belongs to them. Not before the trainer stands: a start that is refused leaves
// what is there.
void write_beside_checkpoints(const RunRequest& request, const RunFacts& facts, bool resumed) {
  try {
    write_text_atomically(request.run_folder / "recipe.toml", recipe::to_toml(request.recipe));
    if (facts.task.write_beside != nullptr) facts.task.write_beside(facts.data, request.run_folder);
  } catch (const Error& error) {
    // A full disk does not end a run that resumes: the files of the start before are there, and the
    // checkpoint has its own copies.
    if (!resumed || error.code() != ExitCode::kDisk) throw;
    log_warning(
        "recipe.toml, and what else lies beside the checkpoints, stays as the start before has written it: "
        "{}",
        error.what());
  }
}

// A run's own chat template is not among the files that an import keeps and an export writes.
void carry_chat_template(const checkpoint::StartingPoint& from, const std::filesystem::path& run) {
  constexpr const char* kName = "chat_template.jinja";
  if (from.tokenizer().empty() || from.beside() == from.path()) return;
  const std::filesystem::path own = from.tokenizer().parent_path() / kName;
  if (std::filesystem::exists(own) && !std::filesystem::exists(run / kName))
    write_text_atomically(run / kName, read_text(own));
}

// Later runs on this machine begin with the peak that a step of this one has shown.
class PeakKeeper final : public observe::EventReader {
 public:
  explicit PeakKeeper(const RunFacts& facts)
      : dtype_(facts.dtype()), times_(facts.peak.times), device_(facts.device) {}
  void on(const observe::Event& event) override {
    const auto* step = std::get_if<observe::StepReport>(&event.body);
    if (step == nullptr || !step->peak_flops_per_second) return;
    raise_profile(dtype_, *step->peak_flops_per_second / times_, device_);
  }

 private:
  std::string dtype_;
  double times_;
  at::Device device_;
};

void write_baseline(observe::EventWriter& events, const data::RunData& data,
                    const std::filesystem::path& cache) {
  std::vector<int64_t> held_out_bytes;
  for (const data::PreparedSource& source : data.sources)
    held_out_bytes.push_back(source.held_out.text_bytes());
  const auto baseline = data::compression_baseline(data.corpus, held_out_bytes, cache);
  if (!baseline) return;
  observe::CompressionBaseline event{.gzip_bits_per_byte = baseline->gzip_bits_per_byte(),
                                     .xz_bits_per_byte = baseline->xz_bits_per_byte()};
  if (baseline->bytes < std::accumulate(held_out_bytes.begin(), held_out_bytes.end(), int64_t{0}))
    event.of_bytes = baseline->bytes;
  events.write(event);
}

// Of a rank but the first: run and generation are those that rank 0 has claimed.
observe::EventWriterOptions events_of_rank(const RunRequest& request, const nlohmann::json& claimed,
                                           int64_t rank) {
  return {.path = request.run_folder / "events" / fmt::format("rank-{}.jsonl", rank),
          .run = claimed.at("run"),
          .generation = claimed.at("generation"),
          .rank = rank};
}

class RankRun {
 public:
  RankRun(const RunStartUp& start, parallel::Ranks& ranks)
      : start_(start),
        facts_(start.facts),
        recipe_(facts_.recipe.recipe),
        ranks_(ranks),
        together_(ranks.everyone("run")) {}

  train::Outcome run();

 private:
  bool first() const { return ranks_.rank() == 0; }
  bool tables() const { return first() && !start_.request.quiet; }
  std::shared_ptr<data::BatchShare> share();
  observe::EventWriter& open_events();
  void open_trace(int64_t generation);
  int64_t planned_of_rank() const;  // bytes at its fullest
  void require_frozen(const model::ParameterSet& parameters) const;
  void tell_what_is_held(train::Task& task, optim::Optimizer& optimizer, const optim::OuterLoop* outer) const;
  void tell_what_was_waited(const optim::OuterLoop* outer, double seconds) const;
  void tell_what_was_sent(int64_t step) const;
  void warn_of_disk(const train::Trainer& trainer) const;
  void tell_what_is_missing(observe::EventWriter& events, int64_t step) const;
  void open_board();
  std::optional<checkpoint::TierPlace> tier() const;
  // what comes between the trainer that stands and its first step
  void begin(train::Trainer& trainer, observe::EventWriter& events);

  const RunStartUp& start_;
  const RunFacts& facts_;
  const recipe::Recipe& recipe_;
  parallel::Ranks& ranks_;
  checkpoint::Writers together_;
  std::optional<observe::EventWriter> own_events_;
  std::optional<observe::TraceWriter> trace_;
  Totals calls_before_;  // the first step
  storage::LocalFileSystem files_;
};

std::shared_ptr<data::BatchShare> RankRun::share() {
  if (!start_.own_process) return start_.shares.at(static_cast<size_t>(ranks_.replica()));
  if (ranks_.world() == nullptr) return nullptr;
  const nlohmann::json run = together_.first("batches", [&]() -> nlohmann::json {
    return fmt::format("{}-{}", start_.events->run(), start_.events->generation());
  });
  return share_between_processes(ranks_, run);
}

observe::EventWriter& RankRun::open_events() {
  const nlohmann::json claimed = together_.first("run", [&]() -> nlohmann::json {
    return {{"run", start_.events->run()}, {"generation", start_.events->generation()}};
  });
  if (first()) {
    add_displays(*start_.events, start_.request);
    start_.events->add(std::make_shared<PeakKeeper>(facts_));
    return *start_.events;
  }
  return own_events_.emplace(events_of_rank(start_.request, claimed, ranks_.rank()));
}

// What fails from here on leaves its calls in the run folder; those of an earlier failure are no news.
void RankRun::open_trace(int64_t generation) {
  const layout::MeshRank& place = ranks_.place();
  const std::filesystem::path& run = start_.request.run_folder;
  if (start_.calls) {
    together_.first("calls", [&]() -> nlohmann::json {
      make_folders(comm::calls_folder(run));
      comm::forget_calls(run);
      return nullptr;
    });
    make_folders(comm::calls_folder(run));  // on its own machine
    start_.calls->write_on_failure(comm::calls_folder(run));
  }
  if (recipe_.observe.trace_every == 0) return;
  if (start_.calls) start_.calls->show_in(ranks_.spans());
  const comm::ClockOffset clock = ranks_.world() != nullptr
                                      ? comm::clock_offset(*ranks_.world(), machine().boot, monotonic_ns)
                                      : comm::ClockOffset{};
  using enum layout::Axis;
  trace_.emplace(run, observe::TraceRank{.rank = ranks_.rank(),
                                         .generation = generation,
                                         .pp = place.coordinate(kPp),
                                         .dp = ranks_.replica(),
                                         .cp = place.coordinate(kCp),
                                         .tp = place.coordinate(kTp),
                                         .clock_offset_ns = clock.offset_ns,
                                         .clock_error_ns = clock.error_ns});
}

int64_t RankRun::planned_of_rank() const {
  parallel::Arrangement arrangement = facts_.model.arrange(facts_.mesh.world());
  arrangement.workers = facts_.workers;
  arrangement.elastic = recipe_.train.elastic;
  return plan::whole_bytes(
      memory_plan(facts_.model, recipe_, arrangement, ranks_.rank(), facts_.device, &facts_.data).peak());
}

void RankRun::tell_what_is_held(train::Task& task, optim::Optimizer& optimizer,
                                const optim::OuterLoop* outer) const {
  Holding own = holding_of(task.parameters(), optimizer, outer);
  own.planned = planned_of_rank();
  const auto holdings = gather_holdings(ranks_, own);
  if (!tables()) return;
  const bool colours = colours_wanted(stdout);
  say(stdout, tables_of(facts_, task.epochs_after(recipe_.train.steps), colours));
  if (holdings.size() > 1)
    say(stdout,
        rank_table(facts_.mesh, recipe_.parallel.pipeline, facts_.model.layers(), holdings, colours) + "\n");
  if (outer == nullptr) return;
  const int64_t every = recipe_.optim.outer.every;
  say(stdout, fmt::format("{}: {} workers of {} meet {}; {}. Losses of steps are the first worker's; "
                          "evaluations and checkpoints "
                          "have the weights that all agreed on last.\n\n",
                          recipe::name_of_value(recipe_.optim.outer.method), ranks_.workers(),
                          counted(facts_.mesh.world(), "rank"),
                          every > 0 ? fmt::format("every {} steps", every)
                                    : "as often as the first round's times say",
                          recipe::hidden(recipe_.optim.outer) ? "exchanges are hidden behind the next round"
                                                              : "all wait for exchanges"));
}

void RankRun::tell_what_was_waited(const optim::OuterLoop* outer, double seconds) const {
  if (outer == nullptr || !tables()) return;
  say(stdout, fmt::format("\nouter loop: {} in {}, of which {} was waited for exchanges\n",
                          counted(outer->rounds(), "round"), duration_text(seconds),
                          duration_text(outer->waited_s())));
}

void RankRun::tell_what_was_sent(int64_t step) const {
  if (!start_.calls) return;
  const auto ranks =
      together_.each("calls", [&] { return calls_between(calls_before_, start_.calls->totals()); });
  if (tables()) say(stdout, traffic_table(ranks, step, colours_wanted(stdout)) + "\n");
}

void RankRun::warn_of_disk(const train::Trainer& trainer) const {
  auto disk = checkpoint::disk_need(files_, start_.request.run_folder / "checkpoints", trainer.state(),
                                    recipe_.train);
  disk.one_bytes =
      std::llround(ranks_.sum_of_run(static_cast<double>(disk.one_bytes), "bytes of a checkpoint"));
  const auto warning = disk.warning();
  if (first() && warning) log_warning("{}", *warning);
}

// Ranks that outlive rank 0 may leave the state of a step that rank 0 finished without reporting it. The run
// goes on from that state, and nobody has the loss of that step.
void RankRun::tell_what_is_missing(observe::EventWriter& events, int64_t step) const {
  if (!first() || step == 0) return;
  int64_t told = 0;
  try {
    observe::for_each_event(events.path(), [&](const observe::Event& event) {
      if (const auto* report = std::get_if<observe::StepReport>(&event.body))
        told = std::max(told, report->step);
    });
  } catch (const Error&) {
    return;  // the command that reads a damaged stream reports the damage
  }
  if (told == 0 || told >= step) return;  // 0: a file of another start
  const std::string which =
      told + 1 == step ? fmt::format("step {} is", step) : fmt::format("steps {} to {} are", told + 1, step);
  events.write(observe::Alarm{
      .kind = "events_lost",
      .message = fmt::format("{} missing from this file: rank 0 ended after the update and before its "
                             "report; the run goes on from the state that the other ranks left",
                             which),
      .first_step = told + 1,
      .last_step = step});
}

void RankRun::open_board() {
  observe::BoardWriter* const board = start_.request.board;
  if (board == nullptr || !(start_.own_process || first())) return;
  ranks_.spans()->show_on(*board);
  board->show_in(start_.request.run_folder);
}

std::optional<checkpoint::TierPlace> RankRun::tier() const {
  const auto& of_rank = start_.request.tier_of_rank;
  return of_rank ? of_rank(ranks_.rank()) : checkpoint::tier_place_of_process();
}

void RankRun::begin(train::Trainer& trainer, observe::EventWriter& events) {
  warn_of_disk(trainer);
  observe::BoardWriter& board = ranks_.spans()->board();
  board.enter(observe::RankPhase::kLoad);
  const train::Resumed resumed = trainer.resume();
  tell_what_is_missing(events, resumed.step);
  board.enter(observe::RankPhase::kIdle);
  board.step_started_from(resumed.step);
  const auto& from = start_.request.from;
  if (from && resumed.step == 0) {
    from->verify(together_);
    trainer.begin_with(*from);
  }
  if (from) from->finish_reading();
  together_.first("begin", [&]() -> nlohmann::json {
    for (const std::string& text :
         start_warnings(recipe_, {.training_tokens = facts_.training_tokens(),
                                 .resume_step = resumed.step,
                                 .earlier = resumed.earlier,
                                 .unread = recipe::unread_options(start_.request.recipe),
                                 .reads_text = facts_.task.reads_text,
                                 .begins_with_weights = from != nullptr || resumed.step > 0,
                                 .cores = usable_cores()})) {
      log_warning("{}", text);
    }
    write_beside_checkpoints(start_.request, facts_, resumed.step > 0);
    if (from)
      checkpoint::carry_files(files_, from->beside(),
                              start_.request.run_folder / checkpoint::kPublishedBeside);
    if (from) carry_chat_template(*from, start_.request.run_folder);
    // what a compressor's can be compared with
    const bool in_bytes = recipe_.train.objective == recipe::Objective::kNext;
    if (recipe_.observe.compression_baseline && in_bytes && !facts_.data.held_out().empty() &&
        facts_.data.all_text())
      write_baseline(events, facts_.data, start_.cache);
    return nullptr;
  });
  if (!first() && !start_.own_process) return;
  trim_memory();
  reset_memory_peaks();  // what is measured is training's, not what was needed to prepare it
}

// A task that does not take train.freeze would train what was to stay as it is.
void RankRun::require_frozen(const model::ParameterSet& parameters) const {
  for (const layout::ParameterSpec& spec : parameters.specs()) {
    if (spec.frozen || !layout::is_frozen(recipe_.model.frozen, spec.tensor.name)) continue;
    throw Error({.code = ExitCode::kInternal,
                 .what = "the task does not freeze what train.freeze names",
                 .expected = "a list of tensors that went through layout::freeze()",
                 .found = spec.tensor.name,
                 .where = fmt::format("train.task = \"{}\"", recipe_.train.task),
                 .hint = "without train.freeze the task can be trained"});
  }
}

train::Outcome RankRun::run() {
  const TrainingThread trains;
  const auto task = facts_.task.make({.recipe = recipe_,
                                      .data = facts_.data,
                                      .cache = start_.cache,
                                      .device = facts_.device,
                                      .ranks = ranks_,
                                      .share = share(),
                                      .run_folder = start_.request.run_folder});
  require_frozen(task->parameters());
  task->parameters().initialise(static_cast<uint64_t>(recipe_.train.seed));
  const auto optimizer = optim::make_optimizer(recipe_.optim, task->parameters(), task->precision(),
                                               static_cast<uint64_t>(recipe_.train.seed));
  observe::EventWriter& events = open_events();
  open_board();
  open_trace(events.generation());
  std::optional<optim::OuterLoop> outer;
  if (ranks_.workers() > 1) outer.emplace(recipe_.optim.outer, *optimizer, task->parameters(), ranks_);
  optim::OuterLoop* const loop = outer ? &*outer : nullptr;
  tell_what_is_held(*task, *optimizer, loop);
  events.write(run_start(facts_));

  std::unique_ptr<train::RunControl> others;
  std::optional<FirstRankControl> control;
  if (first()) {
    control.emplace(events, facts_);
  } else if (start_.own_process) {
    others = std::make_unique<OtherRankControl>(events, facts_);
  } else {
    others = std::make_unique<FollowingControl>();
  }
  nlohmann::json environment = environment_of(recipe_.train.seed, facts_.device);
  if (start_.request.from) environment.update(start_.request.from->origin());
  train::Trainer trainer(
      *task, *optimizer, ranks_, events, files_,
      control ? static_cast<train::RunControl&>(*control) : *others,
      {.recipe = start_.request.recipe,
       .run_folder = start_.request.run_folder,
       .environment = std::move(environment),
       .flops_per_token = {facts_.flops.causal(), facts_.flops.full(), facts_.flops_again},
       .flops_of_sequence = flops_of_sequence(facts_),
       .peak_flops_per_second = facts_.peak_flops_per_second(),
       .others = control && facts_.peak.here ? std::make_shared<OtherPrograms>(*facts_.peak.here) : nullptr,
       .on_first_step = [this](int64_t step) { tell_what_was_sent(step); },
       .trace = trace_ ? &*trace_ : nullptr,
       .outer = loop,
       .tier = tier(),
       .saves = start_.request.saves,
       .leaves_state = start_.own_process});
  begin(trainer, events);
  if (start_.calls) calls_before_ = start_.calls->totals();
  if (!control) return trainer.run();
  const Stopwatch watch;
  const train::Outcome outcome = control->run_to_its_end(trainer);
  tell_what_was_waited(loop, watch.seconds());
  if (tables() && !control->measured().empty()) {
    say(stdout, "\n" + observe::measured_memory_table(control->measured()).text(colours_wanted(stdout)));
  }
  return outcome;
}

}  // namespace

train::Outcome run_rank(const RunStartUp& start, parallel::Ranks& ranks) {
  return RankRun(start, ranks).run();
}

}  // namespace longhaul::run
