#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "layout/schedule/schedule.h"

namespace longhaul::layout {
namespace {

// The transfers at the passes of one rank, by index.
struct Around {
  std::vector<Action> before_start;  // receives that start before the pass
  std::vector<Action> before, after;
};

// A message from its receiver's view: the action that needs it, and the best start of its receive.
struct Awaited {
  Action needed_by;
  size_t start = 0;
};

// Passes around which transfers are placed, but never within: single ones, or runs of joined ones.
struct Runs {
  Runs(const std::vector<Action>& passes, bool of_joined) : begin(passes.size()), end(passes.size()) {
    const auto joined = [&](size_t i) { return of_joined && passes[i].joined; };
    for (size_t i = 0; i < passes.size(); ++i) begin[i] = i > 0 && joined(i - 1) ? begin[i - 1] : i;
    for (size_t i = passes.size(); i-- > 0;) end[i] = joined(i) && i + 1 < passes.size() ? end[i + 1] : i;
  }
  std::vector<size_t> begin, end;  // first and last pass of the run of each
};

class Inserter {
 public:
  Inserter(Schedule& schedule, bool around_pairs) : schedule_(schedule) {
    for (const auto& list : schedule_.ranks) {
      runs_.emplace_back(list, around_pairs);
      around_.emplace_back(list.size());
      last_.emplace_back();
    }
  }

  void run() {
    for (int64_t rank = 0; rank < size(); ++rank) find_awaited(rank);
    for (int64_t rank = 0; rank < size(); ++rank) add_sends(rank);
    place_starts();
    for (int64_t rank = 0; rank < size(); ++rank) join(rank);
  }

 private:
  // receiver, channel, its chunk, micro-batch
  using Message = std::tuple<int64_t, Channel, int64_t, int64_t>;

  int64_t size() const { return static_cast<int64_t>(schedule_.ranks.size()); }
  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  // The hop from which a pass gets its tensor (way −1 of forward passes), or to which its own goes (+1); rank
  // −1: none, or this rank.
  Hop neighbour(int64_t rank, const Action& pass, int64_t way) const {
    const int64_t stage = schedule_.stage_of(rank, pass) + (pass.backward() ? -way : way);
    if (stage < 0 || stage >= schedule_.pipeline.stages()) return {-1, 0};
    const Hop hop = schedule_.pipeline.hop(schedule_.route_of(pass.micro_batch), stage);
    return hop.rank == rank ? Hop{-1, 0} : hop;
  }
  static Action transfer(Pass kind, const Action& pass, int64_t peer) {
    return {.pass = kind,
            .chunk = pass.chunk,
            .micro_batch = pass.micro_batch,
            .channel = pass.backward() ? Channel::kGradients : Channel::kActivations,
            .peer = peer};
  }
  static bool moves(const Action& pass) { return pass.pass == Pass::kForward || pass.backward(); }

  void find_awaited(int64_t rank) {
    const auto& list = schedule_.ranks[at(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      const Hop from = moves(list[i]) ? neighbour(rank, list[i], -1) : Hop{-1, 0};
      if (from.rank < 0) continue;
      const Action wait = transfer(Pass::kWaitReceive, list[i], from.rank);
      const size_t begin = runs_[at(rank)].begin[i];
      around_[at(rank)][begin].before.push_back(wait);
      awaited_[{rank, wait.channel, wait.chunk, wait.micro_batch}] = {
          list[i], begin == 0 ? 0 : runs_[at(rank)].begin[begin - 1]};
    }
  }

  void add_sends(int64_t rank) {
    const auto& list = schedule_.ranks[at(rank)];
    std::map<int64_t, std::deque<Action>> gradients_to;       // under way, by peer
    std::map<std::pair<int64_t, int64_t>, Action> hidden_of;  // likewise, by chunk and micro-batch
    for (size_t i = 0; i < list.size(); ++i) {
      if (!moves(list[i])) continue;
      if (const auto sent = hidden_of.find({list[i].chunk, list[i].micro_batch});
          list[i].backward() && sent != hidden_of.end()) {
        around_[at(rank)][runs_[at(rank)].begin[i]].before.push_back(sent->second);
        hidden_of.erase(sent);
      }
      const Hop to = neighbour(rank, list[i], +1);
      if (to.rank < 0) continue;
      const Action start = transfer(Pass::kStartSend, list[i], to.rank);
      Action wait = start;
      wait.pass = Pass::kWaitSend;
      auto& after = around_[at(rank)][runs_[at(rank)].end[i]].after;
      if (start.channel == Channel::kGradients) {
        auto& under_way = gradients_to[to.rank];
        if (static_cast<int64_t>(under_way.size()) == schedule_.gradients_under_way) {
          after.push_back(under_way.front());
          under_way.pop_front();
        }
        under_way.push_back(wait);
      } else {
        hidden_of[{wait.chunk, wait.micro_batch}] = wait;
      }
      after.push_back(start);
      sent_[{rank, to.rank, start.channel}].push_back({to.rank, start.channel, to.chunk, start.micro_batch});
    }
    for (const auto& [place, wait] : hidden_of) last_[at(rank)].push_back(wait);
    for (const auto& [peer, waits] : gradients_to)
      last_[at(rank)].insert(last_[at(rank)].end(), waits.begin(), waits.end());
  }

  // Receives start in the order of their sends: one that is needed late, but sent early, starts early.
  void place_starts() {
    for (auto& [way, messages] : sent_) {
      const int64_t receiver = std::get<1>(way);
      for (size_t k = messages.size(); k-- > 1;) {
        size_t& before = awaited_.at(messages[k - 1]).start;
        before = std::min(before, awaited_.at(messages[k]).start);
      }
      for (const Message& message : messages) {
        const Awaited& awaited = awaited_.at(message);
        around_[at(receiver)][awaited.start].before_start.push_back(
            transfer(Pass::kStartReceive, awaited.needed_by, std::get<0>(way)));
      }
    }
  }

  void join(int64_t rank) {
    std::vector<Action> whole;
    auto& list = schedule_.ranks[at(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      const Around& around = around_[at(rank)][i];
      for (const auto* part : {&around.before_start, &around.before})
        whole.insert(whole.end(), part->begin(), part->end());
      whole.push_back(list[i]);
      whole.insert(whole.end(), around.after.begin(), around.after.end());
    }
    whole.insert(whole.end(), last_[at(rank)].begin(), last_[at(rank)].end());
    list = std::move(whole);
  }

  Schedule& schedule_;
  std::vector<Runs> runs_;
  std::vector<std::vector<Around>> around_;
  std::vector<std::vector<Action>> last_;  // after all passes
  std::map<Message, Awaited> awaited_;
  // By sender, receiver and channel, in order.
  std::map<std::tuple<int64_t, int64_t, Channel>, std::vector<Message>> sent_;
};

}  // namespace

MessageWay way_of(int64_t rank, const Action& transfer) {
  const bool sends = transfer.pass == Pass::kStartSend || transfer.pass == Pass::kWaitSend;
  return {transfer.channel, sends ? rank : transfer.peer, sends ? transfer.peer : rank};
}

std::vector<MessageWay> ways_of(const Pipeline& pipeline) {
  std::set<MessageWay> ways;
  for (int64_t route = 0; route < pipeline.routes(); ++route) {
    for (int64_t stage = 1; stage < pipeline.stages(); ++stage) {
      const int64_t from = pipeline.hop(route, stage - 1).rank, to = pipeline.hop(route, stage).rank;
      if (from == to) continue;
      ways.insert({Channel::kActivations, from, to});
      ways.insert({Channel::kGradients, to, from});
    }
  }
  return {ways.begin(), ways.end()};
}

Schedule with_transfers(Schedule passes) {
  Inserter(passes, /*around_pairs=*/false).run();
  return passes;
}

Schedule with_transfers_around_pairs(Schedule passes) {
  Inserter(passes, /*around_pairs=*/true).run();
  passes.pairs_in_turns = true;
  return passes;
}

}  // namespace longhaul::layout
