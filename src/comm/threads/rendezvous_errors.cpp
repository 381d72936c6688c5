// What a Rendezvous says when its group fails.
#include <algorithm>

#include "comm/communicator.h"
#include "comm/threads/rendezvous.h"

namespace longhaul::comm {

void Rendezvous::abort(int64_t rank, const std::string& reason) {
  const Lock lock(world_->mutex);
  fail({.fields = {.code = ExitCode::kCommunication,
                   .what = fmt::format("rank {} of '{}' aborted", rank, name_),
                   .found = reason},
        .aborted = true});
}

// The first failure stays: what comes after it is its consequence.
void Rendezvous::fail(Failure failure) {
  if (world_->failure) return;
  world_->failure = std::move(failure);
  for (std::condition_variable& changed : world_->wake) changed.notify_all();
}

void Rendezvous::throw_failure(int64_t rank, const std::string& call) const {
  ErrorFields fields = world_->failure->fields;
  fields.where = fmt::format("rank {} of '{}', {}", rank, name_, call);
  if (world_->failure->aborted) throw Aborted(std::move(fields));
  throw Error(std::move(fields));
}

// "ranks 0, 2: all_reduce 'loss' (sum, fp32 [3]); rank 1: barrier 'end'"
void Rendezvous::fail_disagreement(const Operation& operation) {
  std::vector<std::pair<std::string, std::vector<size_t>>> sayings;
  for (size_t rank = 0; rank < operation.calls.size(); ++rank) {
    if (!operation.arrived[rank]) continue;
    std::string text = describe(operation.calls[rank]);
    const auto known = std::find_if(sayings.begin(), sayings.end(),
                                    [&](const auto& saying) { return saying.first == text; });
    if (known == sayings.end()) {
      sayings.push_back({std::move(text), {rank}});
    } else {
      known->second.push_back(rank);
    }
  }
  std::string found;
  for (const auto& [text, ranks] : sayings) {
    found += fmt::format("{}rank{} {}: {}", found.empty() ? "" : "; ", ranks.size() > 1 ? "s" : "",
                         fmt::join(ranks, ", "), text);
  }
  const auto any =
      std::find(operation.arrived.begin(), operation.arrived.end(), true) - operation.arrived.begin();
  fail({.fields = {.code = ExitCode::kCommunication,
                   .what = fmt::format("ranks disagree about call {} of '{}'",
                                       operation.calls[static_cast<size_t>(any)].sequence, name_),
                   .expected = fmt::format("the same calls in the same order on all {} ranks", size()),
                   .found = std::move(found)}});
}

void Rendezvous::fail_absent(int64_t rank, const std::string& needed_by) {
  const auto index = static_cast<size_t>(rank);
  fail({.fields = {.code = ExitCode::kCommunication,
                   .what = fmt::format("rank {} has left '{}' while others need it", rank, name_),
                   .expected = fmt::format("all {} ranks in {}", size(), needed_by),
                   .found = fmt::format("rank {} left after {} calls{}{}", rank, started_[index],
                                        last_[index].empty() ? "" : ", the last ", last_[index])},
        .aborted = true});
}

void Rendezvous::fail_late(const Ticket& ticket) {
  const bool exchange = ticket.kind == CallKind::kExchange;
  fail({.fields = {.code = ExitCode::kCommunication,
                   .what = fmt::format("{} of '{}' waited too long",
                                       label(ticket.kind, ticket.name, ticket.sequence), name_),
                   .expected = fmt::format(
                       "{} within {} ms",
                       exchange ? "a partner for every message" : fmt::format("all {} ranks", size()),
                       ticket.timeout.count()),
                   .found = exchange ? unmatched_text(*ticket.operation) : absent_text(*ticket.operation)}});
}

// "rank 2 has not come: it has made 4 calls, the last barrier 'start' (call 3)"
std::string Rendezvous::absent_text(const Operation& operation) const {
  std::string text;
  for (size_t rank = 0; rank < operation.arrived.size(); ++rank) {
    if (operation.arrived[rank]) continue;
    text += fmt::format("{}rank {} has not come: it has made {} calls", text.empty() ? "" : "; ", rank,
                        started_[rank]);
    if (!last_[rank].empty()) text += ", the last " + last_[rank];
  }
  return text;
}

// Those of the operation first, then what else is without a partner in the group: the two usually explain
// each other.
std::string Rendezvous::unmatched_text(const Operation& operation) const {
  constexpr int kEnough = 8;
  std::string text;
  int shown = 0;
  const auto add = [&](const Waiting& waiting, const std::string& does, bool own) {
    if ((waiting.operation.get() == &operation) != own || shown == kEnough) return;
    ++shown;
    text += fmt::format("{}rank {} {} in {}", text.empty() ? "without one: " : "; ",
                        waiting.operation->members.front(), does, waiting.call);
  };
  for (const bool own : {true, false}) {
    for (const auto& [ends, channel] : channels_) {
      for (const Waiting& send : channel.sends)
        add(send, fmt::format("sends {} to rank {}", describe(send.tensor), ends.second), own);
      for (const Waiting& receive : channel.receives) {
        add(receive, fmt::format("receives {} from rank {}", describe(receive.tensor), ends.first), own);
      }
    }
  }
  return text;
}

}  // namespace longhaul::comm
