// The checks of a machine that need no tensors (self_check.h): each looks, compares with its limits, and says what it found. Where a check reads what
// the system tells of itself (interfaces, nvidia-smi), tests give it another place to read from.
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
  bool plant = false;  // find a fault that is not there
};

// `libraries`: of what else the program is made of, by name and version (LibTorch, which this folder does not know).
CheckFinding versions_check(const CheckContext& context, const std::vector<Fingerprint>& libraries);
CheckFinding disk_check(const CheckContext& context);
CheckFinding network_check(const CheckContext& context, const std::filesystem::path& interfaces = "/sys/class/net");
CheckFinding memory_check(const CheckContext& context);
// By nvidia-smi, whose driver answers where CUDA does not. Where it is not installed there is nothing to look at, unless limit "gpus" wants some.
CheckFinding gpu_check(const CheckContext& context, const std::string& nvidia_smi = "nvidia-smi");

// Writes patterns that differ from word to word, and their complements, into all words and reads them back; how many words came back otherwise.
// `between` is called when the words are written, for tests.
int64_t wrong_words(std::span<uint64_t> words, const std::function<void(std::span<uint64_t>)>& between = {});

}  // namespace longhaul::control
