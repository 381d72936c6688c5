#include "evaluate/asked.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/chat/conversation.h"
#include "data/chat/rendered_chat.h"
#include "data/tokenizer/wide_ids.h"

namespace longhaul::evaluate {
namespace {

constexpr const char* kNextTurn = "\nUser:";

// Without its middle, if it has more than `most` tokens.
std::string without_middle(const data::Tokenizer& tokenizer, const std::string& text, int64_t most,
                           bool& cut) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  cut = static_cast<int64_t>(ids.size()) > most;
  if (!cut) return text;
  const auto half = static_cast<ptrdiff_t>(most / 2);
  const auto written = [&](auto begin, auto end) {
    return data::chat::as_utf8(tokenizer.decode(std::vector<int32_t>(begin, end), /*skip_special=*/true));
  };
  return written(ids.begin(), ids.begin() + half) + written(ids.end() - half, ids.end());
}

std::string one_text(const std::vector<Turn>& turns, const std::string& lead) {
  if (turns.size() == 1) return turns[0].content + lead;
  std::string text;
  for (const Turn& turn : turns)
    text += fmt::format("{}: {}\n", turn.role == "user" ? "User" : "Assistant", turn.content);
  return text + "Assistant:" + lead;
}

}  // namespace

AskedIds asked_ids(const data::Tokenizer& tokenizer, const AskedText& text, const AskSettings& settings) {
  AskedIds asked{.as_chat = settings.format != nullptr && !text.never_as_chat};
  std::vector<Turn> turns = text.turns;
  if (settings.context > 0 && turns.size() == 1) {
    const int64_t most = settings.context - text.answer_tokens;
    if (most < 2) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "there is no room for a question beside its answer",
                   .expected = fmt::format("at least {} tokens", text.answer_tokens + 2),
                   .found = std::to_string(settings.context),
                   .where = "--context",
                   .hint = "a longer --context"});
    }
    turns[0].content = without_middle(tokenizer, turns[0].content, most, asked.cut);
  }
  if (!asked.as_chat) {
    asked.ids = data::wide_ids(tokenizer.encode_prompt(one_text(turns, text.lead)));
    return asked;
  }
  data::chat::ChatInput input;
  for (const Turn& turn : turns) input.messages.push_back({{"role", turn.role}, {"content", turn.content}});
  asked.ids = data::wide_ids(data::chat::encode(settings.format->render(std::move(input)), tokenizer));
  return asked;
}

AskedScores ask(Answers& answers, const data::Tokenizer& tokenizer, const std::vector<AskedText>& texts,
                const AskSettings& settings, const std::function<void()>& progress,
                const EvaluationShare& share) {
  std::vector<int64_t> stops = data::wide_ids(tokenizer.stop_ids());
  if (settings.format != nullptr) {
    if (const auto end = settings.format->end_of_turn(tokenizer)) stops.push_back(*end);
  }
  const size_t count = texts.size();
  std::vector<double> numbers(2 * count);  // scores, and whether the middle was lost; 0: another rank has it
  for (size_t i = 0; i < count; ++i) {
    if (share.has(static_cast<int64_t>(i))) {
      const AskedIds asked = asked_ids(tokenizer, texts[i], settings);
      const std::vector<int64_t> ids = answers.complete(asked.ids, texts[i].answer_tokens, stops);
      std::string said = data::chat::as_utf8(tokenizer.decode(std::vector<int32_t>(ids.begin(), ids.end())));
      if (!asked.as_chat) {
        said = texts[i].lead + said;
        // A model that continues a conversation writes the user's next turn as well.
        if (texts[i].turns.size() > 1) said = said.substr(0, said.find(kNextTurn));
      }
      numbers[i] = texts[i].score(said);
      numbers[count + i] = asked.cut ? 1 : 0;
    }
    if (progress) progress();
  }
  share.complete(numbers);
  AskedScores result;
  result.scores.assign(numbers.begin(), numbers.begin() + static_cast<ptrdiff_t>(count));
  result.cut = std::count(numbers.begin() + static_cast<ptrdiff_t>(count), numbers.end(), 1.0);
  return result;
}

}  // namespace longhaul::evaluate
