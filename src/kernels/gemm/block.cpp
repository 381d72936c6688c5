#include "kernels/gemm/block.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "kernels/gemm/sets.h"

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
    // Also what Highway's AVX2 and AVX3 take for granted (vector/targets.h); every processor with the former
    // has had it so far.
    const bool avx2 = has("avx2") && has("fma") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("aes") &&
                      __builtin_cpu_supports("pclmul");
    const bool avx512 = avx2 && has("avx512f") && has("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool amx = avx512 && has("avx512_bf16") && has("amx_tile") && has("amx_bf16") && allow_amx(),
               exact = !amx || multiplies_exactly(amx_block_kernels());
    if (!exact)
      log_warning(
          "matrix products with AMX come out wrong on this machine; using AVX-512 instead. Please report "
          "this with the output of doctor");
    result.push_back({&amx_block_kernels(), amx && exact});
    result.push_back({&kAvx512Bf16BlockKernels, avx512 && has("avx512_bf16")});
    result.push_back({&kAvx512BlockKernels, avx512});
    result.push_back({&kAvx2BlockKernels, avx2});
#elif defined(__aarch64__)
    result.push_back({&kNeonBf16BlockKernels, has("neon_bf16")});
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
  if (const char* name = std::getenv("LONGHAUL_CPU"); name != nullptr && *name != '\0')
    return kernels_named(name, "LONGHAUL_CPU");
  return *usable_block_kernels().front();
}

std::atomic<const BlockKernels*> forced{nullptr};
thread_local int open_scopes = 0;

}  // namespace

bool in_block_scope() { return open_scopes > 0; }

bool multiplies_exactly(const BlockKernels& kernels) {
  constexpr int64_t kM = 35, kN = 45, kK = 70;  // whole tiles and edges of each kind
  const auto value_of = [](int64_t i) { return static_cast<float>(i * 7 % 13 - 6); };
  const auto bits_of = [](float value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  };
  std::vector<uint16_t> a(kM * kK), b(kK * kN), panels(packed_size<uint16_t>(kK, kN));
  for (size_t i = 0; i < a.size(); ++i) a[i] = bits_of(value_of(static_cast<int64_t>(i)));
  for (size_t i = 0; i < b.size(); ++i) b[i] = bits_of(value_of(static_cast<int64_t>(i) + 5));
  std::vector<float> c(kM * kN, std::numeric_limits<float>::quiet_NaN());
  kernels.pack_bf16(b.data(), kN, false, kK, kN, panels.data());
  ++open_scopes;
  kernels.enter();
  kernels.multiply_bf16(a.data(), kK, panels.data(), kM, kN, kK, c.data(), kN, false);
  kernels.leave();
  --open_scopes;
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      float sum = 0;
      for (int64_t x = 0; x < kK; ++x) sum += value_of(i * kK + x) * value_of(x * kN + j + 5);
      if (c[static_cast<size_t>(i * kN + j)] != sum) return false;
    }
  }
  return true;
}

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

const Int8Products& int8_products() {
  static constexpr Int8Products kNone;
#ifdef __x86_64__
  static const Int8Products of_amx{nullptr, kAvx512Int8Products.multiply_fp32};
  const BlockKernels* const set = &block_kernels();
  if (set == &kAvx512Bf16BlockKernels) return kAvx512Bf16Int8Products;
  if (set == &kAvx512BlockKernels) return kAvx512Int8Products;
  if (set == &amx_block_kernels()) return of_amx;
#endif
  return kNone;
}

BlockScope::BlockScope() : kernels_(&block_kernels()) {
  if (open_scopes++ == 0) kernels_->enter();
}

BlockScope::~BlockScope() {
  if (--open_scopes == 0) kernels_->leave();
}

}  // namespace longhaul::kernels
