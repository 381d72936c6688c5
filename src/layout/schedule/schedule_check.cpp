#include "layout/schedule/schedule_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.h"

namespace longhaul::layout {
namespace {

// Walks all lists at the same time, each as far as possible.
class Player {
 public:
  Player(const Schedule& schedule, const PassCosts& costs, Messages messages = Messages::kIndependent)
      : schedule_(schedule),
        costs_(costs),
        messages_(messages),
        next_(schedule.ranks.size(), 0),
        clock_(schedule.ranks.size(), 0),
        in_flight_(next_.size(), 0) {
    timeline_.ranks.resize(next_.size());
    timeline_.busy.resize(next_.size(), 0);
    timeline_.peak_in_flight.resize(next_.size(), 0);
  }

  // Empty, or what went wrong.
  std::string play() {
    for (bool moved = true; moved && flaw_.empty();) {
      moved = false;
      for (int64_t rank = 0; rank < size() && flaw_.empty(); ++rank) {
        const auto& list = schedule_.ranks[at(rank)];
        while (flaw_.empty() && next_[at(rank)] < list.size() && step(rank, list[next_[at(rank)]])) {
          ++next_[at(rank)];
          moved = true;
        }
      }
    }
    if (flaw_.empty()) require_ends();
    if (flaw_.empty()) require_complete();
    return flaw_;
  }

  Timeline timeline() {
    for (const double clock : clock_) timeline_.makespan = std::max(timeline_.makespan, clock);
    const double busy = std::accumulate(timeline_.busy.begin(), timeline_.busy.end(), 0.0);
    timeline_.bubble = 1 - busy / (timeline_.makespan * static_cast<double>(size()));
    return std::move(timeline_);
  }

 private:
  // Between two ranks by one channel.
  struct Way {
    struct End {
      int64_t micro_batch, stage;  // stage: the one that made the tensor
      double time;
      bool awaited = false;
    };
    std::vector<End> sends, receives;  // the n-th belong together
  };
  // Pass (either backward one: kBackwardInput), stage, micro-batch.
  using Done = std::tuple<Pass, int64_t, int64_t>;

  int64_t size() const { return static_cast<int64_t>(schedule_.ranks.size()); }
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  bool fail(int64_t rank, const Action& action, const std::string& why) {
    flaw_ = fmt::format("rank {}, {}: {}", rank, text(action), why);
    return false;
  }

  bool step(int64_t rank, const Action& action) {
    const int64_t stage = schedule_.stage_of(rank, action);
    if (stage < 0 || action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches) {
      return fail(rank, action, "it does not come here");
    }
    if (!action.transfer()) return run(rank, stage, action);
    const bool sending = action.pass == Pass::kStartSend || action.pass == Pass::kWaitSend;
    if (action.peer < 0 || action.peer >= size() || action.peer == rank)
      return fail(rank, action, "no such neighbour");
    const int64_t made_by = sending ? stage : stage + (action.channel == Channel::kActivations ? -1 : 1);
    Way& way = ways_[{sending ? rank : action.peer, sending ? action.peer : rank, action.channel}];
    if (action.pass == Pass::kStartSend) enqueue(rank, action, way.sends.size());
    if (action.pass == Pass::kStartReceive) enqueue(rank, action, way.receives.size());
    switch (action.pass) {
      case Pass::kStartSend:
        if (!done_.contains({action.channel == Channel::kActivations ? Pass::kForward : Pass::kBackwardInput,
                             stage, action.micro_batch})) {
          return fail(rank, action, "the tensor is not there yet");
        }
        way.sends.push_back({action.micro_batch, stage, clock_[at(rank)]});
        return true;
      case Pass::kStartReceive:
        way.receives.push_back({action.micro_batch, made_by, clock_[at(rank)]});
        return true;
      default:
        return wait(rank, action, made_by, way, sending);
    }
  }

  // ---- queues of messages (Messages)

  using Message = std::pair<MessageWay, size_t>;  // the n-th on its way
  using Queue = std::pair<int64_t, MessageWay>;   // of a rank

  Queue queue_of(int64_t rank, const MessageWay& way) const {
    return {rank, messages_ == Messages::kInOrderByWay ? way : MessageWay{way.channel, -1, -1}};
  }
  void enqueue(int64_t rank, const Action& action, size_t number) {
    const MessageWay way = way_of(rank, action);
    if (messages_ != Messages::kIndependent) queues_[queue_of(rank, way)].push_back({way, number});
  }
  bool first(int64_t rank, const Message& message) const {
    const auto queue = queues_.find(queue_of(rank, message.first));
    return queue != queues_.end() && !queue->second.empty() && queue->second.front() == message;
  }
  // Whether the message has gone: first all go that stand first at both ends.
  bool moved(const MessageWay& way, size_t number) {
    if (messages_ == Messages::kIndependent) return true;
    for (bool any = true; any;) {
      any = false;
      for (auto& [of, queue] : queues_) {
        if (queue.empty()) continue;
        const Message head = queue.front();
        if (!first(head.first.sender, head) || !first(head.first.receiver, head)) continue;
        queues_[queue_of(head.first.sender, head.first)].pop_front();
        queues_[queue_of(head.first.receiver, head.first)].pop_front();
        gone_.insert(head);
        any = true;
      }
    }
    return gone_.contains({way, number});
  }

  bool wait(int64_t rank, const Action& action, int64_t made_by, Way& way, bool sending) {
    std::vector<Way::End>&own = sending ? way.sends : way.receives,
    &other = sending ? way.receives : way.sends;
    const auto mine = std::ranges::find_if(own, [&](const Way::End& end) {
      return end.micro_batch == action.micro_batch && end.stage == made_by;
    });
    if (mine == own.end()) return fail(rank, action, "it was never started");
    if (mine->awaited) return fail(rank, action, "it was waited for before");
    const auto index = static_cast<size_t>(mine - own.begin());
    if (other.size() <= index) return false;  // later
    const Way::End& match = other[index];
    if (match.micro_batch != mine->micro_batch || match.stage != mine->stage) {
      return fail(rank, action,
                  fmt::format("rank {} has micro-batch {} of stage {} in its place", action.peer,
                              match.micro_batch, match.stage));
    }
    if (!moved(way_of(rank, action), index)) return false;  // later
    mine->awaited = true;
    clock_[at(rank)] = std::max(clock_[at(rank)], std::max(mine->time, match.time) + costs_.transfer);
    if (!sending) arrived_.insert({action.channel, made_by, action.micro_batch});
    return true;
  }

  // Whether the tensor from a neighbouring stage is on this rank.
  bool has(int64_t rank, Channel channel, int64_t made_by, int64_t micro_batch) const {
    if (schedule_.pipeline.hop(schedule_.route_of(micro_batch), made_by).rank != rank)
      return arrived_.contains({channel, made_by, micro_batch});
    return done_.contains(
        {channel == Channel::kActivations ? Pass::kForward : Pass::kBackwardInput, made_by, micro_batch});
  }

  bool run(int64_t rank, int64_t stage, const Action& action) {
    const int64_t m = action.micro_batch;
    const Pass kind = action.backward() ? Pass::kBackwardInput : action.pass;
    if (done_.contains({kind, stage, m})) return fail(rank, action, "it comes twice");
    double cost = 0;
    switch (action.pass) {
      case Pass::kForward:
        if (stage > 0 && !has(rank, Channel::kActivations, stage - 1, m))
          return fail(rank, action, "its input is not there");
        cost = costs_.forward;
        ++in_flight_[at(rank)];
        break;
      case Pass::kBackward:
      case Pass::kBackwardInput:
        if (!done_.contains({Pass::kForward, stage, m}))
          return fail(rank, action, "its forward pass has not been");
        if (stage + 1 < schedule_.pipeline.stages() && !has(rank, Channel::kGradients, stage + 1, m)) {
          return fail(rank, action, "the gradient of its output is not there");
        }
        cost = costs_.backward_input + (action.pass == Pass::kBackward ? costs_.backward_weight : 0);
        break;
      case Pass::kBackwardWeight:
        if (!done_.contains({Pass::kBackwardInput, stage, m}))
          return fail(rank, action, "its backward pass has not been");
        cost = costs_.backward_weight;
        break;
      default:
        return fail(rank, action, "a transfer without a channel");
    }
    done_.insert({kind, stage, m});
    if (action.pass == Pass::kBackward) done_.insert({Pass::kBackwardWeight, stage, m});
    return took(rank, action, cost);
  }

  // For the next pass on this rank.
  bool in_turns(int64_t rank, const Action& action) const {
    const size_t i = next_[at(rank)];
    return schedule_.pairs_in_turns && (action.joined || (i > 0 && schedule_.ranks[at(rank)][i - 1].joined));
  }

  bool took(int64_t rank, const Action& action, double cost) {
    cost *= static_cast<double>(size()) / static_cast<double>(schedule_.pipeline.stages());
    const bool paired = in_turns(rank, action);
    if (paired) cost *= costs_.in_turns();
    int64_t& peak = timeline_.peak_in_flight[at(rank)];
    peak = std::max(peak, in_flight_[at(rank)]);
    if (in_flight_[at(rank)] > schedule_.most_in_flight[at(rank)]) {
      return fail(rank, action,
                  fmt::format("more than {} activations are held", schedule_.most_in_flight[at(rank)]));
    }
    if (action.pass == Pass::kBackward || action.pass == Pass::kBackwardWeight) --in_flight_[at(rank)];
    timeline_.ranks[at(rank)].push_back({action, clock_[at(rank)], clock_[at(rank)] + cost, paired});
    timeline_.busy[at(rank)] += cost;
    clock_[at(rank)] += cost;
    return true;
  }

  void require_ends() {
    std::string stuck;
    for (int64_t rank = 0; rank < size(); ++rank) {
      const auto& list = schedule_.ranks[at(rank)];
      if (next_[at(rank)] == list.size()) continue;
      stuck +=
          fmt::format("{}rank {} at \"{}\"", stuck.empty() ? "" : ", ", rank, text(list[next_[at(rank)]]));
    }
    if (!stuck.empty()) flaw_ = "these wait for ever: " + stuck;
  }

  void require_complete() {
    for (int64_t stage = 0; stage < schedule_.pipeline.stages(); ++stage) {
      for (int64_t m = 0; m < schedule_.micro_batches; ++m) {
        for (const auto& [pass, name] : {std::pair{Pass::kForward, "forward pass"},
                                         {Pass::kBackwardInput, "backward pass"},
                                         {Pass::kBackwardWeight, "gradient of weights"}}) {
          if (!schedule_.trains && pass != Pass::kForward) continue;
          if (done_.contains({pass, stage, m})) continue;
          flaw_ = fmt::format("micro-batch {} has no {} in stage {}", m, name, stage);
          return;
        }
      }
    }
    for (const auto& [ends, way] : ways_) {
      const auto awaited = [](const Way::End& end) { return end.awaited; };
      if (way.sends.size() == way.receives.size() && std::ranges::all_of(way.sends, awaited) &&
          std::ranges::all_of(way.receives, awaited))
        continue;
      flaw_ = fmt::format("between rank {} and rank {} not everything that was started is waited for",
                          std::get<0>(ends), std::get<1>(ends));
      return;
    }
  }

  const Schedule& schedule_;
  PassCosts costs_;
  Messages messages_;
  std::map<Queue, std::deque<Message>> queues_;
  std::set<Message> gone_;
  std::vector<size_t> next_;
  std::vector<double> clock_;
  std::vector<int64_t> in_flight_;
  std::map<std::tuple<int64_t, int64_t, Channel>, Way> ways_;  // sender, receiver
  std::set<std::tuple<Channel, int64_t, int64_t>> arrived_;    // channel, stage that made it, micro-batch
  std::set<Done> done_;
  Timeline timeline_;
  std::string flaw_;
};

}  // namespace

double PassCosts::in_turns() const {
  const double both = forward + backward_input + backward_weight, exchanges = 2 * exchange;
  return both > 0 ? std::max(both - exchanges, exchanges) / both : 1;
}

Timeline simulate(const Schedule& schedule, const PassCosts& costs) {
  Player player(schedule, costs);
  const std::string flaw = player.play();
  LONGHAUL_ASSERT(flaw.empty(), "the schedule is wrong: {}", flaw);
  return player.timeline();
}

std::string flaw_of(const Schedule& schedule, Messages messages) {
  return Player(schedule, {}, messages).play();
}

}  // namespace longhaul::layout
