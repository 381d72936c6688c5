// The board of a rank: what it does just now, for the daemon that watches over it (control/). One file in /dev/shm of fixed layout, written
// by the rank and read by the daemon without asking it: so a rank that hangs, is stopped or was killed still tells where it was.
//
//   BoardWriter board = BoardWriter::from_environment();      // LONGHAUL_BOARD; without it every call is one branch
//   board.enter(RankPhase::kForward);  board.step_ended({…});
//   std::optional<BoardReader> reader = BoardReader::open(path);           // empty: the rank has not come that far
//   const RankProgress now = reader->progress();
//
// Being alive is not getting on: beat_ns is touched by a thread of its own each second, progress_ns by every new step, phase and call. All
// times are monotonic_ns() of the rank's machine. The thread that beats also ends the process when its node's lease is over. The writer is safe from any thread; a reader belongs to one. Source: docs/sources/reliability.md §5.2.
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

namespace longhaul::observe {

enum class RankPhase : uint8_t {
  kStart,
  kLoad,  // a checkpoint
  kData,
  kForward,
  kBackward,
  kCommunication,  // the thread that computes waits for other ranks
  kOptimizer,
  kCheckpoint,  // its copy; writing goes on behind
  kEvaluation,
  kIdle,  // none of these: between steps, and behind the last one
};
inline constexpr int kRankPhases = 10;
std::string_view name_of(RankPhase phase);  // "forward"
std::optional<RankPhase> rank_phase_named(std::string_view name);
using PhaseSeconds = std::array<double, kRankPhases>;  // by RankPhase

struct RankProgress {
  int64_t rank = 0, generation = 0, pid = 0;
  std::string host, node;  // node: LONGHAUL_NODE
  int64_t beat_ns = 0, progress_ns = 0;
  int64_t step = 0;          // the last that ended; −1: none is known yet
  int64_t resumed_step = 0;  // of the checkpoint that this process went on from; 0: from the beginning; −1: not known yet
  int64_t micro_step = -1;   // micro-batch of the step that runs; −1: none
  RankPhase phase = RankPhase::kStart;
  int64_t phase_since_ns = 0;
  std::string phase_at;  // "src/train/step.cpp:128": where the phase was entered
  struct Collective {
    std::string group;      // "world/dp 0"; empty: there was no call yet
    std::string kind;       // "all_reduce"
    std::string name;       // what it is for
    int64_t sequence = -1;  // of the group
    CallState state = CallState::kDone;
    bool operator==(const Collective&) const = default;
  } collective;                        // the first that the rank waits for, else the last
  double loss = 0, gradient_norm = 0;  // of the last step; NaN before it
  int64_t tokens = 0;                  // of the last step, of all ranks
  double step_seconds = 0;
  PhaseSeconds phase_seconds{};  // of the last step
  int64_t resident_bytes = 0, device_bytes = 0;
  std::vector<BackgroundWork> background;  // what other threads are at, as it was a second ago; the oldest kBoardBackground
  int64_t error_code = 0;                  // an ExitCode; 0: none
  std::string error_text;                  // at most 4 KiB
  int64_t failed_ns = 0;                   // when it failed
  bool consequence = false;                // another rank had failed before: this one only says so
  bool ended = false;                      // the rank has left by itself: with error_code, or well
};

// One step of the ring of the last kBoardSteps.
struct BoardStep {
  int64_t step = 0;
  int64_t end_ns = 0;
  double seconds = 0;
  PhaseSeconds phase_seconds{};
  int64_t tokens = 0;  // of this rank alone
  double work = 0;     // Σ length² of its documents, for mixers whose cost grows so; 0: unknown
};
inline constexpr int kBoardSteps = 256;

inline constexpr int kBoardBackground = 8;

inline constexpr int kBoardCalls = 2048, kBoardMessages = 8;  // of the flight recorder, the last ones; of an exchange

// A thread as it was when it was asked (SIGUSR2).
struct BoardStack {
  int64_t thread = 0;
  std::string name;   // "longhaul"
  char state = '?';   // of /proc: R, S, D, T…
  std::string waits;  // in the kernel: "futex_wait_queue"; empty: it does not, or the kernel does not tell
  bool answered = false;
  std::vector<uint64_t> frames;  // addresses, innermost first
};
// A loaded file: where to look an address up.
struct BoardModule {
  std::string path;
  uint64_t begin = 0, end = 0;  // addresses
  uint64_t base = 0;            // address minus base: place in the file, as addr2line wants it
};

struct BoardFile;  // the layout: rank_board_layout.h

struct BoardOwner {
  int64_t rank = 0, generation = 0;
  std::string node;
};

class BoardWriter {
 public:
  BoardWriter();                                                            // of no file: every call is one branch
  BoardWriter(const std::filesystem::path& path, const BoardOwner& owner);  // replaces a file that is there; starts the thread that beats
  static BoardWriter from_environment(int64_t rank);                        // LONGHAUL_BOARD, LONGHAUL_GENERATION, LONGHAUL_NODE
  ~BoardWriter();
  BoardWriter(BoardWriter&&) noexcept;
  BoardWriter& operator=(BoardWriter&&) noexcept;

  bool on() const { return state_ != nullptr; }
  // A link to it in the run's folder, trace/board-<rank>, for whoever asks there (boards_of_run).
  void show_in(const std::filesystem::path& run_folder) const;

  // Of the thread that computes. → the phase before. micro_step: that of the phase; −1: of none, it stays what it was.
  RankPhase enter(RankPhase phase, CallSite at = CallSite::here(), int64_t micro_step = -1);
  void step_started_from(int64_t step);  // the last that was done before, of a run that goes on
  struct Step {
    int64_t step = 0;
    double seconds = 0, loss = 0, gradient_norm = 0;
    int64_t tokens = 0, own_tokens = 0;  // of all ranks, of this one
    double work = 0;                     // BoardStep::work
  };
  void step_ended(const Step& step);
  // The first one stands. consequence: of another rank's failure.
  void failed(int64_t code, std::string_view text, bool consequence = false);
  void ended();
  void device_bytes(int64_t bytes);

  // The flight recorder, of comm::CallLog; any thread. Groups and calls are numbered from 0 in their order. A call that the thread that computes
  // waits for is phase kCommunication.
  void add_group(const GroupPlace& place);
  void calls_begin_at(int64_t number);  // those before are not told of
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
  static std::optional<BoardReader> open(const std::filesystem::path& path);  // kData error of a file of another version
  BoardReader(BoardReader&&) noexcept;
  BoardReader& operator=(BoardReader&&) noexcept;
  ~BoardReader();

  RankProgress progress() const;
  std::vector<BoardStep> steps() const;    // the last ones, oldest first
  RankRecords calls() const;               // names may be cut; of exchanges at most kBoardMessages messages, no rows
  std::vector<BoardStack> stacks() const;  // of the last request; empty: none was answered
  int64_t crashed() const;                 // the signal that the process ended by: stacks() is then the thread's that crashed; 0: none
  int64_t stack_answers() const;           // requests that were answered so far
  std::vector<BoardModule> modules() const;

 private:
  struct State;
  explicit BoardReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Those of a run's ranks on this machine, by rank; ranks that have not begun, or whose daemon has tidied up, have none.
std::vector<BoardReader> boards_of_run(const std::filesystem::path& run_folder);

}  // namespace longhaul::observe
