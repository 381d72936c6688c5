// `longhaul serve CKPT… [--host H] [--port P] [--token-file F] [--max-batch N] [--memory BYTES] [--tp N]`
#include <fmt/format.h>

#include <memory>

#include "base/log.h"
#include "base/process/signals.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/version.h"
#include "checkpoint/adapters/served_adapter.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/models/model_options.h"
#include "cli/models/model_ranks.h"
#include "cli/models/model_tokenizer.h"
#include "cli/output.h"
#include "cli/secret_file.h"
#include "comm/placement.h"
#include "data/chat/chat_format.h"
#include "generate/rank_followers.h"
#include "recipe/mixers.h"
#include "run/memory.h"
#include "serve/server.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

constexpr size_t kLongestBody = size_t{32} << 20;
constexpr size_t kRequestThreads = 8;
constexpr int64_t kTokensOfPrompts = 512;  // beside the texts that are written: what makes a pass long
constexpr int64_t kShareOfPrefixes = 4;    // a quarter of the memory

struct ServeArguments {
  std::vector<std::string> checkpoints, adapters, names;
  std::string host = "127.0.0.1", token_file, tokenizer, dtype, experts, weights, kv_cache, device = "auto";
  int64_t port = 8000, max_batch = 16, memory = 0, queue = 256, max_tokens = 4096;
  double timeout = 600, drain = 60, follow = 0;
  checkpoint::SpikeRequest spikes;
  RankOptions ranks;
};

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Refuses what several ranks cannot serve: each of them has a share of one model, and only the first hears
// requests.
void check_ranks(const ServeArguments& arguments) {
  if (arguments.ranks.ranks() == 1) return;
  const auto refuse = [&](const char* what, const std::string& found, const char* hint) {
    throw Error({.code = ExitCode::kUsage,
                 .what = what,
                 .expected = "one model with --tp and --pp, whose ranks are threads of one process",
                 .found = found,
                 .where = fmt::format("{} ranks", arguments.ranks.ranks()),
                 .hint = hint});
  };
  if (arguments.checkpoints.size() > 1)
    refuse("several models are to be served by several ranks",
           counted(std::ssize(arguments.checkpoints), "model"), "start a server for each");
  if (arguments.follow > 0)
    refuse("several ranks do not look for newer checkpoints", fmt::format("--follow {}", arguments.follow),
           "leave --follow out");
  if (const comm::Placement place = comm::find_place(); place.size > 1)
    refuse("a launcher has started several processes, and one would hear all requests",
           fmt::format("{} ranks of {}", place.size, place.engine), "start it without the launcher");
}

// Adapters stand beside one model, whose products they follow as they were trained.
void check_adapters(const ServeArguments& arguments) {
  if (arguments.adapters.empty()) return;
  const auto refuse = [](const std::string& expected, const std::string& found) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "adapters are served beside one model, as it was trained",
                 .expected = expected,
                 .found = found,
                 .where = "--adapter",
                 .hint = "longhaul checkpoint merge RUN DIR, and serve DIR as a model of its own"});
  };
  if (arguments.checkpoints.size() > 1)
    refuse("one CKPT", counted(std::ssize(arguments.checkpoints), "model"));
  if (arguments.ranks.ranks() > 1) refuse("--tp 1 and --pp 1", counted(arguments.ranks.ranks(), "rank"));
  if (!arguments.weights.empty()) refuse("no --weights", "--weights " + arguments.weights);
  if (arguments.spikes.wanted) refuse("no --spikes", "--spikes");
  if (arguments.follow > 0) refuse("no --follow", fmt::format("--follow {}", arguments.follow));
}

void check(const ServeArguments& arguments) {
  check_ranks(arguments);
  check_adapters(arguments);
  if (is_loopback(arguments.host) || !arguments.token_file.empty()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "other machines could use this server without being asked who they are",
               .expected = "--token-file FILE with a --host that is not this machine alone",
               .found = "--host " + arguments.host,
               .where = "command line",
               .hint = "head -c 24 /dev/urandom | base64 > token; chmod 600 token; --token-file token"});
}

// "NAME=PATH", or a path, whose last folder that is not of checkpoints is the name.
serve::ModelShelf::Entry entry_of(const std::string& text) {
  const size_t sign = text.find('=');
  if (sign != std::string::npos && sign > 0 && text.find('/') > sign)
    return {text.substr(0, sign), text.substr(sign + 1)};
  std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::filesystem::path named = path;
  while (named.filename() == "checkpoints" || named.filename().string().starts_with("step-") ||
         named.filename() == "manifest.json")
    named = named.parent_path();
  return {named.filename().string(), text};
}

serve::ChatEncoder chat_encoder(const std::optional<data::chat::ChatFormat>& format,
                                const data::Tokenizer& tokenizer) {
  if (!format) return {};
  return [format = *format, tokenizer](
             const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
             const nlohmann::ordered_json& variables, bool begins_a_turn, bool goes_on) {
    data::chat::check_messages(messages, "messages");
    data::chat::ChatInput input{.messages = messages, .tools = tools};
    if (!variables.is_null()) input.variables = variables;
    input.add_generation_prompt = begins_a_turn && !goes_on;
    input.continue_final_message = goes_on;
    return data::chat::encode(format.render(std::move(input)), tokenizer);
  };
}

checkpoint::ModelForm form_of(const ServeArguments& arguments) {
  return {.experts = arguments.experts, .weights = arguments.weights, .spikes = arguments.spikes};
}

int64_t bytes_of_model(const ServeArguments& arguments, at::Device device) {
  const auto models = static_cast<int64_t>(arguments.checkpoints.size());
  return arguments.memory > 0 ? arguments.memory / models : run::available_bytes(device) / 2 / models;
}

std::shared_ptr<const serve::ModelText> text_of(const serve::LoadedModel& loaded,
                                                const ServeArguments& arguments) {
  const data::Tokenizer tokenizer = tokenizer_for(loaded.model, arguments.tokenizer);
  const auto format = data::chat::ChatFormat::of_run(loaded.model.tokenizer.parent_path());
  return std::make_shared<serve::ModelText>(serve::ModelText{
      .tokenizer = tokenizer,
      .chat = chat_encoder(format, tokenizer),
      .end_of_turn = format ? format->end_of_turn(tokenizer) : std::nullopt,
      .tool_form = format ? openai::tool_form_of(*format) : openai::ToolForm::kNone,
      .grammars = std::make_shared<grammar::GrammarCache>(tokenizer),
      .limit_of_tokens = loaded.engine->limit_of_tokens(),
      .step = loaded.model.step,
      .fingerprint = fmt::format("longhaul-{}-step-{}", build_version().version, loaded.model.step),
      .embeds = arguments.ranks.ranks() == 1});
}

serve::LoadedModel open(const serve::ModelShelf::Entry& entry, const ServeArguments& arguments,
                        at::Device device) {
  serve::LoadedModel loaded{
      .model = checkpoint::open_model(entry.path, arguments.dtype, device, form_of(arguments)),
      .text = {},
      .engine = {}};
  checkpoint::require_next_token(loaded.model, "serve");
  // In the order of the shelf's list, which their numbers follow.
  for (const std::string& adapter : arguments.adapters) {
    const serve::ModelShelf::Entry own = entry_of(adapter);
    checkpoint::add_served_adapter(*loaded.model.decoder, own.path);
    log_info("{}: an adapter of {} beside {}", own.name, own.path.string(), entry.name);
  }
  const int64_t bytes = bytes_of_model(arguments, device);
  loaded.engine = std::make_unique<generate::Engine>(
      *loaded.model.decoder, generate::EngineOptions{.sequences = arguments.max_batch,
                                                     .prompt_tokens = kTokensOfPrompts,
                                                     .prompts_tokens = kTokensOfPrompts,
                                                     .bytes = bytes,
                                                     .prefix_bytes = bytes / kShareOfPrefixes,
                                                     .keeps_prompts = true,
                                                     .int8_keys_values = arguments.kv_cache == "int8"});
  loaded.text = text_of(loaded, arguments);
  log_info("{}: step {} of {}; {} of memory for states, keys and values of {} texts at once", entry.name,
           loaded.model.step, loaded.model.folder.string(), bytes_text(bytes), arguments.max_batch);
  return loaded;
}

// A run that goes on saves checkpoints beside the one that is served.
bool has_newer(const serve::ModelShelf::Entry& entry, const serve::LoadedModel& loaded) {
  return checkpoint::folder_to_open(entry.path) != loaded.model.folder;
}

serve::ServeOptions serve_options(const ServeArguments& arguments) {
  serve::ServeOptions options{.http = {.host = arguments.host,
                                       .port = static_cast<uint16_t>(arguments.port),
                                       .names = arguments.names,
                                       .token = token_in(arguments.token_file),
                                       .longest_body = kLongestBody,
                                       .threads = kRequestThreads,
                                       .port_option = "--port"},
                              .most_waiting = arguments.queue,
                              .default_tokens = arguments.max_tokens,
                              .longest_request_s = arguments.timeout,
                              .drain_s = arguments.drain};
  if (arguments.follow > 0) {
    options.has_newer = has_newer;
    options.follow_s = arguments.follow;
  }
  return options;
}

void run_server(serve::Server& server) {
  say(stdout,
      fmt::format("{0}v1   health: {0}health   metrics: {0}metrics   Ctrl-C ends it\n", server.url()));
  server.run();
  say(stdout, "ended: every request that had begun was answered\n");
}

// How long a text may be, so that as many as run at once have room on every rank. A collective call.
int64_t tokens_of_text(const model::Decoder& decoder, const ServeArguments& arguments, int64_t bytes,
                       comm::Communicator& world) {
  model::DecoderState state = decoder.make_state();
  if (arguments.kv_cache == "int8") state.keep_keys_values_in_int8();
  const int64_t most = recipe::sequence_limit(decoder.config()).tokens;
  const Tensor fit = at::full(
      {1}, generate::tokens_that_fit(state, arguments.max_batch, bytes / world.size(), most), at::kLong);
  world.all_reduce(fit.neg_(), comm::Reduction::kMax, {.name = "tokens of a text"}).wait();  // the least
  const int64_t tokens = -fit.item<int64_t>();
  if (tokens >= generate::PrefixCache::kTokens) return tokens;
  throw Error({.code = ExitCode::kOutOfMemory,
               .what = "the texts that run at once have no room",
               .expected = fmt::format("memory for {} of {} tokens on each of {} ranks",
                                       counted(arguments.max_batch, "text"), generate::PrefixCache::kTokens,
                                       world.size()),
               .found = bytes_text(bytes),
               .where = "--memory and --max-batch",
               .hint = "give more memory, or have fewer texts at once"});
}

// One rank of several, of which the first answers and the others follow it.
void serve_on_rank(const ServeArguments& arguments, at::Device device, comm::Communicator& world,
                   generate::RankFollowers& followers) {
  const DeviceScope scope(device);
  const serve::ModelShelf::Entry entry = entry_of(arguments.checkpoints.front());
  ModelOnRanks opened =
      open_on_ranks(entry.path, arguments.dtype, device, form_of(arguments), arguments.ranks, &world);
  checkpoint::require_next_token(opened.model, "serve");
  const generate::RankPass pass(*opened.model.decoder, *opened.ranks);
  const int64_t bytes = bytes_of_model(arguments, device),
                tokens = tokens_of_text(*opened.model.decoder, arguments, bytes, world);
  const bool int8 = arguments.kv_cache == "int8";
  if (world.rank() > 0) return followers.follow(world.rank() - 1, *opened.model.decoder, pass, int8);
  const auto end = [&](void*) { followers.end(); };
  const std::unique_ptr<void, decltype(end)> at_the_end(&followers, end);
  serve::Server* running = nullptr;
  serve::Server server(serve_options(arguments), {entry}, [&](const serve::ModelShelf::Entry&) {
    generate::EngineOptions options = followers.lead(pass, {.sequences = arguments.max_batch,
                                                            .prompt_tokens = kTokensOfPrompts,
                                                            .prompts_tokens = kTokensOfPrompts,
                                                            .int8_keys_values = int8,
                                                            .tokens_of_text = tokens});
    // a rank that has failed does not come back
    options.pass = [&running, pass = options.pass](auto continuations, model::DecoderState& state) {
      try {
        return pass(continuations, state);
      } catch (...) {
        running->stop();
        throw;
      }
    };
    serve::LoadedModel loaded{.model = std::move(opened.model), .text = {}, .engine = {}};
    loaded.engine = std::make_unique<generate::Engine>(*loaded.model.decoder, options);
    loaded.text = text_of(loaded, arguments);
    log_info("{}: step {} of {} on {} ranks; texts of up to {} tokens, {} at once", entry.name,
             loaded.model.step, loaded.model.folder.string(), world.size(), tokens, arguments.max_batch);
    return loaded;
  });
  running = &server;
  run_server(server);
}

ExitCode run(const ServeArguments& arguments) {
  check(arguments);
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  if (arguments.ranks.ranks() > 1) {
    generate::RankFollowers followers(arguments.ranks.ranks() - 1);
    on_ranks(arguments.ranks, "serve", {},
             [&](comm::Communicator* world) { serve_on_rank(arguments, device, *world, followers); });
    return ExitCode::kDone;
  }
  std::vector<serve::ModelShelf::Entry> entries;
  for (const std::string& checkpoint : arguments.checkpoints) entries.push_back(entry_of(checkpoint));
  for (const std::string& adapter : arguments.adapters) {
    entries.push_back(entry_of(adapter));
    entries.back().base = entries.front().name;
  }
  serve::Server server(serve_options(arguments), entries,
                       [&](const serve::ModelShelf::Entry& entry) { return open(entry, arguments, device); });
  run_server(server);
  return ExitCode::kDone;
}

}  // namespace

void add_serve(Command& program) {
  auto arguments = std::make_shared<ServeArguments>();
  Command serve = program.add(
      "serve", "trained models behind OpenAI's HTTP interface (docs/guides/serve.md)",
      {{"for this machine", "serve runs/first-run"},
       {"two models by name, at another port", "serve small=runs/first-run large=runs/big --port 9000"},
       {"three models of one base", "serve base=runs/qwen3 --adapter law=runs/law --adapter code=runs/code"},
       {"for a network, for whoever knows a token",
        "serve runs/first-run --host 0.0.0.0 --token-file ~/token"}});
  serve
      .option("CKPT", arguments->checkpoints,
              "checkpoints or run folders (their newest), or NAME=PATH; each is opened when it is first "
              "asked for")
      .required();
  serve
      .option(
          "--adapter", arguments->adapters,
          "a run with adapters that were trained beside CKPT, or NAME=PATH: a model name of its own, whose "
          "texts are written beside those of the others; repeat for more")
      .one_each();
  serve
      .option("--host", arguments->host,
              "address to listen at; another one than this machine's own needs --token-file")
      .default_shown();
  serve.option("--port", arguments->port, "to listen at; 0: any that is free")
      .at_least(0)
      .at_most(65535)
      .default_shown();
  serve
      .option("--name", arguments->names,
              "another name by which the server may be called (a proxy's); repeat for more")
      .one_each();
  serve.option("--token-file", arguments->token_file,
               "file with a token that clients must send as their API key");
  serve.option("--max-batch", arguments->max_batch, "texts that are written at once")
      .at_least(1)
      .at_most(4096)
      .default_shown();
  serve
      .option("--memory", arguments->memory,
              "bytes for states, keys and values, prefixes among them (default: half of what is free when a "
              "model is opened)")
      .at_least(1 << 20);
  serve.option("--queue", arguments->queue, "requests that may wait; others are refused (429)")
      .at_least(1)
      .default_shown();
  serve.option("--max-tokens", arguments->max_tokens, "tokens of a text whose request does not say how many")
      .at_least(1)
      .default_shown();
  serve.option("--timeout", arguments->timeout, "seconds after which a request is ended")
      .above(0)
      .default_shown();
  serve.option("--drain", arguments->drain, "seconds for what has begun, after a signal to end")
      .at_least(0)
      .default_shown();
  serve
      .option("--follow", arguments->follow,
              "look for a newer checkpoint of each run every so many seconds, and serve it; 0: never")
      .at_least(0)
      .default_shown();
  serve.option("--tokenizer", arguments->tokenizer, "tokenizer.json (default: the run's own)");
  add_model_options(serve, arguments->dtype, arguments->experts, arguments->weights, arguments->device);
  add_cache_option(serve, arguments->kv_cache);
  add_spike_options(serve, arguments->spikes);
  add_rank_options(serve, arguments->ranks);
  serve.on_run([arguments] {
    install_signal_handlers(false);
    return run(*arguments);
  });
}

}  // namespace longhaul::cli
