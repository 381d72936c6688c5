#include "comm/gloo/gloo_group.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "base/checksum.h"
#include "comm/communicator.h"

namespace longhaul::comm {
namespace {

template <size_t kSize>
void put(std::array<char, kSize>& into, const std::string& text) {
  const size_t count = std::min(text.size(), kSize - 1);
  std::memcpy(into.data(), text.data(), count);
  into[count] = 0;
}

// All that agree() compares, and the lane.
uint64_t agreement_of(const Call& call, int64_t lane) {
  std::string text = fmt::format("{} {}", lane, describe(call));
  for (const layout::GroupKind& kind : call.kinds) {
    text += kind.name;
    for (const auto& group : kind.groups) text += fmt::format("|{}", fmt::join(group, " "));
  }
  return xxh3(text);
}

}  // namespace

GlooGroup::GlooGroup(std::shared_ptr<GlooWorld> world, std::string name, int64_t number,
                     std::vector<int64_t> world_ranks, int64_t rank)
    : world_(std::move(world)),
      name_(std::move(name)),
      number_(number),
      world_ranks_(std::move(world_ranks)),
      rank_(rank) {}

Notice GlooGroup::notice_of(const GlooCall& call) const {
  Notice notice;
  put(notice.label, call.label);
  if (call.call.kind == CallKind::kExchange) return notice;
  const int64_t lane = lane_of(call.call);
  const std::string behind = lane > 0 ? fmt::format(", priority {}", -lane) : "";
  put(notice.text, describe(call.call) + behind);
  notice.agreement = agreement_of(call.call, lane);
  if (call.call.kind == CallKind::kAllReduce && call.call.input.nbytes() <= kCarried &&
      call.call.input.nbytes() > 0) {
    std::memcpy(notice.carried.data(), call.call.input.const_data_ptr(), call.call.input.nbytes());
  }
  return notice;
}

// Whoever still needs this rank finds its farewell where he looks for its next call, or message.
GlooGroup::~GlooGroup() {
  Notice farewell;
  farewell.left = started_ + 1;
  put(farewell.label, last_);
  if (std::uncaught_exceptions() > 0) fail_absent(rank_, farewell, "a call that may come");
  if (world_->failure()) return;
  const auto bytes = std::make_shared<std::vector<std::byte>>(sizeof(Notice));
  std::memcpy(bytes->data(), &farewell, sizeof(Notice));
  for (int64_t other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    for (const Tag which : {kNotices, kMessageNotices}) {
      world_->leave_behind(bytes,
                           world_->wire().send(world_rank(other), tag(which), bytes->data(), bytes->size()));
    }
  }
}

Failure aborted_by(int64_t rank, const std::string& group, const std::string& reason) {
  return {.fields = {.code = ExitCode::kCommunication,
                     .what = fmt::format("rank {} of '{}' aborted", rank, group),
                     .found = reason},
          .aborted = true};
}

void GlooGroup::abort(const std::string& reason) { world_->fail(aborted_by(rank_, name_, reason)); }

std::shared_ptr<GlooCall> GlooGroup::start(Call call) {
  auto going = std::make_shared<GlooCall>();
  going->label = label(call);
  if (world_->failure()) throw_failure(going->label + ", which was not started");
  going->last = last_;
  going->timeout = call.options.timeout.value_or(world_->timeout());
  going->deadline = deadline_after(going->timeout);
  going->call = std::move(call);
  if (going->call.kind == CallKind::kExchange) {
    start_exchange(going);
  } else {
    start_collective(going);
  }
  return going;
}

void GlooGroup::start_collective(const std::shared_ptr<GlooCall>& call) {
  ++started_;
  last_ = call->label;
  if (size() == 1) {  // nobody to meet
    call->heard.resize(1);
    call->heard[0].next_group = world_->next_group();
    return call->finish_one(tried(*call, [&] { return move_tensors(*call); }));
  }
  Notice notice = notice_of(*call);
  if (call->call.kind == CallKind::kSplit) notice.next_group = world_->next_group();
  const auto count = static_cast<size_t>(size());
  call->said.assign(count, notice);
  call->heard.resize(count);
  call->heard[static_cast<size_t>(rank_)] = notice;
  call->saying.resize(count);
  call->hearing.resize(count);
  for (int64_t other = 0; other < size(); ++other) {
    const auto index = static_cast<size_t>(other);
    if (other == rank_) continue;
    if (call->call.kind == CallKind::kAllToAll) call->said[index].rows = call->call.input_rows[index];
    call->hearing[index] =
        world_->wire().receive(world_rank(other), tag(kNotices), &call->heard[index], sizeof(Notice));
    call->saying[index] =
        world_->wire().send(world_rank(other), tag(kNotices), &call->said[index], sizeof(Notice));
  }
  worker_.post([this, call] { carry_out(call); });
}

// The ranks meet in the order of calls, which tells who has not come, and is soon done where all have. Then
// the bytes of calls that are less urgent move in lanes beside this thread, each in its order, so that
// nothing that others wait for stands behind them.
void GlooGroup::carry_out(const std::shared_ptr<GlooCall>& call) {
  if (!tried(*call, [&] { return meet(*call) && compare(*call); })) return call->finish_one(false);
  const auto move = [this, call] { call->finish_one(tried(*call, [&] { return move_tensors(*call); })); };
  const int64_t lane = lane_of(call->call);
  if (lane == 0) return move();
  lanes_.try_emplace(lane, "gloo calls").first->second.post(move);
}

// Nobody must wait for a call for ever, not even where memory is short.
bool GlooGroup::tried(const GlooCall& call, const std::function<bool()>& part) {
  try {
    return part();
  } catch (const std::exception& error) {
    fail({.code = ExitCode::kCommunication,
          .what = fmt::format("rank {} of '{}' cannot carry out {}", rank_, name_, call.label),
          .found = error.what()});
    return false;
  }
}

// All are here, or the world has failed.
bool GlooGroup::meet(GlooCall& call) {
  std::vector<int64_t> absent;
  const GlooWorld::Patience patience{.deadline = call.deadline};
  for (int64_t other = 0; other < size(); ++other) {
    const auto index = static_cast<size_t>(other);
    if (other == rank_) continue;
    const GlooWorld::End end = world_->wait(*call.hearing[index], patience, world_rank(other), call.label);
    if (end == GlooWorld::End::kFailed) return false;
    if (end == GlooWorld::End::kLate) {
      absent.push_back(other);
    } else if (call.heard[index].left > 0) {
      fail_absent(other, call.heard[index], call.label);
      return false;
    }
  }
  if (!absent.empty()) {
    fail_late(call, absent);
    return false;
  }
  for (int64_t other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    if (!moved(*call.saying[static_cast<size_t>(other)], call, other)) return false;
  }
  return true;
}

// "ranks 0, 2: all_reduce 'loss' (sum, fp32 [3]); rank 1: barrier 'end'"
bool GlooGroup::compare(const GlooCall& call) {
  std::vector<std::pair<const Notice*, std::vector<size_t>>> sayings;
  for (size_t rank = 0; rank < call.heard.size(); ++rank) {
    const Notice& notice = call.heard[rank];
    const auto known = std::find_if(sayings.begin(), sayings.end(), [&](const auto& saying) {
      return saying.first->agreement == notice.agreement;
    });
    if (known == sayings.end()) {
      sayings.push_back({&notice, {rank}});
    } else {
      known->second.push_back(rank);
    }
  }
  if (sayings.size() > 1) {
    std::string found;
    for (const auto& [notice, ranks] : sayings) {
      found += fmt::format("{}rank{} {}: {}", found.empty() ? "" : "; ", ranks.size() > 1 ? "s" : "",
                           fmt::join(ranks, ", "), notice->text.data());
    }
    fail({.code = ExitCode::kCommunication,
          .what = fmt::format("ranks disagree about call {} of '{}'", call.call.sequence, name_),
          .expected = fmt::format("the same calls in the same order on all {} ranks", size()),
          .found = std::move(found)});
    return false;
  }
  if (call.call.kind != CallKind::kAllToAll) return true;
  for (size_t other = 0; other < call.heard.size(); ++other) {
    const int64_t sent =
        static_cast<int64_t>(other) == rank_ ? call.call.input_rows[other] : call.heard[other].rows;
    if (sent == call.call.output_rows[other]) continue;
    fail({.code = ExitCode::kCommunication,
          .what = fmt::format("ranks contradict each other in {} of '{}'", call.label, name_),
          .expected = "as many rows received as were sent",
          .found = fmt::format("rank {} sends {} rows to rank {}, which receives {}", other, sent, rank_,
                               call.call.output_rows[other])});
    return false;
  }
  return true;
}

std::vector<std::unique_ptr<GlooGroup>> GlooGroup::groups_of(const GlooCall& split) const {
  int64_t number = 0;
  for (const Notice& notice : split.heard) number = std::max(number, notice.next_group);
  world_->reserve_groups(number + static_cast<int64_t>(split.call.kinds.size()));
  std::vector<std::unique_ptr<GlooGroup>> mine;
  for (const layout::GroupKind& kind : split.call.kinds) {
    mine.push_back(nullptr);
    for (size_t index = 0; index < kind.groups.size(); ++index) {
      const std::vector<int64_t>& members = kind.groups[index];
      const auto place = std::find(members.begin(), members.end(), rank_);
      if (place == members.end()) continue;
      std::vector<int64_t> world_ranks;
      for (const int64_t member : members) world_ranks.push_back(world_rank(member));
      // Groups of one kind have no rank in common, so they share a number.
      mine.back() = std::make_unique<GlooGroup>(world_, fmt::format("{} {}", kind.name, index), number,
                                                std::move(world_ranks), place - members.begin());
    }
    ++number;
  }
  return mine;
}

void GlooGroup::fail(ErrorFields fields, bool aborted) {
  world_->fail({.fields = std::move(fields), .aborted = aborted});
}

void GlooGroup::fail_absent(int64_t rank, const Notice& farewell, const std::string& call) {
  const std::string last = farewell.label.data();
  fail({.code = ExitCode::kCommunication,
        .what = fmt::format("rank {} has left '{}' while others need it", rank, name_),
        .expected = fmt::format("all {} ranks in {}", size(), call),
        .found =
            fmt::format("rank {} left after {} calls{}{}{}", rank, farewell.left - 1,
                        last.empty() ? "" : ", the last ", last, rank == rank_ ? ", then an exception" : "")},
       /*aborted=*/true);
}

// Who has not come to this call has come to those before: all of them were met.
void GlooGroup::fail_late(const GlooCall& call, const std::vector<int64_t>& absent) {
  std::string text;
  for (const int64_t rank : absent) {
    text += fmt::format("{}rank {} has not come: it has made {} calls", text.empty() ? "" : "; ", rank,
                        call.call.sequence);
    if (!call.last.empty()) text += ", the last " + call.last;
  }
  fail({.code = ExitCode::kCommunication,
        .what = fmt::format("{} of '{}' waited too long", call.label, name_),
        .expected = fmt::format("all {} ranks within {} ms", size(), call.timeout.count()),
        .found = std::move(text)});
}

bool GlooGroup::moved(Transmission& transmission, const GlooCall& call, int64_t peer) {
  constexpr std::chrono::milliseconds kAfterFailure{2000};
  const GlooWorld::End end =
      world_->wait(transmission, {.deadline = deadline_after(call.timeout), .after_failure = kAfterFailure},
                   world_rank(peer), call.label);
  if (end == GlooWorld::End::kLate) {
    fail({.code = ExitCode::kCommunication,
          .what = fmt::format("{} of '{}' has stopped half way", call.label, name_),
          .expected = fmt::format("the bytes of rank {}, which has come to the call, within {} ms", peer,
                                  call.timeout.count()),
          .found =
              fmt::format("rank {} waits for rank {}: it stands still, or the connection between them does",
                          rank_, peer)});
  }
  return end == GlooWorld::End::kDone;
}

}  // namespace longhaul::comm
