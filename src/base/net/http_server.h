// A small HTTP server: one function that answers every path, for GET and HEAD, and for POST where bodies are
// taken. It refuses other methods (405), hosts it does not know by name (421; against pages of others that a
// browser is made to read it through), and, where a token is set, who does not send it (401; as
// "Authorization: Bearer TOKEN", or as the password a browser asks for). It lists no folder and serves no
// file by itself.
//
//   HttpServer server({.host = "127.0.0.1", .port = 8080}, [&](const HttpRequest& request) {
//       return HttpReply{.body = page_of(request.path)}; });
//   print("open {}", server.url());
//
// One thread waits for all connections, so a slow one costs a descriptor and holds up nobody: the head of a
// request must have come within patience_s of the connection, a body must come and a reply be taken at 64
// KiB/s or faster, and where there are most_connections, or most_held bytes are held, those go first that
// have not asked yet, of the address that has the most. Each connection is for one request.
//
// The function is called from the server's own threads; what it throws is answered with 500 and logged. A
// function that answers later, or piece by piece, takes an HttpResponder instead (http_responder.h). The
// destructor ends the server at once; finish() lets it answer first what it was asked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/net/http_responder.h"

namespace longhaul {

struct HttpRequest {
  std::string method = "GET";                     // "GET", "POST"; a HEAD is a GET whose body is not sent
  std::string path;                               // decoded, without the query
  std::multimap<std::string, std::string> query;  // decoded
  std::string accept;                             // the header
  std::string body = {};                          // of a POST
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // to listen at; 0.0.0.0 for all interfaces
  uint16_t port = 0;               // 0: any that is free
  // by which it may be called, beside addresses, localhost and this machine's own
  std::vector<std::string> names;
  std::string token;              // empty: nobody is asked
  double patience_s = 5;          // for the head of a request
  size_t most_connections = 512;  // at a time
  size_t longest_body = 0;        // bytes of a POST; 0: there are no POSTs
  // bytes of bodies that wait, and of replies that have not been taken yet; each may be a quarter
  size_t most_held = size_t{512} << 20;
  size_t threads = 4;                   // that make answers; other requests wait
  std::string port_option = "--serve";  // of the command line, for errors
  // Gives the server's own refusals (401, 404, 413 …) the form that its clients read; empty: plain text.
  std::function<HttpReply(const HttpReply&)> refusal_form = {};
};

class HttpServer {
 public:
  // kCommunication: it cannot listen there.
  HttpServer(HttpServerOptions options, std::function<HttpReply(const HttpRequest&)> answer);
  // The function may return before the answer is given, which then keeps no thread waiting. A client that
  // ends its side of the connection meanwhile has left.
  using LateAnswer = std::function<void(const HttpRequest&, std::shared_ptr<HttpResponder>)>;
  HttpServer(HttpServerOptions options, LateAnswer answer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8080/"
  // Takes no more connections, answers the requests that have begun to come, and returns when all have their
  // answers, or after so long. Nobody is answered afterwards.
  void finish(double within_s);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "8080", "host:8080", "[::1]:8080" → options with host and port; kUsage for anything else.
HttpServerOptions http_server_address(const std::string& text);

}  // namespace longhaul
