#include "kernels/block/block.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/machine.h"
#include "kernels/block/sets.h"

namespace longhaul::kernels {
namespace {

struct Candidate {
  const BlockKernels* kernels;
  bool usable;
};

bool has(const std::string& feature) {
  const auto& features = machine().features;
  return std::find(features.begin(), features.end(), feature) != features.end();
}

// Best first.
const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> all = [] {
    std::vector<Candidate> result;
#ifdef __x86_64__
    const bool avx512 = has("avx512f") && has("avx512bw");
    result.push_back({&amx_block_kernels(), avx512 && has("amx_tile") && has("amx_bf16") && allow_amx()});
    result.push_back({&kAvx512Bf16BlockKernels, avx512 && has("avx512_bf16")});
    result.push_back({&kAvx512BlockKernels, avx512});
    result.push_back({&kAvx2BlockKernels, has("avx2") && has("fma")});
#endif
    result.push_back({&kPortableBlockKernels, true});
    return result;
  }();
  return all;
}

const BlockKernels& kernels_named(const std::string& name, const char* where) {
  std::vector<std::string> usable;
  for (const Candidate& candidate : candidates()) {
    if (candidate.usable && name == candidate.kernels->name) return *candidate.kernels;
    if (candidate.usable) usable.emplace_back(candidate.kernels->name);
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "no such instruction set for the block kernels on this machine",
               .expected = fmt::format("{}", fmt::join(usable, ", ")),
               .found = name,
               .where = where});
}

const BlockKernels& first_choice() {
  if (const char* name = std::getenv("LONGHAUL_CPU"); name != nullptr && *name != '\0') return kernels_named(name, "LONGHAUL_CPU");
  return *usable_block_kernels().front();
}

std::atomic<const BlockKernels*> forced{nullptr};
thread_local int open_scopes = 0;

}  // namespace

bool in_block_scope() { return open_scopes > 0; }

std::vector<const BlockKernels*> usable_block_kernels() {
  std::vector<const BlockKernels*> result;
  for (const Candidate& candidate : candidates()) {
    if (candidate.usable) result.push_back(candidate.kernels);
  }
  return result;
}

const BlockKernels& block_kernels() {
  static const BlockKernels& chosen = first_choice();
  const BlockKernels* other = forced;
  return other != nullptr ? *other : chosen;
}

void force_block_kernels(const std::optional<std::string>& name) {
  LONGHAUL_ASSERT(open_scopes == 0, "a BlockScope is open");
  forced = name ? &kernels_named(*name, "force_block_kernels") : nullptr;
}

BlockScope::BlockScope() : kernels_(&block_kernels()) {
  if (open_scopes++ == 0) kernels_->enter();
}

BlockScope::~BlockScope() {
  if (--open_scopes == 0) kernels_->leave();
}

}  // namespace longhaul::kernels
