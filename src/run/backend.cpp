#include "run/backend.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "comm/c10d/nccl.h"

namespace longhaul::run {
namespace {

using recipe::Backend;
constexpr const char* kKey = "parallel.backend";

// Not by who wrote the resolved recipe of an earlier run, in which every key has a value.
bool said_by_someone(const recipe::Origin& origin) {
  return origin.kind != recipe::Origin::Kind::kDefault && origin.earlier != "default";
}

[[noreturn]] void refuse(const recipe::LoadedRecipe& recipe, ErrorFields fields) {
  fields.code = ExitCode::kUsage;
  fields.where = fmt::format("{} ({})", kKey, recipe.origin(kKey).text());
  throw Error(std::move(fields));
}

[[noreturn]] void refuse_device(const recipe::LoadedRecipe& recipe, ErrorFields fields) {
  fields.code = ExitCode::kUsage;
  fields.where = fmt::format("train.device ({})", recipe.origin("train.device").text());
  throw Error(std::move(fields));
}

// Ranks that are processes exchange over Gloo, so they compute on CPUs. A GPU that is there is not left idle
// without a word.
at::Device device_over_gloo(const recipe::LoadedRecipe& recipe, const Gpus& gpus) {
  const std::string& device = recipe.recipe.train.device;
  if (device == "cpu" || (device == "auto" && gpus.visible == 0)) return at::kCPU;
  refuse_device(recipe, {.what = "ranks that exchange over Gloo compute on CPUs",
                         .expected = fmt::format("train.device = cpu with {} = gloo", kKey),
                         .found = fmt::format("{}; {} visible GPU{}", device, gpus.visible,
                                              gpus.visible == 1 ? "" : "s"),
                         .hint = fmt::format("leave {} out: NCCL, a GPU each; or train.device=cpu", kKey)});
}

// The GPU of a rank among those of its machine.
at::Device device_over_nccl(const recipe::LoadedRecipe& recipe, const comm::Placement& place,
                            const Gpus& gpus) {
  const std::string& device = recipe.recipe.train.device;
  if (device == "cpu") {
    refuse_device(recipe, {.what = "ranks that exchange over NCCL compute on GPUs",
                           .expected = "train.device = auto or cuda",
                           .found = device,
                           .hint = fmt::format("leave train.device out; or {}=gloo for CPUs", kKey)});
  }
  if (gpus.visible == 0) return device_named(device == "auto" ? "cuda" : device);  // says why there is none
  const auto gpu = [](int64_t number) {
    return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(number));
  };
  const bool one_each = gpus.visible == 1;
  if (one_each && device == "cuda:0") return gpu(0);
  if (device != "auto" && device != "cuda") {
    if (place.local_size > 1) {
      refuse_device(recipe,
                    {.what = "one GPU for all ranks of this machine",
                     .expected = fmt::format("a GPU for each of its {} ranks", place.local_size),
                     .found = device,
                     .hint = "leave train.device out: rank 0 of a machine takes cuda:0, rank 1 cuda:1, …"});
    }
    return device_named(device);
  }
  if (one_each) return gpu(0);
  if (place.local_rank < gpus.visible) return gpu(place.local_rank);
  refuse_device(
      recipe,
      {.what = "there are fewer GPUs than ranks on this machine",
       .expected = fmt::format("a GPU for each of its {} ranks", place.local_size),
       .found = fmt::format("{} visible GPUs, and rank {} of the machine ({} of {})", gpus.visible,
                            place.local_rank, place.rank, place.size),
       .hint = fmt::format("start {} ranks on a machine; CUDA_VISIBLE_DEVICES may hide GPUs", gpus.visible)});
}

// What `auto` stands for with processes.
Backend backend_of_processes(const recipe::LoadedRecipe& recipe, const comm::Placement& place,
                             const Gpus& gpus) {
  const std::string& device = recipe.recipe.train.device;
  if (device == "cpu" || (device == "auto" && gpus.visible == 0)) return Backend::kGloo;
  if (gpus.nccl || gpus.visible == 0) return Backend::kNccl;
  refuse_device(
      recipe,
      {.what = "several ranks exchange tensors on GPUs over NCCL only",
       .expected = "a Longhaul that NCCL is compiled into (LibTorch with CUDA, and nccl.h, at the build)",
       .found = fmt::format("{} visible GPUs, {} processes by {}, and a program built without it",
                            gpus.visible, place.size, place.engine),
       .hint = "build with them: docs/guides/clusters.md#gpus; or train.device=cpu"});
}

}  // namespace

Gpus gpus_of_process() { return {.visible = gpu_count(), .nccl = comm::has_nccl()}; }

RankPlace place_of_rank(const recipe::LoadedRecipe& recipe, const comm::Placement& place, const Gpus& gpus) {
  require_backend(recipe, place);
  const std::string& device = recipe.recipe.train.device;
  const bool asked = said_by_someone(recipe.origin(kKey)) && recipe.recipe.parallel.backend != Backend::kAuto;
  RankPlace found{.backend = asked ? recipe.recipe.parallel.backend : Backend::kThreads};
  if (place.size > 1 && !asked) found.backend = backend_of_processes(recipe, place, gpus);
  if (place.size == 1) {
    found.device = device_named(device);
  } else {
    found.device = found.backend == Backend::kNccl ? device_over_nccl(recipe, place, gpus)
                                                   : device_over_gloo(recipe, gpus);
  }
  if (device == "auto" && found.device.is_cuda())
    found.why =
        fmt::format("train.device=auto: {} visible GPU{}", gpus.visible, gpus.visible == 1 ? "" : "s");
  if (place.size > 1 && !asked && found.backend == Backend::kNccl)
    found.why += fmt::format("; {}=auto: NCCL, a GPU a rank", kKey);
  return found;
}

void require_backend(const recipe::LoadedRecipe& recipe, const comm::Placement& place) {
  const Backend backend = recipe.recipe.parallel.backend;
  const bool alone = place.engine == comm::Placement{}.engine;
  const std::string launch =
      program_command(fmt::format("launch -n {} {} …", std::max<int64_t>(2, recipe.recipe.parallel.world()),
                                  shell_quoted(recipe.source)));
  if (backend == Backend::kNccl && !comm::has_nccl()) {
    refuse(recipe, {.what = "ranks cannot exchange over NCCL",
                    .expected = "a Longhaul that NCCL is compiled into",
                    .found = "this one was built without it",
                    .hint = fmt::format("a build with LibTorch's CUDA and nccl.h: "
                                        "docs/guides/clusters.md#gpus; or {}=gloo: on CPUs, over TCP",
                                        kKey)});
  }
  if ((backend == Backend::kGloo || backend == Backend::kNccl) && alone) {
    refuse(recipe, {.what = "the ranks are to be processes, and this process was started alone",
                    .expected = "as many processes as ranks, which `longhaul launch`, torchrun or srun start",
                    .found = "no RANK and WORLD_SIZE, and no step of Slurm, in the environment",
                    .hint = launch});
  }
  if (backend == Backend::kThreads && place.size > 1 && said_by_someone(recipe.origin(kKey))) {
    refuse(recipe, {.what = "the ranks are to be threads of one process, and several processes were started",
                    .expected = fmt::format("{}=gloo, or one process", kKey),
                    .found = fmt::format("{} processes, by {}", place.size, place.engine),
                    .hint = fmt::format("leave {} out: ranks are then what was started", kKey)});
  }
}

}  // namespace longhaul::run
