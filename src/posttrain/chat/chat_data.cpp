#include "posttrain/chat/chat_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "data/corpus/content_sample.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokens/cache.h"
#include "posttrain/chat/chat_options.h"
#include "posttrain/chat/conversation_files.h"
#include "posttrain/chat/new_tokens.h"
#include "posttrain/chat/prepare_chat.h"
#include "posttrain/chat/shown_samples.h"

namespace longhaul::posttrain {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostTokenizerBytes = 256 << 20;  // of texts from which a tokenizer is trained

std::vector<ChatSource> sources_of(const std::vector<std::string>& names, int64_t held_out_percent) {
  std::vector<ChatSource> sources;
  for (const std::string& name : names) {
    const fs::path path = path_of_text(name);
    sources.push_back(
        {.path = path, .files = conversation_files(path), .held_out_percent = held_out_percent});
  }
  return sources;
}

// The texts of all messages, as a tokenizer is trained on them. Rows that are no samples are left out; the
// preparation refuses or counts them.
std::vector<std::string> texts_for_tokenizer(const std::vector<ChatSource>& sources) {
  std::vector<std::string> texts;
  int64_t bytes = 0;
  const auto add = [&](const std::string& text) {
    if (bytes >= kMostTokenizerBytes) return;
    bytes += std::ssize(text);
    texts.push_back(text);
  };
  for (const ChatSource& source : sources) {
    read_samples(
        source.files, "",
        [&](const ConversationFile&, int64_t, const ChatSample& sample) {
          if (sample.plain()) add(sample.text);
          for (const auto& message : sample.messages) {
            if (message.contains("content") && message["content"].is_string())
              add(message["content"].get<std::string>());
          }
        },
        [](const ConversationFile&, int64_t, const BadSample&) {});
  }
  return texts;
}

data::Tokenizer trained_on(const std::vector<ChatSource>& sources, const recipe::DataOptions& options,
                           const fs::path& cache) {
  std::string text = fmt::format("longhaul chat tokenizer 1 {}\n", options.vocabulary);
  std::vector<fs::path> paths;
  for (const ChatSource& source : sources) {
    for (const ConversationFile& file : source.files) {
      text += fmt::format("{} {} {}\n", file.name, file.bytes, file.modified_ns);
      paths.push_back(file.path);
    }
  }
  const fs::path path =
      cache / fmt::format("tokenizer-{}.json", sha256_hex(text + data::content_sample(paths)).substr(0, 16));
  if (fs::exists(path)) {
    data::mark_used(path);
    return data::Tokenizer::load(path);
  }
  make_folders(cache);
  const std::vector<std::string> texts = texts_for_tokenizer(sources);
  if (texts.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "the conversations leave nothing to train a tokenizer on",
                 .expected = "at least one sample with text",
                 .found = "none",
                 .where = fmt::format("{}", fmt::join(options.source, ", ")),
                 .hint = "data.tokenizer=bytes, or the path of a tokenizer.json"});
  }
  auto next = texts.begin();
  const data::Tokenizer tokenizer = data::train_bpe(
      [&](std::string& into) {
        if (next == texts.end()) return false;
        into = *next++;
        return true;
      },
      {.vocabulary = options.vocabulary});
  tokenizer.save(path);
  log_info("trained a tokenizer of {} entries on the conversations: {}", count_text(tokenizer.tokens()),
           path.string());
  return tokenizer;
}

data::Tokenizer tokenizer_of_chat(const std::vector<ChatSource>& sources, const recipe::DataOptions& options,
                                  const ChatOptions& chat, const fs::path& cache) {
  data::Tokenizer tokenizer = options.tokenizer == "train" ? trained_on(sources, options, cache)
                              : options.tokenizer == "bytes"
                                  ? data::Tokenizer::bytes()
                                  : data::Tokenizer::load(path_of_text(options.tokenizer));
  const GrownTokenizer grown = with_special_tokens(tokenizer, chat.new_tokens);
  if (!grown.added.empty())
    log_info("the tokenizer gets {}: {}", counted(std::ssize(grown.added), "new special token"),
             fmt::join(grown.added, ", "));
  return grown.tokenizer.with({options.end_of_document, options.stop_tokens});
}

void refuse_other_objective(const recipe::Recipe& recipe) {
  if (recipe.train.objective == recipe::Objective::kNext) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "conversations are learnt as next tokens",
               .expected = "train.objective = next",
               .found = std::string(recipe::name_of_value(recipe.train.objective)),
               .where = "train.objective and train.task = chat",
               .hint = "train.objective=next"});
}

}  // namespace

data::RunData open_chat_data(const train::DataRequest& request) {
  const recipe::DataOptions& options = request.recipe.data;
  refuse_other_objective(request.recipe);
  const ChatOptions chat = ChatOptions::of(request.recipe);
  const FoundFormat found = find_format(chat, request.run, request.from);
  std::vector<ChatSource> validation = sources_of(options.validation, 100);
  std::vector<ChatSource> training = sources_of(options.source, options.percent_held_out());
  data::RunData data{
      .corpus = {}, .tokenizer = tokenizer_of_chat(training, options, chat, request.cache), .sources = {}};
  data.chat_format = std::make_shared<const data::chat::ChatFormat>(found.format);
  if (!found.own_source.empty()) data.files["chat_template.jinja"] = found.own_source;
  const ChatPreparation how{.use = {found.format, data.tokenizer, chat.learnt, chat.variables},
                            .options = chat,
                            .data = options,
                            .sequence = request.recipe.train.sequence};
  if (!request.quiet) log_info("conversations are written by the template {}", found.format.where());
  // First what is never trained on, so that the other sources can be compared with it.
  std::vector<data::PreparedSource> held_out;
  for (const ChatSource& source : validation) held_out.push_back(prepare_chat(source, how, request.cache));
  for (ChatSource& source : training) {
    for (const data::PreparedSource& each : held_out) source.validation.push_back(&each.held_out);
    data.sources.push_back(prepare_chat(source, how, request.cache));
  }
  std::ranges::move(held_out, std::back_inserter(data.sources));
  if (!request.quiet)
    say(stdout, shown_samples(*data.train().front(), kShownSamples, data.tokenizer, colours_wanted(stdout)));
  return data;
}

}  // namespace longhaul::posttrain
