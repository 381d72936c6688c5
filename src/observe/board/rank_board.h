// The board of a rank shows what the rank does now, for the daemon that watches it (control/). It is one file
// in /dev/shm of fixed layout, which the rank writes and the daemon reads without asking the rank. So the
// last state of a rank that hangs, is stopped or was killed can still be read.
//
//   // LONGHAUL_BOARD; without it every call is one branch
//   BoardWriter board = BoardWriter::from_environment();
//   board.enter(RankPhase::kForward);  board.step_ended({…});
//   // empty: the rank has no board yet
//   std::optional<BoardReader> reader = BoardReader::open(path);
//   const RankProgress now = reader->progress();
//
// A process that lives may make no progress; the board shows both: a thread of its own updates beat_ns every
// second, and every new step, phase and call updates progress_ns. All times are monotonic_ns() of the rank's
// machine. The heartbeat thread also ends the process when its node's lease is over. The writer is
// thread-safe; a reader is for one thread. Source: docs/sources/reliability.md §5.2.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/call_site.h"
#include "base/threads/background_work.h"
#include "observe/board/call_records.h"
#include "observe/board/task_phase_state.h"

namespace longhaul::observe {

enum class RankPhase : uint8_t {
  kStart,
  kLoad,  // a checkpoint
  kData,
  kForward,
  kBackward,
  kCommunication,  // the computing thread waits for other ranks
  kOptimizer,
  kCheckpoint,  // the copy; writing goes on in the background
  kEvaluation,
  kTask,  // a phase that the task has named (TaskPhaseState)
  kIdle,  // none of these: between steps, and after the last one
};
inline constexpr int kRankPhases = 11;
std::string_view name_of(RankPhase phase);  // "forward"
std::optional<RankPhase> rank_phase_named(std::string_view name);
using PhaseSeconds = std::array<double, kRankPhases>;  // by RankPhase

struct RankProgress {
  int64_t rank = 0, generation = 0, pid = 0;
  std::string host, node;  // node: LONGHAUL_NODE
  int64_t beat_ns = 0, progress_ns = 0;
  int64_t step = 0;  // the last completed step; −1: unknown yet
  // Step of the checkpoint from which this process continued; 0: from the beginning; −1: unknown yet.
  int64_t resumed_step = 0;
  int64_t micro_step = -1;  // micro-batch of the current step; −1: none
  RankPhase phase = RankPhase::kStart;
  int64_t phase_since_ns = 0;
  std::string phase_at;  // "src/train/step.cpp:128": where the phase was entered
  TaskPhaseState task_phase;
  struct Collective {
    std::string group;      // "world/dp 0"; empty: there was no call yet
    std::string kind;       // "all_reduce"
    std::string name;       // what the call is for
    int64_t sequence = -1;  // number within the group
    CallState state = CallState::kDone;
    bool operator==(const Collective&) const = default;
  } collective;                        // the first for which the rank waits, else the last
  double loss = 0, gradient_norm = 0;  // of the last step; NaN before the first
  int64_t tokens = 0;                  // of the last step, of all ranks
  double step_seconds = 0;
  PhaseSeconds phase_seconds{};  // of the last step
  int64_t resident_bytes = 0, device_bytes = 0;
  // Work of other threads, at most a second old; the oldest kBoardBackground.
  std::vector<BackgroundWork> background;
  int64_t error_code = 0;    // an ExitCode; 0: none
  std::string error_text;    // at most 4 KiB
  int64_t failed_ns = 0;     // when the rank failed
  bool consequence = false;  // another rank had failed before, and this rank only reports that
  bool ended = false;        // the rank has ended by itself: with error_code, or successfully
};

// BoardStep: one entry of the ring of the last kBoardSteps steps.
struct BoardStep {
  int64_t step = 0;
  int64_t end_ns = 0;
  double seconds = 0;
  PhaseSeconds phase_seconds{};
  int64_t tokens = 0;  // of this rank only
  double work = 0;     // Σ length² of its documents, for mixers whose cost grows with it; 0: unknown
};
inline constexpr int kBoardSteps = 256;

inline constexpr int kBoardBackground = 8;

// The last calls of the flight recorder; messages of an exchange.
inline constexpr int kBoardCalls = 2048, kBoardMessages = 8;

// BoardStack: the stack of a thread when it was last asked for (SIGUSR2).
struct BoardStack {
  int64_t thread = 0;
  std::string name;  // "longhaul"
  char state = '?';  // from /proc: R, S, D, T…
  // Kernel function in which it waits: "futex_wait_queue"; empty: it does not wait, or the kernel hides it.
  std::string waits;
  bool answered = false;
  std::vector<uint64_t> frames;  // addresses, innermost first
};
// BoardModule: a loaded file in which addresses are looked up.
struct BoardModule {
  std::string path;
  uint64_t begin = 0, end = 0;  // addresses
  uint64_t base = 0;            // address minus base: offset in the file, as addr2line needs it
};

struct BoardFile;  // the layout: rank_board_layout.h

struct BoardOwner {
  int64_t rank = 0, generation = 0;
  std::string node;
};

class BoardWriter {
 public:
  BoardWriter();  // without a file: every call is one branch
  // Replaces an existing file, and starts the heartbeat thread.
  BoardWriter(const std::filesystem::path& path, const BoardOwner& owner);
  static BoardWriter from_environment(int64_t rank);  // LONGHAUL_BOARD, LONGHAUL_GENERATION, LONGHAUL_NODE
  ~BoardWriter();
  BoardWriter(BoardWriter&&) noexcept;
  BoardWriter& operator=(BoardWriter&&) noexcept;

  bool on() const { return state_ != nullptr; }
  // Makes a link to the board in the run's folder, trace/board-<rank>, where boards_of_run() looks.
  void show_in(const std::filesystem::path& run_folder) const;

  // Called by the computing thread. Returns the previous phase. micro_step: that of the phase; −1: none, the
  // value stays.
  RankPhase enter(RankPhase phase, CallSite at = CallSite::here(), int64_t micro_step = -1);
  // What a phase of the task is called, and how far it is; each call is progress of the rank.
  void show_task_phase(const TaskPhaseState& task);
  void step_started_from(int64_t step);  // the last step completed before this process, for a resumed run
  struct Step {
    int64_t step = 0;
    double seconds = 0, loss = 0, gradient_norm = 0;
    int64_t tokens = 0, own_tokens = 0;  // of all ranks, and of this one
    double work = 0;                     // BoardStep::work
    // What a device took for the phases in which it computes, in place of the host's time in them.
    std::optional<PhaseSeconds> device_seconds = {};
  };
  void step_ended(const Step& step);
  // Only the first failure is kept. consequence: another rank's failure was the reason.
  void failed(int64_t code, std::string_view text, bool consequence = false);
  void ended();
  void device_bytes(int64_t bytes);

  // The flight recorder, written by comm::CallLog from any thread. Groups and calls are numbered from 0 in
  // their order. While the computing thread waits for a call, the phase is kCommunication.
  void add_group(const GroupPlace& place);
  void calls_begin_at(int64_t number);  // earlier calls are not recorded
  void call_entered(const CallRecord& call);
  void call_started(int64_t number);
  void call_awaited(int64_t number);
  void call_ended(int64_t number, bool well);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class BoardReader {
 public:
  // kData error where the file has another version.
  static std::optional<BoardReader> open(const std::filesystem::path& path);
  BoardReader(BoardReader&&) noexcept;
  BoardReader& operator=(BoardReader&&) noexcept;
  ~BoardReader();

  RankProgress progress() const;
  std::vector<BoardStep> steps() const;  // the last steps, oldest first
  // names may be cut; exchanges have at most kBoardMessages messages and no rows
  RankRecords calls() const;
  std::vector<BoardStack> stacks() const;  // of the last request; empty: none was answered
  // The signal that ended the process; stacks() is then the stack of the thread that crashed; 0: none.
  int64_t crashed() const;
  int64_t stack_answers() const;  // number of requests answered so far
  std::vector<BoardModule> modules() const;

 private:
  struct State;
  explicit BoardReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The boards of a run's ranks on this machine, by rank. Ranks that have not begun, or whose daemon has
// cleaned up, have none.
std::vector<BoardReader> boards_of_run(const std::filesystem::path& run_folder);

}  // namespace longhaul::observe
