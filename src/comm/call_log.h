// CallLog: what a rank called, and how far each call came; Traced writes it. Uses of one list:
//
//   a trace            all calls: bytes, counts, and spans for a picture of time
//   spans              of a step that is recorded, as they end (observe/spans.h)
//   a flight recorder  the last `capacity` of them, written as JSON when a call fails: which rank never came, and to what (disagreement.h)
//
// A call is entered (the rank asks for it), started (the back end has taken it), awaited (the rank can do nothing until it ends), done or failed.
// A call that nobody waits for stays started. Times are monotonic_ns(). All functions from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/traffic.h"
#include "comm/wrapper.h"
#include "observe/spans.h"

namespace longhaul::comm {

enum class CallState : uint8_t { kEntered, kStarted, kDone, kFailed };
std::string_view name_of(CallState state);  // "entered"

struct MessageRecord {
  Direction direction = Direction::kSend;
  int64_t peer = 0;
  std::string tensor;  // "fp32 [3, 4]"
};

struct CallRecord {
  int64_t number = 0;  // among all calls of the rank
  size_t group = 0;    // of RankRecords::groups
  CallKind kind = CallKind::kBarrier;
  int64_t sequence = 0;
  std::string name, text;                        // text: describe(call), what ranks have to agree on
  std::vector<int64_t> send_rows, receive_rows;  // all_to_all
  std::vector<MessageRecord> messages;           // exchange
  Traffic traffic;
  CallState state = CallState::kEntered;
  int64_t entered_ns = 0, started_ns = 0, awaited_ns = 0, ended_ns = 0;  // 0: not yet
  std::string error;

  // The rank can do nothing until it ends.
  bool blocks() const { return awaited_ns != 0 && ended_ns == 0; }
};

struct RankRecords {
  int64_t rank = 0;                // among the ranks of the world
  std::vector<GroupPlace> groups;  // of the world, and all that were split off
  std::vector<CallRecord> calls;   // in the order in which they were entered
  int64_t dropped = 0;             // older ones
};

struct CallTotals {
  int64_t calls = 0;
  Traffic traffic;
  int64_t waited_ns = 0;  // for calls that ended
};

class CallLog {
 public:
  static constexpr size_t kAll = 0;
  explicit CallLog(int64_t rank, size_t capacity = kAll) : rank_(rank), capacity_(capacity) {}
  // The first call that fails writes the log there: a folder that exists, "<folder>/calls-<rank>.json".
  void write_on_failure(std::string folder);
  void show_in(std::shared_ptr<observe::SpanRecorder> spans);  // calls that end while it records

  // Of Traced.
  size_t add_group(const GroupPlace& place);
  int64_t entered(size_t group, const Call& call, const Communicator& of);  // → its number
  void started(int64_t number);
  void awaited(int64_t number);
  // error: empty: well. end_ns: 0: now
  void ended(int64_t number, const std::string& error, int64_t end_ns = 0);

  RankRecords records() const;
  // By kind of group ("tp") and of call; since the beginning, whatever was dropped.
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
  bool written_ = false;
};

// What the ranks of a failed run have left, by rank: <run>/trace/calls-<rank>.json. Without `forget_calls` they would be told of once more.
std::filesystem::path calls_folder(const std::filesystem::path& run_folder);
std::vector<RankRecords> read_calls(const std::filesystem::path& run_folder);
void forget_calls(const std::filesystem::path& run_folder);

// Names as in PyTorch's flight recorder ("2.4"), so its readers understand most of it; what it has no name for stands beside.
nlohmann::ordered_json to_json(const RankRecords& records);
RankRecords rank_records(std::string_view json, const std::string& where);  // kData error of what is not one

}  // namespace longhaul::comm
