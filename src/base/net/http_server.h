// A small HTTP server for people and programs that only read: GET and HEAD; one function answers every path.
// It refuses other methods (405), host names that it does not know (421, so that foreign web pages cannot
// make a browser read through it) and, where a token is set, requests without it (401; it is sent as
// "Authorization: Bearer TOKEN", or as the password for which a browser asks). It lists no folder and serves
// no file by itself.
//
//   HttpServer server({.host = "127.0.0.1", .port = 8080}, [&](const HttpRequest& request) { return HttpReply{.body = page_of(request.path)}; });
//   print("open {}", server.url());
//
// One thread waits for all connections, so that a slow one costs a descriptor and delays no other. A whole
// request must have come within patience_s of the connection, and a reply must be taken at 64 KiB/s or
// faster. When there are most_connections, those that have not sent a request yet are closed first, beginning
// with the address that has the most of them. Each connection is for one request.
//
// Four threads of the server call the function; an exception is answered with 500 and logged. The destructor
// ends the server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace longhaul {

struct HttpRequest {
  std::string path;                               // decoded, without the query
  std::multimap<std::string, std::string> query;  // decoded
  std::string accept;                             // the header
};

struct HttpReply {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body = {};
  // In addition to those of every answer; a name set here replaces the server's own value.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // address to listen on; 0.0.0.0: all interfaces
  uint16_t port = 0;               // 0: any free port
  // Accepted host names, in addition to addresses, localhost and this machine's own name.
  std::vector<std::string> names;
  std::string token;              // empty: no token is required
  double patience_s = 5;          // time for a whole request
  size_t most_connections = 512;  // at a time
};

class HttpServer {
 public:
  // kCommunication: it cannot listen there.
  HttpServer(HttpServerOptions options, std::function<HttpReply(const HttpRequest&)> answer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8080/"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "8080", "host:8080", "[::1]:8080" → options with host and port; kUsage for anything else.
HttpServerOptions http_server_address(const std::string& text);

}  // namespace longhaul
