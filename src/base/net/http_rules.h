// The requests that an HttpServer answers, and the text of its answers: the parts of the server that know no
// sockets.
#pragma once

#include <optional>
#include <string>

#include "base/net/http_head.h"
#include "base/net/http_server.h"

namespace longhaul {

struct HttpRules {
  HttpServerOptions options;
  std::optional<HttpReply> refused(const HttpHead& head) const;  // nullopt: the request is to be answered

 private:
  bool knows(const std::string& host_header) const;
  bool has_token(const std::string& authorization) const;
};

HttpReply http_refusal(int status, std::string text);
// As they are sent, with the headers that every reply has.
std::string http_bytes(const HttpReply& reply, bool with_body);
// The head of an answer whose length is not known yet.
std::string http_stream_head(const HttpReply& reply, bool in_chunks);

}  // namespace longhaul
