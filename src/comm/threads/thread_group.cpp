#include "comm/threads/thread_group.h"

#include <exception>
#include <numeric>

#include "comm/threads/rendezvous.h"

namespace longhaul::comm {
namespace {

class ThreadWork final : public Work::State {
 public:
  ThreadWork(std::shared_ptr<Rendezvous> group, Ticket ticket)
      : group_(std::move(group)), ticket_(std::move(ticket)) {}
  void wait() override { group_->wait(ticket_); }
  bool done() override { return group_->done(ticket_); }
  int64_t ended_ns() override { return group_->ended_ns(ticket_); }

 private:
  std::shared_ptr<Rendezvous> group_;
  Ticket ticket_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> ThreadGroup::make(int64_t size,
                                                             const ThreadGroupOptions& options) {
  LONGHAUL_ASSERT(size >= 1, "{} ranks", size);
  std::vector<int64_t> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group =
      std::make_shared<Rendezvous>(std::make_shared<World>(size), options.name, ranks, options.timeout);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (const int64_t rank : ranks) communicators.push_back(std::make_unique<ThreadGroup>(group, rank));
  return communicators;
}

ThreadGroup::ThreadGroup(std::shared_ptr<Rendezvous> group, int64_t rank)
    : Communicator(group->name(), rank, group->size()), group_(std::move(group)) {}

ThreadGroup::~ThreadGroup() { group_->leave(rank(), std::uncaught_exceptions() > 0); }

void ThreadGroup::abort(const std::string& reason) { group_->abort(rank(), reason); }

Communicator::Tell ThreadGroup::aborter() {
  return [group = std::weak_ptr(group_), rank = rank()](const std::string& reason) {
    if (const auto there = group.lock()) there->abort(rank, reason);
  };
}

Work ThreadGroup::start(Call call) {
  check_on_cpu(call, rank(), name());
  return Work(std::make_shared<ThreadWork>(group_, group_->start(rank(), std::move(call))));
}

std::vector<std::unique_ptr<Communicator>> ThreadGroup::start_split(Call call) {
  const Ticket ticket = group_->start(rank(), std::move(call));
  group_->wait(ticket);
  std::vector<std::unique_ptr<Communicator>> mine;
  for (const std::vector<Member>& members : ticket.operation->made) {
    const Member& member = members[static_cast<size_t>(rank())];
    mine.push_back(member.group ? std::make_unique<ThreadGroup>(member.group, member.rank) : nullptr);
  }
  return mine;
}

}  // namespace longhaul::comm
