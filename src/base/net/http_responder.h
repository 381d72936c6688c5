// HttpResponder: the answer to one request of an HttpServer, which any thread gives later, whole or piece by
// piece:
//
//   answer->reply({.body = page});
//
//   answer->begin({.type = "text/event-stream"});
//   answer->add("data: …\n\n");
//   answer->end();
//
// Pieces go out as chunks (HTTP/1.1), so that a client knows an end from a broken connection. An answer that
// is destroyed before its end is ended: with 500 where nothing was said, else by closing the connection.
// Thread-safe, except that pieces have the order of the calls only if one thread makes them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace longhaul {

struct HttpReply {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body = {};
  // In addition to those of every answer; a name set here replaces the server's own value.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// The queue in which threads that make answers hand them to the thread of the connections. Used by HttpServer
// and HttpResponder.
class HttpOutbox {
 public:
  struct Piece {
    enum class Kind { kWhole, kBegin, kMore, kEnd, kBreak, kWorkerIsFree };
    Kind kind = Kind::kWhole;
    uint64_t connection = 0;  // or the worker
    HttpReply reply{};        // kMore: its body
  };
  explicit HttpOutbox(std::function<void()> wake) : wake_(std::move(wake)) {}
  void put(Piece piece);
  std::vector<Piece> take();
  void close();  // nobody takes from it any more

  // Connections whose clients wait for an answer. `left` is called when such a client leaves.
  void expect(uint64_t connection);
  void on_gone(uint64_t connection, std::function<void()> left);
  bool expects(uint64_t connection) const;
  void forget(uint64_t connection, bool is_gone);  // is_gone: calls what on_gone gave

 private:
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_;
  std::map<uint64_t, std::function<void()>> expected_;
  std::function<void()> wake_;  // empty: closed
};

class HttpResponder {
 public:
  HttpResponder(std::shared_ptr<HttpOutbox> outbox, uint64_t connection)
      : outbox_(std::move(outbox)), connection_(connection) {}
  ~HttpResponder();
  HttpResponder(const HttpResponder&) = delete;
  HttpResponder& operator=(const HttpResponder&) = delete;

  void reply(HttpReply reply);
  void begin(HttpReply head);  // with the first bytes of the body, if there are any
  void add(std::string bytes);
  void end();
  // the client has left: what is sent is dropped
  bool gone() const { return !outbox_->expects(connection_); }
  // Calls `left` once, in the server's thread, when the client leaves before the end; at once if it has left.
  void on_gone(std::function<void()> left) { outbox_->on_gone(connection_, std::move(left)); }

 private:
  enum class Stage { kUnsaid, kBegun, kEnded };
  std::shared_ptr<HttpOutbox> outbox_;
  uint64_t connection_;
  Stage stage_ = Stage::kUnsaid;
};

}  // namespace longhaul
