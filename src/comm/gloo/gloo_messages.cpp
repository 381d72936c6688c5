// Exchanges between processes. Each message is announced by a Notice, so that sender and receiver compare
// before it moves.
#include <algorithm>
#include <cstring>

#include "comm/gloo/gloo_group.h"

namespace longhaul::comm {

void GlooGroup::start_exchange(const std::shared_ptr<GlooCall>& call) {
  // the call's own are let go of with the last of them
  const std::vector<Transfer> transfers = call->call.transfers;
  call->unfinished = static_cast<int64_t>(transfers.size()) + 1;
  call->said.resize(transfers.size());
  call->heard.resize(transfers.size());
  call->saying.resize(transfers.size());
  call->hearing.resize(transfers.size());
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    if (transfer.peer == rank_) {
      match_own(call, i);
      continue;
    }
    const int64_t peer = world_rank(transfer.peer);
    if (transfer.direction == Direction::kSend) {
      const std::string text = describe(transfer.tensor);
      Notice& notice = call->said[i];
      notice.agreement = static_cast<uint64_t>(transfer.tensor.nbytes());
      std::copy_n(text.begin(), std::min(text.size(), notice.text.size() - 1), notice.text.begin());
      std::copy_n(call->label.begin(), std::min(call->label.size(), notice.label.size() - 1),
                  notice.label.begin());
      call->saying[i] = world_->wire().send(peer, tag(kMessageNotices), &notice, sizeof(Notice));
    } else {
      call->hearing[i] = world_->wire().receive(peer, tag(kMessageNotices), &call->heard[i], sizeof(Notice));
    }
    channels_[{transfer.peer, transfer.direction}].worker.post([this, call, i] { carry_message(*call, i); });
  }
  call->finish_one(true);
}

void GlooGroup::carry_message(GlooCall& call, size_t i) {
  const Transfer transfer = call.call.transfers[i];
  const bool sends = transfer.direction == Direction::kSend;
  const GlooWorld::End end = world_->wait(sends ? *call.saying[i] : *call.hearing[i],
                                          {.deadline = call.deadline}, world_rank(transfer.peer), call.label);
  bool well = end == GlooWorld::End::kDone;
  if (end == GlooWorld::End::kLate) {
    fail({.code = ExitCode::kCommunication,
          .what = fmt::format("{} of '{}' waited too long", call.label, name_),
          .expected = fmt::format("a partner for every message within {} ms", call.timeout.count()),
          .found =
              fmt::format("without one: rank {} {} {} {} rank {} in {}", rank_, sends ? "sends" : "receives",
                          describe(transfer.tensor), sends ? "to" : "from", transfer.peer, call.label)});
  }
  well = well && (sends || message_fits(call, i));
  if (well && transfer.tensor.nbytes() > 0) {
    auto* bytes = static_cast<std::byte*>(const_cast<void*>(transfer.tensor.const_data_ptr()));
    const int64_t peer = world_rank(transfer.peer);
    const auto message = sends
                             ? world_->wire().send(peer, tag(kMessages), bytes, transfer.tensor.nbytes())
                             : world_->wire().receive(peer, tag(kMessages), bytes, transfer.tensor.nbytes());
    well = moved(*message, call, transfer.peer);
  }
  call.finish_one(well);
}

bool GlooGroup::message_fits(const GlooCall& call, size_t i) {
  const Transfer& transfer = call.call.transfers[i];
  const Notice& notice = call.heard[i];
  if (notice.left > 0) {
    fail_absent(transfer.peer, notice, call.label);
    return false;
  }
  const std::string wanted = describe(transfer.tensor);
  if (wanted == notice.text.data()) return true;
  fail({.code = ExitCode::kCommunication,
        .what = fmt::format("a message of '{}' does not fit", name_),
        .expected = "the same dtype and shape on both sides",
        .found = fmt::format("rank {} sends {} in {}, rank {} receives {} in {}", transfer.peer,
                             notice.text.data(), notice.label.data(), rank_, wanted, call.label)});
  return false;
}

// A message to oneself waits for its partner in a queue; only the calls' thread looks there.
void GlooGroup::match_own(const std::shared_ptr<GlooCall>& call, size_t i) {
  const bool sends = call->call.transfers[i].direction == Direction::kSend;
  std::deque<OwnMessage>& partners = sends ? own_receives_ : own_sends_;
  if (partners.empty()) return (sends ? own_sends_ : own_receives_).push_back({call, i});
  const OwnMessage partner = partners.front();
  partners.pop_front();
  const OwnMessage mine{call, i};
  const Tensor& sent =
      (sends ? mine : partner).call->call.transfers[(sends ? mine : partner).transfer].tensor;
  const Tensor& received =
      (sends ? partner : mine).call->call.transfers[(sends ? partner : mine).transfer].tensor;
  const bool fits = sent.scalar_type() == received.scalar_type() && sent.sizes() == received.sizes() &&
                    !overlap(sent, received);
  if (fits && sent.nbytes() > 0) {
    std::memcpy(const_cast<void*>(received.const_data_ptr()), sent.const_data_ptr(), sent.nbytes());
  } else if (!fits) {
    fail({.code = ExitCode::kCommunication,
          .what = fmt::format("a message of '{}' does not fit", name_),
          .expected = "the same dtype and shape on both sides, in memory of their own",
          .found = fmt::format("rank {} sends {} and receives {}, from itself in {} and {}", rank_,
                               describe(sent), describe(received), partner.call->label, call->label)});
  }
  partner.call->finish_one(fits);
  call->finish_one(fits);
}

}  // namespace longhaul::comm
