#include "openai/api_error.h"

#include <nlohmann/json.hpp>

#include "base/text/text.h"

namespace longhaul::openai {
namespace {

const char* type_of(int status) {
  if (status == 401 || status == 403) return "authentication_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

ApiError ApiError::of(const Error& error, const std::string& param) {
  const ErrorFields& fields = error.fields();
  std::string message = fields.what;
  if (!fields.expected.empty()) message += "; expected: " + fields.expected;
  if (!fields.found.empty()) message += "; found: " + fields.found;
  if (!fields.where.empty()) message += " (" + fields.where + ")";
  const bool is_clients = error.code() == ExitCode::kUsage || error.code() == ExitCode::kData;
  return {is_clients ? 400 : 500, message, param};
}

std::string ApiError::json() const {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  const nlohmann::ordered_json json = {{"error",
                                        {{"message", message_},
                                         {"type", type_of(status_)},
                                         {"param", or_null(param_)},
                                         {"code", or_null(code_)}}}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HttpReply ApiError::reply() const {
  HttpReply reply{.status = status_, .type = "application/json", .body = json() + "\n"};
  if (retry_after_s_ > 0) reply.headers.emplace_back("Retry-After", std::to_string(retry_after_s_));
  return reply;
}

HttpReply in_error_form(const HttpReply& refusal) {
  if (refusal.type == "application/json") return refusal;
  HttpReply reply = ApiError(refusal.status, std::string(trimmed(refusal.body)), "",
                             refusal.status == 401 ? "invalid_api_key" : "")
                        .reply();
  reply.headers.insert(reply.headers.end(), refusal.headers.begin(), refusal.headers.end());
  return reply;
}

}  // namespace longhaul::openai
