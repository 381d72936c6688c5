// The checks of a machine that need no tensors (self_check.h). Each check measures something, compares it
// with its limits, and says what it found. A check that reads what the system reports about itself (network
// interfaces, nvidia-smi) takes the place to read from as a parameter, so that tests can give it another one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "control/checks/self_check.h"

namespace longhaul::control {

struct CheckContext {
  std::filesystem::path folder = ".";
  Limits limits;
  bool deep = false;
  bool plant = false;  // find a fault that is not there, for tests
};

// `libraries`: name and version of the other libraries that the program is built from (LibTorch, which this
// folder does not know).
CheckFinding versions_check(const CheckContext& context, const std::vector<Fingerprint>& libraries);
CheckFinding disk_check(const CheckContext& context);
CheckFinding network_check(const CheckContext& context,
                           const std::filesystem::path& interfaces = "/sys/class/net");
CheckFinding memory_check(const CheckContext& context);
// Asks nvidia-smi, because its driver answers even where CUDA does not. Where nvidia-smi is not installed the
// check is skipped, unless the limit "gpus" demands some GPUs.
CheckFinding gpu_check(const CheckContext& context, const std::string& nvidia_smi = "nvidia-smi");

// Writes patterns that differ from word to word, and then their complements, into all words, and reads them
// back. Returns the number of words that came back changed. Tests pass `between`, which is called after each
// writing.
int64_t wrong_words(std::span<uint64_t> words, const std::function<void(std::span<uint64_t>)>& between = {});

}  // namespace longhaul::control
