// `longhaul doctor`: what this machine is and can do; each finding ok, warn or fix, the last two with what to
// type.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/folders.h"
#include "base/machine/disk_rate.h"
#include "base/machine/machine.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "base/version.h"
#include "bench/operators/block_rate.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"
#include "tensor/device.h"
#include "tensor/libtorch_folder.h"
#include "tensor/machine_profile.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr double kGiga = 1e9;

struct Finding {
  std::string name, status /*ok, warn, fix*/, found, advice;
  ordered_json values = ordered_json::object();
};

Finding ok(std::string name, std::string found, ordered_json values = ordered_json::object()) {
  return {std::move(name), "ok", std::move(found), "", std::move(values)};
}

// The findings' thresholds: below `fix` a run will not work, below `warn` it will be slower than it need be.
std::string judged(double value, double warn_below, double fix_below) {
  return value < fix_below ? "fix" : value < warn_below ? "warn" : "ok";
}

bool has(const std::string& feature) {
  const auto& features = machine().features;
  return std::find(features.begin(), features.end(), feature) != features.end();
}

void look_at_program(std::vector<Finding>& findings) {
  const BuildVersion& build = build_version();
  findings.push_back(ok("longhaul", fmt::format("{}, commit {}", build.version, build.commit),
                        {{"version", build.version}, {"commit", build.commit}}));
  findings.push_back(ok("compiler", build.compiler));
  const std::string version = libtorch_version();
  Finding torch = ok("LibTorch", fmt::format("{} in {}", version, libtorch_folder().string()),
                     {{"version", version}, {"folder", libtorch_folder().string()}});
  if (version != "2.13.0" && version != "2.11.0") {
    torch.status = "warn";
    torch.advice = "2.13.0 and 2.11.0 are tested: unset LONGHAUL_TORCH and let ./longhaul fetch 2.13.0";
  }
  findings.push_back(std::move(torch));
}

void look_at_processor(std::vector<Finding>& findings) {
  const Machine& here = machine();
  findings.push_back(ok("machine", fmt::format("{}, {}", here.host, here.operating_system)));
  Finding processor = ok("processor",
                         fmt::format("{}, {}, {} in use", here.processor, counted(here.cores, "core"),
                                     counted(threads(), "thread")),
                         {{"cores", here.cores}, {"threads", threads()}});
  if (threads() < here.cores) {
    processor.status = "warn";
    processor.advice =
        counted(here.cores - threads(), "core") + " idle: unset OMP_NUM_THREADS or set train.threads=0";
  }
  findings.push_back(std::move(processor));
  Finding features =
      ok("CPU features", fmt::format("{}", fmt::join(here.features, " ")), {{"features", here.features}});
  if (!has("avx2") && !has("neon")) {
    features.status = "warn";
    features.advice =
        "without AVX2 or NEON training is several times slower: use another machine, or let the virtual one "
        "pass the CPU through";
  }
  findings.push_back(std::move(features));
}

// A GPU that cannot multiply is told, and no reason to leave the rest of the machine unexamined.
Finding look_at_gpu(at::Device device, bool fresh) {
  try {
    const GpuDescription gpu = describe_gpu(device);
    const MachineProfile profile = measured_profile(fresh, device);
    return ok(
        name_of(device),
        fmt::format("{}, {}, compute capability {}.{}: bf16 {:.1f} TFLOP/s, fp32 {:.1f} TFLOP/s, memory "
                    "{:.0f} GB/s ({})",
                    gpu.name, bytes_text(gpu.memory_bytes), gpu.major, gpu.minor, profile.gemm_bf16 / 1e12,
                    profile.gemm_fp32 / 1e12, profile.memory_bytes_per_second / kGiga, profile.when()),
        {{"name", gpu.name},
         {"memory_bytes", gpu.memory_bytes},
         {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
         {"multiprocessors", gpu.multiprocessors},
         {"bf16_flops_per_second", profile.gemm_bf16},
         {"fp32_flops_per_second", profile.gemm_fp32},
         {"memory_bytes_per_second", profile.memory_bytes_per_second}});
  } catch (const std::exception& error) {
    return {name_of(device), "fix", fmt::format("it does not answer: {}", error.what()),
            "nvidia-smi -q tells more; train.device=cpu trains without it"};
  }
}

void look_at_gpus(std::vector<Finding>& findings, bool fresh) {
  const int64_t count = gpu_count();
  for (int64_t i = 0; i < count; ++i)
    findings.push_back(look_at_gpu({at::kCUDA, static_cast<c10::DeviceIndex>(i)}, fresh));
  Finding finding = ok("GPUs", count == 0 ? "none; training runs on the CPU" : fmt::format("{}", count),
                       {{"count", count}, {"libtorch_has_cuda", libtorch_has_cuda()}});
  if (count == 0 && fs::exists("/dev/nvidia0")) {
    finding.status = "warn";
    finding.advice = libtorch_has_cuda() ? "a GPU is here, but its driver does not show it: nvidia-smi tells "
                                           "more; CUDA_VISIBLE_DEVICES may hide it"
                                         : "a GPU is here, but this LibTorch has no CUDA: LONGHAUL_TORCH=<a "
                                           "LibTorch with CUDA> ./longhaul build";
  }
  findings.push_back(std::move(finding));
}

void look_at_memory(std::vector<Finding>& findings) {
  const auto available = static_cast<double>(available_memory_bytes());
  Finding memory =
      ok("memory",
         fmt::format("{} of {} available", bytes_text(available_memory_bytes()),
                     bytes_text(machine().memory_bytes)),
         {{"available_bytes", available_memory_bytes()}, {"total_bytes", machine().memory_bytes}});
  memory.status = judged(available, 3 * kGiga, 1 * kGiga);
  if (memory.status != "ok")
    memory.advice = "end other programs, or lower train.micro_batch (free -h shows who uses it)";
  findings.push_back(std::move(memory));
}

void look_at_rates(std::vector<Finding>& findings, bool fresh) {
  const MachineProfile profile = measured_profile(fresh);
  findings.push_back(
      ok("limits", profile.when() + (profile.from_cache ? "; --fresh measures again" : ""),
         {{"measured_at", wall_time_text(profile.measured_at)}, {"measurements", profile.measurements}}));
  Finding fp32 = ok("fp32 products", fmt::format("{:.1f} GFLOP/s", profile.gemm_fp32 / kGiga),
                    {{"flops_per_second", profile.gemm_fp32}, {"busy", profile.busy}});
  if (profile.busy) {
    fp32.status = "warn";
    fp32.advice = "other programs were using the cores while this was measured: end them, then " +
                  program_command("doctor --fresh");
  }
  findings.push_back(std::move(fp32));
  const double block = bench::block_rate_bf16();
  Finding bf16 =
      ok("bf16 products",
         fmt::format("{:.1f} GFLOP/s; one block in the nearest cache {:.1f}, of which they are {:.0f}%{}",
                     profile.gemm_bf16 / kGiga, block / kGiga, 100 * profile.gemm_bf16 / block,
                     profile.gemm_bf16 <= profile.gemm_fp32 ? " (widened to fp32: no faster)" : ""),
         {{"flops_per_second", profile.gemm_bf16}, {"block_flops_per_second", block}});
  findings.push_back(std::move(bf16));
  findings.push_back(ok("fp64 products", fmt::format("{:.1f} GFLOP/s", profile.gemm_fp64 / kGiga),
                        {{"flops_per_second", profile.gemm_fp64}}));
  Finding memory = ok("memory rate", fmt::format("{:.1f} GB/s", profile.memory_bytes_per_second / kGiga),
                      {{"bytes_per_second", profile.memory_bytes_per_second}});
  memory.status = judged(profile.memory_bytes_per_second, 4 * kGiga, 0);
  if (memory.status != "ok")
    memory.advice =
        "other programs may be using the memory: end them, then " + program_command("doctor --fresh");
  findings.push_back(std::move(memory));
}

// Two disks matter: the one of the cache and the one runs are written to.
void look_at_disk(std::vector<Finding>& findings, const std::string& name, const fs::path& folder) {
  try {
    const DiskRate rate = measured_disk_rate(folder);
    Finding speed =
        ok(name,
           fmt::format("{}: write {:.0f} MB/s, read {:.0f} MB/s, fsync {:.2f} ms", folder.string(),
                       rate.write_bytes_per_second / 1e6, rate.read_bytes_per_second / 1e6, rate.fsync_ms),
           {{"folder", folder.string()},
            {"write_bytes_per_second", rate.write_bytes_per_second},
            {"read_bytes_per_second", rate.read_bytes_per_second},
            {"fsync_milliseconds", rate.fsync_ms}});
    if (rate.write_bytes_per_second < 50e6 || rate.fsync_ms > 200) {
      speed.status = "warn";
      speed.advice =
          "checkpoints will take long: put runs on a faster disk with --run DIR, the cache with "
          "LONGHAUL_CACHE=DIR";
    }
    findings.push_back(std::move(speed));
    const int64_t free_bytes = free_disk_bytes(folder);
    Finding space = ok(name + " space", bytes_text(free_bytes) + " free", {{"free_bytes", free_bytes}});
    space.status = judged(static_cast<double>(free_bytes), 10 * kGiga, 1 * kGiga);
    if (space.status != "ok")
      space.advice = "make room (df -h shows where), or use another disk: --run DIR, LONGHAUL_CACHE=DIR";
    findings.push_back(std::move(space));
  } catch (const Error& error) {
    findings.push_back({name,
                        "fix",
                        error.fields().found + " in " + folder.string(),
                        "use a folder you may write to: --run DIR for runs, LONGHAUL_CACHE=DIR for the cache",
                        {{"folder", folder.string()}}});
  }
}

ExitCode examine(bool fresh, bool json) {
  std::vector<Finding> findings;
  look_at_program(findings);
  look_at_processor(findings);
  look_at_gpus(findings, fresh);
  look_at_memory(findings);
  look_at_rates(findings, fresh);
  look_at_disk(findings, "disk of runs", fs::current_path());
  look_at_disk(findings, "disk of the cache", user_cache_folder());

  const bool sound = std::none_of(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.status == "fix"; });
  if (json) {
    ordered_json checks = ordered_json::array();
    for (const Finding& finding : findings) {
      checks.push_back({{"name", finding.name},
                        {"status", finding.status},
                        {"found", finding.found},
                        {"advice", finding.advice},
                        {"values", finding.values}});
    }
    print_json({{"ok", sound}, {"checks", checks}});
  } else {
    observe::Table table("this machine", {{""}, {"what"}, {"found"}});
    for (const Finding& finding : findings) {
      table.row({finding.status, finding.name, finding.found});
      if (!finding.advice.empty()) table.row({"", "", "→ " + finding.advice});
    }
    print(table.text(colours_wanted(stdout)));
  }
  return sound ? ExitCode::kDone : ExitCode::kCheckFailed;
}

}  // namespace

void add_doctor(Command& program) {
  struct DoctorArguments {
    bool fresh = false, json = false;
  };
  auto arguments = std::make_shared<DoctorArguments>();
  Command doctor =
      program.add("doctor", "what this machine is and can do, and what to mend (exit 1: something must be)",
                  {{"before a first run", "doctor"},
                   {"measure again, on an idle machine", "doctor --fresh"},
                   {"for a script", "doctor --json | jq '.checks[] | select(.status != \"ok\")'"}});
  doctor.flag("--fresh", arguments->fresh,
              "measure matrix products and memory again instead of using what the cache holds");
  doctor.json_flag(arguments->json);
  doctor.on_run([arguments] { return examine(arguments->fresh, arguments->json); });
}

}  // namespace longhaul::cli
