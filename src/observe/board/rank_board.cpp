#include "observe/board/rank_board.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/shared_file.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/process/diagnostics.h"
#include "base/process/loaded_library.h"
#include "base/process/process.h"
#include "base/text/number.h"
#include "base/threads/worker.h"
#include "observe/board/node_lease.h"
#include "observe/board/rank_board_layout.h"

namespace longhaul::observe {
namespace {

constexpr std::chrono::seconds kBeat(1);
constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

// "/home/me/longhaul/src/train/step.cpp", or with dots in front: from "src/" on.
std::string_view within_the_house(std::string_view path) {
  const size_t at = path.rfind("src/");
  return at == std::string_view::npos ? path : path.substr(at);
}

// The board whose phases the thread enters.
thread_local const void* phases_of = nullptr;

}  // namespace

std::string_view name_of(RankPhase phase) {
  constexpr std::string_view kNames[kRankPhases] = {"start",      "load",          "data",      "forward",
                                                    "backward",   "communication", "optimizer", "checkpoint",
                                                    "evaluation", "task",          "idle"};
  return kNames[static_cast<size_t>(phase)];
}

std::optional<RankPhase> rank_phase_named(std::string_view name) {
  for (int phase = 0; phase < kRankPhases; ++phase) {
    if (name_of(static_cast<RankPhase>(phase)) == name) return static_cast<RankPhase>(phase);
  }
  return std::nullopt;
}

struct BoardWriter::State {
  State(const std::filesystem::path& path, const BoardOwner& owner);
  ~State();
  void beat();
  void note_background();
  void note_modules();
  void end_with_lease();
  Sequenced<BoardFile::Call>& call_at(int64_t number) { return board->calls[number % kBoardCalls]; }
  template <class Change>
  void change_call(int64_t number, const Change& change);
  void enter(RankPhase phase, int64_t now_ns);  // with the mutex held
  void progressed(int64_t now_ns) { board->progress_ns.store(now_ns, std::memory_order_relaxed); }

  SharedFile file;
  BoardFile* board;
  std::mutex mutex;  // protects everything that is written except the beat
  BoardFile::Now now{};
  BoardFile::End end{};
  int64_t members = 0;
  // Of the computing thread, while it waits for `board->waited_call`.
  std::optional<RankPhase> before_waiting;
  bool ending = false;
  std::optional<LeaseWatch> lease = LeaseWatch::from_environment();
  std::mutex beat_mutex;
  std::condition_variable beat_changed;
  Worker worker{"beat"};
};

BoardWriter::State::State(const std::filesystem::path& path, const BoardOwner& owner)
    : file(SharedFile::create(path, sizeof(BoardFile))), board(new (file.data()) BoardFile) {
  board->magic = BoardFile::kMagic;
  board->version = BoardFile::kVersion;
  board->owner.rank = owner.rank;
  board->owner.generation = owner.generation;
  board->owner.pid = process_id();
  board->owner.host = machine().host;
  board->owner.node = owner.node;
  now.step = now.resumed_step = now.micro_step = -1;
  now.loss = now.gradient_norm = kNotMeasured;
  now.phase_since_ns = monotonic_ns();
  board->now.store(now);
  board->beat_ns = now.phase_since_ns;
  board->resident_bytes = resident_bytes();
  progressed(now.phase_since_ns);
  note_modules();
  file.publish();
  worker.post([this] { beat(); });
}

BoardWriter::State::~State() {
  set_diagnostics_area(nullptr);
  {
    const std::lock_guard lock(beat_mutex);
    ending = true;
  }
  beat_changed.notify_all();
}

void BoardWriter::State::beat() {
  std::unique_lock lock(beat_mutex);
  while (!beat_changed.wait_for(lock, kBeat, [&] { return ending; })) {
    board->beat_ns.store(monotonic_ns(), std::memory_order_relaxed);
    board->resident_bytes.store(resident_bytes(), std::memory_order_relaxed);
    note_background();
    if (lease && lease->over_s() > 0) end_with_lease();
  }
}

void BoardWriter::State::note_background() {
  BoardFile::Background all{};
  for (const BackgroundWork& work : background_work()) {
    if (all.count == kBoardBackground) break;
    BoardFile::Background::Work& one = all.work[all.count++];
    one.since_ns = work.since_ns;
    one.allowed_s = work.allowed_s;
    one.name = work.name;
  }
  board->background.store(all);
}

// Immediately: whatever this process would still write may belong to another generation by now.
void BoardWriter::State::end_with_lease() {
  constexpr std::string_view kWhy = "the lease of this node is over: its daemon does not answer any more";
  if (const std::unique_lock lock(mutex, std::try_to_lock); lock && end.code == 0) {
    end.code = static_cast<int64_t>(ExitCode::kCommunication);
    end.text = kWhy;
    end.failed_ns = monotonic_ns();
    end.consequence = 1;
    board->end.store(end);
  }
  log_error("{}, so this rank ends", kWhy);
  std::_Exit(static_cast<int>(ExitCode::kCommunication));
}

// The files that are loaded now: operators and back ends are linked, and nothing of ours is loaded later.
void BoardWriter::State::note_modules() {
  int64_t count = 0;
  for (const LoadedCode& code : loaded_code()) {
    if (count == BoardFile::kModules) break;
    BoardFile::Module& module = board->modules[count++];
    module.path = code.file.string();
    module.begin = code.begin;
    module.end = code.end;
    module.base = code.base;
  }
  board->modules_written.store(count, std::memory_order_release);
}

BoardWriter::BoardWriter() = default;
BoardWriter::~BoardWriter() = default;
BoardWriter::BoardWriter(BoardWriter&&) noexcept = default;
BoardWriter& BoardWriter::operator=(BoardWriter&&) noexcept = default;

BoardWriter::BoardWriter(const std::filesystem::path& path, const BoardOwner& owner)
    : state_(std::make_unique<State>(path, owner)) {}

BoardWriter BoardWriter::from_environment(int64_t rank) {
  const auto variable = [](const char* name) {
    return std::string_view(std::getenv(name) != nullptr ? std::getenv(name) : "");
  };
  const std::string_view path = variable("LONGHAUL_BOARD"), number = variable("LONGHAUL_GENERATION");
  if (path.empty()) return {};
  const std::optional<int64_t> generation = number.empty() ? 0 : parse_number<int64_t>(number);
  if (!generation) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the generation of this rank is not a number",
                 .found = std::string(number),
                 .where = "LONGHAUL_GENERATION"});
  }
  BoardWriter writer(
      path, {.rank = rank, .generation = *generation, .node = std::string(variable("LONGHAUL_NODE"))});
  set_diagnostics_area(&writer.state_->board->stacks);
  return writer;
}

void BoardWriter::show_in(const std::filesystem::path& run_folder) const {
  if (!on()) return;
  const std::filesystem::path link =
      calls_folder(run_folder) / fmt::format("{}{}", kBoardLink, state_->board->owner.rank);
  make_folders(link.parent_path());
  const std::filesystem::path unfinished = fmt::format("{}.{}", link.string(), process_id());
  std::filesystem::remove(unfinished);
  std::filesystem::create_symlink(std::filesystem::absolute(state_->file.path()), unfinished);
  std::filesystem::rename(unfinished, link);
}

RankPhase BoardWriter::enter(RankPhase phase, CallSite at, int64_t micro_step) {
  if (!on()) return RankPhase::kIdle;
  phases_of = state_.get();
  const std::lock_guard lock(state_->mutex);
  const auto before = static_cast<RankPhase>(state_->now.phase);
  char place[sizeof state_->now.phase_at];
  const auto end = fmt::format_to_n(place, sizeof place, "{}:{}", within_the_house(at.file), at.line).out;
  state_->now.phase_at = std::string_view(place, end);
  if (micro_step >= 0) state_->now.micro_step = micro_step;
  state_->enter(phase, monotonic_ns());
  return before;
}

void BoardWriter::State::enter(RankPhase phase, int64_t now_ns) {
  now.this_step[static_cast<size_t>(now.phase)] += static_cast<double>(now_ns - now.phase_since_ns) * 1e-9;
  now.phase = static_cast<int64_t>(phase);
  now.phase_since_ns = now_ns;
  board->now.store(now);
  progressed(now_ns);
}

void BoardWriter::show_task_phase(const TaskPhaseState& task) {
  if (!on()) return;
  const std::lock_guard lock(state_->mutex);
  BoardFile::Now& now = state_->now;
  now.task_phase = std::string_view(task.name);
  now.task_allowed_s = task.allowed_s;
  now.task_done = task.done;
  now.task_whole = task.whole;
  state_->board->now.store(now);
  state_->progressed(monotonic_ns());
}

void BoardWriter::step_started_from(int64_t step) {
  if (!on()) return;
  const std::lock_guard lock(state_->mutex);
  state_->now.step = state_->now.resumed_step = step;
  state_->now.this_step = {};
  state_->now.phase_since_ns = monotonic_ns();
  state_->board->now.store(state_->now);
  state_->progressed(state_->now.phase_since_ns);
}

// The host queues the device's work and then waits for it in whatever phase it is: its times in the phases of
// computing say nothing. What is left of the step belongs to none.
static void count_device(const PhaseSeconds& device, double step_seconds, PhaseSeconds& host) {
  double others = 0;
  for (const RankPhase phase : {RankPhase::kForward, RankPhase::kBackward, RankPhase::kCommunication,
                                RankPhase::kOptimizer, RankPhase::kIdle})
    host[static_cast<size_t>(phase)] = device[static_cast<size_t>(phase)];
  for (const double seconds : host) others += seconds;
  host[static_cast<size_t>(RankPhase::kIdle)] = std::max(0.0, step_seconds - others);
}

void BoardWriter::step_ended(const Step& step) {
  if (!on()) return;
  const int64_t now_ns = monotonic_ns();
  const std::lock_guard lock(state_->mutex);
  BoardFile::Now& now = state_->now;
  now.this_step[static_cast<size_t>(now.phase)] += static_cast<double>(now_ns - now.phase_since_ns) * 1e-9;
  now.phase_since_ns = now_ns;
  now.last_step = std::exchange(now.this_step, {});
  if (step.device_seconds) count_device(*step.device_seconds, step.seconds, now.last_step);
  now.step = step.step;
  now.micro_step = -1;
  now.loss = step.loss;
  now.gradient_norm = step.gradient_norm;
  now.tokens = step.tokens;
  now.step_seconds = step.seconds;
  BoardFile& board = *state_->board;
  board.now.store(now);
  const int64_t at = board.steps_written.load(std::memory_order_relaxed);
  board.steps[at % kBoardSteps].store({.step = step.step,
                                       .end_ns = now_ns,
                                       .seconds = step.seconds,
                                       .phase_seconds = now.last_step,
                                       .tokens = step.own_tokens,
                                       .work = step.work});
  board.steps_written.store(at + 1, std::memory_order_release);
  state_->progressed(now_ns);
}

void BoardWriter::failed(int64_t code, std::string_view text, bool consequence) {
  if (!on()) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->end.code != 0) return;
  state_->end.code = code;
  state_->end.text = text;
  state_->end.failed_ns = monotonic_ns();
  state_->end.consequence = consequence ? 1 : 0;
  state_->board->end.store(state_->end);
}

void BoardWriter::ended() {
  if (!on()) return;
  const std::lock_guard lock(state_->mutex);
  state_->end.ended = 1;
  state_->board->end.store(state_->end);
}

void BoardWriter::device_bytes(int64_t bytes) {
  if (on()) state_->board->device_bytes.store(bytes, std::memory_order_relaxed);
}

void BoardWriter::add_group(const GroupPlace& place) {
  if (!on()) return;
  const std::lock_guard lock(state_->mutex);
  BoardFile& board = *state_->board;
  const int64_t at = board.groups_written.load(std::memory_order_relaxed);
  if (at == BoardFile::kGroups) return;  // its calls are not recorded either
  const auto count = static_cast<int64_t>(place.top_ranks.size());
  const int64_t kept = state_->members + count <= BoardFile::kMembers ? count : 0;  // 0: unknown
  BoardFile::Group& group = board.groups[at];
  group.path = place.path;
  group.first = state_->members;
  group.count = kept;
  for (int64_t i = 0; i < kept; ++i)
    board.members[state_->members + i] = static_cast<int32_t>(place.top_ranks[static_cast<size_t>(i)]);
  state_->members += kept;
  board.groups_written.store(at + 1, std::memory_order_release);
}

void BoardWriter::calls_begin_at(int64_t number) {
  if (!on()) return;
  const std::lock_guard lock(state_->mutex);
  state_->board->calls_begin.store(number, std::memory_order_relaxed);
  state_->board->calls_end.store(number, std::memory_order_release);
}

void BoardWriter::call_entered(const CallRecord& call) {
  if (!on()) return;
  BoardFile::Call entry{
      .number = call.number + 1,
      .group = static_cast<int64_t>(call.group),
      .sequence = call.sequence,
      .kind = static_cast<int32_t>(call.kind),
      .state = static_cast<int32_t>(call.state),
      .traffic = call.traffic,
      .entered_ns = call.entered_ns,
      .messages = static_cast<int64_t>(std::min(call.messages.size(), size_t{kBoardMessages}))};
  for (int64_t i = 0; i < entry.messages; ++i) {
    const MessageRecord& message = call.messages[static_cast<size_t>(i)];
    entry.message[i].peer = static_cast<int32_t>(message.peer);
    entry.message[i].direction = static_cast<int32_t>(message.direction);
    entry.message[i].number = message.number;
    entry.message[i].tensor = message.tensor;
  }
  entry.name = call.name;
  entry.text = call.text;
  const std::lock_guard lock(state_->mutex);
  state_->call_at(call.number).store(entry);
  state_->board->calls_end.store(call.number + 1, std::memory_order_release);
  state_->progressed(call.entered_ns);
}

// Null for a call that newer ones have replaced, or that was never recorded. The mutex must be held.
template <class Change>
void BoardWriter::State::change_call(int64_t number, const Change& change) {
  if (board->calls_end.load(std::memory_order_relaxed) - number > kBoardCalls) return;
  if (number < board->calls_begin.load(std::memory_order_relaxed)) return;
  call_at(number).change(change);
}

void BoardWriter::call_started(int64_t number) {
  if (!on()) return;
  const int64_t now_ns = monotonic_ns();
  const std::lock_guard lock(state_->mutex);
  state_->change_call(number, [&](BoardFile::Call& call) {
    call.state = static_cast<int32_t>(CallState::kStarted);
    call.started_ns = now_ns;
  });
}

void BoardWriter::call_awaited(int64_t number) {
  if (!on()) return;
  const int64_t now_ns = monotonic_ns();
  const std::lock_guard lock(state_->mutex);
  state_->change_call(number, [&](BoardFile::Call& call) {
    if (call.awaited_ns == 0) call.awaited_ns = now_ns;
  });
  if (phases_of != state_.get() || state_->before_waiting) return;
  state_->before_waiting = static_cast<RankPhase>(state_->now.phase);
  state_->board->waited_call.store(number + 1, std::memory_order_relaxed);
  state_->enter(RankPhase::kCommunication, now_ns);
}

void BoardWriter::call_ended(int64_t number, bool well) {
  if (!on()) return;
  const int64_t now_ns = monotonic_ns();
  const std::lock_guard lock(state_->mutex);
  state_->change_call(number, [&](BoardFile::Call& call) {
    if (call.ended_ns != 0) return;
    call.state = static_cast<int32_t>(well ? CallState::kDone : CallState::kFailed);
    call.ended_ns = now_ns;
  });
  state_->progressed(now_ns);
  if (phases_of != state_.get() || state_->board->waited_call.load(std::memory_order_relaxed) != number + 1)
    return;
  state_->board->waited_call.store(0, std::memory_order_relaxed);
  state_->enter(*state_->before_waiting, now_ns);
  state_->before_waiting.reset();
}

}  // namespace longhaul::observe
