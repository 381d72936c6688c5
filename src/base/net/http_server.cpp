#include "base/net/http_server.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/net/event_loop.h"
#include "base/net/http_head.h"
#include "base/net/http_request_reader.h"
#include "base/net/http_rules.h"
#include "base/net/socket.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

// The lowest rate at which a body must arrive and a reply be taken; below it the connection is closed.
constexpr double kSlowest_bytes_per_s = 64 << 10;
// of an answer that comes piece by piece; beyond it the client is too slow
constexpr size_t kMostUntaken_bytes = 8 << 20;
// time to receive the last bytes before the connection is closed
constexpr double kFarewell_s = 1;
constexpr int kAcceptedAtOnce = 64;       // before other events are handled
constexpr double kNoDescriptors_s = 0.2;  // pause where the process has no descriptor left

struct Connection {
  enum class Stage { kReading, kWaiting /* for an answer */, kSending, kFarewell };
  explicit Connection(size_t longest_body) : reader(longest_body) {}
  size_t held() const { return reader.held() + bytes.size(); }

  HttpRequestReader reader;
  Socket socket;
  std::string address;  // address of the client, without the port
  Stage stage = Stage::kReading;
  std::string bytes;  // to be sent
  size_t sent = 0;
  bool with_body = true, said_all = false;
  bool more_follows = false, in_chunks = false;  // of an answer that comes piece by piece
  uint64_t deadline = 0;                         // the timer that closes it
};

}  // namespace

// All connections belong to the thread of `loop_`; answers are made in other threads and come back through
// `outbox_`.
struct HttpServer::State {
 public:
  State(HttpServerOptions options, LateAnswer answer, bool answers_late)
      : rules_{std::move(options)},
        answer_(std::move(answer)),
        answers_late_(answers_late),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        outbox_(std::make_shared<HttpOutbox>([this] { wake(); })) {
    LONGHAUL_ASSERT(wake_ >= 0, "no eventfd");
    LONGHAUL_ASSERT(rules_.options.threads > 0 && rules_.options.longest_body <= rules_.options.most_held / 4,
                    "unusable options");
    listen();
    for (size_t i = 0; i < rules_.options.threads; ++i)
      workers_.push_back(std::make_unique<Worker>("http answer"));
    busy_.resize(workers_.size());
    loop_.watch(wake_, {.reads = true}, [this](Ready) { take_made(); });
    loop_.watch(listening_.descriptor(), {.reads = true}, [this](Ready) { accept(); });
    thread_ = std::make_unique<Worker>("http");
    thread_->post([this] { loop_.run(); });
  }

  ~State() {
    {
      const std::lock_guard hold(mutex_);
      ending_ = true;
    }
    wake();
    thread_.reset();
    for (auto& worker : workers_) worker.reset();
    outbox_->close();
    ::close(wake_);
  }

  const HttpServerOptions& options() const { return rules_.options; }

  void finish(double within_s) {
    std::unique_lock hold(mutex_);
    finishing_ = true;
    wake();
    finished_.wait_for(hold, std::chrono::duration<double>(within_s), [this] { return all_answered_; });
  }

 private:
  using Stage = Connection::Stage;
  using Connections = std::map<uint64_t, Connection>;

  void listen() {
    HttpServerOptions& options = rules_.options;
    try {
      listening_ = Socket::listen({options.host, options.port});
    } catch (const Error& error) {
      throw Error({.code = ExitCode::kCommunication,
                   .what = "the server cannot listen",
                   .expected = "an address of this machine and a port that is free and that you may take",
                   .found = fmt::format("it is in use, or refused ({})", error.fields().found),
                   .where = Endpoint{options.host, options.port}.text(),
                   .hint = fmt::format("name another port: {} 8090", options.port_option)});
    }
    options.port = listening_.port();
  }

  void wake() const {
    constexpr uint64_t kOne = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &kOne, sizeof(kOne));
  }

  void accept() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      std::optional<Socket> socket = listening_.accept();
      if (!socket) break;
      const std::string peer = socket->peer();
      make_room(1, 0);
      const uint64_t number = ++last_number_;
      Connection& connection = connections_.try_emplace(number, rules_.options.longest_body).first->second;
      connection.socket = std::move(*socket);
      connection.address = peer.substr(0, peer.rfind(':'));
      connection.deadline = loop_.after(rules_.options.patience_s, [this, number] { drop(number); });
      loop_.watch(connection.socket.descriptor(), {.reads = true},
                  [this, number](Ready ready) { on_ready(number, ready); });
    }
    if (errno != EMFILE && errno != ENFILE) return;  // of the last accept
    // The waiting connection would make the socket ready for ever.
    loop_.change(listening_.descriptor(), {});
    loop_.after(kNoDescriptors_s, [this] {
      if (listening_) loop_.change(listening_.descriptor(), {.reads = true});
    });
  }

  void drop(uint64_t number) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    loop_.cancel(found->second.deadline);
    loop_.forget(found->second.socket.descriptor());
    connections_.erase(found);
    outbox_->forget(number, true);
    tell_when_all_are_answered();
  }

  // Closes connections until there is room. Each time the address with the most connections loses one: the
  // oldest that has not sent a request yet, else the oldest that does not take its reply. So a client that
  // only holds connections open loses them first, and the others are answered.
  void make_room(size_t more_connections, size_t more_bytes) {
    const auto held = [&] {
      size_t bytes = more_bytes;
      for (const auto& [number, connection] : connections_) bytes += connection.held();
      return bytes;
    };
    while (connections_.size() + more_connections > rules_.options.most_connections ||
           held() > rules_.options.most_held) {
      std::map<std::string, size_t> of_address;
      for (const auto& [number, connection] : connections_) ++of_address[connection.address];
      const auto victim =
          std::ranges::min_element(connections_, {}, [&](const Connections::value_type& each) {
            const Connection& connection = each.second;
            const int worth = connection.stage == Stage::kReading || connection.stage == Stage::kFarewell ? 0
                              : connection.stage == Stage::kSending                                       ? 1
                                                                                                          : 2;
            return std::tuple(-static_cast<int64_t>(of_address[connection.address]), worth, each.first);
          });
      if (victim == connections_.end()) return;
      drop(victim->first);
    }
  }

  void on_ready(uint64_t number, Ready ready) {
    Connection& connection = connections_.at(number);
    switch (connection.stage) {
      case Stage::kReading:
        return read(number, connection);
      case Stage::kSending:
        if (ready.writes) return send(number, connection);
        return connection.more_follows ? pass_over(number, connection) : drop(number);
      case Stage::kWaiting:
        return pass_over(number, connection);
      case Stage::kFarewell:
        std::string ignored;
        if (connection.socket.read(ignored) == Socket::Result::kEnd) drop(number);
    }
  }

  // Drops the bytes after the request. A client that has shut down its sending side may still wait for the
  // reply; one that has gone becomes ready a second time.
  void pass_over(uint64_t number, Connection& connection) {
    std::string ignored;
    if (connection.socket.read(ignored) != Socket::Result::kEnd) return;
    if (connection.said_all || answers_late_) return drop(number);
    connection.said_all = true;
    loop_.change(connection.socket.descriptor(), {});
  }

  void read(uint64_t number, Connection& connection) {
    std::string bytes;
    if (connection.socket.read(bytes) == Socket::Result::kEnd) return drop(number);
    HttpRequestReader& reader = connection.reader;
    const bool has_begun = reader.stage() == HttpRequestReader::Stage::kBody;
    reader.add(bytes);
    if (reader.stage() == HttpRequestReader::Stage::kHead) return;
    if (!has_begun && !take_head(number, connection)) return;
    if (reader.stage() == HttpRequestReader::Stage::kBody) return make_room(0, 0);
    loop_.cancel(connection.deadline);
    connection.stage = Stage::kWaiting;
    waiting_.push_back(number);
    start_answers();
  }

  // False: the request was refused, or its connection is gone.
  bool take_head(uint64_t number, Connection& connection) {
    const HttpHead& head = connection.reader.head();
    connection.with_body = head.method != "HEAD";
    loop_.cancel(connection.deadline);
    if (const auto refused = rules_.refused(head)) {
      reply(number, in_form(*refused));
      return false;
    }
    if (connection.reader.stage() == HttpRequestReader::Stage::kWhole) return true;
    const double patience_s = rules_.options.patience_s +
                              static_cast<double>(connection.reader.body_bytes()) / kSlowest_bytes_per_s;
    connection.deadline = loop_.after(patience_s, [this, number] { drop(number); });
    if (head.version != "HTTP/1.1" || head.header("expect").empty()) return true;
    // Nothing has been written to this connection yet, so its buffer takes these few bytes at once.
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    size_t written = 0;
    if (connection.socket.write(kContinue, written) != Socket::Result::kEnd && written == kContinue.size())
      return true;
    drop(number);
    return false;
  }

  void start_answers() {
    for (size_t at = 0; at < workers_.size() && !waiting_.empty(); ++at) {
      if (busy_[at]) continue;
      const uint64_t number = waiting_.front();
      waiting_.pop_front();
      const auto found = connections_.find(number);
      if (found == connections_.end()) {
        --at;
        continue;
      }
      HttpRequestReader& reader = found->second.reader;
      const HttpHead& head = reader.head();
      HttpRequest request{.method = head.method == "HEAD" ? "GET" : head.method,
                          .path = head.path,
                          .query = head.query,
                          .accept = head.header("accept"),
                          .body = reader.take_body()};
      busy_[at] = true;
      outbox_->expect(number);
      workers_[at]->post([this, number, at, request = std::move(request)] {
        answer(request, number);
        outbox_->put({HttpOutbox::Piece::Kind::kWorkerIsFree, at});
      });
    }
  }

  // An answer that the function throws away unanswered is a 500.
  void answer(const HttpRequest& request, uint64_t number) const {
    auto answer = std::make_shared<HttpResponder>(outbox_, number);
    try {
      answer_(request, std::move(answer));
    } catch (const std::exception& error) {
      log_error("a request for {} could not be answered: {}", printable(request.path), error.what());
    }
  }

  HttpReply in_form(const HttpReply& refusal) const {
    return rules_.options.refusal_form ? rules_.options.refusal_form(refusal) : refusal;
  }

  void take_made() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof(count));
    bool ending = false, finishing = false;
    {
      const std::lock_guard hold(mutex_);
      ending = ending_;
      finishing = finishing_;
    }
    if (ending) return loop_.stop();
    if (finishing && listening_) stop_listening();
    for (const HttpOutbox::Piece& piece : outbox_->take()) {
      if (piece.kind == HttpOutbox::Piece::Kind::kWorkerIsFree) {
        busy_[piece.connection] = false;
      } else if (connections_.contains(piece.connection)) {
        give(piece);
      }
    }
    start_answers();
  }

  void give(const HttpOutbox::Piece& piece) {
    using Kind = HttpOutbox::Piece::Kind;
    const uint64_t number = piece.connection;
    Connection& connection = connections_.at(number);
    switch (piece.kind) {
      case Kind::kWhole:
        outbox_->forget(number, false);
        return reply(number, piece.reply.status < 500 ? piece.reply : in_form(piece.reply));
      case Kind::kBegin:
        connection.more_follows = connection.with_body;
        connection.in_chunks = connection.reader.head().version == "HTTP/1.1";
        connection.stage = Stage::kSending;
        return send_more(number, connection, http_stream_head(piece.reply, connection.in_chunks),
                         piece.reply.body);
      case Kind::kMore:
        return send_more(number, connection, "", piece.reply.body);
      case Kind::kEnd:
        outbox_->forget(number, false);
        connection.more_follows = false;
        return send_more(number, connection, connection.in_chunks && connection.with_body ? "0\r\n\r\n" : "",
                         "");
      case Kind::kBreak:
      case Kind::kWorkerIsFree:
        return drop(number);
    }
  }

  // Adds bytes, and a piece of the body, to what a connection is to be sent.
  void send_more(uint64_t number, Connection& connection, const std::string& bytes, const std::string& body) {
    const bool has_waited = connection.sent < connection.bytes.size();
    connection.bytes.erase(0, connection.sent);
    connection.sent = 0;
    connection.bytes += bytes;
    if (!body.empty() && connection.with_body)
      connection.bytes += connection.in_chunks ? fmt::format("{:x}\r\n{}\r\n", body.size(), body) : body;
    if (connection.bytes.size() > kMostUntaken_bytes) return drop(number);
    make_room(0, 0);
    if (!connections_.contains(number)) return;
    if (!has_waited)
      connection.deadline = loop_.after(rules_.options.patience_s, [this, number] { drop(number); });
    loop_.change(connection.socket.descriptor(), {.writes = true});
    send(number, connection);
  }

  // Connections over which nothing has come are closed, and no others are taken.
  void stop_listening() {
    loop_.forget(listening_.descriptor());
    listening_.close();
    std::vector<uint64_t> silent;
    for (const auto& [number, connection] : connections_) {
      if (connection.reader.stage() == HttpRequestReader::Stage::kHead && connection.reader.held() == 0)
        silent.push_back(number);
    }
    for (const uint64_t number : silent) drop(number);
    tell_when_all_are_answered();
  }

  void tell_when_all_are_answered() {
    if (listening_ || !connections_.empty()) return;
    const std::lock_guard hold(mutex_);
    all_answered_ = true;
    finished_.notify_all();
  }

  void reply(uint64_t number, const HttpReply& reply) {
    Connection& connection = connections_.at(number);
    std::string bytes =
        reply.body.size() > rules_.options.most_held / 4
            ? http_bytes(http_refusal(503, "The answer is too long to be sent."), connection.with_body)
            : http_bytes(reply, connection.with_body);
    connection.stage = Stage::kWaiting;
    make_room(0, bytes.size());
    if (!connections_.contains(number)) return;
    connection.bytes = std::move(bytes);
    connection.stage = Stage::kSending;
    const double patience_s =
        rules_.options.patience_s + static_cast<double>(connection.bytes.size()) / kSlowest_bytes_per_s;
    connection.deadline = loop_.after(patience_s, [this, number] { drop(number); });
    loop_.change(connection.socket.descriptor(), {.writes = true});
    send(number, connection);
  }

  void send(uint64_t number, Connection& connection) {
    size_t written = 0;
    const std::string_view rest = std::string_view(connection.bytes).substr(connection.sent);
    if (connection.socket.write(rest, written) == Socket::Result::kEnd) return drop(number);
    connection.sent += written;
    if (connection.sent < connection.bytes.size()) return;
    if (connection.more_follows) {
      loop_.cancel(connection.deadline);
      return loop_.change(connection.socket.descriptor(), {.reads = true});
    }
    // If it were closed at once, unread bytes of the request would discard the reply (RST).
    ::shutdown(connection.socket.descriptor(), SHUT_WR);
    connection.stage = Stage::kFarewell;
    connection.bytes = {};
    loop_.cancel(connection.deadline);
    connection.deadline = loop_.after(kFarewell_s, [this, number] { drop(number); });
    loop_.change(connection.socket.descriptor(), {.reads = true});
  }

  HttpRules rules_;
  LateAnswer answer_;
  bool answers_late_;
  EventLoop loop_;
  Socket listening_;
  Connections connections_;
  uint64_t last_number_ = 0;
  std::deque<uint64_t> waiting_;  // whole requests that no thread has begun
  std::vector<bool> busy_;        // of workers_
  int wake_;
  std::shared_ptr<HttpOutbox> outbox_;
  std::mutex mutex_;  // protects the next three members
  bool ending_ = false, finishing_ = false, all_answered_ = false;
  std::condition_variable finished_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Worker> thread_;  // last: it uses all members above
};

HttpServer::HttpServer(HttpServerOptions options, std::function<HttpReply(const HttpRequest&)> answer)
    : state_(std::make_unique<State>(
          std::move(options),
          [answer = std::move(answer)](const HttpRequest& request,
                                       const std::shared_ptr<HttpResponder>& given) {
            given->reply(answer(request));
          },
          false)) {}

HttpServer::HttpServer(HttpServerOptions options, LateAnswer answer)
    : state_(std::make_unique<State>(std::move(options), std::move(answer), true)) {}

HttpServer::~HttpServer() = default;

void HttpServer::finish(double within_s) { state_->finish(within_s); }

uint16_t HttpServer::port() const { return state_->options().port; }

std::string HttpServer::url() const {
  const std::string& host = state_->options().host;
  const bool brackets = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}/",
                     host == "0.0.0.0" ? machine().host
                     : brackets        ? "[" + host + "]"
                                       : host,
                     port());
}

HttpServerOptions http_server_address(const std::string& text) {
  HttpServerOptions options;
  const size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto number = parse_number<decltype(options.port)>(port);
  options.port = number.value_or(0);
  if (!number || (colon != std::string::npos && host.empty())) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "cannot read where to listen",
                 .expected = "PORT or HOST:PORT",
                 .found = brief(printable(text)),
                 .hint = "--serve 8080   this machine alone; --serve 0.0.0.0:8080   every network it is in"});
  }
  if (!host.empty()) options.host = host;
  return options;
}

}  // namespace longhaul
