#include "control/node/rank_environment.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text/text.h"
#include "control/wire/placement.h"

namespace longhaul::control {
namespace {

constexpr std::array<std::string_view, 13> kInherited = {"PATH",
                                                         "HOME",
                                                         "USER",
                                                         "LOGNAME",
                                                         "SHELL",
                                                         "TMPDIR",
                                                         "TERM",
                                                         "COLORTERM",
                                                         "COLUMNS",
                                                         "NO_COLOR",
                                                         "LANG",
                                                         "TZ",
                                                         "KUBERNETES_SERVICE_HOST"};
constexpr std::array<std::string_view, 36> kInheritedBeginnings = {"LC_",     "LD_",
                                                                   "XDG_",    "MALLOC_",
                                                                   "GLIBC_",  "ASAN_",
                                                                   "UBSAN_",  "TSAN_",
                                                                   "LSAN_",   "OMP_",
                                                                   "GOMP_",   "KMP_",
                                                                   "MKL_",    "DNNL_",
                                                                   "ATEN_",   "TORCH_",
                                                                   "CUDA_",   "NVIDIA_",
                                                                   "NCCL_",   "CUBLAS_",
                                                                   "CUDNN_",  "PYTORCH_",
                                                                   "GLOO_",   "TP_",
                                                                   "UCX_",    "FI_",
                                                                   "IBV_",    "LONGHAUL_",
                                                                   "SLURM_",  "SLURMD_",
                                                                   "PMI_",    "PMIX_",
                                                                   "JOBSET_", "JOB_COMPLETION_",
                                                                   "POD_",    "PET_"};
// Variables of which each rank gets a value of its own.
constexpr std::array<std::string_view, 13> kOfEachRank = {"RANK",
                                                          "WORLD_SIZE",
                                                          "LOCAL_RANK",
                                                          "LOCAL_WORLD_SIZE",
                                                          "GROUP_RANK",
                                                          "GROUP_WORLD_SIZE",
                                                          "MASTER_ADDR",
                                                          "MASTER_PORT",
                                                          "LONGHAUL_BOARD",
                                                          "LONGHAUL_GENERATION",
                                                          "LONGHAUL_LEASE",
                                                          "LONGHAUL_NODE",
                                                          kProbe};

// Whatever the prefix is: SLURM_JWT, TORCH_HUB_TOKEN. A user who wants a rank to have one passes it with
// --env.
bool sounds_secret(std::string_view name) {
  constexpr std::string_view kSecrets[] = {"SECRET",     "TOKEN",       "PASSWORD", "PASSWD",
                                           "PASSPHRASE", "CREDENTIAL",  "JWT",      "API_KEY",
                                           "ACCESS_KEY", "PRIVATE_KEY", "WEBHOOK"};
  return std::ranges::any_of(
      kSecrets, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

[[noreturn]] void refuse_variable(std::string expected, const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "a variable cannot be passed to the ranks",
               .expected = std::move(expected),
               .found = brief(printable(found), 60),
               .where = "--env",
               .hint = "longhaul launch --help"});
}

}  // namespace

bool rank_inherits(std::string_view name) {
  if (sounds_secret(name)) return false;
  return std::ranges::find(kInherited, name) != kInherited.end() ||
         std::ranges::any_of(kInheritedBeginnings,
                             [&](std::string_view beginning) { return name.starts_with(beginning); });
}

std::vector<std::string> passed_environment(const std::vector<std::string>& typed) {
  std::vector<std::string> passed;
  for (const std::string& one : typed) {
    const std::string name = one.substr(0, one.find('='));
    if (name.empty()) refuse_variable("NAME or NAME=VALUE", one);
    if (std::ranges::find(kOfEachRank, name) != kOfEachRank.end())
      refuse_variable("none of those that say which rank it is", name);
    if (name.size() < one.size()) {
      passed.push_back(one);
    } else if (const auto value = variable(name)) {
      passed.push_back(name + "=" + *value);
    } else {
      refuse_variable("a variable that is set here, or NAME=VALUE", name);
    }
  }
  return passed;
}

}  // namespace longhaul::control
