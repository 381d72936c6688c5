#include "data/chat/conversation.h"

#include "base/files/file.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "data/chat/chat_format.h"

namespace longhaul::data::chat {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string as_utf8(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const Decoded next = decode_utf8(bytes.data() + at, bytes.data() + bytes.size());
    text += next.code == kBadByte ? std::string_view("\uFFFD")
                                  : bytes.substr(at, static_cast<size_t>(next.length));
    at += static_cast<size_t>(next.length);
  }
  return text;
}

Conversation::Conversation(std::string system) { set_system(system); }

Conversation Conversation::load(const fs::path& file) {
  constexpr int64_t kMostBytes = 256 << 20;
  const std::string text = read_text(file, ExitCode::kData, kMostBytes);
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("messages")) {
    throw Error({.code = ExitCode::kData,
                 .what = "the file holds no conversation",
                 .expected = "a JSON object {\"messages\": [{\"role\": …, \"content\": …}]}",
                 .found = brief(text),
                 .where = file.string(),
                 .hint = "longhaul chat writes one with /save FILE"});
  }
  check_messages(json["messages"], file.string() + "#messages");
  Conversation conversation;
  conversation.messages_ = json["messages"];
  return conversation;
}

void Conversation::save(const fs::path& file) const {
  const ordered_json json = {{"messages", messages_}};
  write_text_atomically(file, json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void Conversation::add(const std::string& role, const std::string& content) {
  messages_.push_back({{"role", role}, {"content", content}});
}

void Conversation::take_back() { messages_.erase(messages_.size() - 1); }

void Conversation::take_back_turn() {
  while (turns() > 0) {
    const bool question = messages_.back()["role"] == "user";
    take_back();
    if (question) return;
  }
}

bool Conversation::has_system() const { return !messages_.empty() && messages_[0]["role"] == "system"; }

void Conversation::reset() {
  const ordered_json first = has_system() ? messages_[0] : ordered_json();
  messages_ = ordered_json::array();
  if (!first.is_null()) messages_.push_back(first);
}

void Conversation::set_system(const std::string& system) {
  if (has_system()) messages_.erase(messages_.begin());
  if (!system.empty())
    messages_.insert(messages_.begin(), ordered_json{{"role", "system"}, {"content", system}});
}

int64_t Conversation::turns() const {
  int64_t turns = 0;
  for (const ordered_json& message : messages_) turns += message["role"] == "user" ? 1 : 0;
  return turns;
}

}  // namespace longhaul::data::chat
