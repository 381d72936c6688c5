#include "comm/threads/rendezvous.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "comm/threads/pieces.h"

namespace longhaul::comm {
namespace {

std::shared_ptr<Operation> operation_of(std::vector<int64_t> members, int64_t missing, size_t calls) {
  auto operation = std::make_shared<Operation>();
  operation->members = std::move(members);
  operation->missing = missing;
  operation->calls.resize(calls);
  operation->arrived.resize(calls);
  return operation;
}

}  // namespace

Deadline deadline_after(Timeout timeout) {
  const Deadline now = std::chrono::steady_clock::now();
  return timeout < std::chrono::duration_cast<Timeout>(Deadline::max() - now) ? now + timeout
                                                                              : Deadline::max();
}

Rendezvous::Rendezvous(std::shared_ptr<World> world, std::string name, std::vector<int64_t> world_ranks,
                       Timeout timeout)
    : world_(std::move(world)),
      name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      timeout_(timeout),
      started_(world_ranks_.size()),
      last_(world_ranks_.size()),
      left_(world_ranks_.size()) {}

Ticket Rendezvous::start(int64_t rank, Call call) {
  Ticket ticket{.rank = rank, .kind = call.kind, .name = call.options.name, .sequence = call.sequence};
  ticket.timeout = call.options.timeout.value_or(timeout_);
  ticket.deadline = deadline_after(ticket.timeout);
  Lock lock(world_->mutex);
  if (world_->failure) throw_failure(rank, label(call) + ", which was not started");
  ticket.operation =
      call.kind == CallKind::kExchange ? post(rank, std::move(call)) : arrive(rank, std::move(call));
  while (!ready_.empty()) carry_out_one(lock);  // until nothing is left: others may be far from waiting
  // A call that finds the world failed by its own coming was made all the same: wait() says so.
  return ticket;
}

void Operation::close() {
  ended_ns = monotonic_ns();
  calls.clear();
}

int64_t Rendezvous::ended_ns(const Ticket& ticket) {
  const Lock lock(world_->mutex);
  return ticket.operation->ended_ns;
}

void Rendezvous::wait(const Ticket& ticket) {
  const Operation& operation = *ticket.operation;
  std::condition_variable& changed =
      world_->wake[static_cast<size_t>(world_ranks_[static_cast<size_t>(ticket.rank)])];
  Lock lock(world_->mutex);
  for (;;) {
    if (operation.done()) return;
    // Pieces under way are waited for even so: when this throws, nobody touches the call's tensors any more.
    if (world_->failure && operation.unfinished == 0)
      throw_failure(ticket.rank, label(ticket.kind, ticket.name, ticket.sequence));
    const bool others_decide = operation.missing > 0 && !world_->failure;
    if (!ready_.empty()) {
      carry_out_one(lock);
    } else if (!others_decide || ticket.deadline == Deadline::max()) {
      changed.wait(lock);
    } else if (changed.wait_until(lock, ticket.deadline) == std::cv_status::timeout &&
               operation.missing > 0) {
      fail_late(ticket);
    }
  }
}

bool Rendezvous::done(const Ticket& ticket) {
  const Operation& operation = *ticket.operation;
  const Lock lock(world_->mutex);
  if (operation.missing > 0 && std::chrono::steady_clock::now() >= ticket.deadline) fail_late(ticket);
  return operation.done() || (world_->failure && operation.unfinished == 0);
}

std::shared_ptr<Operation> Rendezvous::arrive(int64_t rank, Call call) {
  const auto self = static_cast<size_t>(rank);
  LONGHAUL_ASSERT(call.sequence == started_[self], "{} after {} calls: a call was made past a wrapper",
                  label(call), started_[self]);
  ++started_[self];
  last_[self] = label(call);
  const auto index = static_cast<size_t>(call.sequence - first_gathering_);
  while (gathering_.size() <= index) {
    std::vector<int64_t> everyone(world_ranks_.size());
    std::iota(everyone.begin(), everyone.end(), 0);
    gathering_.push_back(operation_of(std::move(everyone), size(), world_ranks_.size()));
  }
  const std::shared_ptr<Operation> operation = gathering_[index];
  // Whoever arrived before agrees with each other: one of them speaks for all.
  const auto before = static_cast<size_t>(
      std::find(operation->arrived.begin(), operation->arrived.end(), true) - operation->arrived.begin());
  operation->calls[self] = std::move(call);
  operation->arrived[self] = true;
  if (before < operation->arrived.size() && !agree(operation->calls[before], operation->calls[self])) {
    fail_disagreement(*operation);
  } else if (operation->missing == 1) {
    complete(operation);
  } else {
    --operation->missing;
    for (size_t other = 0; other < left_.size(); ++other) {
      if (left_[other] && !operation->arrived[other]) fail_absent(static_cast<int64_t>(other), last_[self]);
    }
  }
  return operation;
}

// The last rank has arrived, and agrees. What is still contradictory keeps the call from ever being done.
void Rendezvous::complete(const std::shared_ptr<Operation>& operation) {
  if (auto found = contradiction(operation->calls)) {
    return fail({.fields = {.code = ExitCode::kCommunication,
                            .what = fmt::format("ranks contradict each other in {} of '{}'",
                                                label(operation->calls.front()), name_),
                            .expected = std::move(found->expected),
                            .found = std::move(found->found)}});
  }
  LONGHAUL_ASSERT(gathering_.front() == operation, "calls are completed in order");
  gathering_.pop_front();
  ++first_gathering_;
  operation->missing = 0;
  if (operation->calls.front().kind == CallKind::kSplit) make_groups(*operation);
  hand_out(pieces_of(operation->calls), {operation});
}

void Rendezvous::make_groups(Operation& operation) {
  const Call& call = operation.calls.front();
  for (const layout::GroupKind& kind : call.kinds) {
    std::vector<Member>& members = operation.made.emplace_back(world_ranks_.size());
    for (size_t number = 0; number < kind.groups.size(); ++number) {
      std::vector<int64_t> world_ranks;
      for (const int64_t rank : kind.groups[number])
        world_ranks.push_back(world_ranks_[static_cast<size_t>(rank)]);
      const auto group = std::make_shared<Rendezvous>(world_, fmt::format("{} {}", kind.name, number),
                                                      std::move(world_ranks), timeout_);
      int64_t position = 0;
      for (const int64_t rank : kind.groups[number]) members[static_cast<size_t>(rank)] = {group, position++};
    }
  }
}

std::shared_ptr<Operation> Rendezvous::post(int64_t rank, Call call) {
  const std::string name = label(call);
  const std::shared_ptr<Operation> operation =
      operation_of({rank}, static_cast<int64_t>(call.transfers.size()), 1);
  operation->calls.front() = std::move(call);
  // the call's own are let go of with the last of them
  const std::vector<Transfer> transfers = operation->calls.front().transfers;
  for (const Transfer& transfer : transfers) {
    match(rank, transfer, {transfer.tensor, operation, name});
    if (world_->failure) break;
  }
  return operation;
}

void Rendezvous::match(int64_t rank, const Transfer& transfer, Waiting mine) {
  const bool sends = transfer.direction == Direction::kSend;
  Channel& channel = channels_[sends ? std::pair(rank, transfer.peer) : std::pair(transfer.peer, rank)];
  std::deque<Waiting>& partners = sends ? channel.receives : channel.sends;
  if (partners.empty()) {
    if (left_[static_cast<size_t>(transfer.peer)]) fail_absent(transfer.peer, mine.call);
    (sends ? channel.sends : channel.receives).push_back(std::move(mine));
    return;
  }
  const Waiting partner = std::move(partners.front());
  partners.pop_front();
  const Waiting& sent = sends ? mine : partner;
  const Waiting& received = sends ? partner : mine;
  const bool same = sent.tensor.scalar_type() == received.tensor.scalar_type() &&
                    sent.tensor.sizes() == received.tensor.sizes();
  if (!same || overlap(sent.tensor, received.tensor)) {
    const int64_t sender = sends ? rank : transfer.peer, receiver = sends ? transfer.peer : rank;
    return fail({.fields = {.code = ExitCode::kCommunication,
                            .what = fmt::format("a message of '{}' does not fit", name_),
                            .expected = same ? "each rank's tensors in memory of its own"
                                             : "the same dtype and shape on both sides",
                            .found = fmt::format("rank {} sends {} in {}, rank {} receives {} in {}", sender,
                                                 describe(sent.tensor), sent.call, receiver,
                                                 describe(received.tensor), received.call)}});
  }
  --mine.operation->missing;
  --partner.operation->missing;
  hand_out(pieces_of_copy(sent.tensor, received.tensor), {mine.operation, partner.operation});
}

// Where there is nothing to do, the operations may be done with this.
void Rendezvous::hand_out(std::vector<Piece> pieces,
                          const std::vector<std::shared_ptr<Operation>>& operations) {
  for (const std::shared_ptr<Operation>& operation : operations) {
    operation->unfinished += static_cast<int64_t>(pieces.size());
    if (operation->done()) operation->close();
    if (pieces.size() != 1) wake(*operation);  // to find it done, or to help
  }
  for (Piece& piece : pieces) ready_.push_back({std::move(piece), operations});
}

void Rendezvous::carry_out_one(Lock& lock) {
  const Ready next = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  combine(next.piece);
  lock.lock();
  for (const std::shared_ptr<Operation>& operation : next.operations) {
    if (--operation->unfinished > 0) continue;
    if (operation->done()) operation->close();
    wake(*operation);
  }
}

void Rendezvous::wake(const Operation& operation) {
  for (const int64_t member : operation.members) {
    world_->wake[static_cast<size_t>(world_ranks_[static_cast<size_t>(member)])].notify_all();
  }
}

void Rendezvous::leave(int64_t rank, bool by_exception) {
  const Lock lock(world_->mutex);
  const auto self = static_cast<size_t>(rank);
  left_[self] = true;
  if (by_exception) last_[self] += ", then an exception";
  for (const std::shared_ptr<Operation>& operation : gathering_) {
    if (operation->arrived[self]) continue;
    const auto other = std::find(operation->arrived.begin(), operation->arrived.end(), true);
    if (other != operation->arrived.end())
      fail_absent(rank, label(operation->calls[static_cast<size_t>(other - operation->arrived.begin())]));
  }
  for (const auto& [ends, channel] : channels_) {
    if (ends.second == rank && !channel.sends.empty()) fail_absent(rank, channel.sends.front().call);
    if (ends.first == rank && !channel.receives.empty()) fail_absent(rank, channel.receives.front().call);
  }
}

}  // namespace longhaul::comm
