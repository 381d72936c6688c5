#include "base/net/http_responder.h"

#include "base/error.h"

namespace longhaul {

void HttpOutbox::put(Piece piece) {
  const std::lock_guard hold(mutex_);
  if (!wake_) return;
  pieces_.push_back(std::move(piece));
  wake_();
}

std::vector<HttpOutbox::Piece> HttpOutbox::take() {
  const std::lock_guard hold(mutex_);
  return std::exchange(pieces_, {});
}

void HttpOutbox::close() {
  std::map<uint64_t, std::function<void()>> left;
  {
    const std::lock_guard hold(mutex_);
    wake_ = nullptr;
    pieces_.clear();
    left = std::exchange(expected_, {});
  }
  for (const auto& [connection, call] : left) {
    if (call) call();
  }
}

void HttpOutbox::expect(uint64_t connection) {
  const std::lock_guard hold(mutex_);
  expected_.try_emplace(connection);
}

void HttpOutbox::on_gone(uint64_t connection, std::function<void()> left) {
  {
    const std::lock_guard hold(mutex_);
    const auto found = expected_.find(connection);
    if (found != expected_.end()) {
      found->second = std::move(left);
      return;
    }
  }
  left();
}

bool HttpOutbox::expects(uint64_t connection) const {
  const std::lock_guard hold(mutex_);
  return expected_.contains(connection);
}

void HttpOutbox::forget(uint64_t connection, bool is_gone) {
  std::function<void()> left;
  {
    const std::lock_guard hold(mutex_);
    auto node = expected_.extract(connection);
    if (!node.empty()) left = std::move(node.mapped());
  }
  if (is_gone && left) left();
}

HttpResponder::~HttpResponder() {
  if (stage_ == Stage::kUnsaid) {
    reply({.status = 500,
           .type = "text/plain; charset=utf-8",
           .body = "This could not be answered; the server's log says why.\n"});
  } else if (stage_ == Stage::kBegun) {
    outbox_->put({HttpOutbox::Piece::Kind::kBreak, connection_});
  }
}

void HttpResponder::reply(HttpReply reply) {
  LONGHAUL_ASSERT(stage_ == Stage::kUnsaid, "a second answer");
  stage_ = Stage::kEnded;
  outbox_->put({HttpOutbox::Piece::Kind::kWhole, connection_, std::move(reply)});
}

void HttpResponder::begin(HttpReply head) {
  LONGHAUL_ASSERT(stage_ == Stage::kUnsaid, "a second answer");
  stage_ = Stage::kBegun;
  outbox_->put({HttpOutbox::Piece::Kind::kBegin, connection_, std::move(head)});
}

void HttpResponder::add(std::string bytes) {
  LONGHAUL_ASSERT(stage_ == Stage::kBegun, "a piece of nothing");
  if (!bytes.empty()) outbox_->put({HttpOutbox::Piece::Kind::kMore, connection_, {.body = std::move(bytes)}});
}

void HttpResponder::end() {
  LONGHAUL_ASSERT(stage_ == Stage::kBegun, "the end of nothing");
  stage_ = Stage::kEnded;
  outbox_->put({HttpOutbox::Piece::Kind::kEnd, connection_});
}

}  // namespace longhaul
