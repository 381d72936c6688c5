#include "train/run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "checkpoint/disk_need.h"
#include "data/compression_baseline.h"
#include "observe/report.h"
#include "observe/report_writer.h"
#include "observe/table.h"
#include "observe/tensorboard.h"
#include "observe/terminal.h"
#include "plan/memory_guard.h"
#include "recipe/write.h"
#include "tensor/cpu_allocator.h"
#include "tensor/libtorch_folder.h"
#include "train/memory.h"
#include "train/run_facts.h"
#include "train/run_folder.h"
#include "train/start_warnings.h"
#include "train/tasks.h"

namespace longhaul::train {
namespace {

void refuse_what_is_not_there(const recipe::Recipe& recipe) {
  refuse_unknown_task(recipe.train.task);
  if (!recipe.parallel.one_process()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "training on several ranks is not there yet",
                 .expected = "1 for all of parallel.tp, pp, cp, ep and etp",
                 .found = "more",
                 .where = "[parallel]",
                 .hint = "leave them at 1; `prove` with the same recipe shows whether the layout gives what one process gives"});
  }
}

at::Device device_of(const recipe::TrainOptions& train) {
  const at::Device device = device_named(train.device);
  if (device.is_cuda()) {
    log_warning("training on {}: this has been compiled and tested without a GPU only; scripts/check-on-gpu compares it with the CPU",
                name_of(device));
  }
  return device;
}

// The two uses of the cores agree on their number: docs/design/threads.md.
void set_compute_threads(int64_t count) {
  set_threads(static_cast<int>(count));
  at::set_num_threads(threads());
}

void add_displays(observe::EventWriter& events, const RunRequest& request) {
  const recipe::Recipe& recipe = request.recipe.recipe;
  events.add(std::make_shared<observe::Terminal>(observe::TerminalOptions{.stream = stdout,
                                                                          .colours = colours_wanted(stdout),
                                                                          .alarm_colours = colours_wanted(stderr),
                                                                          .quiet = request.quiet,
                                                                          .log_every = recipe.train.log_every}));
  if (recipe.observe.tensorboard) events.add(std::make_shared<observe::TensorBoard>(request.run_folder / "tensorboard"));
}

// Signals, and what a run of a process keeps up to date beside its events: the page, and the memory that training took.
class ProcessControl final : public RunControl {
 public:
  ProcessControl(observe::EventWriter& events, const RunFacts& facts) : events_(events), facts_(facts) {
    if (!facts.recipe.recipe.observe.report) return;
    report_.emplace([folder = facts.run_folder] { observe::write_report(folder); });
  }
  int stop_requested() override { return stop_signal(); }
  bool save_requested() override { return take_save_request(); }
  bool continued() override { return take_continued(); }
  bool pause(double seconds) override { return pause_unless_stopped(seconds); }
  void evaluated() override {
    if (report_) report_->refresh();
  }
  void trained() override {
    measured_ = measured_memory(facts_.memory, facts_.device);
    for (const auto& purpose : measured_) events_.write(purpose);
  }
  // The page stands when the run has ended, however it ended; a run that is someone else's by now is not touched.
  Outcome run_to_its_end(Trainer& trainer) {
    try {
      const Outcome outcome = trainer.run();
      if (report_) report_->finish();
      return outcome;
    } catch (const Error& error) {
      if (report_ && error.code() != ExitCode::kFenced) report_->finish();
      throw;
    }
  }
  const std::vector<observe::MeasuredMemory>& measured() const { return measured_; }

 private:
  observe::EventWriter& events_;
  const RunFacts& facts_;
  std::optional<observe::ReportWriter> report_;
  std::vector<observe::MeasuredMemory> measured_;
};

// Beside the checkpoints, what belongs to them. Not before the trainer stands: a start that is refused leaves what is there.
void write_beside_checkpoints(const RunRequest& request, const data::RunData& data) {
  write_text_atomically(request.run_folder / "recipe.toml", recipe::to_toml(request.recipe));
  data.tokenizer.save(request.run_folder / "tokenizer.json");
}

void write_baseline(observe::EventWriter& events, const data::RunData& data, const std::filesystem::path& cache, bool resumed) {
  const auto baseline = data::compression_baseline(data.corpus, cache, resumed ? data::Baseline::kKept : data::Baseline::kNew);
  events.write(
      observe::CompressionBaseline{.gzip_bits_per_byte = baseline.gzip_bits_per_byte(), .xz_bits_per_byte = baseline.xz_bits_per_byte()});
}

}  // namespace

Outcome run_training(RunRequest request) {
  const recipe::Recipe& recipe = request.recipe.recipe;
  refuse_what_is_not_there(recipe);
  const at::Device device = device_of(recipe.train);
  const DeviceScope scope(device);
  set_compute_threads(recipe.train.threads);
  const int64_t free_bytes = available_bytes(device);
  plan::require_memory(memory_request(recipe, device), free_bytes);
  settle_earlier_run(request.recipe, request.run_folder, request.fresh);
  observe::EventWriter events = open_run_folder(request.run_folder);

  const std::filesystem::path cache = data::cache_folder(recipe.data);
  const data::RunData data = data::open_run_data(recipe.data, libtorch_folder(), cache);
  const RunFacts facts{.recipe = request.recipe,
                       .run_folder = request.run_folder,
                       .data = data,
                       .device = device,
                       .memory = plan::plan_memory(memory_request(recipe, device, &data)),
                       .free_bytes = free_bytes,
                       .flops = plan::training_flops_per_token(recipe.model, recipe.train.sequence),
                       .profile = measured_profile(/*fresh=*/false, device)};
  const auto task = make_task({.recipe = recipe, .data = data, .cache = cache, .device = device});
  task->parameters().initialise(static_cast<uint64_t>(recipe.train.seed));
  const auto optimizer = optim::make_optimizer(recipe.optim, task->parameters(), task->precision());

  add_displays(events, request);
  if (!request.quiet) write_stream(stdout, tables_of(facts, task->epochs_after(recipe.train.steps), colours_wanted(stdout)));
  events.write(run_start(facts));

  storage::LocalFileSystem files;
  ProcessControl control(events, facts);
  Trainer trainer(*task, *optimizer, events, files, control,
                  {.recipe = request.recipe,
                   .run_folder = request.run_folder,
                   .environment = environment_of(recipe.train.seed, device),
                   .flops_per_token = facts.flops.causal(),
                   .flops_per_token_full_attention = facts.flops.full(),
                   .peak_flops_per_second = facts.peak_flops_per_second()});
  const auto disk = checkpoint::disk_need(files, request.run_folder / "checkpoints", trainer.state(), recipe.train);
  if (const auto warning = disk.warning()) log_warning("{}", *warning);
  const Resumed resumed = trainer.resume();
  for (const std::string& text :
       start_warnings(recipe, {.training_tokens = facts.training_tokens(), .resume_step = resumed.step, .earlier = resumed.earlier})) {
    log_warning("{}", text);
  }
  write_beside_checkpoints(request, data);
  if (recipe.observe.compression_baseline && !data.held_out().empty()) write_baseline(events, data, cache, resumed.step > 0);
  trim_memory();
  reset_memory_peaks();  // what is measured is training's, not what was needed to prepare it
  const Outcome outcome = control.run_to_its_end(trainer);
  if (!request.quiet && !control.measured().empty()) {
    write_stream(stdout, "\n" + observe::measured_memory_table(control.measured()).text(colours_wanted(stdout)));
  }
  return outcome;
}

}  // namespace longhaul::train
