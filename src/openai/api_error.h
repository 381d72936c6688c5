// ApiError: the refusal of a request in the form that OpenAI's clients read:
//
//   {"error": {"message": …, "type": "invalid_request_error", "param": "temperature", "code": null}}
#pragma once

#include <exception>
#include <string>

#include "base/error.h"
#include "base/net/http_server.h"

namespace longhaul::openai {

class ApiError : public std::exception {
 public:
  // param: the field of the request that is at fault; code: a name for programs. Both may be empty.
  ApiError(int status, std::string message, std::string param = "", std::string code = "")
      : status_(status), message_(std::move(message)), param_(std::move(param)), code_(std::move(code)) {}
  // An error of the program as an answer: kUsage and kData are the client's mistakes (400), everything else
  // is ours.
  static ApiError of(const Error& error, const std::string& param = "");

  int status() const { return status_; }
  const char* what() const noexcept override { return message_.c_str(); }
  ApiError& retry_after(int seconds) { return retry_after_s_ = seconds, *this; }
  std::string json() const;  // the error object
  HttpReply reply() const;

 private:
  int status_;
  std::string message_, param_, code_;
  int retry_after_s_ = 0;  // 0: not said
};

// The HTTP server's own refusals in this form.
HttpReply in_error_form(const HttpReply& refusal);

}  // namespace longhaul::openai
