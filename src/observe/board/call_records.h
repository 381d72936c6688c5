// Call records: the communication calls of a rank and how far each came, as plain data. comm::CallLog and a
// board (rank_board.h) keep them, a failed run leaves them in calls-<rank>.json, and they are compared to
// find the rank that never entered a call (detect/hang/hang.h, comm/disagreement.h).
//
// A call is entered (the rank requests it), started (the back end has accepted it), awaited (the rank can do
// nothing until it ends), done or failed. A call for which nobody waits stays started. Times are
// monotonic_ns(). Source: docs/sources/reliability.md §5.8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::observe {

enum class CallKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kExchange,
  kBarrier,
  kSplit
};
inline constexpr int kCallKinds = 8;
std::string_view name_of(CallKind kind);  // "all_reduce"

enum class CallState : uint8_t { kEntered, kStarted, kDone, kFailed };
std::string_view name_of(CallState state);  // "entered"

enum class Direction : uint8_t { kSend, kReceive };

// Traffic: the bytes of tensors that a call moves between this rank and others.
struct Traffic {
  int64_t sent = 0, received = 0;
  bool operator==(const Traffic&) const = default;
};

struct MessageRecord {
  Direction direction = Direction::kSend;
  int64_t peer = 0;    // index in the group
  std::string tensor;  // "fp32 [3, 4]"
  int64_t number = 0;  // among the group's messages from this rank to the peer, or from the peer
};

struct CallRecord {
  int64_t number = 0;  // number among all calls of the rank
  size_t group = 0;    // index into RankRecords::groups
  CallKind kind = CallKind::kBarrier;
  // number among the group's collective calls, or its exchanges
  int64_t sequence = 0;
  std::string name, text;                        // text: what all ranks must agree on
  std::vector<int64_t> send_rows, receive_rows;  // all_to_all
  std::vector<MessageRecord> messages;           // exchange
  Traffic traffic;
  CallState state = CallState::kEntered;
  int64_t entered_ns = 0, started_ns = 0, awaited_ns = 0, ended_ns = 0;  // 0: not yet
  std::string error;

  // True: the rank can do nothing until the call ends.
  bool blocks() const { return awaited_ns != 0 && ended_ns == 0; }
};
std::string label(CallKind kind, const std::string& name, int64_t sequence);  // "all_reduce 'loss' (call 5)"
std::string label(const CallRecord& call);

// GroupPlace: the place of a group in the tree of groups from which it was split.
struct GroupPlace {
  std::string path;  // "world/tp 3": equal on all its ranks, and different from all other groups
  // Its members, in their order, as ranks of the group that was wrapped first.
  std::vector<int64_t> top_ranks;
};

struct RankRecords {
  int64_t rank = 0;                // rank in the world
  std::vector<GroupPlace> groups;  // the world, and all groups that were split off
  std::vector<CallRecord> calls;   // in the order in which they were entered
  int64_t dropped = 0;             // number of older calls that were dropped
};

// The records of a failed run, by rank: <run>/trace/calls-<rank>.json. `forget_calls` removes them, so that
// they are not reported again.
std::filesystem::path calls_folder(const std::filesystem::path& run_folder);
std::vector<RankRecords> read_calls(const std::filesystem::path& run_folder);
void forget_calls(const std::filesystem::path& run_folder);

// Uses the names of PyTorch's flight recorder ("2.4"), so that its readers understand most of it; other
// fields are added.
nlohmann::ordered_json to_json(const RankRecords& records);
// kData error where the text is no record.
RankRecords rank_records(std::string_view json, const std::string& where);

}  // namespace longhaul::observe
