// RequestFields: the fields of a request by name and type, each of which must be known. Used by request.cpp
// alone.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "openai/request.h"

namespace longhaul::openai {

class RequestFields {
 public:
  explicit RequestFields(std::string_view body);

  bool has(const std::string& name);  // there, and not null; the field counts as known
  const nlohmann::json& at(const std::string& name) { return known_.insert(name), json_.at(name); }
  // Of a field that is not there: `into` stays.
  void text(const std::string& name, std::string& into);
  void flag(const std::string& name, bool& into);
  void integer(const std::string& name, int64_t least, int64_t most, int64_t& into);
  void number(const std::string& name, double least, double most, double& into);
  void integers(const std::string& name, int64_t most, std::vector<int64_t>& into);
  void pass_over(const std::vector<std::string>& names) { known_.insert(names.begin(), names.end()); }
  // Refuses the field unless it is absent, null or has the one value that changes nothing.
  void only(const std::string& name, const nlohmann::json& value, const std::string& why);
  // as the client wrote it; null where it is not there
  nlohmann::ordered_json in_order(const std::string& name);
  void finish() const;  // refuses what was not asked for

  [[noreturn]] static void refuse(const std::string& name, const std::string& expected,
                                  const std::string& found);

 private:
  std::string_view body_;
  nlohmann::json json_;
  std::set<std::string> known_;
};

}  // namespace longhaul::openai
