#include "train/step_arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "plan/memory/addresses/address_picture.h"
#include "plan/memory/addresses/step_addresses.h"
#include "recipe/write.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::train {
namespace {

constexpr int64_t kPlanVersion = 1;
constexpr size_t kMostPlaces = 10'000'000;
constexpr JsonRules kPlanRules{.code = ExitCode::kData,
                               .what = "not a plan of addresses",
                               .hint = "remove the file: the next step makes it anew"};

std::string hash_of(const recipe::Recipe& recipe) {
  std::string text;
  for (const auto& [key, value] : recipe::option_values(recipe)) text += key + "=" + value + "\n";
  return sha256_hex(text).substr(0, 16);
}

// The share of a step's bytes that a plan must have.
bool fits(const ReplayArena::Use& use) { return 4 * use.unplanned_bytes <= use.bytes; }

}  // namespace

KeptPlan plan_of(const MemoryLog& log) {
  KeptPlan kept;
  std::vector<plan::TensorLife> requests;
  std::vector<size_t> of_place;
  for (size_t i = 0; i < log.requests.size(); ++i) {
    const MemoryLog::Request& request = log.requests[i];
    kept.arena.places.push_back({.bytes = request.bytes});
    kept.begins.push_back(request.begin);
    kept.ends.push_back(request.end);
    if (request.end == 0) continue;
    requests.push_back({ReplayArena::room_of(request.bytes), request.begin, request.end});
    of_place.push_back(i);
  }
  const plan::AddressPlan addresses = plan::plan_step(requests, log.cuts).plan;
  for (size_t k = 0; k < of_place.size(); ++k)
    kept.arena.places[of_place[k]].address = addresses.addresses[k];
  for (const int64_t cut : log.cuts)
    kept.arena.cuts.push_back(std::ranges::upper_bound(kept.begins, cut) - kept.begins.begin());
  kept.arena.bytes = addresses.peak;
  kept.live_bytes = addresses.live;
  return kept;
}

// The picture of what lies in the block.
std::string picture_of(const KeptPlan& kept) {
  std::vector<plan::TensorLife> lives;
  plan::AddressPlan addresses{.peak = kept.arena.bytes, .live = kept.live_bytes};
  std::vector<int64_t> cuts;
  for (size_t i = 0; i < kept.begins.size(); ++i) {
    const ArenaPlan::Place& place = kept.arena.places[i];
    if (place.address < 0) continue;
    lives.push_back({ReplayArena::room_of(place.bytes), kept.begins[i], kept.ends[i]});
    addresses.addresses.push_back(place.address);
  }
  for (const int64_t cut : kept.arena.cuts) {
    if (cut < std::ssize(kept.begins)) cuts.push_back(kept.begins[static_cast<size_t>(cut)]);
  }
  return plan::address_picture(lives, addresses, cuts);
}

void write_plan(const std::filesystem::path& path, const KeptPlan& plan) {
  std::vector<int64_t> bytes, addresses;
  for (const ArenaPlan::Place& place : plan.arena.places) {
    bytes.push_back(place.bytes);
    addresses.push_back(std::max<int64_t>(0, place.address));
  }
  const nlohmann::ordered_json text = {{"version", kPlanVersion},       {"block_bytes", plan.arena.bytes},
                                       {"live_bytes", plan.live_bytes}, {"bytes", bytes},
                                       {"begins", plan.begins},         {"ends", plan.ends},
                                       {"addresses", addresses},        {"cuts", plan.arena.cuts}};
  make_folders(path.parent_path());
  write_text_atomically(path, text.dump() + "\n");
}

KeptPlan read_plan(const std::filesystem::path& path) {
  const nlohmann::json root = parse_json(read_text(path), path.string(), kPlanRules);
  const JsonView view(root, path.string() + ":", kPlanRules);
  JsonFields fields(view);
  const int64_t version = fields.integer("version", 0);
  view.at("version").require(version == kPlanVersion, fmt::format("{}", kPlanVersion));
  KeptPlan plan;
  plan.arena.bytes = fields.integer("block_bytes", 0);
  plan.live_bytes = fields.integer("live_bytes", 0);
  const std::vector<int64_t> bytes = fields.integers("bytes", kMostPlaces);
  plan.begins = fields.integers("begins", kMostPlaces);
  plan.ends = fields.integers("ends", kMostPlaces);
  const std::vector<int64_t> addresses = fields.integers("addresses", kMostPlaces);
  plan.arena.cuts = fields.integers("cuts", kMostPlaces);
  fields.finish();
  const size_t count = bytes.size();
  view.require(plan.begins.size() == count && plan.ends.size() == count && addresses.size() == count,
               "lists of one length");
  view.at("cuts").require(
      std::ranges::is_sorted(plan.arena.cuts) &&
          (plan.arena.cuts.empty() || plan.arena.cuts.back() <= static_cast<int64_t>(count)),
      "ascending places");
  for (size_t i = 0; i < count; ++i) {
    const bool in_block = plan.ends[i] != 0;
    if (in_block)
      view.at("addresses")
          .at(i)
          .require(ReplayArena::is_place(addresses[i], bytes[i], plan.arena.bytes),
                   "an address of the block");
    plan.arena.places.push_back({.bytes = bytes[i], .address = in_block ? addresses[i] : -1});
  }
  return plan;
}

StepArena::StepArena(const recipe::Recipe& recipe, const std::filesystem::path& run_folder, int64_t rank,
                     int64_t ranks, at::Device device)
    : path_(run_folder / "arena" / fmt::format("{}-{}-of-{}.json", hash_of(recipe), rank, ranks)) {
  if (!device.is_cpu()) {
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "addresses are planned of memory of the CPU only: a GPU's memory comes from LibTorch",
         .expected = "train.arena=false, or train.device=cpu",
         .found = "train.arena = true on " + device.str(),
         .where = "train.arena",
         .hint = "train.arena=false"});
  }
  LONGHAUL_ASSERT(tensor_heap() != nullptr, "train.arena without install_cpu_allocator()");
  arena_.emplace(*tensor_heap());
  if (!std::filesystem::exists(path_)) return;
  try {
    take(read_plan(path_));
  } catch (const Error& error) {
    log_warning("the plan of addresses is made anew: {}", error.what());
  }
}

void StepArena::take(KeptPlan plan) {
  ++plans_;
  live_bytes_ = plan.live_bytes;
  block_bytes_ = plan.arena.bytes;
  if (arena_->set_plan(std::move(plan.arena))) return;
  plans_ = kMostPlans;
  log_warning("there is no room for train.arena's block of {}: tensors come from the heap as without it",
              bytes_text(block_bytes_));
}

StepArena::Passes::Passes(StepArena* arena) : arena_(arena) {
  if (arena_ != nullptr && !arena_->arena_->planned() && arena_->plans_ >= kMostPlans) arena_ = nullptr;
  if (arena_ != nullptr) scope_.emplace(*arena_->arena_);
}

void StepArena::Passes::ended() {
  if (arena_ == nullptr) return;
  scope_.reset();
  ReplayArena& replay = *arena_->arena_;
  if (!replay.planned()) return arena_->make_plan();
  if (!fits(replay.use())) replay.forget_plan();
}

void StepArena::make_plan() {
  KeptPlan plan = plan_of(arena_->take_log());
  log_info("train.arena: {} of a step's passes lie in one block of {}; {} live at a time at most",
           counted(std::ssize(plan.arena.places), "tensor"), bytes_text(plan.arena.bytes),
           bytes_text(plan.live_bytes));
  try {
    write_plan(path_, plan);
    write_text_atomically(std::filesystem::path(path_).replace_extension(".svg"), picture_of(plan));
  } catch (const Error& error) {
    log_warning("the plan of addresses is not kept, and made anew after a resume: {}", error.what());
  }
  take(std::move(plan));
}

void StepArena::tell(observe::Metrics& metrics) const {
  if (!arena_->planned()) return;
  const ReplayArena::Use use = arena_->use();
  const MemoryStatistics memory = memory_statistics();
  metrics["memory/arena_bytes"] = static_cast<double>(block_bytes_);
  metrics["memory/arena_live_bytes"] = static_cast<double>(live_bytes_);
  metrics["memory/arena_missed"] = static_cast<double>(use.unplanned);
  metrics["memory/arena_missed_bytes"] = static_cast<double>(use.unplanned_bytes);
  metrics["memory/held_bytes"] = static_cast<double>(memory.held_bytes);
  metrics["memory/peak_bytes"] = static_cast<double>(memory.total.peak);
}

}  // namespace longhaul::train
