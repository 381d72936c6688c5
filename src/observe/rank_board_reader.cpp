#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/shared_file.h"
#include "observe/rank_board_layout.h"

namespace longhaul::observe {
namespace {

BoardCall call_of(const BoardFile::Call& entry) {
  BoardCall call{.number = entry.number - 1,
                 .group = entry.group,
                 .kind = static_cast<CallKind>(std::clamp(entry.kind, 0, kCallKinds - 1)),
                 .state = static_cast<BoardCallState>(std::clamp(entry.state, 0, 3)),
                 .sequence = entry.sequence,
                 .name = entry.name.text(),
                 .text = entry.text.text(),
                 .sent = entry.sent,
                 .received = entry.received,
                 .entered_ns = entry.entered_ns,
                 .started_ns = entry.started_ns,
                 .awaited_ns = entry.awaited_ns,
                 .ended_ns = entry.ended_ns};
  for (int64_t i = 0; i < std::clamp<int64_t>(entry.messages, 0, kBoardMessages); ++i)
    call.messages.push_back({.sends = entry.message[i].sends != 0, .peer = entry.message[i].peer, .bytes = entry.message[i].bytes});
  return call;
}

template <size_t N>
std::string text_of(const char (&bytes)[N]) {
  return {bytes, ::strnlen(bytes, N)};
}

}  // namespace

struct BoardReader::State {
  SharedFile file;
  const BoardFile& board() const { return *reinterpret_cast<const BoardFile*>(file.data()); }
  std::optional<BoardCall> call(int64_t number) const;
  BoardGroup group(int64_t number) const;
};

// Empty: it was replaced, or its rank died while it wrote it.
std::optional<BoardCall> BoardReader::State::call(int64_t number) const {
  const auto entry = board().calls[number % kBoardCalls].load();
  if (entry.torn || entry.value.number != number + 1) return std::nullopt;
  return call_of(entry.value);
}

BoardGroup BoardReader::State::group(int64_t number) const {
  const int64_t written = std::clamp<int64_t>(board().groups_written.load(std::memory_order_acquire), 0, BoardFile::kGroups);
  if (number < 0 || number >= written) return {.path = fmt::format("group {}", number)};
  const BoardFile::Group& entry = board().groups[number];
  BoardGroup group{.path = entry.path.text()};
  const int64_t first = std::clamp<int64_t>(entry.first, 0, BoardFile::kMembers);
  const int64_t last = std::clamp<int64_t>(first + entry.count, first, BoardFile::kMembers);
  group.members.assign(board().members + first, board().members + last);
  return group;
}

BoardReader::BoardReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
BoardReader::BoardReader(BoardReader&&) noexcept = default;
BoardReader& BoardReader::operator=(BoardReader&&) noexcept = default;
BoardReader::~BoardReader() = default;

std::optional<BoardReader> BoardReader::open(const std::filesystem::path& path) {
  std::optional<SharedFile> file = SharedFile::open(path, sizeof(BoardFile));
  std::error_code nothing;
  if (!file && !std::filesystem::exists(path, nothing)) return std::nullopt;
  auto state = file ? std::make_unique<State>(State{std::move(*file)}) : nullptr;
  if (state == nullptr || state->board().magic != BoardFile::kMagic || state->board().version != BoardFile::kVersion) {
    throw Error({.code = ExitCode::kData,
                 .what = "this is not the board of a rank of this version",
                 .expected = fmt::format("version {}, {} bytes", BoardFile::kVersion, sizeof(BoardFile)),
                 .where = path.string(),
                 .hint = "run daemon and ranks from the same build"});
  }
  return BoardReader(std::move(state));
}

RankProgress BoardReader::progress() const {
  const BoardFile& board = state_->board();
  const BoardFile::Now now = board.now.load().value;
  const BoardFile::End end = board.end.load().value;
  RankProgress progress{.rank = board.owner.rank,
                        .generation = board.owner.generation,
                        .pid = board.owner.pid,
                        .host = board.owner.host.text(),
                        .node = board.owner.node.text(),
                        .beat_ns = board.beat_ns.load(std::memory_order_relaxed),
                        .progress_ns = board.progress_ns.load(std::memory_order_relaxed),
                        .step = now.step,
                        .micro_step = now.micro_step,
                        .phase = static_cast<RankPhase>(std::clamp<int64_t>(now.phase, 0, kRankPhases - 1)),
                        .phase_since_ns = now.phase_since_ns,
                        .phase_at = now.phase_at.text(),
                        .loss = now.loss,
                        .gradient_norm = now.gradient_norm,
                        .tokens = now.tokens,
                        .step_seconds = now.step_seconds,
                        .phase_seconds = now.last_step,
                        .resident_bytes = board.resident_bytes.load(std::memory_order_relaxed),
                        .device_bytes = board.device_bytes.load(std::memory_order_relaxed),
                        .error_code = end.code,
                        .error_text = end.text.text(),
                        .ended = end.ended != 0};
  const int64_t waited = board.waited_call.load(std::memory_order_relaxed), last = board.calls_written.load(std::memory_order_acquire);
  std::optional<BoardCall> call;
  if (waited > 0) call = state_->call(waited - 1);
  if (!call && last > 0) call = state_->call(last - 1);
  if (call) {
    progress.collective = {.group = state_->group(call->group).path,
                           .kind = std::string(name_of(call->kind)),
                           .name = call->name,
                           .sequence = call->sequence,
                           .state = call->state};
  }
  return progress;
}

std::vector<BoardStep> BoardReader::steps() const {
  const BoardFile& board = state_->board();
  const int64_t written = board.steps_written.load(std::memory_order_acquire);
  std::vector<BoardStep> steps;
  for (int64_t at = std::max<int64_t>(0, written - kBoardSteps); at < written; ++at) {
    const auto read = board.steps[at % kBoardSteps].load();
    if (read.torn || (!steps.empty() && read.value.step <= steps.back().step)) continue;  // replaced while this was read
    steps.push_back({.step = read.value.step,
                     .end_ns = read.value.end_ns,
                     .seconds = read.value.seconds,
                     .phase_seconds = read.value.phase_seconds,
                     .tokens = read.value.tokens,
                     .work = read.value.work});
  }
  return steps;
}

BoardCalls BoardReader::calls() const {
  const BoardFile& board = state_->board();
  const int64_t written = board.calls_written.load(std::memory_order_acquire);
  BoardCalls calls;
  for (int64_t at = std::max<int64_t>(0, written - kBoardCalls); at < written; ++at) {
    if (std::optional<BoardCall> call = state_->call(at)) calls.calls.push_back(std::move(*call));
  }
  calls.dropped = written - static_cast<int64_t>(calls.calls.size());
  const int64_t groups = std::clamp<int64_t>(board.groups_written.load(std::memory_order_acquire), 0, BoardFile::kGroups);
  for (int64_t number = 0; number < groups; ++number) calls.groups.push_back(state_->group(number));
  return calls;
}

int64_t BoardReader::stack_answers() const { return state_->board().stacks.answers.load(std::memory_order_acquire); }

std::vector<BoardStack> BoardReader::stacks() const {
  const StackArea& area = state_->board().stacks;
  std::vector<BoardStack> stacks;
  if (area.answers.load(std::memory_order_acquire) == 0) return stacks;
  for (int64_t i = 0; i < std::clamp<int64_t>(area.count.load(), 0, StackArea::kThreads); ++i) {
    const StackArea::Thread& thread = area.threads[i];
    BoardStack stack{.thread = thread.thread,
                     .name = text_of(thread.name),
                     .state = thread.state[0] != '\0' ? thread.state[0] : '?',
                     .waits = text_of(thread.waits),
                     .answered = thread.count >= 0};
    stack.frames.assign(thread.frames, thread.frames + std::clamp<int64_t>(thread.count, 0, StackArea::kFrames));
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

std::vector<BoardModule> BoardReader::modules() const {
  const BoardFile& board = state_->board();
  const int64_t written = std::clamp<int64_t>(board.modules_written.load(std::memory_order_acquire), 0, BoardFile::kModules);
  std::vector<BoardModule> modules;
  for (int64_t i = 0; i < written; ++i) {
    const BoardFile::Module& module = board.modules[i];
    modules.push_back({.path = module.path.text(), .begin = module.begin, .end = module.end, .base = module.base});
  }
  return modules;
}

}  // namespace longhaul::observe
