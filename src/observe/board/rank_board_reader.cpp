#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/shared_file.h"
#include "observe/board/rank_board_layout.h"

namespace longhaul::observe {
namespace {

CallRecord call_of(const BoardFile::Call& entry) {
  CallRecord call{.number = entry.number - 1,
                  .group = static_cast<size_t>(entry.group),
                  .kind = static_cast<CallKind>(std::clamp(entry.kind, 0, kCallKinds - 1)),
                  .sequence = entry.sequence,
                  .name = entry.name.text(),
                  .text = entry.text.text(),
                  .traffic = entry.traffic,
                  .state = static_cast<CallState>(std::clamp(entry.state, 0, 3)),
                  .entered_ns = entry.entered_ns,
                  .started_ns = entry.started_ns,
                  .awaited_ns = entry.awaited_ns,
                  .ended_ns = entry.ended_ns};
  for (int64_t i = 0; i < std::clamp<int64_t>(entry.messages, 0, kBoardMessages); ++i) {
    const BoardFile::Message& message = entry.message[i];
    call.messages.push_back({.direction = message.direction == 0 ? Direction::kSend : Direction::kReceive,
                             .peer = message.peer,
                             .tensor = message.tensor.text(),
                             .number = message.number});
  }
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
  std::optional<CallRecord> call(int64_t number) const;
  std::vector<GroupPlace> groups() const;
};

// Empty: it was replaced, or its rank died during the write.
std::optional<CallRecord> BoardReader::State::call(int64_t number) const {
  const auto entry = board().calls[number % kBoardCalls].load();
  if (entry.torn || entry.value.number != number + 1) return std::nullopt;
  return call_of(entry.value);
}

std::vector<GroupPlace> BoardReader::State::groups() const {
  const int64_t written =
      std::clamp<int64_t>(board().groups_written.load(std::memory_order_acquire), 0, BoardFile::kGroups);
  std::vector<GroupPlace> groups;
  for (int64_t number = 0; number < written; ++number) {
    const BoardFile::Group& entry = board().groups[number];
    const int64_t first = std::clamp<int64_t>(entry.first, 0, BoardFile::kMembers);
    const int64_t last = std::clamp<int64_t>(first + entry.count, first, BoardFile::kMembers);
    groups.push_back(
        {.path = entry.path.text(), .top_ranks = {board().members + first, board().members + last}});
  }
  return groups;
}

BoardReader::BoardReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
BoardReader::BoardReader(BoardReader&&) noexcept = default;
BoardReader& BoardReader::operator=(BoardReader&&) noexcept = default;
BoardReader::~BoardReader() = default;

std::optional<BoardReader> BoardReader::open(const std::filesystem::path& path) {
  std::optional<SharedFile> file = SharedFile::open(path, sizeof(BoardFile));
  if (!file) {
    std::error_code nothing;
    const uintmax_t bytes = std::filesystem::file_size(path, nothing);
    // A fitting one came after the first reading: the next call finds it.
    if (nothing || bytes == sizeof(BoardFile)) return std::nullopt;
  }
  auto state = file ? std::make_unique<State>(State{std::move(*file)}) : nullptr;
  if (state == nullptr || state->board().magic != BoardFile::kMagic ||
      state->board().version != BoardFile::kVersion) {
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
  RankProgress progress{
      .rank = board.owner.rank,
      .generation = board.owner.generation,
      .pid = board.owner.pid,
      .host = board.owner.host.text(),
      .node = board.owner.node.text(),
      .beat_ns = board.beat_ns.load(std::memory_order_relaxed),
      .progress_ns = board.progress_ns.load(std::memory_order_relaxed),
      .step = now.step,
      .resumed_step = now.resumed_step,
      .micro_step = now.micro_step,
      .phase = static_cast<RankPhase>(std::clamp<int64_t>(now.phase, 0, kRankPhases - 1)),
      .phase_since_ns = now.phase_since_ns,
      .phase_at = now.phase_at.text(),
      .task_phase = {now.task_phase.text(), now.task_allowed_s, now.task_done, now.task_whole},
      .loss = now.loss,
      .gradient_norm = now.gradient_norm,
      .tokens = now.tokens,
      .step_seconds = now.step_seconds,
      .phase_seconds = now.last_step,
      .resident_bytes = board.resident_bytes.load(std::memory_order_relaxed),
      .device_bytes = board.device_bytes.load(std::memory_order_relaxed),
      .error_code = end.code,
      .error_text = end.text.text(),
      .failed_ns = end.failed_ns,
      .consequence = end.consequence != 0,
      .ended = end.ended != 0};
  const BoardFile::Background background = board.background.load().value;
  for (int64_t i = 0; i < std::clamp<int64_t>(background.count, 0, kBoardBackground); ++i)
    progress.background.push_back(
        {background.work[i].name.text(), background.work[i].since_ns, background.work[i].allowed_s});
  const int64_t waited = board.waited_call.load(std::memory_order_relaxed),
                end_of_calls = board.calls_end.load(std::memory_order_acquire);
  std::optional<CallRecord> call;
  if (waited > 0) call = state_->call(waited - 1);
  if (!call && end_of_calls > 0) call = state_->call(end_of_calls - 1);
  if (!call) return progress;
  const std::vector<GroupPlace> groups = state_->groups();
  progress.collective = {
      .group = call->group < groups.size() ? groups[call->group].path : fmt::format("group {}", call->group),
      .kind = std::string(name_of(call->kind)),
      .name = call->name,
      .sequence = call->sequence,
      .state = call->state};
  return progress;
}

std::vector<BoardStep> BoardReader::steps() const {
  const BoardFile& board = state_->board();
  const int64_t written = board.steps_written.load(std::memory_order_acquire);
  std::vector<BoardStep> steps;
  for (int64_t at = std::max<int64_t>(0, written - kBoardSteps); at < written; ++at) {
    const auto read = board.steps[at % kBoardSteps].load();
    // Replaced while this was read.
    if (read.torn || (!steps.empty() && read.value.step <= steps.back().step)) continue;
    steps.push_back({.step = read.value.step,
                     .end_ns = read.value.end_ns,
                     .seconds = read.value.seconds,
                     .phase_seconds = read.value.phase_seconds,
                     .tokens = read.value.tokens,
                     .work = read.value.work});
  }
  return steps;
}

RankRecords BoardReader::calls() const {
  const BoardFile& board = state_->board();
  const int64_t begin = board.calls_begin.load(std::memory_order_acquire),
                end = board.calls_end.load(std::memory_order_acquire);
  RankRecords records{.rank = board.owner.rank, .groups = state_->groups()};
  for (int64_t number = std::max(begin, end - kBoardCalls); number < end; ++number) {
    std::optional<CallRecord> call = state_->call(number);
    if (call && call->group < records.groups.size()) records.calls.push_back(std::move(*call));
  }
  records.dropped = end - static_cast<int64_t>(records.calls.size());
  return records;
}

int64_t BoardReader::crashed() const {
  return state_->board().stacks.crashed.load(std::memory_order_acquire);
}
int64_t BoardReader::stack_answers() const {
  return state_->board().stacks.answers.load(std::memory_order_acquire);
}

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
    stack.frames.assign(thread.frames,
                        thread.frames + std::clamp<int64_t>(thread.count, 0, StackArea::kFrames));
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

std::vector<BoardModule> BoardReader::modules() const {
  const BoardFile& board = state_->board();
  const int64_t written =
      std::clamp<int64_t>(board.modules_written.load(std::memory_order_acquire), 0, BoardFile::kModules);
  std::vector<BoardModule> modules;
  for (int64_t i = 0; i < written; ++i) {
    const BoardFile::Module& module = board.modules[i];
    modules.push_back(
        {.path = module.path.text(), .begin = module.begin, .end = module.end, .base = module.base});
  }
  return modules;
}

std::vector<BoardReader> boards_of_run(const std::filesystem::path& run_folder) {
  std::vector<BoardReader> boards;
  if (!std::filesystem::is_directory(calls_folder(run_folder))) return boards;
  for (const auto& link : list_files(calls_folder(run_folder))) {
    if (!link.filename().string().starts_with(kBoardLink)) continue;
    std::error_code gone;
    const std::filesystem::path board = std::filesystem::canonical(link, gone);
    if (gone) continue;
    if (auto reader = BoardReader::open(board)) boards.push_back(std::move(*reader));
  }
  std::ranges::sort(boards, {}, [](const BoardReader& board) { return board.progress().rank; });
  return boards;
}

}  // namespace longhaul::observe
