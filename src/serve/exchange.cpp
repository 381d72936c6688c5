#include "serve/exchange.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace longhaul::serve {
namespace {

double now_s() { return static_cast<double>(monotonic_ns()) * 1e-9; }

}  // namespace

Exchange::Exchange(Begun begun, ServeMetrics& metrics)
    : begun_(std::move(begun)),
      metrics_(metrics),
      head_{.id = begun_.id,
            .chat = begun_.request.chat,
            .created = static_cast<int64_t>(begun_.created_s),
            .model = begun_.model,
            .fingerprint = begun_.text->fingerprint} {
  const auto n = static_cast<size_t>(begun_.request.options.n);
  for (size_t p = 0; p < begun_.prompts.size(); ++p) {
    usage_.prompt_tokens += std::ssize(begun_.prompts[p]);
    for (size_t i = 0; i < n; ++i)
      writers_.emplace_back(
          begun_.text->tokenizer, begun_.prompts[p], begun_.request.options, static_cast<int64_t>(p * n + i),
          begun_.request.tools.is_null() ? openai::ToolForm::kNone : begun_.text->tool_form);
  }
  whole_.resize(writers_.size());
  left_ = std::ssize(writers_);
}

generate::GenerateSettings Exchange::settings(size_t prompt) const {
  const openai::TextOptions& options = begun_.request.options;
  const data::Tokenizer& tokenizer = begun_.text->tokenizer;
  const auto wide = [](const std::vector<int32_t>& ids) {
    return std::vector<int64_t>(ids.begin(), ids.end());
  };
  generate::GenerateSettings settings{
      .tokens = options.max_tokens.value_or(begun_.default_tokens),
      .min_tokens = options.min_tokens,
      .temperature = options.temperature,
      .top_k = options.top_k,
      .top_p = options.top_p,
      .min_p = options.min_p,
      .repetition_penalty = options.repetition_penalty,
      .frequency_penalty = options.frequency_penalty,
      .presence_penalty = options.presence_penalty,
      .logit_bias = options.logit_bias,
      .loop_tokens = options.loop_tokens,
      .seed = options.seed.value_or(begun_.seed) + prompt * static_cast<uint64_t>(options.n),
      .count = options.n,
      .vocabulary = tokenizer.vocabulary(),
      .experts = options.experts,
      .log_probabilities = options.logprobs,
      .top_log_probabilities = options.top_logprobs,
      .never = wide(tokenizer.without_token()),
      .stop_ids = options.stop_token_ids,
      .grammar = begun_.grammar};
  if (!options.ignore_eos) {
    for (const int64_t id : wide(tokenizer.stop_ids())) settings.stop_ids.push_back(id);
    if (begun_.request.chat && begun_.text->end_of_turn)
      settings.stop_ids.push_back(*begun_.text->end_of_turn);
  }
  return settings;
}

void Exchange::submit(generate::Engine& engine, int64_t adapter) {
  const auto self = shared_from_this();
  const auto n = static_cast<size_t>(begun_.request.options.n);
  try {
    for (size_t p = 0; p < begun_.prompts.size(); ++p) {
      generate::Request request{.prompt = begun_.prompts[p], .settings = settings(p), .adapter = adapter};
      if (begun_.prompts.size() > 1)
        request.where = fmt::format("prompt {} of {}", p + 1, begun_.prompts.size());
      request.on_token = [self, p, n](const generate::Drawn& drawn) {
        return self->on_token(p * n + static_cast<size_t>(drawn.sequence), drawn);
      };
      request.on_end = [self, p, n](int64_t sequence, generate::Generation generation) {
        self->on_end(p * n + static_cast<size_t>(sequence), std::move(generation));
      };
      numbers_.push_back(engine.submit(std::move(request)));
    }
  } catch (const Error& error) {
    fail(engine, openai::ApiError::of(error));
    return;
  }
  if (!begun_.request.options.stream) return;
  is_streaming_ = true;
  begun_.responder->begin({.type = "text/event-stream; charset=utf-8"});
  if (begun_.request.echo) {
    for (size_t c = 0; c < writers_.size(); ++c) {
      const openai::Choice echo{.index = static_cast<int64_t>(c), .text = echoed(c)};
      say(openai::answer_event(head_, echo, false, begun_.request.options.stream_usage));
    }
  }
}

std::string Exchange::echoed(size_t choice) const {
  const openai::Prompt& prompt =
      begun_.request.prompts[choice / static_cast<size_t>(begun_.request.options.n)];
  if (prompt.text) return *prompt.text;
  const std::vector<int32_t> ids(prompt.ids.begin(), prompt.ids.end());
  return begun_.text->tokenizer.decode(ids);
}

void Exchange::leave(generate::Engine& engine) {
  closed_ = true;
  metrics_.left();
  cancel(engine);
}

void Exchange::cancel(generate::Engine& engine) {
  for (const int64_t number : numbers_) engine.cancel(number);
  left_ = 0;
}

void Exchange::fail(generate::Engine& engine, const openai::ApiError& error) {
  refuse(error);
  cancel(engine);
}

void Exchange::refuse(const openai::ApiError& error) {
  if (closed_) return;
  closed_ = true;
  metrics_.answered(error.status());
  if (!is_streaming_) return begun_.responder->reply(error.reply());
  begun_.responder->add(openai::error_event(error.json()));
  begun_.responder->end();
}

void Exchange::say(const std::string& event) {
  if (!closed_) begun_.responder->add(event);
}

bool Exchange::on_token(size_t choice, const generate::Drawn& drawn) {
  if (!has_first_token_) metrics_.first_token(now_s() - begun_.began_s);
  has_first_token_ = true;
  ++usage_.completion_tokens;
  ChoiceWriter& writer = writers_[choice];
  const bool goes_on = writer.add(drawn);
  if (is_streaming_ && goes_on && writer.has_piece()) {
    const bool first = !writer.begun();
    say(openai::answer_event(head_, writer.take_piece(), first, begun_.request.options.stream_usage));
  }
  return goes_on;
}

void Exchange::on_end(size_t choice, generate::Generation generation) {
  if (closed_) return;
  if (generation.error) {
    std::string what = "an error of the program";
    try {
      std::rethrow_exception(generation.error);
    } catch (const std::exception& error) {
      what = error.what();
    }
    log_error("{}: {}", begun_.id, what);
    return refuse(openai::ApiError(500, "The text could not be written: " + what));
  }
  if (choice % static_cast<size_t>(begun_.request.options.n) == 0)
    usage_.cached_tokens += generation.continued_tokens;
  ChoiceWriter& writer = writers_[choice];
  const bool first = !writer.begun();
  whole_[choice] = writer.end(generation);
  if (is_streaming_) {
    say(openai::answer_event(head_, whole_[choice], first, begun_.request.options.stream_usage));
  } else if (begun_.request.echo) {
    whole_[choice].text = echoed(choice) + whole_[choice].text;
  }
  if (--left_ == 0) finish();
}

void Exchange::finish() {
  closed_ = true;
  metrics_.answered(200);
  metrics_.whole_answer(now_s() - begun_.began_s);
  if (!is_streaming_)
    return begun_.responder->reply(
        {.type = "application/json", .body = openai::whole_answer(head_, whole_, usage_)});
  if (begun_.request.options.stream_usage) begun_.responder->add(openai::usage_event(head_, usage_));
  begun_.responder->add(std::string(openai::kLastEvent));
  begun_.responder->end();
}

}  // namespace longhaul::serve
