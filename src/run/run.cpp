#include "run/run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "comm/disagreement.h"
#include "comm/threads/run_ranks.h"
#include "comm/wrappers/traced.h"
#include "layout/adapters.h"
#include "layout/freezing.h"
#include "layout/schedule/schedule.h"
#include "optim/optimizers/grouped.h"
#include "run/memory.h"
#include "run/run_folder.h"
#include "run/run_rank.h"
#include "tensor/libtorch_folder.h"

namespace longhaul::run {
namespace {

constexpr size_t kCallsKept = 256;     // the last of each rank, for its record of a failure
constexpr int64_t kMostThreads = 256;  // that are ranks; more would fight for the cores and for memory

// What the run computes on is said where a GPU is taken, and where one lies idle.
at::Device device_of(const RunRequest& request, bool speaks) {
  const std::string& asked = request.recipe.recipe.train.device;
  const at::Device device = request.place ? request.place->device : device_named(asked);
  if (!speaks) return device;
  if (device.is_cuda()) {
    const GpuDescription gpu = describe_gpu(device);
    log_info(
        "training on {} ({}, {}){}; one H100 has run this program, for short runs only "
        "(bench/results/gpu.md)",
        name_of(device), gpu.name, bytes_text(gpu.memory_bytes),
        request.place && !request.place->why.empty() ? ": " + request.place->why : "");
  } else if (asked == "auto" && !libtorch_has_cuda() && std::filesystem::exists("/dev/nvidia0")) {
    log_warning(
        "training on the CPU: this machine has a GPU, and LibTorch {} in {} no CUDA. With one that has it, "
        "by `LONGHAUL_TORCH=… {}`, "
        "train.device=auto takes the GPU; train.device=cpu says that the CPU is meant",
        libtorch_version(), libtorch_folder().string(), program_command("build"));
  }
  return device;
}

// The two uses of the cores agree on their number: docs/design/threads.md.
void set_compute_threads(int64_t count) {
  set_threads(static_cast<int>(count));
  at::set_num_threads(threads());
}

// Each replica takes whole micro-batches, as many as every other.
void require_whole_micro_batches(const std::string& where, int64_t batch, int64_t micro_batch,
                                 int64_t replicas) {
  if (batch % (micro_batch * replicas) == 0) return;
  const bool larger_will_do = batch % replicas == 0;
  throw Error({.code = ExitCode::kUsage,
               .what = "the sequences of a step cannot be dealt out to the replicas",
               .expected = fmt::format("a batch that is a multiple of train.micro_batch · replicas = {} · {}",
                                       micro_batch, replicas),
               .found = std::to_string(batch),
               .where = where,
               .hint = larger_will_do
                           ? fmt::format("train.micro_batch={}", std::gcd(micro_batch, batch / replicas))
                           : fmt::format("train.batch={}",
                                         (batch / (micro_batch * replicas) + 1) * micro_batch * replicas)});
}

// What observe.batch_noise_every measures needs a step without its other micro-batches.
void require_noise_measurable(const recipe::Recipe& recipe, const layout::Pipeline& pipeline,
                              int64_t micro_batches) {
  if (recipe.observe.batch_noise_every == 0) return;
  if (recipe.train.elastic || micro_batches < 2) {
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "the critical batch size cannot be measured",
         .expected = "train.elastic = false, and two micro-batches a step or more on each replica",
         .found = recipe.train.elastic ? "train.elastic = true" : "one micro-batch",
         .where = "observe.batch_noise_every",
         .hint = recipe.train.elastic ? "observe.batch_noise_every=0" : "a smaller train.micro_batch"});
  }
  layout::passes_of(pipeline, 1);  // refuses a schedule that does not take one
}

// Before anything is touched. processes: how many there are, where ranks are processes.
parallel::Arrangement arrangement_of_run(const train::ModelPlan& model, const recipe::Recipe& recipe,
                                         const comm::Communicator* processes) {
  const int64_t world = processes != nullptr ? processes->size() : recipe.parallel.world();
  if (recipe.parallel.ranks > 0 && recipe.parallel.ranks != world) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "another number of ranks was started than the recipe asks for",
                 .expected = fmt::format("parallel.ranks = {}", world),
                 .found = std::to_string(recipe.parallel.ranks),
                 .where = "parallel.ranks",
                 .hint = "leave it out: the launcher says how many there are"});
  }
  if (processes == nullptr && world > kMostThreads) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "so many ranks cannot be threads of one process",
                 .expected = fmt::format("at most {}", kMostThreads),
                 .found = std::to_string(world),
                 .where = "parallel.ranks, or the sizes that need them",
                 .hint = "lower parallel.tp, pp, cp or ep"});
  }
  const int64_t workers = parallel::workers_of(recipe.optim.outer, recipe.parallel, world);
  parallel::Arrangement arrangement = model.arrange(world / workers);
  arrangement.workers = workers;
  arrangement.elastic = recipe.train.elastic;
  layout::require_adaptable(model.parameters(), recipe.model.lora);
  layout::require_freezable(model.parameters(), recipe.model.frozen);
  model.require_possible(arrangement);
  optim::check_groups(recipe.optim, model.parameters());
  const int64_t replicas = workers * arrangement.mesh.size(layout::Axis::kDp);
  const layout::Pipeline pipeline(recipe.parallel.pp, recipe.parallel.pipeline);
  const auto require_batch = [&](const char* key, int64_t batch) {
    require_whole_micro_batches(key, batch, recipe.train.micro_batch, replicas);
    model.require_batch(key, batch, replicas);
    // refuses a number that the schedule does not take
    layout::passes_of(pipeline, batch / replicas / recipe.train.micro_batch);
  };
  require_batch("train.batch", recipe.train.batch);
  require_noise_measurable(recipe, pipeline, recipe.train.batch / replicas / recipe.train.micro_batch);
  for (const recipe::OptimStage& stage : recipe.optim.stages) {
    if (stage.batch > 0) require_batch("optim.stages", stage.batch);
  }
  return arrangement;
}

// Ranks that are threads share no GPU.
void require_cpu_for_several(const RunRequest& request, const parallel::Arrangement& arrangement,
                             at::Device device) {
  if (arrangement.world() == 1 || device.is_cpu() ||
      (request.place && request.place->backend == recipe::Backend::kNccl))
    return;
  throw Error({.code = ExitCode::kUsage,
               .what = "several ranks on GPUs are processes that exchange over NCCL, and these are threads "
                       "of one process",
               .expected = "a process a GPU, or train.device = cpu",
               .found = fmt::format("{} ranks as threads, on {}", arrangement.world(), name_of(device)),
               .where = "train.device and [parallel]",
               .hint = program_command(fmt::format("launch -n {} {} …", arrangement.world(),
                                                   shell_quoted(request.recipe.source))) +
                       "; or train.device=cpu"});
}

// train.device = auto found a GPU.
void require_cpu_for_elastic(const recipe::TrainOptions& train, at::Device device) {
  if (!train.elastic || device.is_cpu()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "train.elastic = true is for training on the CPU",
               .expected = "train.device = cpu",
               .found = name_of(device),
               .where = "train.elastic and train.device",
               .hint = "train.device=cpu, or train.elastic=false"});
}

// What lies in the cache is made by the process of rank 0; the others find it there.
data::RunData open_data(const train::TaskEntry& task, const train::DataRequest& request,
                        comm::Communicator* processes) {
  if (!task.reads_text && task.open_data == nullptr)
    return {.corpus = {}, .tokenizer = data::Tokenizer::bytes(), .sources = {}};
  const auto wait_for_all = [&] {
    if (processes != nullptr)
      processes->barrier({.name = "prepared data", .timeout = std::chrono::hours(24)}).wait();
  };
  const bool first = processes == nullptr || processes->rank() == 0;
  if (!first) wait_for_all();
  data::RunData data = train::open_data(task, request);
  if (first) wait_for_all();
  return data;
}

comm::Timeout timeout_of(const recipe::Recipe& recipe) {
  return comm::Timeout(std::llround(1000 * recipe.parallel.timeout));
}

// Of ranks that are threads one hangs, and the others have failed: it cannot be ended but with the process.
void end_with_stuck_ranks(const RunRequest& request, const std::vector<int64_t>& ranks,
                          const std::exception_ptr& thrown) {
  ErrorFields fields{.code = ExitCode::kInternal, .what = "training has failed"};
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    fields = error.fields();
  } catch (const std::exception& error) {
    fields.found = error.what();
  }
  log_error("{}", comm::summary_of_calls(request.run_folder));
  log_error("{} {} still between two calls, and a thread cannot be ended by itself: the process ends",
            ranks.size() == 1 ? "rank" : "ranks",
            fmt::format("{} {}", fmt::join(ranks, ", "), ranks.size() == 1 ? "is" : "are"));
  const Error error(fields);
  if (request.end_process) return request.end_process(error);
  say(stderr, fmt::format("error: {}\n", error.what()));
  end_at_once(static_cast<int>(error.code()));
}

// The same recipe on two machines may stand for different files.
void require_same_tokens(const data::RunData& data, comm::Communicator& processes) {
  std::string fingerprints;
  for (const auto& datasets : {data.train(), data.held_out()}) {
    for (const data::TokenDataset* dataset : datasets) fingerprints += dataset->fingerprint() + "\n";
  }
  const Tensor all = at::empty({processes.size()}, at::kLong);
  processes
      .all_gather(at::full({1}, static_cast<int64_t>(xxh3(fingerprints)), at::kLong), all, {"token files"})
      .wait();
  for (int64_t rank = 1; rank < processes.size(); ++rank) {
    const auto hash_of = [&](int64_t which) { return static_cast<uint64_t>(all[which].item<int64_t>()); };
    if (hash_of(rank) == hash_of(0)) continue;
    throw Error(
        {.code = ExitCode::kData,
         .what = fmt::format("rank {} has other token files than rank 0", rank),
         .expected = fmt::format("files of hash {:016x} on all ranks", hash_of(0)),
         .found = fmt::format("{:016x} on rank {}", hash_of(rank), rank),
         .where =
             fmt::format("data.source and data.cache, on rank {} of {}", processes.rank(), processes.size()),
         .hint = "give every machine the same texts and tokenizer, or one data.cache that all of them see"});
  }
}

}  // namespace

namespace {

std::string about_disturbed_peak(const MachineProfile& profile) {
  return fmt::format(
      "the measured peak, of which MFU is a share, is too low: it was {}. A run that begins ten minutes "
      "later measures it again; on a quiet "
      "machine {} does at once",
      profile.when(), program_command("doctor --fresh"));
}

}  // namespace

train::Outcome run_training(RunRequest request, train::TaskEntries tasks, comm::Communicator* processes) {
  const recipe::Recipe& recipe = request.recipe.recipe;
  const train::TaskEntry& task = train::task_named(tasks, recipe.train.task);
  const std::unique_ptr<train::ModelPlan> model = task.plan(recipe);
  // From the first call on: a wrapper counts the calls.
  std::shared_ptr<comm::CallLog> calls_of_process;
  std::optional<comm::Traced> counted;
  if (processes != nullptr) {
    calls_of_process = std::make_shared<comm::CallLog>(processes->rank(), kCallsKept);
    processes = &counted.emplace(comm::borrowed(*processes), calls_of_process);
  }
  const parallel::Arrangement arrangement = arrangement_of_run(*model, recipe, processes);
  if (request.from) {
    const std::string told = request.from->require_fitting(request.recipe);
    if (!told.empty() && !request.quiet && (processes == nullptr || processes->rank() == 0))
      log_info("{}", told);
  }
  const layout::Mesh& mesh = arrangement.mesh;
  const at::Device device =
      device_of(request, !request.quiet && (processes == nullptr || processes->rank() == 0));
  require_cpu_for_several(request, arrangement, device);
  require_cpu_for_elastic(recipe.train, device);
  const DeviceScope scope(device);
  set_compute_threads(recipe.train.threads);
  const int64_t free_bytes = available_bytes(device);
  const std::optional<int64_t> own_rank =
      processes != nullptr ? std::optional(processes->rank()) : std::nullopt;
  require_memory(*model, recipe, arrangement, device, free_bytes, processes);
  std::unique_ptr<observe::EventWriter> events;  // of the run: rank 0 writes them
  if (processes == nullptr || processes->rank() == 0) {
    settle_earlier_run(request.recipe, request.run_folder, request.fresh);
    events.reset(new observe::EventWriter(open_run_folder(request.run_folder)));  // it cannot be moved
  }

  const std::filesystem::path cache = data::cache_folder(recipe.data);
  const data::RunData data =
      open_data(task,
                {.recipe = recipe,
                 .cache = cache,
                 .run = request.run_folder,
                 .from = request.from ? request.from->home() : std::filesystem::path(),
                 .quiet = request.quiet || (processes != nullptr && processes->rank() > 0)},
                processes);
  if (processes != nullptr) require_same_tokens(data, *processes);
  const RunFacts facts{.task = task,
                       .model = *model,
                       .recipe = request.recipe,
                       .run_folder = request.run_folder,
                       .data = data,
                       .device = device,
                       .mesh = mesh,
                       .workers = arrangement.workers,
                       .memory = memory_plan(*model, recipe, arrangement, own_rank, device, &data),
                       .free_bytes = free_bytes,
                       .flops = model->flops(),
                       .flops_again = model->flops_again(),
                       .peak = measured_peak(processes, device),
                       .processes = processes != nullptr ? processes->size() : 1};
  if (facts.peak.profile.busy && !request.quiet && own_rank.value_or(0) == 0)
    log_warning("{}", about_disturbed_peak(facts.peak.profile));
  RunStartUp start{.request = request, .facts = facts, .cache = cache, .events = events.get()};
  const auto run_in = [&](comm::Communicator& world, std::shared_ptr<comm::CallLog> calls) {
    RunStartUp of_rank = start;
    of_rank.calls = std::move(calls);
    if (request.board != nullptr && (processes != nullptr || world.rank() == 0))
      of_rank.calls->show_on(*request.board);
    const Stopwatch watch;
    parallel::Ranks ranks(world, arrangement);
    if (processes != nullptr && world.rank() == 0 && !request.quiet)
      log_info("{}: their groups were made in {}", mesh.text(), duration_text(watch.seconds()));
    // the groups have taken memory of the GPU, which no plan counts: what is left must suffice
    if (device.is_cuda()) {
      const int64_t left = available_bytes(device);
      if (world.rank() == 0 && !request.quiet)
        log_info("communicators of {} take {} of {}", name_of(device),
                 bytes_text(std::max<int64_t>(0, free_bytes - left)), bytes_text(free_bytes));
      require_memory(*model, recipe, arrangement, device, left, &world);
    }
    return run_rank(of_rank, ranks);
  };
  if (processes != nullptr) return run_in(*processes, calls_of_process);
  if (arrangement.world() == 1) {
    parallel::Ranks alone(recipe.train.elastic);
    return run_rank(start, alone);
  }
  start.own_process = false;
  start.shares = shares_between_threads(mesh, arrangement.workers);
  train::Outcome outcome;
  try {
    comm::run_ranks(arrangement.world(),
                    [&](comm::Communicator& world) {
                      const auto calls = std::make_shared<comm::CallLog>(world.rank(), kCallsKept);
                      comm::Traced traced(comm::borrowed(world), calls);
                      const train::Outcome of_rank = run_in(traced, calls);
                      if (world.rank() == 0) outcome = of_rank;
                    },
                    {.timeout = timeout_of(recipe)},
                    {.end = [&](const std::vector<int64_t>& ranks, const std::exception_ptr& thrown) {
                      end_with_stuck_ranks(request, ranks, thrown);
                    }});
  } catch (const Error& error) {
    if (error.code() == ExitCode::kCommunication) log_error("{}", comm::summary_of_calls(request.run_folder));
    throw;
  }
  return outcome;
}

}  // namespace longhaul::run
