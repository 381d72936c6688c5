#include "detect/hang/wait_graph.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace longhaul::detect {

using observe::CallKind, observe::CallRecord, observe::CallState, observe::Direction, observe::RankRecords;

namespace {

// Refused by a back end that had failed before: the rank came too late.
bool came_too_late(const CallRecord& call) {
  return call.state == CallState::kFailed && call.started_ns == 0;
}

// It waits, or waited until the call failed.
bool stands_in(const CallRecord& call) {
  return call.blocks() || (call.state == CallState::kFailed && call.started_ns != 0);
}

Direction other_way(Direction direction) {
  return direction == Direction::kSend ? Direction::kReceive : Direction::kSend;
}

void add_once(std::vector<int64_t>& to, int64_t rank) {
  if (std::ranges::find(to, rank) == to.end()) to.push_back(rank);
}

}  // namespace

WaitGraph::WaitGraph(const std::vector<const RankRecords*>& ranks) {
  for (const RankRecords* rank : ranks) index(*rank);
  for (const RankRecords* rank : ranks) {
    for (const CallRecord& call : rank->calls) {
      if (stands_in(call)) stand(*rank, call);
    }
  }
  for (const StandingCall& each : standing_) {
    std::set<int64_t>& edges = edges_[each.rank];
    edges.insert(each.missing.begin(), each.missing.end());
    edges.insert(each.not_started.begin(), each.not_started.end());
    if (edges.empty()) stuck_.insert(each.rank);
  }
  std::erase_if(edges_, [](const auto& each) { return each.second.empty(); });
}

void WaitGraph::index(const RankRecords& rank) {
  known_.insert(rank.rank);
  for (const observe::GroupPlace& place : rank.groups)
    members_[{place.path, rank.rank}].dropped = rank.dropped > 0;
  for (const CallRecord& call : rank.calls) {
    const observe::GroupPlace& place = rank.groups[call.group];
    Member& member = members_[{place.path, rank.rank}];
    if (came_too_late(call)) continue;
    if (call.kind != CallKind::kExchange) {
      member.collectives[call.sequence] = &call;
      continue;
    }
    for (const observe::MessageRecord& message : call.messages) {
      if (message.peer < 0 || message.peer >= static_cast<int64_t>(place.top_ranks.size())) continue;
      member
          .messages[{place.top_ranks[static_cast<size_t>(message.peer)], message.direction, message.number}] =
          &call;
    }
  }
}

auto WaitGraph::collective_of(const std::string& path, int64_t member, int64_t sequence) const
    -> std::pair<Came, const CallRecord*> {
  if (!knows(member)) return {Came::kUnknown, nullptr};
  const auto of = members_.find({path, member});
  if (of == members_.end()) return {Came::kNo, nullptr};  // it has not even created the group
  const auto& calls = of->second.collectives;
  const auto call = calls.find(sequence);
  if (call != calls.end()) return {Came::kYes, call->second};
  // Numbers rise by one: a rank that has reached a later call has made this one, and the ring has dropped it.
  if (!calls.empty()) return {calls.rbegin()->first > sequence ? Came::kYes : Came::kNo, nullptr};
  return {of->second.dropped ? Came::kUnknown : Came::kNo, nullptr};
}

auto WaitGraph::message_of(const std::string& path, int64_t member, int64_t peer, Direction direction,
                           int64_t number) const -> std::pair<Came, const CallRecord*> {
  if (!knows(member)) return {Came::kUnknown, nullptr};
  const auto of = members_.find({path, member});
  if (of == members_.end()) return {Came::kNo, nullptr};
  const auto& messages = of->second.messages;
  const auto found = messages.find({peer, direction, number});
  if (found != messages.end()) return {Came::kYes, found->second};
  const auto later = messages.upper_bound({peer, direction, number});
  const auto same_way = [&](const auto& each) {
    return std::get<0>(each.first) == peer && std::get<1>(each.first) == direction;
  };
  if (later != messages.end() && same_way(*later)) return {Came::kYes, nullptr};
  if (later != messages.begin() && same_way(*std::prev(later))) return {Came::kNo, nullptr};
  return {of->second.dropped ? Came::kUnknown : Came::kNo, nullptr};
}

void WaitGraph::stand(const RankRecords& rank, const CallRecord& call) {
  const observe::GroupPlace& place = rank.groups[call.group];
  StandingCall standing{.rank = rank.rank, .call = &call, .place = &place};
  const auto note = [&](int64_t member, const std::pair<Came, const CallRecord*>& found) {
    if (found.first == Came::kNo) add_once(standing.missing, member);
    if (found.first == Came::kUnknown) add_once(standing.unknown, member);
    if (found.second == nullptr) return;
    if (found.second->kind != call.kind ||
        (call.kind != CallKind::kExchange && found.second->text != call.text))
      add_once(standing.others, member);
    if (found.second->state == CallState::kEntered) add_once(standing.not_started, member);
  };
  if (call.kind == CallKind::kExchange) {
    for (const observe::MessageRecord& message : call.messages) {
      if (message.peer < 0 || message.peer >= static_cast<int64_t>(place.top_ranks.size())) continue;
      const int64_t peer = place.top_ranks[static_cast<size_t>(message.peer)];
      if (peer != rank.rank)
        note(peer, message_of(place.path, peer, rank.rank, other_way(message.direction), message.number));
    }
  } else {
    for (const int64_t member : place.top_ranks) {
      if (member != rank.rank) note(member, collective_of(place.path, member, call.sequence));
    }
  }
  standing_.push_back(std::move(standing));
}

std::set<int64_t> WaitGraph::ends() const {
  std::set<int64_t> all;
  for (const auto& [rank, edges] : edges_) all.insert(edges.begin(), edges.end());
  std::erase_if(all, [this](int64_t rank) { return waits(rank); });
  return all;
}

std::vector<int64_t> WaitGraph::waiting_for(int64_t rank) const {
  std::set<int64_t> found;
  std::deque<int64_t> left{rank};
  while (!left.empty()) {
    const int64_t at = left.front();
    left.pop_front();
    for (const auto& [from, edges] : edges_) {
      if (edges.contains(at) && from != rank && found.insert(from).second) left.push_back(from);
    }
  }
  return {found.begin(), found.end()};
}

// From any waiting rank, follow the ranks that wait themselves; a rank that is reached again closes the
// circle.
std::vector<int64_t> WaitGraph::circle() const {
  for (const auto& [start, waited_for] : edges_) {
    std::vector<int64_t> path;
    for (int64_t at = start;;) {
      const auto passed = std::ranges::find(path, at);
      if (passed != path.end()) return {passed, path.end()};
      path.push_back(at);
      const std::set<int64_t>& others = edges_.at(at);
      const auto next = std::ranges::find_if(others, [&](int64_t other) { return edges_.contains(other); });
      if (next == others.end()) break;
      at = *next;
    }
  }
  return {};
}

}  // namespace longhaul::detect
