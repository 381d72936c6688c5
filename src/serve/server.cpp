#include "serve/server.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/process/signals.h"
#include "base/random.h"
#include "base/text/text.h"
#include "base/version.h"
#include "generate/embed.h"
#include "serve/chat_page.h"
#include "serve/text_form.h"

namespace longhaul::serve {
namespace {

using openai::ApiError;

constexpr double kLook_s = 0.05;    // for signals, where there is nothing to do
constexpr double kLastBytes_s = 2;  // for answers that are made, to be taken
constexpr int kComeBack_s = 5;
constexpr int64_t kMostEmbeddedTokens = 8192;  // one pass reads them, for which others wait

double seconds_now() { return static_cast<double>(monotonic_ns()) * 1e-9; }

HttpReply json_of(const nlohmann::ordered_json& json) {
  return {.type = "application/json",
          .body = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"};
}

void require_method(const HttpRequest& request, const std::string& method) {
  if (request.method != method)
    throw ApiError(405, fmt::format("{} takes {}, not {}.", request.path, method, request.method));
}

}  // namespace

Server::Server(ServeOptions options, std::vector<ModelShelf::Entry> models, ModelShelf::Open open)
    : options_(std::move(options)), shelf_(std::move(models), std::move(open)), began_s_(wall_time_s()) {
  options_.http.refusal_form = openai::in_error_form;
  http_ = std::make_unique<HttpServer>(
      options_.http, [this](const HttpRequest& request, const Responder& responder) {
        try {
          answer(request, responder);
        } catch (const ApiError& error) {
          responder->reply(error.reply());
        } catch (const Error& error) {
          if (error.code() != ExitCode::kUsage && error.code() != ExitCode::kData)
            log_error("{}: {}", request.path, error.what());
          responder->reply(ApiError::of(error).reply());
        }
      });
}

Server::~Server() {
  shelf_.give_up();
  http_.reset();
}

std::string Server::url() const { return http_->url(); }
uint16_t Server::port() const { return http_->port(); }
void Server::stop() { stopping_ = true; }

void Server::post(Task task) {
  {
    const std::lock_guard hold(mutex_);
    tasks_.push_back(std::move(task));
  }
  has_tasks_.notify_one();
}

// In the HTTP server's threads.
void Server::answer(const HttpRequest& request, const Responder& responder) {
  const std::string& path = request.path;
  if (path == "/v1/completions" || path == "/v1/chat/completions") {
    require_method(request, "POST");
    try {
      return answer_text(request, responder, path == "/v1/chat/completions");
    } catch (const ApiError& error) {
      metrics_.answered(error.status());
      throw;
    } catch (const Error& error) {
      metrics_.answered(ApiError::of(error).status());
      throw;
    }
  }
  if (path == "/v1/embeddings") return answer_embeddings(request, responder);
  if (path == "/tokenize") return responder->reply(tokenize(request));
  if (path == "/detokenize") return responder->reply(detokenize(request));
  const bool is_one_model = path.starts_with("/v1/models/");
  if (path == "/" || path == "/v1/models" || path == "/health" || path == "/metrics" || is_one_model)
    require_method(request, "GET");
  if (path == "/") return responder->reply(chat_page());
  if (path == "/v1/models") return responder->reply(models());
  if (path == "/health") return responder->reply(health());
  if (path == "/metrics") {
    const bool open_metrics = observe::wants_open_metrics(request.accept);
    return post([this, responder, open_metrics] { responder->reply(metrics(open_metrics)); });
  }
  if (is_one_model) {
    const std::string name = name_of(path.substr(std::string_view("/v1/models/").size()));
    return responder->reply(json_of({{"id", name},
                                     {"object", "model"},
                                     {"created", static_cast<int64_t>(began_s_)},
                                     {"owned_by", "longhaul"}}));
  }
  throw ApiError(404,
                 "There is nothing at " + brief(printable(path)) + ". docs/guides/serve.md lists the paths.");
}

// The first model, where none is named.
std::string Server::name_of(const std::string& asked) const {
  if (asked.empty()) return shelf_.entries().front().name;
  if (shelf_.has(asked)) return asked;
  std::vector<std::string> names;
  for (const ModelShelf::Entry& entry : shelf_.entries()) names.push_back(entry.name);
  throw ApiError(404,
                 fmt::format("The model '{}' does not exist. There are: {}", brief(printable(asked)),
                             fmt::join(names, ", ")),
                 "model", "model_not_found");
}

std::shared_ptr<const ModelText> Server::text_of(const std::string& name) {
  return shelf_.text(name, [this, &name] { post([this, name] { shelf_.open(name); }); });
}

std::vector<std::vector<int64_t>> Server::prompts_of(const openai::CompletionRequest& request,
                                                     const ModelText& text) const {
  const auto wide = [](const std::vector<int32_t>& ids) {
    return std::vector<int64_t>(ids.begin(), ids.end());
  };
  std::vector<std::vector<int64_t>> prompts;
  if (request.chat) {
    if (!text.chat)
      throw ApiError(400,
                     "The model has no chat template, so it cannot read a conversation: use /v1/completions.",
                     "messages", "no_chat_template");
    nlohmann::ordered_json messages = request.messages;
    openai::open_arguments(messages);
    prompts.push_back(wide(text.chat(messages, request.tools, request.template_variables,
                                     request.add_generation_prompt, request.continue_final_message)));
  }
  for (const openai::Prompt& prompt : request.prompts) {
    for (const int64_t id : prompt.ids) {
      if (id < text.tokenizer.vocabulary() && text.tokenizer.token_of(static_cast<int32_t>(id))) continue;
      throw ApiError(400, fmt::format("The tokenizer has no token {}.", id), "prompt", "invalid_value");
    }
    prompts.push_back(prompt.text ? wide(text.tokenizer.encode_prompt(*prompt.text)) : prompt.ids);
  }
  for (const std::vector<int64_t>& prompt : prompts) {
    if (std::ssize(prompt) <= text.limit_of_tokens) continue;
    throw ApiError(
        400,
        fmt::format("This model reads at most {} tokens, and the prompt has {}. Please shorten it.",
                    text.limit_of_tokens, prompt.size()),
        request.chat ? "messages" : "prompt", "context_length_exceeded");
  }
  return prompts;
}

void Server::answer_text(const HttpRequest& request, const Responder& responder, bool chat) {
  const double began_s = seconds_now();
  if (drains_) throw ApiError(503, "The server ends; it takes no more requests.").retry_after(kComeBack_s);
  Exchange::Begun begun{.request = chat ? openai::read_chat_request(request.body)
                                        : openai::read_completion_request(request.body)};
  begun.model = name_of(begun.request.model);
  begun.text = text_of(begun.model);
  begun.prompts = prompts_of(begun.request, *begun.text);
  begun.grammar = grammar_of(begun.request, *begun.text);
  begun.responder = responder;
  const uint64_t number = ++requests_;
  begun.seed = RandomStream(static_cast<uint64_t>(began_s_ * 1e6), "serve/seeds").bits(number);
  begun.id = fmt::format("{}-{:016x}", chat ? "chatcmpl" : "cmpl",
                         RandomStream(static_cast<uint64_t>(began_s_ * 1e6), "serve/ids").bits(number));
  begun.created_s = wall_time_s();
  begun.began_s = began_s;
  begun.default_tokens = options_.default_tokens;
  const std::string id = begun.id;
  auto exchange = std::make_shared<Exchange>(std::move(begun), metrics_);
  post([this, exchange, id, responder] { begin(exchange, id, responder); });
}

// From here on in the thread that computes, unless it is said.
void Server::begin(const std::shared_ptr<Exchange>& exchange, const std::string& id,
                   const Responder& responder) {
  if (const auto held = held_.find(exchange->model()); held != held_.end())
    return held->second.push_back({exchange, id, responder});
  generate::Engine& engine = *shelf_.open(exchange->model())->engine;
  if (responder->gone()) return exchange->leave(engine);
  if (drains_)
    return exchange->fail(
        engine, ApiError(503, "The server ends; it takes no more requests.").retry_after(kComeBack_s));
  if (engine.counts().waiting >= options_.most_waiting) {
    return exchange->fail(engine,
                          ApiError(429, fmt::format("{} requests wait already.", options_.most_waiting), "",
                                   "rate_limit_exceeded")
                              .retry_after(kComeBack_s));
  }
  exchange->submit(engine, shelf_.adapter_number(exchange->model()));
  if (exchange->ended()) return;
  exchanges_[id] = exchange;
  // In the thread of the connections.
  responder->on_gone([this, id] {
    post([this, id] {
      const auto found = exchanges_.find(id);
      if (found == exchanges_.end()) return;
      found->second->leave(*shelf_.open(found->second->model())->engine);
      exchanges_.erase(found);
    });
  });
}

HttpReply Server::models() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ModelShelf::Entry& entry : shelf_.entries()) {
    list.push_back({{"id", entry.name},
                    {"object", "model"},
                    {"created", static_cast<int64_t>(began_s_)},
                    {"owned_by", "longhaul"}});
    if (!entry.base.empty()) list.back()["parent"] = entry.base;
  }
  return json_of({{"object", "list"}, {"data", list}});
}

HttpReply Server::health() const {
  HttpReply reply = json_of({{"status", drains_ ? "draining" : "ok"}, {"version", build_version().version}});
  if (!drains_) return reply;
  reply.status = 503;
  reply.headers.emplace_back("Retry-After", std::to_string(kComeBack_s));
  return reply;
}

HttpReply Server::tokenize(const HttpRequest& request) {
  require_method(request, "POST");
  const openai::TokenizeRequest wanted = openai::read_tokenize_request(request.body);
  const auto text = text_of(name_of(wanted.model));
  const std::vector<int32_t> ids = wanted.add_special_tokens ? text->tokenizer.encode_prompt(wanted.prompt)
                                                             : text->tokenizer.encode(wanted.prompt);
  return json_of({{"count", ids.size()}, {"max_model_len", text->limit_of_tokens}, {"tokens", ids}});
}

HttpReply Server::detokenize(const HttpRequest& request) {
  require_method(request, "POST");
  const openai::DetokenizeRequest wanted = openai::read_detokenize_request(request.body);
  const auto text = text_of(name_of(wanted.model));
  for (const int64_t id : wanted.tokens) {
    if (id >= text->tokenizer.vocabulary() || !text->tokenizer.token_of(static_cast<int32_t>(id)))
      throw ApiError(400, fmt::format("The tokenizer has no token {}.", id), "tokens", "invalid_value");
  }
  const std::vector<int32_t> ids(wanted.tokens.begin(), wanted.tokens.end());
  return json_of({{"prompt", text->tokenizer.decode(ids)}});
}

void Server::answer_embeddings(const HttpRequest& request, const Responder& responder) {
  require_method(request, "POST");
  const openai::EmbeddingsRequest wanted = openai::read_embeddings_request(request.body);
  const std::string name = name_of(wanted.model);
  const auto model = text_of(name);
  if (!model->embeds)
    throw ApiError(400, "Several ranks have this model together, and they make no embeddings.", "model",
                   "unsupported_model");
  if (shelf_.adapter_number(name) > 0)
    throw ApiError(400, "Embeddings are of the model without its adapters: ask for those of its base.",
                   "model", "unsupported_model");
  const auto texts = prompts_of({.prompts = wanted.inputs}, *model);
  int64_t tokens = 0;
  for (const std::vector<int64_t>& text : texts) {
    tokens += std::ssize(text);
    if (text.empty()) throw ApiError(400, "An input has no tokens.", "input", "invalid_value");
  }
  if (tokens > kMostEmbeddedTokens)
    throw ApiError(400,
                   fmt::format("The inputs have {} tokens, and at most {} are read at once.", tokens,
                               kMostEmbeddedTokens),
                   "input");
  post([this, responder, name, texts, tokens, as_base64 = wanted.base64] {
    const Tensor means = generate::mean_hidden(*shelf_.open(name)->model.decoder, texts);
    std::vector<std::vector<float>> vectors;
    for (int64_t i = 0; i < means.size(0); ++i) {
      const float* const row = means.const_data_ptr<float>() + i * means.size(1);
      vectors.emplace_back(row, row + means.size(1));
    }
    responder->reply(
        {.type = "application/json", .body = openai::embeddings_answer(name, vectors, tokens, as_base64)});
  });
}

HttpReply Server::metrics(bool open_metrics) {
  observe::OpenMetrics all;
  metrics_.write(all, seconds_now());
  for (const auto& [name, model] : shelf_.loaded()) {
    const generate::Engine::Counts counts = model.engine->counts();
    const generate::PrefixCache& prefixes = model.engine->prefixes();
    const auto gauge = [&](const char* family, const char* unit, const char* help, auto value) {
      all.gauge(family, unit, help).add({{"model", name}}, static_cast<double>(value));
    };
    const auto counter = [&](const char* family, const char* help, auto value) {
      all.counter(family, "", help).add({{"model", name}}, static_cast<double>(value));
    };
    gauge("longhaul_serve_waiting", "", "Requests that wait for their first pass.", counts.waiting);
    gauge("longhaul_serve_reading", "", "Prompts that are being read.", counts.reading);
    gauge("longhaul_serve_writing", "", "Texts that are being written.", counts.writing);
    gauge("longhaul_serve_parked", "", "Texts whose states lie in a file until there is memory.",
          counts.parked);
    gauge("longhaul_serve_page_bytes", "bytes", "Pages of keys and values in use.", counts.page_bytes);
    gauge("longhaul_serve_state_bytes", "bytes", "States of all sequences.", counts.state_bytes);
    gauge("longhaul_serve_prefix_bytes", "bytes", "Kept for prefixes of prompts.", prefixes.bytes());
    counter("longhaul_serve_passes", "Passes of the model.", counts.passes);
    counter("longhaul_serve_parkings", "Times that a text was parked.", counts.parkings);
    counter("longhaul_serve_cache_prompts", "Prompts that were looked up in the prefix cache.",
            prefixes.counts().prompts);
    counter("longhaul_serve_cache_hits", "Prompts of which the prefix cache had a prefix.",
            prefixes.counts().continued);
    counter("longhaul_serve_cache_tokens", "Tokens of prompts that were not read again.",
            prefixes.counts().tokens_not_read);
  }
  all.gauge("longhaul_serve_resident_memory_bytes", "bytes", "Memory of the process.")
      .add({}, static_cast<double>(resident_bytes()));
  return {.type = std::string(observe::metrics_type(open_metrics)), .body = all.text(open_metrics)};
}

bool Server::run_tasks() {
  std::deque<Task> tasks;
  {
    const std::lock_guard hold(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) {
    try {
      task();
    } catch (const std::exception& error) {  // the one who asked hears of it; the others go on
      log_error("{}", error.what());
    }
  }
  return !tasks.empty();
}

void Server::wait_for_work() {
  std::unique_lock hold(mutex_);
  has_tasks_.wait_for(hold, std::chrono::duration<double>(kLook_s), [this] { return !tasks_.empty(); });
}

bool Server::step_engines() {
  bool worked = false;
  for (auto& [name, model] : shelf_.loaded()) {
    const generate::Engine::Counts before = model.engine->counts();
    try {
      worked |= model.engine->step();
    } catch (const std::exception& error) {
      log_error("{}: a pass failed: {}", name, error.what());
      model.engine->cancel_all(std::current_exception());
      worked = true;
    }
    const generate::Engine::Counts after = model.engine->counts();
    metrics_.tokens(after.read_tokens - before.read_tokens, after.drawn_tokens - before.drawn_tokens,
                    seconds_now());
  }
  return worked;
}

void Server::sweep() {
  const double now_s = seconds_now();
  std::erase_if(exchanges_, [&](const auto& entry) {
    const std::shared_ptr<Exchange>& exchange = entry.second;
    if (exchange->ended()) return true;
    generate::Engine& engine = *shelf_.open(exchange->model())->engine;
    if (exchange->failed()) {
      exchange->cancel(engine);
    } else if (exchange->age_s(now_s) > options_.longest_request_s) {
      exchange->fail(
          engine, ApiError(503, fmt::format("The request took longer than {} s.", options_.longest_request_s),
                           "", "timeout")
                      .retry_after(kComeBack_s));
    }
    return exchange->ended();
  });
}

bool Server::is_asked(const std::string& model) const {
  return std::ranges::any_of(exchanges_, [&](const auto& entry) { return entry.second->model() == model; });
}

void Server::follow() {
  if (!options_.has_newer || drains_) return;
  if (seconds_now() > looked_s_ + options_.follow_s) {
    looked_s_ = seconds_now();
    for (const ModelShelf::Entry& entry : shelf_.entries()) {
      const auto loaded = shelf_.loaded().find(entry.name);
      try {
        if (loaded != shelf_.loaded().end() && options_.has_newer(entry, loaded->second)) held_[entry.name];
      } catch (const std::exception& error) {
        log_warning("{}: could not look for a newer checkpoint: {}", entry.name, error.what());
      }
    }
  }
  for (auto held = held_.begin(); held != held_.end();) {
    if (is_asked(held->first)) {
      ++held;
      continue;
    }
    const auto [name, waiting] = *held;
    held = held_.erase(held);
    try {
      shelf_.open_anew(name);
    } catch (const std::exception& error) {
      log_error("{} could not be opened anew; it is tried again when it is asked for: {}", name,
                error.what());
    }
    for (const Held& each : waiting) post([this, each] { begin(each.exchange, each.id, each.responder); });
  }
}

void Server::leave_all() {
  for (const auto& [id, exchange] : exchanges_) {
    exchange->fail(*shelf_.open(exchange->model())->engine,
                   ApiError(503, "The server has ended.").retry_after(kComeBack_s));
  }
  exchanges_.clear();
}

void Server::run() {
  shelf_.open(shelf_.entries().front().name);
  double drain_until_s = 0;
  for (;;) {
    const bool had_tasks = run_tasks();
    const bool worked = step_engines();
    sweep();
    follow();
    if (!drains_ && (stopping_ || stop_signal() != 0)) {
      drains_ = true;
      drain_until_s = seconds_now() + options_.drain_s;
      if (!exchanges_.empty())
        log_info("ends, after {}",
                 counted(std::ssize(exchanges_), "request that has begun", "requests that have begun"));
    }
    if (drains_ && (exchanges_.empty() || seconds_now() > drain_until_s)) break;
    if (!had_tasks && !worked) wait_for_work();
  }
  leave_all();
  run_tasks();
  shelf_.give_up();
  http_->finish(kLastBytes_s);
}

}  // namespace longhaul::serve
