// The bytes of a board (rank_board.h), only for its writer and its reader. All are zero at first. Any change
// here needs another kVersion: writer and reader belong to the same program, and a daemon refuses the board
// of another version.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/process/stack_area.h"
#include "base/threads/sequenced.h"
#include "observe/board/rank_board.h"

namespace longhaul::observe {

// FixedText: a text of at most N − 1 bytes; a longer one is cut.
template <size_t N>
struct FixedText {
  char bytes[N];
  void operator=(std::string_view text) {
    const size_t size = std::min(text.size(), N - 1);
    std::memcpy(bytes, text.data(), size);
    std::memset(bytes + size, 0, N - size);
  }
  std::string text() const { return {bytes, ::strnlen(bytes, N)}; }
};

inline constexpr std::string_view kBoardLink = "board-";  // in <run>/trace, followed by the rank's number

struct BoardFile {
  static constexpr uint64_t kMagic = 0x3144'524f'4142'484c;  // "LHBAORD1"
  static constexpr uint64_t kVersion = 4;
  static constexpr int64_t kGroups = 512, kMembers = 1 << 16, kModules = 64;

  struct Owner {
    int64_t rank, generation, pid;
    FixedText<64> host, node;
  };
  struct Now {
    int64_t step, resumed_step, micro_step, phase, phase_since_ns;
    double loss, gradient_norm;
    int64_t tokens;
    double step_seconds;
    PhaseSeconds last_step, this_step;  // this_step: without the current phase
    FixedText<64> phase_at;
    FixedText<32> task_phase;
    double task_allowed_s;
    int64_t task_done, task_whole;
  };
  struct End {
    int64_t code, ended, failed_ns, consequence;
    FixedText<4096> text;
  };
  struct Step {
    int64_t step, end_ns;
    double seconds;
    PhaseSeconds phase_seconds;
    int64_t tokens;
    double work;
  };
  struct Message {
    int32_t peer, direction;
    int64_t number;
    FixedText<24> tensor;
  };
  struct Call {
    int64_t number, group, sequence;  // number: 1 + the call's; 0: an empty place
    int32_t kind, state;
    Traffic traffic;
    int64_t entered_ns, started_ns, awaited_ns, ended_ns;
    int64_t messages;
    Message message[kBoardMessages];
    FixedText<48> name;
    FixedText<88> text;
  };
  struct Group {
    int64_t first, count;  // range in `members`
    FixedText<112> path;
  };
  struct Module {
    uint64_t begin, end, base;
    FixedText<232> path;
  };

  struct Background {
    int64_t count;
    struct Work {
      int64_t since_ns;
      double allowed_s;
      FixedText<32> name;
    } work[kBoardBackground];
  };

  uint64_t magic, version;
  Owner owner;
  std::atomic<int64_t> beat_ns, progress_ns, resident_bytes, device_bytes;
  std::atomic<int64_t> waited_call;  // 1 + its number; 0: none
  std::atomic<int64_t> steps_written, groups_written, modules_written;
  std::atomic<int64_t> calls_begin, calls_end;  // numbers
  Sequenced<Now> now;
  Sequenced<End> end;
  Sequenced<Background> background;
  Sequenced<Step> steps[kBoardSteps];
  Group groups[kGroups];      // those below groups_written never change
  int32_t members[kMembers];  // never change either
  Sequenced<Call> calls[kBoardCalls];
  Module modules[kModules];
  StackArea stacks;
};
static_assert(std::is_trivially_destructible_v<BoardFile> && std::atomic<int64_t>::is_always_lock_free);

}  // namespace longhaul::observe
