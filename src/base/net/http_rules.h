// Which requests an HttpServer answers, and how an answer is written: the parts of it that know no sockets.
#pragma once

#include <optional>
#include <string>

#include "base/net/http_head.h"
#include "base/net/http_server.h"

namespace longhaul {

struct HttpRules {
  HttpServerOptions options;
  std::optional<HttpReply> refused(const HttpHead& head) const;  // nullopt: it is to be answered

 private:
  bool knows(const std::string& host_header) const;
  bool has_token(const std::string& authorization) const;
};

HttpReply http_refusal(int status, std::string text);
std::string http_bytes(const HttpReply& reply, bool with_body);  // as they are sent, with the headers that every reply has

}  // namespace longhaul
