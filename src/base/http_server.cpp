#include "base/http_server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <openssl/crypto.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "base/worker.h"

namespace longhaul {
namespace {

constexpr int kServerThreads = 16;  // requests answered at once; others wait
constexpr int kServerPatience_s = 5;

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// "host:port", "[::1]:port", "host" → the host alone.
std::string host_of(std::string header) {
  if (header.starts_with('[')) return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.rfind(':'));
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Takes as long for a wrong token as for the right one.
bool same_secret(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string base64(const std::string& text) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < text.size(); i += 3) {
    const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
    const unsigned bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (size_t digit = 0; digit < 4; ++digit) out += digit > text.size() - i ? '=' : kDigits[bits >> (18 - 6 * digit) & 63];
  }
  return out;
}

}  // namespace

struct HttpServer::State {
  HttpServerOptions options;
  std::function<HttpReply(const HttpRequest&)> answer;
  httplib::Server server;
  Worker worker{"http"};  // accepts; its threads inherit that signals are for the main thread

  bool knows(const std::string& header) const {
    const std::string host = lower_case(host_of(header));
    if (host.empty()) return false;
    const auto is = [&](const std::string& name) { return host == lower_case(name); };
    return is_address(host) || is("localhost") || is(options.host) || is(machine().host) || std::ranges::any_of(options.names, is);
  }

  bool has_token(const std::string& authorization) const {
    if (options.token.empty() || same_secret(authorization, "Bearer " + options.token)) return true;
    return same_secret(authorization, "Basic " + base64("longhaul:" + options.token)) ||
           same_secret(authorization, "Basic " + base64(":" + options.token));
  }

  HttpReply reply_to(const httplib::Request& request) const {
    const auto refuse = [](int status, std::string text) {
      return HttpReply{.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text) + "\n"};
    };
    if (request.method != "GET" && request.method != "HEAD") {
      HttpReply reply = refuse(405, "This server is for reading: GET and HEAD.");
      reply.headers.emplace_back("Allow", "GET, HEAD");
      return reply;
    }
    if (!knows(request.get_header_value("Host")))
      return refuse(421, "This server is not known by that name. Use its address, or start it with --name NAME.");
    if (!has_token(request.get_header_value("Authorization"))) {
      HttpReply reply = refuse(401, "A token is asked for: the user is longhaul, the password the token.");
      reply.headers.emplace_back("WWW-Authenticate", "Basic realm=\"longhaul\", charset=\"UTF-8\"");
      return reply;
    }
    try {
      return answer(
          {.path = request.path, .query = {request.params.begin(), request.params.end()}, .accept = request.get_header_value("Accept")});
    } catch (const std::exception& error) {
      log_error("a request for {} could not be answered: {}", printable(request.path), error.what());
      return refuse(500, "This could not be answered; the server's log says why.");
    }
  }

  void respond(const httplib::Request& request, httplib::Response& response) const {
    const HttpReply reply = reply_to(request);
    response.status = reply.status;
    std::map<std::string, std::string> headers = {{"Cache-Control", "no-store"},
                                                  {"X-Content-Type-Options", "nosniff"},
                                                  {"X-Frame-Options", "DENY"},
                                                  {"Referrer-Policy", "no-referrer"},
                                                  {"Content-Security-Policy", "default-src 'none'"}};
    for (const auto& [name, value] : reply.headers) headers[name] = value;
    for (const auto& [name, value] : headers) response.set_header(name, value);
    response.set_content(reply.body, reply.type);
  }
};

HttpServer::HttpServer(HttpServerOptions options, std::function<HttpReply(const HttpRequest&)> answer) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.options = std::move(options);
  state.answer = std::move(answer);
  httplib::Server& server = state.server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kServerThreads); };
  server.set_keep_alive_max_count(1);  // a connection that only waits would hold a thread
  server.set_read_timeout(kServerPatience_s);
  server.set_write_timeout(kServerPatience_s);
  server.set_payload_max_length(4096);
  // Not httplib's own, which let a second server take the same port.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.set_pre_routing_handler([&state](const httplib::Request& request, httplib::Response& response) {
    state.respond(request, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  const std::string& host = state.options.host;
  uint16_t& port = state.options.port;
  if (port == 0) {
    const int found = server.bind_to_any_port(host);
    port = found > 0 ? static_cast<uint16_t>(found) : 0;
  } else if (!server.bind_to_port(host, port)) {
    port = 0;
  }
  if (port == 0) {
    throw Error({.code = ExitCode::kCommunication,
                 .what = "the server cannot listen",
                 .expected = "an address of this machine and a port that is free and that you may take",
                 .found = "it is in use, or refused",
                 .where = host,
                 .hint = "name another port: --serve 8090"});
  }
  state.worker.post([&server] { server.listen_after_bind(); });
  while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // stop() would be lost before
}

HttpServer::~HttpServer() {
  if (state_ != nullptr) state_->server.stop();
}

uint16_t HttpServer::port() const { return state_->options.port; }

std::string HttpServer::url() const {
  const std::string& host = state_->options.host;
  const bool brackets = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}/", host == "0.0.0.0" ? machine().host : brackets ? "[" + host + "]" : host, port());
}

HttpServerOptions http_server_address(const std::string& text) {
  HttpServerOptions options;
  const size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), options.port);
  if (problem != std::errc() || end != port.data() + port.size() || (colon != std::string::npos && host.empty())) {
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
