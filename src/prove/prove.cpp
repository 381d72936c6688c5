#include "prove/prove.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "base/threads/parallel.h"
#include "comm/threads/run_ranks.h"
#include "optim/optimizers/grouped.h"
#include "parallel/pipeline/arrangement.h"
#include "prove/prove_processes.h"
#include "recipe/optimizers/optimizers.h"
#include "tensor/content_hash.h"

namespace longhaul::prove {
namespace {

struct SavedCheckpoint {
  std::string layout;  // that saved it
  std::filesystem::path folder;
};

using Values = std::map<std::string, Tensor>;

Tensor part_of(Tensor whole, const layout::Rectangle& box) {
  for (size_t d = 0; d < box.length.size(); ++d)
    whole = whole.narrow(static_cast<int64_t>(d), box.offset[d], box.length[d]);
  return whole;
}

// Of each box what it has moved by since the start, of which the same rank has the same boxes. A router's
// biases follow no gradient but whether an expert had more tokens than the mean: one token that bf16 sends
// elsewhere turns the whole step round. A projector has so few numbers that a handful of first updates, whose
// signs follow the smallest gradients, are much of it; its gradient is compared.
std::vector<HeldBox> moved(const std::vector<HeldBox>& now, const std::vector<HeldBox>& start) {
  LONGHAUL_ASSERT(now.size() == start.size(), "{} boxes of masters, {} at the start", now.size(),
                  start.size());
  std::vector<HeldBox> result = now;
  for (size_t i = 0; i < result.size(); ++i) result[i].values = now[i].values.sub(start[i].values);
  std::erase_if(result, [](const HeldBox& each) {
    return each.name.ends_with(".router.bias") || each.name == kProofProjector;
  });
  return result;
}

// Values on every rank must be the masters' rounding, whichever ranks have those. The first that is not, or
// "".
std::string difference_from_masters(const std::vector<SeenTwice>& ranks, const Values& shapes) {
  Values masters;
  for (const auto& [name, values] : shapes)
    masters[name] = at::full_like(values, std::numeric_limits<double>::quiet_NaN());
  for (const SeenTwice& rank : ranks) {
    for (const HeldBox& each : rank.whole.rounded)
      part_of(masters.at(each.name), each.box).copy_(each.values);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const HeldBox& each : ranks[rank].whole.parameters) {
      const Tensor off = each.values.ne(part_of(masters.at(each.name), each.box));
      if (off.numel() == 0 || !off.any().item<bool>()) continue;
      return fmt::format(
          "bf16 value after the last step of {}: {} of {} numbers on rank {} are not the rounding of their "
          "masters",
          each.name, off.sum().item<int64_t>(), off.numel(), rank);
    }
  }
  return "";
}

Values by_name(const std::vector<HeldBox>& all) {
  Values result;
  for (const HeldBox& each : all) result[each.name] = each.values;
  return result;
}

// The largest difference anywhere, relative to the largest value of its tensor, and what lies beyond the
// bound first.
class Difference {
 public:
  enum class Measure { kLargest, kMeanSquare };
  Difference(double bound, Measure measure) : bound_(bound), measure_(measure) {}
  void note(const std::string& what, double difference) { judge(what, difference, bound_); }
  void note(const std::string& what, const std::vector<double>& reference, const std::vector<double>& found) {
    for (size_t i = 0; i < reference.size(); ++i)
      note(fmt::format("{} of step {}", what, i + 1),
           std::abs(found[i] - reference[i]) / std::abs(reference[i]));
  }
  // exact: what the reference would be without rounding; its own distance from that widens the bound
  // (prove.h).
  void note(const std::string& what, const Values& reference, const std::vector<HeldBox>& held,
            const Values* exact = nullptr) {
    double least = 0;
    for (const auto& [name, values] : reference) least = std::max(least, 1e-2 * size(values));
    for (const HeldBox& each : held) {
      const Tensor& whole = reference.at(each.name);
      const Tensor expected = part_of(whole, each.box);
      if (each.values.numel() == 0) continue;
      const double unit = std::max(size(whole), least);
      double bound = bound_;
      if (exact != nullptr && bound_ > 0) {
        const double rounding = size(whole.to(at::kDouble).sub(exact->at(each.name))) / unit;
        bound = std::max(bound_, std::min(2 * rounding, kProofLimitBf16));
      }
      judge(fmt::format("{} of {}", what, each.name), size(each.values.sub(expected)) / unit, bound);
    }
  }
  double worst = 0;
  std::string where, first_beyond;

 private:
  void judge(const std::string& what, double difference, double bound) {
    if (!(difference <= worst) || where.empty()) worst = difference, where = what;
    if (!(difference <= bound) && first_beyond.empty())
      first_beyond = fmt::format("{}: {:.3g}, {:.3g} allowed", what, difference, bound);
  }
  double size(const Tensor& x) const {
    if (x.numel() == 0) return 0;
    return measure_ == Measure::kLargest ? x.abs().max().item<double>()
                                         : x.square().mean().sqrt().item<double>();
  }
  double bound_;
  Measure measure_;
};

// What two ranks hold of the same box must be the same bits: they have added the same numbers in the same
// order. The first that differs, or "".
std::string difference_of_copies(const std::vector<SeenTwice>& ranks, const std::string& precision) {
  struct Holder {
    size_t rank = 0;
    uint64_t bits = 0;
  };
  std::map<std::string, Holder> first;
  std::string found;
  const auto look = [&](size_t rank, const std::string& what, const std::vector<HeldBox>& boxes) {
    for (const HeldBox& each : boxes) {
      if (!found.empty()) return;
      const std::string box = fmt::format("{}{} of {}", precision, what, each.name);
      const uint64_t bits = content_hash(each.values);
      const auto [holder, fresh] =
          first.try_emplace(fmt::format("{} [{}] [{}]", box, fmt::join(each.box.offset, ", "),
                                        fmt::join(each.box.length, ", ")),
                            Holder{rank, bits});
      if (fresh || holder->second.bits == bits) continue;
      found = fmt::format("{}: other bits on rank {} than on rank {}, which hold the same part", box, rank,
                          holder->second.rank);
    }
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    look(rank, "gradient", ranks[rank].whole.gradients);
    look(rank, "value after the last step", ranks[rank].whole.parameters);
    look(rank, "value after the last step, resumed", ranks[rank].resumed.parameters);
  }
  return found;
}

// The single process, which every layout of as many ranks is compared with, and the checkpoint that the next
// layout goes on from.
struct Reference {
  Seen seen;
  Values gradients, parameters, movements;  // movements: of masters in the first step
};

// LibTorch's products, which fp64 takes, have other bits with another number of threads; ours, of bf16 and
// fp32, have not.
class OneThread {
 public:
  OneThread() { set(1); }
  ~OneThread() { set(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static void set(int count) {
    set_threads(count);
    at::set_num_threads(count);
  }
  int before_ = threads();
};

class Prover {
 public:
  explicit Prover(const ProofRequest& request) : request_(request) {}

  Proof proof_of(const ProofLayout& layout) {
    const int64_t world = layout.parallel.world();
    Proof proof{.layout = layout.name, .ranks = world};
    if ((layout.parallel.ep > 1 || layout.parallel.etp > 1) && request_.model.experts == 0) {
      proof.status = Proof::Status::kSkipped;
      proof.reason = "the model has no experts";
      return proof;
    }
    if (layout.processes && !request_.process) {
      proof.status = Proof::Status::kSkipped;
      proof.reason = "no program was named that ranks can be started with";
      return proof;
    }
    if (layout.elastic && layout.parallel.zero > 0 &&
        !recipe::optimizer_entry(request_.optim.name).of_elements) {
      proof.status = Proof::Status::kRefused;
      proof.reason =
          fmt::format("{} adds numbers of a matrix over the shares of parallel.zero", request_.optim.name);
      return proof;
    }
    try {
      compare(layout, proof);
    } catch (const Error& error) {
      // Ranks that hear less than they wait for may end so; a mistake of another kind must show in the
      // numbers.
      if (error.code() == ExitCode::kCommunication && layout.mistake != nullptr && layout.mistake->left_out) {
        proof.holds = false;
        proof.tensor = proof.reason = error.what();
        return proof;
      }
      if (error.code() != ExitCode::kUsage) throw;
      proof.status = Proof::Status::kRefused;
      proof.reason = fmt::format("{}: {} expected, {} found", error.fields().what, error.fields().expected,
                                 error.fields().found);
    }
    return proof;
  }

 private:
  ProofSubject subject(const ProofLayout& layout, const std::string& dtype) const {
    return subject_of(request_.model, request_.optim, layout, dtype);
  }
  // Of models of one size on the same documents, added up in the same way.
  std::string key_of(const ProofLayout& layout) const {
    const recipe::ModelConfig small = subject(layout, "").config;
    return fmt::format("{}-{}-{}-{}{}{}{}{}", small.layers, small.heads, small.experts,
                       layout.packed ? "packed" : "rows", subject(layout, "").rows,
                       layout.elastic ? "-elastic" : "", layout.weighted ? "-weighted" : "",
                       layout.embedded ? "-embedded" : "");
  }

  const Reference& reference(const ProofLayout& layout, const std::string& dtype) {
    const std::string key = key_of(layout);
    auto [found, fresh] = references_.try_emplace(key + dtype);
    if (!fresh) return found->second;
    Reference& made = found->second;
    ProofSubject trained = subject(layout, dtype);
    trained.layout = proof_layout({}, layout.packed);
    trained.layout.elastic = layout.elastic;
    trained.layout.weighted = layout.weighted;
    trained.layout.embedded = layout.embedded;
    std::optional<std::filesystem::path> save_to;
    if (dtype == "fp64") save_to = (checkpoints_[key] = new_checkpoint("one")).folder;
    made.seen = prove_alone(trained, save_to);
    made.gradients = by_name(made.seen.gradients);
    made.parameters = by_name(made.seen.parameters);
    made.movements = by_name(moved(made.seen.masters, made.seen.start));
    return made;
  }

  void compare(const ProofLayout& layout, Proof& proof) {
    require_dealt_out(request_.model, layout);
    const double none = layout.elastic ? 0 : 1;  // the same bits
    std::optional<OneThread> alike;
    if (layout.elastic) alike.emplace();
    Difference exact(none * kProofBound, Difference::Measure::kLargest);
    const Reference& one = reference(layout, "fp64");  // it saves what the first layout goes on from
    if (layout.mistake != nullptr && layout.mistake->in_bf16) return compare_bf16(layout, none, proof);
    const std::vector<SeenTwice> ranks = on_ranks(layout, "fp64", proof);
    note_all(exact, "", one, ranks);
    proof.worst = exact.worst;
    proof.tensor = exact.where;
    judge(exact.first_beyond, proof);
    judge(difference_of_copies(ranks, ""), proof);
    if (layout.mistake != nullptr) return;
    if (request_.dtype == recipe::Dtype::kFp32) compare_fp32(layout, proof);
    if (request_.dtype == recipe::Dtype::kBf16 && has_bf16_bounds(layout)) compare_bf16(layout, none, proof);
  }

  // cosFormer divides by sums that are nearly 0 where a token sees few keys, and rows from outside make such
  // sums: what two orders of rounding leave of their gradients in bf16 has no bound. fp64 compares them.
  bool has_bf16_bounds(const ProofLayout& layout) const {
    return !layout.embedded || std::ranges::count(request_.model.mixers, recipe::Mixer::kCosformer) == 0;
  }

  void compare_fp32(const ProofLayout& layout, Proof& proof) {
    const std::vector<SeenTwice> ranks = on_ranks(layout, "fp32", proof);
    const Reference& one = reference(layout, "fp32");
    Difference fine(layout.elastic ? 0 : bound_of_fp32(layout, one, proof), Difference::Measure::kLargest);
    note_all(fine, "fp32 ", layout.elastic ? one : reference(layout, "fp64"), ranks);
    proof.worst_working = fine.worst;
    judge(fine.first_beyond, proof);
    judge(difference_of_copies(ranks, "fp32 "), proof);
  }

  // How far one process is from the exact numbers nobody else can be asked to stay below.
  double bound_of_fp32(const ProofLayout& layout, const Reference& one, Proof& proof) {
    Difference own(kProofLimitFp32, Difference::Measure::kLargest);
    note_all(own, "fp32 ", reference(layout, "fp64"), {{one.seen, {}}});
    proof.of_one_process = own.worst;
    return std::clamp(2 * own.worst, kProofBoundFp32, kProofLimitFp32);
  }

  void compare_bf16(const ProofLayout& layout, double none, Proof& proof) {
    using enum Difference::Measure;
    Difference coarse(none * (request_.model.experts > 0 ? kProofBoundBf16Experts : kProofBoundBf16),
                      kMeanSquare);
    Difference scalars(none * kProofBoundBf16Scalars, kMeanSquare);
    const Reference &bf16 = reference(layout, "bf16"), &fp64 = reference(layout, "fp64");
    const std::vector<SeenTwice> ranks = on_ranks(layout, "bf16", proof);
    Difference movements(none * (request_.model.experts > 0 ? kProofBoundBf16Experts : kProofBoundBf16),
                         kMeanSquare);
    for (const auto& [seen, resumed] : ranks) {
      scalars.note("bf16 loss", bf16.seen.losses, seen.losses);
      scalars.note("bf16 gradient norm", {bf16.seen.norms[0]}, {seen.norms[0]});
      coarse.note("bf16 gradient", bf16.gradients, seen.gradients, &fp64.gradients);
      movements.note("bf16 first update of the master", bf16.movements, moved(seen.masters, seen.start),
                     &fp64.movements);
    }
    proof.worst_working = coarse.worst;
    judge(scalars.first_beyond, proof);
    judge(coarse.first_beyond, proof);
    judge(movements.first_beyond, proof);
    judge(difference_from_masters(ranks, bf16.parameters), proof);
    judge(difference_of_copies(ranks, "bf16 "), proof);
  }

  static void note_all(Difference& difference, const std::string& precision, const Reference& reference,
                       const std::vector<SeenTwice>& ranks) {
    for (const auto& [seen, resumed] : ranks) {
      difference.note(precision + "loss", reference.seen.losses, seen.losses);
      difference.note(precision + "gradient norm", reference.seen.norms, seen.norms);
      difference.note(precision + "gradient", reference.gradients, seen.gradients);
      difference.note(precision + "value after three steps", reference.parameters, seen.parameters);
      difference.note(precision + "value after three steps, resumed", reference.parameters,
                      resumed.parameters);
    }
  }

  // The first that is wrong is the one that is told.
  static void judge(const std::string& wrong, Proof& proof) {
    if (wrong.empty() || !proof.holds) return;
    proof.holds = false;
    proof.tensor = proof.reason = wrong;
  }

  // What each rank has seen, from the first step on, and in fp64 going on from another layout's checkpoint;
  // its own becomes the next one's.
  std::vector<SeenTwice> on_ranks(const ProofLayout& layout, const std::string& dtype, Proof& proof) {
    const int64_t world = layout.parallel.world();
    const ProofSubject trained = subject(layout, dtype);
    const parallel::Arrangement arrangement = arrangement_of(trained.config, trained.layout);
    // workers save more than others
    const bool resumes = dtype == "fp64" && layout.mistake == nullptr && arrangement.workers == 1;
    const SavedCheckpoint earlier = checkpoints_[key_of(layout)], own = new_checkpoint(layout.name);
    std::optional<ProofCheckpoints> folders;
    if (resumes) folders = {earlier.folder, own.folder};
    std::vector<SeenTwice> seen(static_cast<size_t>(world));
    if (layout.processes) {
      seen = prove_in_processes(trained, folders, request_.process);
    } else {
      const std::function<void(comm::Communicator&)> body = [&](comm::Communicator& rank) {
        seen[static_cast<size_t>(rank.rank())] = prove_rank(trained, rank, folders);
      };
      request_.run_threads ? request_.run_threads(world, body) : comm::run_ranks(world, body);
    }
    if (resumes) {
      proof.resumed_from = earlier.layout;
      checkpoints_[key_of(layout)] = own;
      std::filesystem::remove_all(earlier.folder);
    }
    return seen;
  }

  SavedCheckpoint new_checkpoint(const std::string& layout) {
    return {layout, folder_ / std::to_string(++checkpoints_made_)};
  }

  const ProofRequest& request_;
  TemporaryFolder folder_;
  int64_t checkpoints_made_ = 0;
  std::map<std::string, Reference> references_;
  std::map<std::string, SavedCheckpoint> checkpoints_;  // by key_of
};

}  // namespace

std::string_view Proof::status_name() const {
  constexpr std::string_view kNames[] = {"tried", "refused", "skipped"};
  return kNames[static_cast<size_t>(status)];
}

std::vector<Proof> prove(const ProofRequest& request) {
  optim::check_groups(request.optim, layout::parameters(request.model));
  Prover prover(request);
  std::vector<Proof> proofs;
  for (const ProofLayout& layout : request.layouts) {
    if (request.begins) request.begins(layout);
    const Stopwatch watch;
    proofs.push_back(prover.proof_of(layout));
    proofs.back().seconds = watch.seconds();
  }
  return proofs;
}

}  // namespace longhaul::prove
