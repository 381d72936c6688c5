#include "prove/alignment_check.h"

#include <span>

#include "base/checksum.h"
#include "base/clock.h"
#include "comm/threads/run_ranks.h"
#include "prove/prove_mistakes.h"
#include "prove/prove_run.h"

namespace longhaul::prove {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

void add_to(Sha256& hash, const std::vector<HeldBox>& boxes) {
  for (const HeldBox& box : boxes) {
    hash.update(std::as_bytes(std::span(box.name)));
    hash.update(bytes_of(box.values.contiguous()));
  }
}

void add_to(Sha256& hash, const Seen& seen) {
  hash.update(std::as_bytes(std::span(seen.losses)));
  hash.update(std::as_bytes(std::span(seen.norms)));
  add_to(hash, seen.gradients);
  add_to(hash, seen.parameters);
}

// What a processor that miscalculates now and then leaves: one element of one gradient, on one rank, in one
// step.
ProofMistake one_element_off() {
  ProofMistake mistake{.name = "one element of one gradient"};
  mistake.gradients = [](const layout::MeshRank& place, int64_t step, const model::ParameterSet& parameters) {
    if (place.rank != 5 || step != 1) return;
    for (const auto& parameter : parameters.all()) {
      if (!parameter->own_grad.defined() || parameter->own_grad.numel() == 0) continue;
      parameter->own_grad.view(-1)[0].add_(1e-3);
      return;
    }
  };
  return mistake;
}

}  // namespace

std::string alignment_bits(const std::string& dtype, bool wrong) {
  recipe::ModelConfig model;
  model.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kSoftmax};
  const ProofMistake mistake = one_element_off();
  ProofLayout layout = proof_layout({.ranks = 8, .tp = 2, .pp = 2});
  if (wrong) layout.mistake = &mistake;
  const ProofSubject subject = subject_of(model, {}, layout, dtype);
  std::vector<SeenTwice> seen(8);
  comm::run_ranks(8, [&](comm::Communicator& rank) {
    seen[static_cast<size_t>(rank.rank())] = prove_rank(subject, rank, std::nullopt);
  });
  Sha256 hash;
  for (const SeenTwice& of_rank : seen) add_to(hash, of_rank.whole);
  return hash.hex();
}

control::CheckFinding alignment_check(const control::CheckContext& context) {
  control::CheckFinding finding{.name = "alignment"};
  const Stopwatch watch;
  int64_t differing = 0;
  for (const std::string dtype : {"fp32", "bf16"}) {
    const std::string first = alignment_bits(dtype, context.plant),
                      again = alignment_bits(dtype, context.plant);
    differing += first != again;
    finding.fingerprints.push_back({dtype + " steps", first, true});
    finding.found += fmt::format("{}{} {}", finding.found.empty() ? "" : ", ", dtype, first.substr(0, 12));
  }
  finding.found += fmt::format(", steps of 8 ranks ({} in fp32, {} in bf16) twice each in {}",
                               proof_steps("fp32"), proof_steps("bf16"), duration_text(watch.seconds()));
  if (differing > 0) {
    finding.found += fmt::format("; the second time otherwise in {} of 2", differing);
    finding.make(control::CheckStatus::kFailed, "the same bits both times",
                 "this machine miscalculates: take it out of every run");
  }
  return finding;
}

}  // namespace longhaul::prove
