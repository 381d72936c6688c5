// What a rank called, and how far each call came, as plain data: what comm::CallLog and a board (rank_board.h) keep, what a failed run leaves in
// calls-<rank>.json, and what is compared to find out who never came (detect/hang/hang.h, comm/disagreement.h).
//
// A call is entered (the rank asks for it), started (the back end has taken it), awaited (the rank can do nothing until it ends), done or failed.
// A call that nobody waits for stays started. Times are monotonic_ns(). Source: docs/sources/reliability.md §5.8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::observe {

enum class CallKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast, kExchange, kBarrier, kSplit };
inline constexpr int kCallKinds = 8;
std::string_view name_of(CallKind kind);  // "all_reduce"

enum class CallState : uint8_t { kEntered, kStarted, kDone, kFailed };
std::string_view name_of(CallState state);  // "entered"

enum class Direction : uint8_t { kSend, kReceive };

// The bytes of tensors that a call moves between this rank and others.
struct Traffic {
  int64_t sent = 0, received = 0;
  bool operator==(const Traffic&) const = default;
};

struct MessageRecord {
  Direction direction = Direction::kSend;
  int64_t peer = 0;    // place in the group
  std::string tensor;  // "fp32 [3, 4]"
  int64_t number = 0;  // among the group's messages of this rank to the peer, or from it
};

struct CallRecord {
  int64_t number = 0;  // among all calls of the rank
  size_t group = 0;    // of RankRecords::groups
  CallKind kind = CallKind::kBarrier;
  int64_t sequence = 0;                          // among the group's collective calls, or its exchanges
  std::string name, text;                        // text: what ranks have to agree on
  std::vector<int64_t> send_rows, receive_rows;  // all_to_all
  std::vector<MessageRecord> messages;           // exchange
  Traffic traffic;
  CallState state = CallState::kEntered;
  int64_t entered_ns = 0, started_ns = 0, awaited_ns = 0, ended_ns = 0;  // 0: not yet
  std::string error;

  // The rank can do nothing until it ends.
  bool blocks() const { return awaited_ns != 0 && ended_ns == 0; }
};
std::string label(CallKind kind, const std::string& name, int64_t sequence);  // "all_reduce 'loss' (call 5)"
std::string label(const CallRecord& call);

// Where a group stands among those that it was split from.
struct GroupPlace {
  std::string path;                // "world/tp 3": the same on all its ranks, and no other group's
  std::vector<int64_t> top_ranks;  // of its members, in their order: their ranks in the group that was wrapped first
};

struct RankRecords {
  int64_t rank = 0;                // among the ranks of the world
  std::vector<GroupPlace> groups;  // of the world, and all that were split off
  std::vector<CallRecord> calls;   // in the order in which they were entered
  int64_t dropped = 0;             // older ones
};

// What the ranks of a failed run have left, by rank: <run>/trace/calls-<rank>.json. Without `forget_calls` they would be told of once more.
std::filesystem::path calls_folder(const std::filesystem::path& run_folder);
std::vector<RankRecords> read_calls(const std::filesystem::path& run_folder);
void forget_calls(const std::filesystem::path& run_folder);

// Names as in PyTorch's flight recorder ("2.4"), so its readers understand most of it; what it has no name for stands beside.
nlohmann::ordered_json to_json(const RankRecords& records);
RankRecords rank_records(std::string_view json, const std::string& where);  // kData error of what is not one

}  // namespace longhaul::observe
