#include "posttrain/preference/answer_samples.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text/path_text.h"
#include "base/text/text.h"

namespace longhaul::posttrain {
namespace {

using data::chat::ChatFormat;
using data::chat::RenderedChat;
using nlohmann::ordered_json;
using Unit = SampleWish::Unit;

[[noreturn]] void refuse_prompt(const AnswerRow& row, const std::string& expected, const std::string& found) {
  throw Error({.code = ExitCode::kData,
               .what = "the chat template does not write the prompt by itself",
               .expected = expected,
               .found = brief(printable(found)),
               .where = row.where,
               .hint = "preference.template=FILE with another template, or texts instead of messages"});
}

RenderedChat rendered(const ChatFormat& format, const ordered_json& messages, bool opens_answer) {
  data::chat::ChatInput input;
  input.messages = messages;
  input.add_generation_prompt = opens_answer;
  return format.render(std::move(input));
}

// The text before the answers: with what begins the assistant's turn, or, where the template writes the turn
// of a conversation in another way than it opens one, without it.
std::string prompt_text(const ChatFormat& format, const AnswerRow& row,
                        const std::vector<RenderedChat>& whole) {
  std::string text;
  for (const bool opens_answer : {true, false}) {
    text = rendered(format, row.prompt, opens_answer).text.bytes();
    if (std::ranges::all_of(whole,
                            [&](const RenderedChat& each) { return each.text.bytes().starts_with(text); }))
      return text;
  }
  refuse_prompt(row, "a conversation that begins as its prompt alone: " + brief(printable(text)),
                whole.front().text.bytes());
}

const char* form_text(RowForm form) {
  return form == RowForm::kPair       ? "a pair"
         : form == RowForm::kLabelled ? "a labelled answer"
                                      : "answers with rewards";
}

// One answer of a row, or two of them, with what the loss has to know.
struct Choice {
  std::vector<size_t> answers;
  bool good = true;
};

// The sample of a row; nothing: the row is of no use.
std::vector<Choice> choices_of(const AnswerRow& row, Unit unit) {
  const auto best = std::ranges::max_element(row.rewards) - row.rewards.begin();
  const auto worst = std::ranges::min_element(row.rewards) - row.rewards.begin();
  const bool differ = row.form == RowForm::kScored &&
                      row.rewards[static_cast<size_t>(best)] > row.rewards[static_cast<size_t>(worst)];
  std::vector<Choice> all;
  if (row.form == RowForm::kPair) {
    if (unit == Unit::kPairs) return {{{0, 1}}};
    if (unit == Unit::kBest) return {{{0}}};
    if (unit == Unit::kLabelled) return {{{0}, true}, {{1}, false}};
  } else if (row.form == RowForm::kLabelled) {
    if (unit == Unit::kLabelled) return {{{0}, row.good}};
    if (unit == Unit::kBest) return row.good ? std::vector<Choice>{{{0}}} : all;
  } else {
    if (unit == Unit::kPairs)
      return differ ? std::vector<Choice>{{{static_cast<size_t>(best), static_cast<size_t>(worst)}}} : all;
    if (unit == Unit::kBest) return {{{static_cast<size_t>(best)}}};
    for (size_t i = 0; unit == Unit::kScored && i < row.answers.size(); ++i) all.push_back({{i}});
    if (unit == Unit::kScored) return all;
  }
  const char* const wanted = unit == Unit::kPairs ? "pairs, or several answers to a prompt with their rewards"
                             : unit == Unit::kScored ? "answers with a \"reward\""
                                                     : "answers with a \"label\", or pairs";
  throw Error(
      {.code = ExitCode::kData,
       .what = "the rows are not of the form that the loss learns from",
       .expected = wanted,
       .found = form_text(row.form),
       .where = row.where,
       .hint = "preference.loss = kto for labels, reward_weighted or rejection for rewards, dpo for pairs"});
}

void require_model_rows(const AnswerSample& sample, int64_t vocabulary) {
  const auto check = [&](const std::vector<int32_t>& ids) {
    const auto found = std::ranges::find_if(ids, [&](int32_t id) { return id >= vocabulary; });
    if (found == ids.end()) return;
    throw Error({.code = ExitCode::kData,
                 .what = "an answer or its prompt holds a token for which the model has no row",
                 .expected = fmt::format("ids from 0 to {}", vocabulary - 1),
                 .found = std::to_string(*found),
                 .where = sample.where,
                 .hint = "data.tokenizer must be the one that the model was trained with: with --from it is "
                         "taken from there"});
  };
  check(sample.prompt);
  for (const auto& answer : sample.answers) check(answer);
}

// Whether a loss can be made of it; counts what cannot be.
bool keep(const AnswerSample& sample, const SampleWish& wish, AnswerSamples& all) {
  const bool empty = sample.prompt.empty() ||
                     std::ranges::any_of(sample.answers, [](const auto& answer) { return answer.empty(); });
  const bool equal = sample.answers.size() == 2 && sample.answers[0] == sample.answers[1];
  const bool long_one = !empty && sample.inputs() > wish.sequence;
  all.empty += empty ? 1 : 0;
  all.equal += !empty && equal ? 1 : 0;
  all.too_long += !empty && !equal && long_one ? 1 : 0;
  return !empty && !equal && !long_one;
}

[[noreturn]] void refuse_nothing(const AnswerSamples& all, const SampleWish& wish, const std::string& where) {
  throw Error({.code = ExitCode::kData,
               .what = "no row is left to learn from",
               .expected = fmt::format(
                   "answers that differ, are not empty, and fit with their prompts into train.sequence = {}",
                   wish.sequence),
               .found = fmt::format("{} too long, {} equal, {} empty, {} without a better answer",
                                    all.too_long, all.equal, all.empty, all.of_no_use),
               .where = where,
               .hint = all.too_long > 0 ? fmt::format("train.sequence={}", 4 * wish.sequence) : ""});
}

void warn_of_left_out(const AnswerRows& rows, const AnswerSamples& all, const SampleWish& wish,
                      const std::string& where) {
  const auto warn = [&](int64_t count, const std::string& why) {
    if (count > 0) log_warning("{}: {} left out: {}", where, counted(count, "row"), why);
  };
  warn(rows.bad, "they cannot be read; the first: " + rows.first_bad);
  warn(all.equal, "both answers are the same");
  warn(all.empty, "an answer or the prompt has no token");
  warn(all.too_long, fmt::format("with {} they have more than train.sequence = {} tokens",
                                 "prompt and answers", wish.sequence));
  warn(all.of_no_use, "no answer is better than another, or none is good");
  for (const auto& [name, count] : rows.unread)
    log_warning("{}: nothing reads \"{}\" of {}", where, name, counted(count, "row"));
}

AnswerSamples opened(const AnswerRows& rows, const AnswerEncoder& encoder, const SampleWish& wish,
                     const std::string& where, bool speaks) {
  AnswerSamples all = make_samples(rows.rows, encoder, wish, where);
  if (speaks) warn_of_left_out(rows, all, wish, where);
  return all;
}

}  // namespace

AnswerEncoder::AnswerEncoder(const data::Tokenizer& tokenizer, std::optional<ChatFormat> format)
    : tokenizer_(tokenizer), format_(std::move(format)), end_of_text_(tokenizer.end_of_document()) {
  if (format_) end_of_turn_ = format_->end_of_turn(tokenizer);
}

AnswerEncoder AnswerEncoder::of(const data::Tokenizer& tokenizer, const recipe::DataOptions& data,
                                const AnswerDataOptions& options) {
  std::filesystem::path folder = path_of_text(data.tokenizer).parent_path();
  if (folder.empty()) folder = ".";
  if (!options.chat_template.empty()) return {tokenizer, ChatFormat::of_file(options.chat_template, folder)};
  if (data.tokenizer == "bytes") return {tokenizer, std::nullopt};  // nothing lies beside it
  std::optional<ChatFormat> format = ChatFormat::of_folder(folder);
  return {tokenizer, format ? std::move(format) : ChatFormat::of_run(folder)};
}

AnswerEncoder::Encoded AnswerEncoder::encode(const AnswerRow& row) const {
  return row.prompt.is_string() ? encode_texts(row) : encode_messages(row);
}

AnswerEncoder::Encoded AnswerEncoder::encode_texts(const AnswerRow& row) const {
  Encoded made{.prompt = tokenizer_.encode_prompt(row.prompt.get<std::string>()), .answers = {}};
  for (const ordered_json& answer : row.answers) {
    std::vector<int32_t> ids = tokenizer_.encode(answer.get<std::string>());
    if (end_of_text_ && !ids.empty() && ids.back() != *end_of_text_) ids.push_back(*end_of_text_);
    made.answers.push_back(std::move(ids));
  }
  return made;
}

AnswerEncoder::Encoded AnswerEncoder::encode_messages(const AnswerRow& row) const {
  if (!format_) {
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "messages need a chat template, and there is none beside the tokenizer",
         .expected = "chat_template.jinja or tokenizer_config.json of the model that the run begins with",
         .found = "none",
         .where = row.where,
         .hint = "preference.template=FILE.jinja"});
  }
  std::vector<RenderedChat> whole;
  for (const ordered_json& answer : row.answers) {
    ordered_json messages = row.prompt;
    for (const ordered_json& message : answer) messages.push_back(message);
    whole.push_back(rendered(*format_, messages, false));
  }
  const size_t begin = prompt_text(*format_, row, whole).size();
  Encoded made;
  for (RenderedChat& chat : whole) {
    chat.written = {{begin, chat.text.size()}};  // no word goes over the place where the prompt ends
    const data::chat::EncodedChat encoded = encode_written(chat, tokenizer_);
    const auto first = std::ranges::find(encoded.written, true) - encoded.written.begin();
    std::vector<int32_t> prompt(encoded.ids.begin(), encoded.ids.begin() + first),
        answer(encoded.ids.begin() + first, encoded.ids.end());
    if (made.answers.empty()) made.prompt = prompt;
    if (prompt != made.prompt)
      refuse_prompt(row, "the same tokens of the prompt with both answers", chat.text.bytes());
    // The model does not write what the template puts after the end of the turn.
    const auto end =
        end_of_turn_ ? std::find(answer.rbegin(), answer.rend(), *end_of_turn_) : answer.rbegin();
    if (end != answer.rend()) answer.erase(end.base(), answer.end());
    made.answers.push_back(std::move(answer));
  }
  return made;
}

int64_t AnswerSample::inputs() const {
  int64_t sum = 0;
  for (size_t i = 0; i < answers.size(); ++i) sum += inputs(i);
  return sum;
}

Unit unit_of(PreferenceLoss loss) {
  if (compares_two(loss)) return Unit::kPairs;
  if (loss == PreferenceLoss::kKto) return Unit::kLabelled;
  return loss == PreferenceLoss::kRejection ? Unit::kBest : Unit::kScored;
}

std::string AnswerSamples::fingerprint() const {
  Sha256 hash;
  const auto add = [&](const auto& values) { hash.update(std::as_bytes(std::span(values))); };
  for (const AnswerSample& sample : samples) {
    const std::array<int64_t, 3> head = {static_cast<int64_t>(sample.prompt.size()),
                                         static_cast<int64_t>(sample.answers.size()), sample.good};
    const std::array<double, 1> reward = {sample.reward};
    add(head);
    add(reward);
    add(sample.prompt);
    for (const auto& answer : sample.answers) {
      const std::array<int64_t, 1> length = {static_cast<int64_t>(answer.size())};
      add(length);
      add(answer);
    }
  }
  return hash.hex();
}

AnswerSamples make_samples(const std::vector<AnswerRow>& rows, const AnswerEncoder& encoder,
                           const SampleWish& wish, const std::string& where) {
  AnswerSamples all;
  for (const AnswerRow& row : rows) {
    const std::vector<Choice> choices = choices_of(row, wish.unit);
    if (choices.empty()) ++all.of_no_use;
    if (choices.empty()) continue;
    const AnswerEncoder::Encoded encoded = encoder.encode(row);
    for (const Choice& choice : choices) {
      AnswerSample sample{.prompt = encoded.prompt, .answers = {}, .good = choice.good, .where = row.where};
      for (const size_t answer : choice.answers) sample.answers.push_back(encoded.answers[answer]);
      if (row.form == RowForm::kScored) sample.reward = row.rewards[choice.answers.front()];
      if (!keep(sample, wish, all)) continue;
      require_model_rows(sample, wish.vocabulary);
      all.samples.push_back(std::move(sample));
    }
  }
  if (all.samples.empty()) refuse_nothing(all, wish, where);
  return all;
}

SplitSamples open_samples(const AnswerDataOptions& options, const AnswerEncoder& encoder,
                          const SampleWish& wish, bool speaks) {
  const auto read = [&](const std::filesystem::path& path) {
    return read_answer_rows(path, options.skip_bad_rows);
  };
  AnswerRows rows = read(options.data);
  AnswerRows held_out;
  const auto key = [](const AnswerRow& row) {
    return row.prompt.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  };
  std::string held_out_where = options.held_out.string();
  if (!options.held_out.empty()) {
    held_out = read(options.held_out);
    std::set<std::string> judged;
    for (const AnswerRow& row : held_out.rows) judged.insert(key(row));
    const auto gone =
        std::erase_if(rows.rows, [&](const AnswerRow& row) { return judged.contains(key(row)); });
    if (gone > 0 && speaks)
      log_warning("{}: {} left out: their prompts are held out in {}", options.data.string(),
                  counted(static_cast<int64_t>(gone), "row"), held_out_where);
  } else {
    held_out_where = fmt::format("{}, {} % held out", options.data.string(), options.held_out_percent);
    const auto is_held_out = [&](const AnswerRow& row) {
      return static_cast<int64_t>(xxh3(key(row)) % 100) < options.held_out_percent;
    };
    std::ranges::copy_if(rows.rows, std::back_inserter(held_out.rows), is_held_out);
    std::erase_if(rows.rows, is_held_out);
  }
  SplitSamples split{.train = opened(rows, encoder, wish, options.data.string(), speaks),
                     .held_out = {},
                     .tokenizer_sha256 = encoder.tokenizer().sha256()};
  if (!held_out.rows.empty()) split.held_out = opened(held_out, encoder, wish, held_out_where, speaks);
  return split;
}

}  // namespace longhaul::posttrain
