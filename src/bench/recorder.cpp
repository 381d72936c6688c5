// What a rank pays for telling where it is (observe/rank_board.h): a phase, and a call of a communicator with its record, each with a board and
// without. Checked by reading back what was written.
#include "base/shared_memory.h"
#include "bench/benchmark.h"
#include "bench/register.h"
#include "comm/single.h"
#include "comm/traced.h"
#include "observe/spans.h"

namespace longhaul::bench {
namespace {

constexpr int kTimes = 1000;

Result result_of(const std::string& what, const std::function<void()>& work, bool right) {
  Result result{.name = "recorder", .shape = what, .dtype = "", .error = right ? -1.0 : 1.0};
  const Timing time = time_of([&] {
    for (int i = 0; i < kTimes; ++i) work();
  });
  result.passes.push_back({.name = "", .time = time});
  result.figures.emplace_back("nanoseconds_each", time.median * 1e6 / kTimes);
  return result;
}

void bench_with(observe::BoardWriter& board, const observe::BoardReader* reader, Results& into) {
  const std::string with = reader != nullptr ? "with a board" : "without a board";
  observe::SpanRecorder spans;
  spans.show_on(board);
  const auto phase = [&] { const observe::SpanScope scope(spans, observe::SpanKind::kForward, 0, 1); };
  phase();
  into.push_back(result_of("phase, " + with, phase, reader == nullptr || reader->progress().micro_step == 1));

  const auto alone = std::make_shared<comm::Single>();
  const auto log = std::make_shared<comm::CallLog>(0, 256);
  comm::Traced traced(comm::borrowed(*alone), log);
  log->show_on(board);
  const Tensor numbers = at::ones({4});
  const auto call = [&] { traced.all_reduce(numbers, comm::Reduction::kSum, {"numbers"}).wait(); };
  call();
  into.push_back(result_of("call of a group of one, " + with, call, reader == nullptr || reader->calls().calls.back().name == "numbers"));
}

}  // namespace

void bench_recorder(const Request&, Results& into) {
  observe::BoardWriter none;
  bench_with(none, nullptr, into);
  const std::filesystem::path folder = shared_memory_folder("bench-recorder");
  observe::BoardWriter board(folder / "board", {});
  const auto reader = observe::BoardReader::open(folder / "board");
  bench_with(board, &*reader, into);
  std::filesystem::remove_all(folder);
}

}  // namespace longhaul::bench
