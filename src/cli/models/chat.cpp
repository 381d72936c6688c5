// `longhaul chat CKPT`: a conversation with a model, in the terminal or line by line from standard input.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/models/model_options.h"
#include "cli/models/model_tokenizer.h"
#include "cli/output.h"
#include "data/chat/chat_format.h"
#include "data/chat/conversation.h"
#include "data/tokenizer/continuation.h"
#include "generate/generate.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

struct ChatArguments {
  std::string checkpoint, template_file, system, variables, load, tokenizer, dtype, experts, weights,
      kv_cache, device = "auto", special = "template";
  checkpoint::SpikeRequest spikes;
  generate::GenerateSettings settings{.tokens = 1000};
  int64_t prefix_cache = 256;  // MiB
  bool json = false;
};

constexpr const char* kHelp =
    "/help            these commands\n"
    "/reset           forget the conversation, except the system's text\n"
    "/system TEXT     set the system's text (nothing after it: none)\n"
    "/undo            take the last question and its answer back\n"
    "/save FILE       write the conversation as JSON; `chat --load FILE` continues it\n"
    "/quit            end (so does the end of the input)\n"
    "A line that ends with \\ goes on in the next one. //x says \"/x\" to the model.\n";

Error usage(const std::string& what, const std::string& expected, const std::string& found,
            const std::string& where, const std::string& hint = "") {
  return Error({.code = ExitCode::kUsage,
                .what = what,
                .expected = expected,
                .found = found,
                .where = where,
                .hint = hint});
}

nlohmann::ordered_json variables_of(const std::string& text) {
  if (text.empty()) return nlohmann::ordered_json::object();
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object())
    throw usage("variables of the template cannot be read", "a JSON object", brief(text), "--variables",
                R"(--variables '{"enable_thinking": false}')");
  return json;
}

data::chat::ChatFormat format_of(const ChatArguments& arguments, const std::filesystem::path& run) {
  if (!arguments.template_file.empty()) return data::chat::ChatFormat::of_file(arguments.template_file, run);
  if (auto format = data::chat::ChatFormat::of_run(run)) return *format;
  throw Error(
      {.code = ExitCode::kData,
       .what = "the model has no chat template",
       .expected =
           "chat_template.jinja in the run folder, or a template among the files of its import (published/)",
       .found = "none",
       .where = run.string(),
       .hint = "--template FILE names one, for example docs/examples/chatml.jinja; `longhaul sample` "
               "continues a text without any"});
}

// The conversation with one model.
class Talk {
 public:
  Talk(const ChatArguments& arguments, checkpoint::OpenModel& model)
      : arguments_(arguments),
        model_(model),
        tokenizer_(tokenizer_for(model, arguments.tokenizer)),
        format_(format_of(arguments, model.folder.parent_path().parent_path())),
        variables_(variables_of(arguments.variables)),
        conversation_(arguments.load.empty() ? data::chat::Conversation(arguments.system)
                                             : data::chat::Conversation::load(arguments.load)),
        generator_(*model.decoder, arguments.prefix_cache << 20,
                   {.int8_keys_values = arguments.kv_cache == "int8"}) {
    if (!arguments.load.empty() && !arguments.system.empty()) conversation_.set_system(arguments.system);
    settings_ = arguments.settings;
    settings_.vocabulary = tokenizer_.vocabulary();
    const auto stops = tokenizer_.stop_ids(), never = tokenizer_.without_token();
    settings_.stop_ids.assign(stops.begin(), stops.end());
    settings_.never.assign(never.begin(), never.end());
    if (const auto end = format_.end_of_turn(tokenizer_)) settings_.stop_ids.push_back(*end);
    if (settings_.stop_ids.empty())
      log_warning("no token ends an answer: each has --tokens {}", settings_.tokens);
  }

  // One line of the user, or several joined ones; false: /quit.
  bool hear(const std::string& line) {
    if (line.starts_with("//")) return answer(line.substr(1));
    if (!line.starts_with('/')) return answer(line);
    const size_t blank = line.find(' ');
    const std::string command = line.substr(0, blank);
    const std::string rest(blank == std::string::npos ? std::string_view()
                                                      : trimmed(std::string_view(line).substr(blank)));
    return run_command(command, rest);
  }
  const data::chat::ChatFormat& format() const { return format_; }

 private:
  bool run_command(const std::string& command, const std::string& rest) {
    if (command == "/quit" || command == "/exit") return false;
    if (command == "/help") {
      say(stderr, kHelp);
    } else if (command == "/reset") {
      conversation_.reset();
    } else if (command == "/system") {
      conversation_.set_system(rest);
    } else if (command == "/undo") {
      if (conversation_.turns() == 0)
        throw usage("there is nothing to take back", "a question and its answer", "none", command);
      conversation_.take_back_turn();
    } else if (command == "/save") {
      if (rest.empty()) throw usage("/save wants a file", "/save FILE", "no file", command);
      conversation_.save(rest);
      log_info("the conversation is in {}", rest);
    } else {
      const std::vector<std::string> known{"/help", "/reset", "/system", "/undo", "/save", "/quit"};
      const std::string near = nearest_spelling(command, known);
      throw usage("there is no such command", fmt::format("{}", fmt::join(known, ", ")), brief(command),
                  "standard input",
                  near.empty() ? "/help tells what each does; // begins a text with a slash" : near);
    }
    return true;
  }

  std::vector<int64_t> prompt() const {
    const data::chat::RenderedChat rendered =
        format_.render({.messages = conversation_.messages(), .variables = variables_});
    const auto special = arguments_.special == "anywhere" ? data::chat::SpecialText::kAnywhere
                                                          : data::chat::SpecialText::kFromTemplate;
    const std::vector<int32_t> ids = data::chat::encode(rendered, tokenizer_, special);
    return {ids.begin(), ids.end()};
  }

  bool answer(const std::string& question) {
    if (!valid_utf8(question))
      throw usage("the text cannot be read", "UTF-8", printable(brief(question)), "standard input");
    conversation_.add("user", question);
    try {
      reply();
    } catch (...) {
      conversation_.take_back();  // as if it had not been asked
      throw;
    }
    return true;
  }

  void reply() {
    const std::vector<std::vector<int64_t>> prompts{prompt()};
    generate::require_readable(prompts[0], model_.recipe.recipe.model, "the conversation");
    data::Continuation continuation(tokenizer_, std::vector<int32_t>(prompts[0].begin(), prompts[0].end()));
    std::string text;
    const auto add = [&](const std::string& fresh) {
      const std::string shown = data::chat::as_utf8(fresh);
      text += shown;
      if (!arguments_.json) print(shown);
    };
    const auto generations = generator_.run(
        prompts, settings_, [&](int64_t, int64_t id) { add(continuation.add(static_cast<int32_t>(id))); });
    add(continuation.rest());
    conversation_.add("assistant", text);
    ++settings_.seed;  // an answer does not draw as the one before
    if (!arguments_.json) return print("\n");
    print_json({{"text", text},
                {"finish", generate::name_of(generations[0].finish)},
                {"prompt_tokens", generations[0].prefill_tokens},
                {"continued_tokens", generations[0].continued_tokens},
                {"tokens", generations[0].ids.size()}});
  }

  const ChatArguments& arguments_;
  checkpoint::OpenModel& model_;
  data::Tokenizer tokenizer_;
  data::chat::ChatFormat format_;
  nlohmann::ordered_json variables_;
  data::chat::Conversation conversation_;
  generate::Generator generator_;
  generate::GenerateSettings settings_;
};

// The next text of the user: one line, or several whose ends are "\"; none: the input has ended.
std::optional<std::string> read_question(bool terminal) {
  std::string question, line;
  if (terminal) say(stderr, "> ");
  while (std::getline(std::cin, line)) {
    if (!line.ends_with('\\')) return question + line;
    question += line.substr(0, line.size() - 1) + "\n";
    if (terminal) say(stderr, "… ");
  }
  return question.empty() ? std::nullopt : std::optional(question);
}

ExitCode run(const ChatArguments& arguments) {
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  auto model = checkpoint::open_model(
      arguments.checkpoint, arguments.dtype, device,
      {.experts = arguments.experts, .weights = arguments.weights, .spikes = arguments.spikes});
  checkpoint::require_next_token(model, "chat");
  Talk talk(arguments, model);
  const bool terminal = is_terminal(stdin) && is_terminal(stdout);
  if (terminal)
    say(stderr, fmt::format("step {} of {}, template {}; /help lists the commands\n", model.step,
                            arguments.checkpoint, talk.format().where()));
  while (const auto question = read_question(terminal)) {
    if (trimmed(*question).empty()) continue;
    try {
      if (!talk.hear(*question)) break;
    } catch (const Error& error) {
      if (!terminal) throw;  // a script must not go on as if nothing had been
      say(stderr, std::string(error.what()) + "\n");
    }
  }
  if (terminal) say(stderr, "\n");
  return ExitCode::kDone;
}

}  // namespace

void add_chat(Command& program) {
  auto arguments = std::make_shared<ChatArguments>();
  Command chat =
      program.add("chat", "talk with a trained model, through its chat template",
                  {{"in the terminal; /help lists the commands", "chat runs/qwen3"},
                   {"one answer for a script", "chat runs/qwen3 --temperature 0 --json <question.txt"},
                   {"with a template of your own",
                    "chat runs/mine --template docs/examples/chatml.jinja --system \"Answer briefly.\""}});
  chat.option("CKPT", arguments->checkpoint, "a checkpoint, or a run directory").required();
  chat.option("--template", arguments->template_file,
              "a Jinja file (default: the model's own; docs/guides/chat.md)");
  chat.option("--system", arguments->system, "the system's text").may_be_empty();
  chat.option("--variables", arguments->variables,
              "what the template is told beside, as JSON: {\"enable_thinking\": false}");
  chat.option("--load", arguments->load, "continue a conversation that /save wrote");
  chat.option("--special-tokens", arguments->special,
              "who may write special tokens: the template alone, or anywhere a text spells one, as "
              "transformers does")
      .one_of({"template", "anywhere"})
      .default_shown();
  chat.option("--tokens", arguments->settings.tokens, "at most this many tokens an answer")
      .at_least(1)
      .default_shown();
  chat.option("--temperature", arguments->settings.temperature, "0: always the likeliest token")
      .at_least(0)
      .at_most(1000)
      .default_shown();
  chat.option("--top-k", arguments->settings.top_k, "keep the k likeliest tokens; 0: all")
      .at_least(0)
      .default_shown();
  chat.option("--top-p", arguments->settings.top_p, "keep the likeliest tokens whose probabilities sum to p")
      .above(0)
      .at_most(1)
      .default_shown();
  chat.option("--seed", arguments->settings.seed, "of the draws; each further answer has the next one")
      .default_shown();
  chat.option("--prefix-cache", arguments->prefix_cache,
              "MiB for what was read already, so that a turn reads only what is new; 0: none")
      .at_least(0)
      .at_most(1 << 24)
      .default_shown();
  chat.option("--tokenizer", arguments->tokenizer, "tokenizer.json (default: the run's own)");
  add_model_options(chat, arguments->dtype, arguments->experts, arguments->weights, arguments->device);
  add_cache_option(chat, arguments->kv_cache);
  add_spike_options(chat, arguments->spikes);
  chat.json_flag(arguments->json);
  chat.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
