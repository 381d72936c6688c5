// Conversation: the messages between a user and a model, kept as the list that templates read and clients
// send. On disk it is a JSON object {"messages": [{"role": …, "content": …}, …]}.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace longhaul::data::chat {

// Bytes that are not UTF-8 become U+FFFD: a model may write any bytes, and templates and JSON take text
// alone.
std::string as_utf8(std::string_view bytes);

class Conversation {
 public:
  explicit Conversation(std::string system = "");
  // kData when the file is no such object, kUsage when a message is not one (check_messages).
  static Conversation load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;  // atomically

  const nlohmann::ordered_json& messages() const { return messages_; }
  void add(const std::string& role, const std::string& content);
  void take_back();                            // the last message
  void take_back_turn();                       // the last message of the user and what follows it
  void reset();                                // all messages but the system's
  void set_system(const std::string& system);  // empty: none
  int64_t turns() const;                       // messages of the user

 private:
  bool has_system() const;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace longhaul::data::chat
