#include "comm/wrappers/call_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/log.h"
#include "observe/board/group_kind.h"

namespace longhaul::comm {
namespace {

CallRecord record_of(const Call& call, const Communicator& of) {
  CallRecord record{.kind = call.kind,
                    .sequence = call.sequence,
                    .name = call.options.name,
                    .text = describe(call),
                    .traffic = traffic_of(call, of.rank(), of.size()),
                    .entered_ns = monotonic_ns()};
  if (call.kind == CallKind::kAllToAll)
    record.send_rows = call.input_rows, record.receive_rows = call.output_rows;
  for (const Transfer& each : call.transfers)
    record.messages.push_back({each.direction, each.peer, describe(each.tensor)});
  return record;
}

}  // namespace

void CallLog::write_on_failure(std::string folder) {
  const std::lock_guard lock(mutex_);
  folder_ = std::move(folder);
}

void CallLog::show_in(std::shared_ptr<observe::SpanRecorder> spans) {
  const std::lock_guard lock(mutex_);
  spans_ = std::move(spans);
}

void CallLog::show_on(observe::BoardWriter& board) {
  if (!board.on()) return;
  const std::lock_guard lock(mutex_);
  board_ = &board;
  for (const GroupPlace& place : groups_) board.add_group(place);
  board.calls_begin_at(next_);
}

size_t CallLog::add_group(const GroupPlace& place) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(place);
  if (board_ != nullptr) board_->add_group(place);
  return groups_.size() - 1;
}

CallRecord* CallLog::find(int64_t number) {
  CallRecord& place =
      capacity_ == kAll ? ring_[static_cast<size_t>(number)] : ring_[static_cast<size_t>(number) % capacity_];
  return place.number == number ? &place : nullptr;
}

int64_t CallLog::entered(size_t group, const Call& call, const Communicator& of) {
  CallRecord record = record_of(call, of);
  const std::lock_guard lock(mutex_);
  CallTotals& totals = totals_[{observe::group_kind(groups_[group].path), call.kind}];
  ++totals.calls;
  totals.traffic.sent += record.traffic.sent;
  totals.traffic.received += record.traffic.received;
  record.group = group;
  record.number = next_++;
  for (MessageRecord& message : record.messages)
    message.number = messages_[{group, message.peer, message.direction}]++;
  if (board_ != nullptr) board_->call_entered(record);
  const int64_t number = record.number;
  if (capacity_ == kAll || ring_.size() < capacity_)
    ring_.push_back(std::move(record));
  else
    ring_[static_cast<size_t>(number) % capacity_] = std::move(record);
  return number;
}

void CallLog::started(int64_t number) {
  const std::lock_guard lock(mutex_);
  if (board_ != nullptr) board_->call_started(number);
  CallRecord* const record = find(number);
  if (record == nullptr) return;
  record->state = CallState::kStarted;
  record->started_ns = monotonic_ns();
}

void CallLog::awaited(int64_t number) {
  const std::lock_guard lock(mutex_);
  if (board_ != nullptr) board_->call_awaited(number);
  CallRecord* const record = find(number);
  if (record != nullptr && record->awaited_ns == 0) record->awaited_ns = monotonic_ns();
}

void CallLog::show(const CallRecord& record, int64_t end_ns) const {
  const GroupPlace& place = groups_[record.group];
  observe::CallSpan span{.group = place.path,
                         .kind = std::string(name_of(record.kind)),
                         .name = record.name,
                         .sequence = record.sequence,
                         .sent = record.traffic.sent,
                         .received = record.traffic.received,
                         .begin_ns = record.entered_ns,
                         .end_ns = end_ns != 0 ? end_ns : record.ended_ns};
  for (const MessageRecord& message : record.messages) {
    (message.direction == Direction::kSend ? span.sends_to : span.receives_from)
        .push_back(place.top_ranks[static_cast<size_t>(message.peer)]);
  }
  if (spans_->computes_here()) {  // not of a checkpoint that is written behind
    span.started_ns = record.started_ns;
    span.waited_from_ns = record.awaited_ns;
    span.waited_until_ns = record.awaited_ns != 0 ? record.ended_ns : 0;
  }
  spans_->add(std::move(span));
}

void CallLog::ended(int64_t number, const std::string& error, int64_t end_ns) {
  std::optional<RankRecords> to_write;
  std::string path;
  {
    const std::lock_guard lock(mutex_);
    if (board_ != nullptr) board_->call_ended(number, error.empty());
    CallRecord* const record = find(number);
    if (record != nullptr && record->ended_ns == 0) {
      record->ended_ns = monotonic_ns();
      record->state = error.empty() ? CallState::kDone : CallState::kFailed;
      record->error = error;
      if (record->awaited_ns != 0)
        totals_[{observe::group_kind(groups_[record->group].path), record->kind}].waited_ns +=
            record->ended_ns - record->awaited_ns;
      if (spans_ && spans_->on()) show(*record, end_ns);
    }
    if (!error.empty() && !folder_.empty() && !written_) {
      written_ = true;
      path = fmt::format("{}/calls-{}.json", folder_, rank_);
      to_write = records_locked();
    }
  }
  if (!to_write) return;
  try {
    write_text_atomically(
        path,
        to_json(*to_write).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } catch (const Error& failure) {  // what the call failed with is the news
    log_warning("the record of calls is not written: {}", failure.what());
  }
}

RankRecords CallLog::records_locked() const {
  RankRecords records{
      .rank = rank_, .groups = groups_, .dropped = next_ - static_cast<int64_t>(ring_.size())};
  for (int64_t number = records.dropped; number < next_; ++number) {
    records.calls.push_back(
        ring_[capacity_ == kAll ? static_cast<size_t>(number) : static_cast<size_t>(number) % capacity_]);
  }
  return records;
}

RankRecords CallLog::records() const {
  const std::lock_guard lock(mutex_);
  return records_locked();
}

std::map<std::pair<std::string, CallKind>, CallTotals> CallLog::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

Traffic CallLog::traffic() const {
  Traffic all;
  for (const auto& [of, totals] : totals()) {
    all.sent += totals.traffic.sent;
    all.received += totals.traffic.received;
  }
  return all;
}

}  // namespace longhaul::comm
