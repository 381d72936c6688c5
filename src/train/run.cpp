#include "train/run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "base/version.h"
#include "checkpoint/disk_need.h"
#include "checkpoint/saved_recipe.h"
#include "data/compression_baseline.h"
#include "layout/parameters.h"
#include "observe/report.h"
#include "observe/report_writer.h"
#include "observe/table.h"
#include "observe/tensorboard.h"
#include "observe/terminal.h"
#include "plan/flops.h"
#include "plan/memory_guard.h"
#include "recipe/difference.h"
#include "recipe/write.h"
#include "storage/catalog.h"
#include "tensor/cpu_allocator.h"
#include "tensor/device.h"
#include "tensor/libtorch_folder.h"
#include "tensor/machine_profile.h"
#include "train/memory.h"
#include "train/pretrain.h"
#include "train/start_warnings.h"

namespace longhaul::train {
namespace {

void refuse_what_is_not_there(const recipe::Recipe& recipe) {
  if (recipe.train.task != "pretrain") {
    throw Error(
        {.code = ExitCode::kUsage, .what = "unknown task", .expected = "pretrain", .found = recipe.train.task, .where = "train.task"});
  }
  if (!recipe.parallel.one_process()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "training on several ranks is not there yet",
                 .expected = "1 for all of parallel.tp, pp, cp, ep and etp",
                 .found = "more",
                 .where = "[parallel]",
                 .hint = "leave them at 1; `prove` with the same recipe shows whether the layout gives what one process gives"});
  }
}

// An earlier run in the folder: moved aside when a fresh one is asked for (and no process is at it), else compared with what is
// asked for now. recipe.toml may have been edited or lost; what the newest checkpoint recorded counts as well.
void settle_earlier_run(const RunRequest& request) {
  const auto saved_recipe = request.run_folder / "recipe.toml";
  if (request.fresh && std::filesystem::exists(request.run_folder)) {
    const auto aside = fmt::format("{}.before-{:.0f}", request.run_folder.string(), wall_time_s());
    const FileLock nobody_is_at_it(request.run_folder / "events.jsonl");
    rename_path(request.run_folder, aside);
    log_info("the earlier run now lies in {}", aside);
    return;
  }
  if (std::filesystem::exists(saved_recipe)) recipe::refuse_changed(recipe::load(saved_recipe), request.recipe);
  storage::LocalFileSystem files;
  const auto checkpoints = storage::list_checkpoints(files, request.run_folder / "checkpoints");
  if (checkpoints.empty() || !checkpoints.front().usable()) return;
  recipe::refuse_changed(checkpoint::saved_recipe(storage::Checkpoint::open(files, checkpoints.front().path)), request.recipe);
}

// Before minutes go into preparing data: the folder is there, can be written, and no other process is at this run.
observe::EventWriter open_run_folder(const std::filesystem::path& folder) {
  try {
    make_folders(folder);
    return observe::EventWriter({.path = folder / "events.jsonl", .claim_generation = [&](int64_t last) {
                                   return storage::claim_generation(storage::local_file_system(), folder / "checkpoints", last);
                                 }});
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDisk) throw;
    ErrorFields fields = error.fields();
    fields.what = "the run folder cannot be written: " + fields.what;
    fields.hint = "make room or permit writing there, or choose another folder: --run DIR";
    throw Error(std::move(fields));
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

nlohmann::json environment_of(int64_t seed, at::Device device) {
  const Machine& here = machine();
  const BuildVersion& build = build_version();
  return {{"version", build.version},
          {"commit", build.commit},
          {"compiler", build.compiler},
          {"libtorch", libtorch_version()},
          {"host", here.host},
          {"processor", here.processor},
          {"cpu_features", here.features},
          {"threads", threads()},
          {"seed", seed},
          {"operating_system", here.operating_system},
          {"device", device.is_cuda() ? fmt::format("{} {}", name_of(device), describe_gpu(device).name) : name_of(device)}};
}

void show_tables(const RunRequest& request, const data::RunData& data, Pretrain& task, const plan::MemoryPlan& memory, int64_t free_bytes,
                 const plan::TokenFlops& flops, const MachineProfile& profile) {
  const auto& recipe = request.recipe.recipe;
  std::map<std::string, observe::ParameterGroup> groups;
  for (const auto& spec : layout::parameters(recipe.model)) {
    const std::string name = spec.expert >= 0 ? "experts"
                             : spec.layer < 0 ? spec.tensor.name.substr(0, spec.tensor.name.find('.'))
                                              : "layers, other";
    auto& group = groups[name];
    group.name = name;
    ++group.tensors;
    group.values += spec.elements();
    group.values_per_token += layout::activated_elements(spec, recipe.model);
  }
  std::vector<observe::ParameterGroup> rows;
  for (const auto& [name, group] : groups) rows.push_back(group);

  std::vector<observe::DataPart> parts;
  for (const data::DataPart& part : data::parts_of(data.sources)) parts.push_back({part.name, part.documents, part.bytes, part.tokens});
  parts[0].epochs = task.epochs_after(recipe.train.steps);
  const bool colours = colours_wanted(stdout);
  const plan::DecodingState state = plan::decoding_state(recipe.model, recipe.train.dtype);
  fmt::print("{}\n{}\n{}\n{}\n", observe::parameter_table(rows).text(colours),
             observe::memory_table(planned_memory(memory), memory.fullest().name, free_bytes).text(colours),
             observe::data_table(parts).text(colours),
             observe::work_table({.flops_per_token = flops.causal(),
                                  .flops_per_token_full_attention = flops.full(),
                                  .tokens_per_step = recipe.train.tokens_per_step(),
                                  .steps = recipe.train.steps,
                                  .peak_flops_per_second = profile.gemm(recipe::name_of_value(recipe.train.dtype)),
                                  .peak_measured_at = profile.measured_at,
                                  .decoding_bytes = state.bytes,
                                  .decoding_bytes_per_token = state.bytes_per_token})
                 .text(colours));
  std::fflush(stdout);
}

int64_t training_tokens(const data::RunData& data) {
  int64_t tokens = 0;
  for (const auto& source : data.sources) tokens += source.train.tokens();
  return tokens;
}

observe::RunStart run_start(const RunRequest& request, const data::RunData& data, at::Device device, const plan::MemoryPlan& memory,
                            const plan::TokenFlops& flops, double peak) {
  const auto& recipe = request.recipe.recipe;
  const Machine& here = machine();
  observe::RunStart start{.name = request.run_folder.filename().string(),
                          .version = build_version().version,
                          .commit = build_version().commit,
                          .compiler = build_version().compiler,
                          .libtorch = libtorch_version(),
                          .host = here.host,
                          .operating_system = here.operating_system,
                          .processor = here.processor,
                          .cpu_features = here.features,
                          .device = name_of(device),
                          .dtype = std::string(recipe::name_of_value(recipe.train.dtype)),
                          .threads = threads(),
                          .seed = recipe.train.seed,
                          .recipe_hash = sha256_hex(recipe::to_toml(request.recipe)).substr(0, 16),
                          .model = recipe.model.preset.empty() ? recipe.model.family : recipe.model.preset,
                          .parameters = layout::parameter_count(recipe.model),
                          .parameters_per_token = layout::activated_parameter_count(recipe.model),
                          .steps = recipe.train.steps,
                          .tokens_per_step = recipe.train.tokens_per_step(),
                          .sequence = recipe.train.sequence,
                          .vocabulary = recipe.model.vocabulary};
  start.flops_per_token = flops.causal();
  start.flops_per_token_full_attention = flops.full();
  if (peak > 0) start.peak_flops_per_second = peak;
  int64_t bytes = 0, held_out = 0;
  for (const auto& source : data.sources) {
    bytes += source.train.text_bytes();
    held_out += source.held_out.text_bytes();
  }
  start.training_tokens = training_tokens(data);
  start.training_bytes = bytes;
  start.heldout_bytes = held_out;
  start.memory_bytes = here.memory_bytes;
  start.planned_memory_bytes = plan::whole_bytes(memory.peak());
  return start;
}

// The page stands when the run has ended, however it ended; a run that is someone else's by now is not touched.
Outcome run_to_its_end(Trainer& trainer, observe::ReportWriter* report) {
  try {
    const Outcome outcome = trainer.run();
    if (report != nullptr) report->finish();
    return outcome;
  } catch (const Error& error) {
    if (report != nullptr && error.code() != ExitCode::kFenced) report->finish();
    throw;
  }
}

// The two uses of the cores agree on their number: docs/design/threads.md.
void set_compute_threads(int64_t count) {
  set_threads(static_cast<int>(count));
  at::set_num_threads(threads());
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
  settle_earlier_run(request);
  observe::EventWriter events = open_run_folder(request.run_folder);

  const std::filesystem::path cache = data::cache_folder(recipe.data);
  const data::RunData data = data::open_run_data(recipe.data, libtorch_folder(), cache);
  const plan::MemoryPlan memory = plan::plan_memory(memory_request(recipe, device, &data));
  Pretrain task(recipe, data, cache / "packing", device);
  task.parameters().initialise(static_cast<uint64_t>(recipe.train.seed));
  const auto optimizer = optim::make_optimizer(recipe.optim, task.parameters(), task.precision());

  events.add(std::make_shared<observe::Terminal>(observe::TerminalOptions{.stream = stdout,
                                                                          .colours = colours_wanted(stdout),
                                                                          .alarm_colours = colours_wanted(stderr),
                                                                          .quiet = request.quiet,
                                                                          .log_every = recipe.train.log_every}));
  if (recipe.observe.tensorboard) events.add(std::make_shared<observe::TensorBoard>(request.run_folder / "tensorboard"));

  const plan::TokenFlops flops = plan::training_flops_per_token(recipe.model, recipe.train.sequence);
  const MachineProfile profile = measured_profile(/*fresh=*/false, device);
  const double peak = profile.gemm(recipe::name_of_value(recipe.train.dtype));
  if (!request.quiet) show_tables(request, data, task, memory, free_bytes, flops, profile);
  events.write(run_start(request, data, device, memory, flops, peak));

  storage::LocalFileSystem files;
  std::optional<observe::ReportWriter> report;
  if (recipe.observe.report) report.emplace([folder = request.run_folder] { observe::write_report(folder); });
  // Once more: the checkpoint that loads need not be the newest, which may turn out to be damaged.
  StartFacts facts{.training_tokens = training_tokens(data)};
  const auto check_saved = [&](const storage::Checkpoint& saved) {
    const recipe::LoadedRecipe earlier = checkpoint::saved_recipe(saved);
    recipe::refuse_changed(earlier, request.recipe);
    data::require_same_data(data::data_position_from_json(saved.manifest().data_position), task.position_before(saved.manifest().step + 1));
    facts.earlier = earlier.recipe;
  };
  std::vector<observe::MeasuredMemory> measured;
  Trainer trainer(task, *optimizer, events, files,
                  {.recipe = request.recipe,
                   .run_folder = request.run_folder,
                   .data_position = [&](int64_t step) { return data::to_json(task.position_before(step)); },
                   .check_saved = check_saved,
                   .environment = environment_of(recipe.train.seed, device),
                   .flops_per_token = flops.causal(),
                   .flops_per_token_full_attention = flops.full(),
                   .peak_flops_per_second = peak,
                   .stop_requested = stop_signal,
                   .save_requested = take_save_request,
                   .continued = take_continued,
                   .on_evaluated =
                       [&] {
                         if (report) report->refresh();
                       },
                   .on_trained =
                       [&] {
                         measured = measured_memory(memory, device);
                         for (const auto& purpose : measured) events.write(purpose);
                       }});
  const auto disk = checkpoint::disk_need(files, request.run_folder / "checkpoints", trainer.state(), recipe.train);
  if (const auto warning = disk.warning()) log_warning("{}", *warning);
  const int64_t resumed_at = facts.resume_step = trainer.resume();
  for (const std::string& text : start_warnings(recipe, facts)) log_warning("{}", text);
  // Not before: a start that is refused leaves what the checkpoints belong to.
  write_text_atomically(request.run_folder / "recipe.toml", recipe::to_toml(request.recipe));
  data.tokenizer.save(request.run_folder / "tokenizer.json");
  if (recipe.observe.compression_baseline && !data.held_out().empty()) {
    const auto baseline = data::compression_baseline(data.corpus, cache, resumed_at > 0 ? data::Baseline::kKept : data::Baseline::kNew);
    events.write(
        observe::CompressionBaseline{.gzip_bits_per_byte = baseline.gzip_bits_per_byte(), .xz_bits_per_byte = baseline.xz_bits_per_byte()});
  }
  trim_memory();
  reset_memory_peaks();  // what is measured is training's, not what was needed to prepare it
  const Outcome outcome = run_to_its_end(trainer, report ? &*report : nullptr);
  if (!request.quiet && !measured.empty()) {
    fmt::print("\n{}", observe::measured_memory_table(measured).text(colours_wanted(stdout)));
    std::fflush(stdout);
  }
  return outcome;
}

}  // namespace longhaul::train
