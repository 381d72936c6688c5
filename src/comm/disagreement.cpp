#include "comm/disagreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text/text.h"

namespace longhaul::comm {
namespace {

// One member's calls in one group.
struct MemberCalls {
  const RankRecords* of = nullptr;
  const GroupPlace* place = nullptr;
  size_t position = 0;  // in the group
  std::vector<const CallRecord*> collectives, exchanges;

  // The call of that number; null: it never came.
  const CallRecord* collective(int64_t sequence) const {
    const auto found = std::ranges::lower_bound(collectives, sequence, {}, &CallRecord::sequence);
    return found == collectives.end() || (*found)->sequence != sequence ? nullptr : *found;
  }
};

// A call that the back end refused, because the group had failed before: the rank came too late.
bool too_late(const CallRecord& call) { return call.state == CallState::kFailed && call.started_ns == 0; }

std::string ranks_text(const std::vector<int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

class GroupComparison {
 public:
  GroupComparison(const std::string& path, const std::vector<MemberCalls>& members,
                  std::vector<Disagreement>& found)
      : path_(path), members_(members), found_(found) {}

  void run() {
    if (!same_members()) return;  // then nothing else can be told apart
    compare_collectives();
    compare_messages();
  }

 private:
  using Kind = Disagreement::Kind;

  void add(Kind kind, const std::string& call, std::vector<int64_t> ranks, std::string text) {
    found_.push_back({kind, path_, call, std::move(ranks), fmt::format("'{}': {}", path_, text)});
  }

  bool same_members() {
    for (const MemberCalls& member : members_) {
      if (member.place->top_ranks == members_[0].place->top_ranks) continue;
      add(Kind::kMembers, "", {members_[0].of->rank, member.of->rank},
          fmt::format("rank {} has {} members, rank {} other ones", members_[0].of->rank,
                      members_[0].place->top_ranks.size(), member.of->rank));
      return false;
    }
    return true;
  }

  void compare_collectives() {
    int64_t first = 0, last = -1;  // numbers that no ring has dropped
    for (const MemberCalls& member : members_) {
      if (member.collectives.empty()) continue;
      if (member.of->dropped > 0) first = std::max(first, member.collectives.front()->sequence);
      last = std::max(last, member.collectives.back()->sequence);
    }
    for (int64_t sequence = first; sequence <= last; ++sequence) {
      if (!compare_collective(sequence)) return;
    }
  }

  // Whether the next call is worth looking at.
  bool compare_collective(int64_t sequence) {
    std::map<std::string, std::vector<int64_t>> by_text;
    std::vector<int64_t> absent, late;
    const CallRecord* call = nullptr;  // of a rank that came
    for (const MemberCalls& member : members_) {
      const CallRecord* const record = member.collective(sequence);
      if (record == nullptr) {
        absent.push_back(member.of->rank);
        continue;
      }
      by_text[record->text].push_back(member.of->rank);
      if (too_late(*record))
        late.push_back(member.of->rank);
      else
        call = record;
    }
    // Where a rank never came at all, others may have been refused because of it.
    const std::vector<int64_t>& missing = absent.empty() ? late : absent;
    if (by_text.size() > 1) {
      add_different_calls(sequence, by_text);
      return false;
    }
    if (call == nullptr) return false;  // nobody came: what follows was refused too
    if (!missing.empty()) {
      add(Kind::kMissing, label(*call), missing,
          fmt::format("{} never came to {}", ranks_text(missing), label(*call)));
      return false;
    }
    return call->kind != CallKind::kAllToAll || rows_fit(sequence);
  }

  void add_different_calls(int64_t sequence, const std::map<std::string, std::vector<int64_t>>& by_text) {
    const auto most =
        std::ranges::max_element(by_text, {}, [](const auto& each) { return each.second.size(); });
    std::vector<int64_t> others;
    std::string text = fmt::format("call {} is {} on {}", sequence, most->first, ranks_text(most->second));
    for (auto each = by_text.begin(); each != by_text.end(); ++each) {
      if (each == most) continue;
      others.insert(others.end(), each->second.begin(), each->second.end());
      text += fmt::format(", {} on {}", each->first, ranks_text(each->second));
    }
    std::ranges::sort(others);
    add(Kind::kCalls, most->first, others, text);
  }

  bool rows_fit(int64_t sequence) {
    for (const MemberCalls& a : members_) {
      for (const MemberCalls& b : members_) {
        const CallRecord &sends = *a.collective(sequence), &receives = *b.collective(sequence);
        const int64_t sent = sends.send_rows.at(b.position), received = receives.receive_rows.at(a.position);
        if (sent == received) continue;
        add(Kind::kSizes, label(sends), {a.of->rank, b.of->rank},
            fmt::format("{}: rank {} sends {} rows to rank {}, which receives {}", label(sends), a.of->rank,
                        sent, b.of->rank, received));
        return false;
      }
    }
    return true;
  }

  struct Message {
    const CallRecord* call;
    const MessageRecord* record;
  };
  std::vector<Message> messages(const MemberCalls& of, Direction direction, const MemberCalls& peer) const {
    std::vector<Message> list;
    for (const CallRecord* call : of.exchanges) {
      for (const MessageRecord& each : call->messages) {
        if (each.direction == direction && each.peer == static_cast<int64_t>(peer.position))
          list.push_back({call, &each});
      }
    }
    return list;
  }

  void compare_messages() {
    const bool any =
        std::ranges::any_of(members_, [](const MemberCalls& member) { return !member.exchanges.empty(); });
    for (size_t a = 0; any && a < members_.size(); ++a) {
      for (size_t b = 0; b < members_.size(); ++b) {
        // A ring that lost calls no longer tells which message of one is which of the other.
        if (members_[a].of->dropped == 0 && members_[b].of->dropped == 0 &&
            !messages_fit(members_[a], members_[b]))
          return;
      }
    }
  }

  bool messages_fit(const MemberCalls& from, const MemberCalls& to) {
    const std::vector<Message> sent = messages(from, Direction::kSend, to),
                               received = messages(to, Direction::kReceive, from);
    for (size_t i = 0; i < std::min(sent.size(), received.size()); ++i) {
      if (sent[i].record->tensor == received[i].record->tensor) continue;
      add(Kind::kSizes, label(*sent[i].call), {from.of->rank, to.of->rank},
          fmt::format("rank {} sends {} in {}, rank {} receives {} in {}", from.of->rank,
                      sent[i].record->tensor, label(*sent[i].call), to.of->rank, received[i].record->tensor,
                      label(*received[i].call)));
      return false;
    }
    if (sent.size() == received.size()) return true;
    const bool more_sent = sent.size() > received.size();
    const Message& alone = more_sent ? sent[received.size()] : received[sent.size()];
    const int64_t came = more_sent ? from.of->rank : to.of->rank,
                  missing = more_sent ? to.of->rank : from.of->rank;
    add(Kind::kPartner, label(*alone.call), {missing},
        fmt::format("rank {} {} {} in {}, and rank {} never {} it", came, more_sent ? "sends" : "expects",
                    alone.record->tensor, label(*alone.call), missing, more_sent ? "receives" : "sends"));
    return false;
  }

  const std::string& path_;
  const std::vector<MemberCalls>& members_;
  std::vector<Disagreement>& found_;
};

std::map<std::string, std::vector<MemberCalls>> by_group(const std::vector<RankRecords>& ranks) {
  std::map<std::string, std::vector<MemberCalls>> groups;
  for (const RankRecords& rank : ranks) {
    std::vector<MemberCalls> own;
    for (const GroupPlace& place : rank.groups) {
      const auto position =
          static_cast<size_t>(std::ranges::find(place.top_ranks, rank.rank) - place.top_ranks.begin());
      own.push_back({.of = &rank, .place = &place, .position = position});
    }
    for (const CallRecord& call : rank.calls) {
      MemberCalls& member = own[call.group];
      (call.kind == CallKind::kExchange ? member.exchanges : member.collectives).push_back(&call);
    }
    for (MemberCalls& member : own) groups[member.place->path].push_back(std::move(member));
  }
  return groups;
}

// Who among the missing waits for nobody.
void name_suspects(const std::vector<RankRecords>& ranks, Comparison& comparison) {
  std::set<int64_t> missing, waiting;
  for (const Disagreement& each : comparison.disagreements) {
    if (each.kind == Disagreement::Kind::kMissing || each.kind == Disagreement::Kind::kPartner)
      missing.insert(each.ranks.begin(), each.ranks.end());
  }
  for (const RankRecords& rank : ranks) {
    // Whoever waited until a call failed had come to it.
    const bool waits = std::ranges::any_of(rank.calls, [](const CallRecord& call) {
      return call.blocks() || (call.state == CallState::kFailed && call.started_ns != 0);
    });
    if (waits) waiting.insert(rank.rank);
  }
  std::ranges::set_difference(missing, waiting, std::back_inserter(comparison.suspects));
  comparison.circle = !missing.empty() && comparison.suspects.empty();
}

}  // namespace

Comparison compare_records(const std::vector<RankRecords>& ranks) {
  Comparison comparison;
  for (const auto& [path, members] : by_group(ranks)) {
    ++comparison.groups;
    if (members.size() == members[0].place->top_ranks.size()) ++comparison.whole_groups;
    GroupComparison(path, members, comparison.disagreements).run();
  }
  for (const RankRecords& rank : ranks) comparison.calls += static_cast<int64_t>(rank.calls.size());
  name_suspects(ranks, comparison);
  return comparison;
}

std::string Comparison::text() const {
  if (agreed()) return fmt::format("{} calls in {} groups agree", calls, groups);
  std::string text;
  for (const Disagreement& each : disagreements) text += each.text + "\n";
  if (!suspects.empty())
    text += fmt::format("look first at {}: nothing there waits for others\n", ranks_text(suspects));
  if (circle) text += "all ranks that are missing wait for others themselves, in a circle\n";
  return text;
}

std::string summary_of_calls(const std::filesystem::path& run_folder) {
  const std::vector<RankRecords> ranks = read_calls(run_folder);
  if (ranks.empty()) return "";
  std::string text = compare_records(ranks).text();
  if (!text.ends_with('\n')) text += "\n";
  return fmt::format("{}The last calls of {} lie in {}", text, counted(std::ssize(ranks), "rank"),
                     calls_folder(run_folder).string());
}

}  // namespace longhaul::comm
