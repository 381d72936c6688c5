// CallLog: records the calls of a rank, and how far each has come. Traced writes it. The same list has
// several uses:
//
//   a trace            all calls: bytes, counts, and spans for a picture of time
//   spans              of a step that is recorded, as the calls end (observe/trace/spans.h)
//   a flight recorder  the last `capacity` calls, written as JSON when a call fails: which rank never came,
//                      and to which call (disagreement.h)
//
// With a board (observe/board/rank_board.h) the same records are shown on it, where another process can
// read them. All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/wrappers/traffic.h"
#include "comm/wrappers/wrapper.h"
#include "observe/board/rank_board.h"
#include "observe/trace/spans.h"

namespace longhaul::comm {

using observe::calls_folder, observe::read_calls, observe::forget_calls, observe::to_json,
    observe::rank_records;
using observe::CallState, observe::MessageRecord, observe::CallRecord, observe::RankRecords;

struct CallTotals {
  int64_t calls = 0;
  Traffic traffic;
  int64_t waited_ns = 0;  // for calls that ended
};

class CallLog {
 public:
  static constexpr size_t kAll = 0;
  explicit CallLog(int64_t rank, size_t capacity = kAll) : rank_(rank), capacity_(capacity) {}
  // The first call that fails writes the log to "<folder>/calls-<rank>.json"; the folder must exist.
  void write_on_failure(std::string folder);
  // Shows the calls that end while the recorder records.
  void show_in(std::shared_ptr<observe::SpanRecorder> spans);
  // Shows all calls from now on, and the groups so far; the board must outlive this log.
  void show_on(observe::BoardWriter& board);

  // These functions are called by Traced.
  size_t add_group(const GroupPlace& place);
  int64_t entered(size_t group, const Call& call, const Communicator& of);  // returns its number
  void started(int64_t number);
  void awaited(int64_t number);
  // error: empty if the call succeeded. end_ns: 0 for now.
  void ended(int64_t number, const std::string& error, int64_t end_ns = 0);

  RankRecords records() const;
  // Totals by kind of group ("tp") and of call, since the beginning; they include calls whose records were
  // dropped.
  std::map<std::pair<std::string, CallKind>, CallTotals> totals() const;
  Traffic traffic() const;  // of all calls

 private:
  CallRecord* find(int64_t number);  // null: dropped
  RankRecords records_locked() const;
  void show(const CallRecord& record, int64_t end_ns) const;

  const int64_t rank_;
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<GroupPlace> groups_;
  std::vector<CallRecord> ring_;
  int64_t next_ = 0;
  std::map<std::pair<std::string, CallKind>, CallTotals> totals_;
  std::string folder_;
  std::shared_ptr<observe::SpanRecorder> spans_;
  observe::BoardWriter* board_ = nullptr;
  // Messages so far, by group, peer and direction. The counts tell which message of one rank belongs to
  // which of another.
  std::map<std::tuple<size_t, int64_t, Direction>, int64_t> messages_;
  bool written_ = false;
};

}  // namespace longhaul::comm
