#include "control/node/rank_host.h"

#include <algorithm>
#include <fstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/process/process_threads.h"
#include "base/process/signals.h"
#include "control/node/rank_environment.h"
#include "control/wire/placement.h"
#include "detect/hang/hang.h"
#include "detect/hang/stack_text.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLastWords = 4096;  // bytes
constexpr double kLease_s = 30;      // twice the silence after which a driver gives the node up

double age_s(int64_t then_ns) {
  return then_ns == 0 ? 0 : static_cast<double>(monotonic_ns() - then_ns) * 1e-9;
}

// A process that has not installed its handler yet would be ended by the signal, and a stopped one would not
// handle it.
bool hears(pid_t process, int signal) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string word; file >> word;) {
    uint64_t mask = 0;
    if (word == "State:" && file >> word && word == "T") return false;
    if (word == "SigCgt:" && file >> std::hex >> mask) return (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

// The end of this generation's output.
std::string last_words_of(const fs::path& log, int64_t begins) {
  std::ifstream file(log, std::ios::ate);
  if (log.empty() || !file) return "";
  const int64_t end = file.tellg(), from = std::max(begins, end - static_cast<int64_t>(kLastWords));
  std::string text(static_cast<size_t>(std::max<int64_t>(0, end - from)), '\0');
  file.seekg(from);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

// Innermost first, as FILE+OFFSET, which does not depend on where the file was loaded, and needs no look-up
// while the driver waits for the ranks.
std::string crash_of(const observe::BoardReader& board) {
  constexpr size_t kFrames = 12;
  const std::vector<observe::BoardModule> modules = board.modules();
  std::string text;
  for (const observe::BoardStack& stack : board.stacks()) {
    for (size_t i = 0; i < std::min(kFrames, stack.frames.size()); ++i) {
      const uint64_t address = stack.frames[i];
      const auto module = std::ranges::find_if(
          modules, [&](const auto& one) { return address >= one.begin && address < one.end; });
      if (module == modules.end()) continue;
      text += fmt::format("{}+{:#x}\n", fs::path(module->path).filename().string(), address - module->base);
    }
  }
  return text;
}

RankError rank_error_of(const observe::RankProgress& last) {
  return {last.error_code, last.error_text, last.consequence,
          last.failed_ns == 0 ? -1 : age_s(last.failed_ns)};
}

RankBeat beat_of(const observe::RankProgress& now) {
  RankBeat beat{.rank = now.rank,
                .generation = now.generation,
                .pid = now.pid,
                .beat_age_s = age_s(now.beat_ns),
                .progress_age_s = age_s(now.progress_ns),
                .step = now.step,
                .micro_step = now.micro_step,
                .phase = std::string(observe::name_of(now.phase)),
                .phase_age_s = age_s(now.phase_since_ns),
                .task_phase = now.task_phase,
                .loss = now.loss,
                .gradient_norm = now.gradient_norm,
                .tokens = now.tokens,
                .resident_bytes = now.resident_bytes,
                .device_bytes = now.device_bytes,
                .step_seconds = now.step_seconds,
                .error = rank_error_of(now)};
  const auto& call = now.collective;
  if (!call.group.empty())
    beat.collective = {call.group, call.name, call.kind, std::string(observe::name_of(call.state)),
                       call.sequence};
  for (const BackgroundWork& work : now.background)
    beat.background.push_back({work.name, age_s(work.since_ns), work.allowed_s});
  for (int phase = 0; phase < observe::kRankPhases; ++phase) {
    if (const double seconds = now.phase_seconds[static_cast<size_t>(phase)]; seconds > 0)
      beat.phase_seconds[std::string(observe::name_of(static_cast<observe::RankPhase>(phase)))] = seconds;
  }
  return beat;
}

// The step from which a rank resumed, taken from the ring of its last steps as long as that holds all of
// them.
int64_t first_step_of(const observe::BoardReader& board, int64_t step) {
  const std::vector<observe::BoardStep> steps = board.steps();
  return steps.empty() || steps.size() >= observe::kBoardSteps ? step : steps.front().step - 1;
}

}  // namespace

RankHost::RankHost(EventLoop& loop, Children& children, RankHostOptions options,
                   std::function<void(const RankExited&)> on_exit)
    : loop_(loop),
      children_(children),
      options_(std::move(options)),
      lease_((make_folders(options_.folder), options_.folder / "lease")),
      deaths_(options_.root),
      on_exit_(std::move(on_exit)) {
  make_folders(options_.folder / "boards");
  make_folders(options_.folder / "memory");
  fs::permissions(options_.folder, fs::perms::owner_all);
}

bool RankHost::any_running() const { return !ranks_.empty() || waiting_; }

void RankHost::start(const StartRanks& start) {
  if (start.generation <= generation_) return;  // an old generation, or a repeated message
  generation_ = start.generation;
  ended_.clear();
  waiting_ = start;
  end_all();
  if (ranks_.empty()) start_now(*std::exchange(waiting_, std::nullopt));
}

void RankHost::start_now(const StartRanks& start) {
  ending_ = false;
  deaths_.begin();
  for (size_t local = 0; local < start.ranks.size(); ++local) {
    try {
      start_one(start, local);
    } catch (const Error& error) {
      // A rank that could not be started has ended.
      log_error("{}", error.what());
      const RankExited failed{.rank = start.ranks[local],
                              .generation = start.generation,
                              .status = static_cast<int>(error.code()),
                              .error = {static_cast<int>(error.code()), error.what()}};
      loop_.after(0, [this, failed] {
        if (failed.generation != generation_) return;
        ended_.push_back(failed);
        on_exit_(failed);
      });
    }
  }
}

// Ranks that were stopped before they were started have ended: the driver, which waits for that, is told.
void RankHost::never_started(const StartRanks& start) {
  for (const int64_t rank : start.ranks) {
    const RankExited ended{
        .rank = rank, .generation = start.generation, .status = 128 + SIGKILL, .stopped = true};
    if (start.generation != generation_) continue;
    ended_.push_back(ended);
    on_exit_(ended);
  }
}

std::vector<std::string> RankHost::words(const StartRanks& start) const {
  std::vector<std::string> words = {options_.program};
  words.insert(words.end(), command_.words.begin(), command_.words.end());
  words.insert(words.end(), start.overrides.begin(), start.overrides.end());
  words.insert(words.end(), command_.options.begin(), command_.options.end());
  return words;
}

std::vector<std::string> RankHost::environment(const StartRanks& start, size_t local,
                                               const Rank& rank) const {
  std::vector<std::string> all = command_.environment;
  const std::vector<std::string> own = {
      fmt::format("RANK={}", rank.rank), fmt::format("WORLD_SIZE={}", start.world),
      fmt::format("LOCAL_RANK={}", local), fmt::format("LOCAL_WORLD_SIZE={}", start.ranks.size()),
      fmt::format("GROUP_RANK={}", start.node_rank), fmt::format("GROUP_WORLD_SIZE={}", start.nodes),
      fmt::format("MASTER_ADDR={}", start.master_address), fmt::format("MASTER_PORT={}", start.master_port),
      // keys of an earlier generation are ignored
      fmt::format("TORCHELASTIC_RESTART_COUNT={}", start.generation),
      fmt::format("LONGHAUL_LAUNCHED={}", command_.launched),
      fmt::format("LONGHAUL_GENERATION={}", start.generation), fmt::format("LONGHAUL_NODE={}", options_.node),
      fmt::format("LONGHAUL_BOARD={}", rank.board.string()),
      fmt::format("LONGHAUL_LEASE={}", lease_.path().string()),
      fmt::format("LONGHAUL_MEMORY_TIER={}", (options_.folder / "memory").string())};
  all.insert(all.end(), own.begin(), own.end());
  if (start.probe) all.push_back(fmt::format("{}=1", kProbe));
  return all;
}

void RankHost::start_one(const StartRanks& start, size_t local) {
  Rank rank{.rank = start.ranks[local], .generation = start.generation, .started_ns = monotonic_ns()};
  rank.board = options_.folder / "boards" / fmt::format("rank-{}", rank.rank);
  fs::remove(rank.board);  // the last report of an earlier rank is not this one's
  if (rank.rank > 0 || !command_.terminal) {
    make_folders(fs::path(command_.run_folder) / "logs");
    rank.log = fs::path(command_.run_folder) / "logs" / fmt::format("rank-{}.log", rank.rank);
    File log = File::open(rank.log, File::Mode::kAppend);
    if (log.size() > 0) log.write(fmt::format("\n──── generation {} ────\n", start.generation));
    rank.log_begins = log.size();
  }
  rank.pid = children_.start({.argv = words(start),
                              .environment = environment(start, local, rank),
                              .inherits = rank_inherits,
                              .log = rank.log,
                              .folder = command_.folder,
                              .death_signal = SIGKILL},
                             [this, number = rank.rank, generation = rank.generation](int status) {
                               on_end(number, generation, status);
                             });
  ranks_.push_back(std::move(rank));
}

void RankHost::on_end(int64_t number, int64_t generation, int status) {
  const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) {
    return r.rank == number && r.generation == generation;
  });
  LONGHAUL_ASSERT(found != ranks_.end(), "rank {} of generation {} is not known", number, generation);
  const RankExited what = exited(*found, status);
  ranks_.erase(found);
  if (generation == generation_) {
    ended_.push_back(what);
    on_exit_(what);
  }
  if (ranks_.empty() && waiting_) start_now(*std::exchange(waiting_, std::nullopt));
}

RankExited RankHost::exited(const Rank& rank, int status) {
  RankExited exited{.rank = rank.rank,
                    .generation = rank.generation,
                    .pid = rank.pid,
                    .status = status,
                    .stopped = rank.stopped};
  exited.out_of_memory = status == 128 + SIGKILL && !rank.stopped && deaths_.took(rank.pid);
  exited.last_words = last_words_of(rank.log, rank.log_begins);
  if (const observe::BoardReader* board = board_of(rank)) {
    const observe::RankProgress last = board->progress();
    exited.step = last.step;
    exited.error = rank_error_of(last);
    if (board->crashed() != 0) exited.stack = crash_of(*board);
  }
  return exited;
}

const observe::BoardReader* RankHost::board_of(const Rank& rank) const {
  if (!rank.reader) rank.reader = observe::BoardReader::open(rank.board);
  return rank.reader ? &*rank.reader : nullptr;
}

std::vector<RankBeat> RankHost::running() const {
  std::vector<RankBeat> beats;
  for (const Rank& rank : ranks_) {
    if (rank.generation != generation_) continue;
    const observe::BoardReader* board = board_of(rank);
    RankBeat& beat = beats.emplace_back(board ? beat_of(board->progress()) : RankBeat{.step = -1});
    beat.rank = rank.rank;
    beat.generation = rank.generation;
    beat.pid = rank.pid;
    if (!board) beat.progress_age_s = beat.phase_age_s = age_s(rank.started_ns);
    if (beat.step >= 0 && rank.resumed_step < 0) rank.resumed_step = first_step_of(*board, beat.step);
    beat.resumed_step = rank.resumed_step;
  }
  std::sort(beats.begin(), beats.end(), [](const RankBeat& a, const RankBeat& b) { return a.rank < b.rank; });
  return beats;
}

std::vector<int64_t> RankHost::processes() const {
  std::vector<int64_t> all;
  for (const Rank& rank : ranks_) all.push_back(rank.pid);
  return all;
}

std::vector<RankLog> RankHost::logs() const {
  std::vector<RankLog> all;
  for (const Rank& rank : ranks_) {
    if (!rank.log.empty()) all.push_back({.rank = rank.rank, .file = rank.log, .begins = rank.log_begins});
  }
  return all;
}

bool RankHost::moved() const {
  std::vector<std::pair<int64_t, int64_t>> seen;
  for (const Rank& rank : ranks_) {
    const observe::BoardReader* board = board_of(rank);
    if (board) seen.emplace_back(rank.rank, board->progress().step);
  }
  return std::exchange(last_seen_, seen) != seen;
}

std::function<std::vector<Evidence>()> RankHost::evidence() const {
  struct Seen {
    int64_t generation = 0, rank = 0;
    std::optional<detect::HangRank> told;
    std::vector<observe::BoardStack> stacks;
    std::vector<observe::BoardModule> modules;
  };
  std::vector<Seen> all;
  for (const Rank& rank : ranks_) {
    if (rank.generation != generation_) continue;
    Seen& one = all.emplace_back(Seen{.generation = rank.generation, .rank = rank.rank});
    const observe::BoardReader* board = board_of(rank);
    if (board == nullptr) continue;
    one.told = detect::hang_rank(*board, !threads_of(rank.pid).empty());
    one.stacks = board->stacks();
    one.modules = board->modules();
  }
  return [all]() mutable {
    std::vector<Evidence> evidence;
    detect::KnownPlaces known;
    for (Seen& one : all) {
      Evidence& words = evidence.emplace_back(Evidence{.generation = one.generation, .rank = one.rank});
      if (!one.told) continue;
      one.told->threads = detect::stack_text(one.stacks, one.modules, &known);
      words.calls = detect::hang_evidence(*one.told);
    }
    return evidence;
  };
}

void RankHost::renew_lease() { lease_.renew(kLease_s); }

void RankHost::signal_all(int signal) const {
  for (const Rank& rank : ranks_) Children::signal(rank.pid, signal);
}

void RankHost::ask_for_stacks() const {
  for (const Rank& rank : ranks_) {
    if (hears(rank.pid, SIGUSR2)) Children::signal(rank.pid, SIGUSR2);
  }
}

void RankHost::end_all() {
  for (Rank& rank : ranks_) rank.stopped = true;
  signal_all(SIGKILL);
}

void RankHost::stop(const StopRanks& stop) {
  if (stop.generation < generation_) return;
  if (waiting_ && waiting_->generation <= stop.generation)
    never_started(*std::exchange(waiting_, std::nullopt));
  if (stop.grace_s <= 0) return end_all();
  for (Rank& rank : ranks_) rank.stopped = true;
  ending_ = true;
  if (stop.leave) {
    for (const Rank& rank : ranks_)
      Children::signal(rank.pid, hears(rank.pid, leave_signal()) ? leave_signal() : SIGKILL);
  } else {
    signal_all(SIGTERM);
    signal_all(SIGCONT);  // a stopped process does not handle signals
  }
  loop_.after(stop.grace_s, [this, generation = stop.generation] {
    for (const Rank& rank : ranks_) {
      if (rank.generation <= generation) Children::signal(rank.pid, SIGKILL);
    }
  });
}

}  // namespace longhaul::control
