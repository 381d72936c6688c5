// ChatFormat: the chat template of a model and the special tokens that the template names, from the files
// that lie beside its weights: chat_template.jinja, else "chat_template" of tokenizer_config.json (a text, or
// a list of named ones), else chat_template.json. Immutable; const functions are thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "data/chat/chat_template.h"

namespace longhaul::data::chat {

class ChatFormat {
 public:
  // None: the folder has no template. Errors (kData) name file and field.
  static std::optional<ChatFormat> of_folder(const std::filesystem::path& folder);
  // The format of a run folder: its own chat_template.jinja, else that of its published/ folder, where import
  // keeps the files of a model; special tokens come from there too.
  static std::optional<ChatFormat> of_run(const std::filesystem::path& run);
  // A template in a file of its own; special tokens as of_run(run) finds them.
  static ChatFormat of_file(const std::filesystem::path& file, const std::filesystem::path& run);
  // The same for the text of a template; `where` is its name in errors.
  static ChatFormat of_text(std::string source, const std::string& where, const std::filesystem::path& run);

  // Renders with this format's special tokens. With tools, the template named "tool_use" is taken where there
  // is one, else "default".
  RenderedChat render(ChatInput input) const;
  const ChatTemplate& chat_template(bool with_tools = false) const;
  // The special token with which the template ends the assistant's turn: it ends a text that the model
  // writes. None: the template writes no special token there, or refuses the conversation that this was tried
  // with.
  std::optional<int32_t> end_of_turn(const Tokenizer& tokenizer) const;
  const std::string& where() const { return where_; }  // the file of the template
  const std::map<std::string, std::string>& special_tokens() const { return special_tokens_; }

 private:
  std::string where_;
  std::map<std::string, ChatTemplate> templates_;  // by name; the only one is "default"
  std::map<std::string, std::string> special_tokens_;
};

// Checks that messages are what a client may send: a list of at least one object, each with a "role" of
// letters, digits, '_' and '-' (at most 64) and a "content" that is text, null or a list of parts with
// "type". kUsage with the place ("messages[2].role"). ChatTemplate itself takes whatever its template reads.
void check_messages(const nlohmann::ordered_json& messages, const std::string& where);

}  // namespace longhaul::data::chat
