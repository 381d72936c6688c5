// ChatSample: one sample of fine-tuning, read from a row of a file in one of the forms that people have:
//
//   messages     {"messages": [{"role", "content", "tool_calls"?}, …], "tools"?}        OpenAI
//   sharegpt     {"conversations": [{"from", "value"}, …], "system"?, "tools"?}         ShareGPT, Vicuna
//   alpaca       {"instruction", "input"?, "output", "system"?, "history"?}             Alpaca
//   completion   {"prompt", "completion"}: texts, or lists of messages
//   puzzle       {"data_source", "prompt", "solution"}: what `longhaul puzzles generate` writes
//   text         {"text"}: a text that is learnt whole, without a chat template
//
// Each row may have a "weight" that its labels weigh in the loss. All forms but the last become the list of
// messages that chat templates read (data/chat/conversation.h). A row that cannot be used is a BadSample.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace longhaul::posttrain {

enum class SampleForm { kMessages, kShareGpt, kAlpaca, kCompletion, kPuzzle, kText };
std::string_view name_of(SampleForm form);    // as above
std::string_view fields_of(SampleForm form);  // for messages: "messages: a list of role and content"
inline constexpr SampleForm kSampleForms[] = {SampleForm::kMessages, SampleForm::kShareGpt,
                                              SampleForm::kAlpaca,   SampleForm::kCompletion,
                                              SampleForm::kPuzzle,   SampleForm::kText};

struct ChatSample {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;
  std::string text;  // of the form kText, which has no messages
  double weight = 1;
  bool plain() const { return messages.empty(); }
};

// Why a row is no sample; both are phrases. `reason` is one of few words, by which such rows are counted.
struct BadSample : std::runtime_error {
  BadSample(std::string reason_, std::string expected_, std::string found_)
      : std::runtime_error(reason_),
        reason(std::move(reason_)),
        expected(std::move(expected_)),
        found(std::move(found_)) {}
  std::string reason, expected, found;
};

// The form of a row, by its fields; none: it has those of no form.
std::optional<SampleForm> form_of(const nlohmann::ordered_json& row);
// "prompt, chosen, rejected": the fields of a row, for errors.
std::string fields_text(const nlohmann::ordered_json& row);

// The sample of a row of that form. `system`: the system's text where the conversation has none; empty: it
// stays without. Throws BadSample for fields of other kinds, a conversation without an answer, roles out of
// order, an answer that is not text, or a weight that is no number of at least 0.
ChatSample read_sample(const nlohmann::ordered_json& row, SampleForm form, const std::string& system);

// Throws BadSample unless the messages are a conversation that can be learnt: perhaps the system's (or the
// developer's) message first, then the user's, answers of the assistant to it and results of tools that the
// assistant called, and an answer at the end.
void require_conversation(const nlohmann::ordered_json& messages);

}  // namespace longhaul::posttrain
