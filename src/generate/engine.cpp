#include "generate/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "generate/engine_parts.h"
#include "model/served_adapters.h"

namespace longhaul::generate {
namespace {

Tensor on_host(const Tensor& logits) {
  return (logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat)).cpu().contiguous();
}

model::DecoderState empty_state(const model::Decoder& decoder, const EngineOptions& options) {
  model::DecoderState state = decoder.make_state();
  if (options.int8_keys_values) state.keep_keys_values_in_int8();
  return state;
}

}  // namespace

Engine::Engine(model::Decoder& decoder, const EngineOptions& options)
    : decoder_(decoder),
      options_(options),
      state_(empty_state(decoder, options)),
      prefixes_(state_, options.prefix_bytes, least_read_at_once(decoder.config())) {
  LONGHAUL_ASSERT(options.prompt_tokens >= PrefixCache::kTokens &&
                  options.prompt_tokens % PrefixCache::kTokens == 0);
  LONGHAUL_ASSERT(
      (!options.pass && !options.row_changed) || (options.bytes == 0 && options.prefix_bytes == 0),
      "ranks that count bytes by themselves do not decide alike");
  if (options.bytes == 0) return;
  LONGHAUL_ASSERT(options.sequences > 0, "a limit of bytes needs one of sequences");
  const int64_t rows = options.sequences + prefixes_.most(),
                least = rows * state_.row_bytes() + 2 * state_.page_bytes();
  if (least > options.bytes) {
    throw Error({.code = ExitCode::kOutOfMemory,
                 .what = "the states of the sequences do not fit into their memory",
                 .expected = fmt::format("at least {} for {} and {}", bytes_text(least),
                                         counted(options.sequences, "sequence"),
                                         counted(prefixes_.most(), "kept prefix", "kept prefixes")),
                 .found = bytes_text(options.bytes),
                 .hint = fmt::format("give more memory, or have fewer sequences at once: a state takes {}",
                                     bytes_text(state_.row_bytes()))});
  }
  state_.reserve(rows);
}

Engine::~Engine() = default;

int64_t Engine::submit(Request request) {
  check(request.settings);
  LONGHAUL_ASSERT(request.settings.tokens > 0, "a request without tokens");
  require_readable(request.prompt, decoder_.config(), request.where);
  require_ids(request, decoder_.config().vocabulary);
  require_experts(request, decoder_.config(), options_.pass != nullptr);
  require_possible(request, options_.sequences, limit_of_tokens());
  LONGHAUL_ASSERT(request.adapter == 0 || (!options_.pass && request.adapter > 0 &&
                                           request.adapter <= decoder_.parameters().served()->count()),
                  "adapter {}", request.adapter);
  const bool idle = waiting_.empty() && reading_.empty() && writing_.empty() && parked_.empty();
  if (idle) records_routes_ = request.settings.records_routes;
  LONGHAUL_ASSERT(records_routes_ == request.settings.records_routes,
                  "routes are recorded of all requests or of none");
  LONGHAUL_ASSERT(!records_routes_ || (!prefixes_.keeps() && options_.bytes == 0 && !options_.pass),
                  "nobody knows where beginnings that are not read again went");
  auto job = std::make_shared<Job>();
  job->number = ++last_number_;
  job->request = std::move(request);
  waiting_.push_back(job);
  return job->number;
}

// The next part of a prompt; of one that has not begun, after what the prefix cache has of it.
Engine::Part Engine::begin_part(const JobPointer& job) {
  if (job->row < 0) {
    if (prefixes_.keeps()) {
      // the logits of a whole prompt are kept without the experts that led to them
      const PrefixCache::Begun begun =
          prefixes_.begin(job->request.prompt, !job->wants_experts(), job->request.adapter);
      job->row = begun.row;
      job->logits_v = begun.logits_v;
    } else {
      job->row = add_row();
    }
    job->continued = state_.tokens(job->row);
  }
  const int64_t read = state_.tokens(job->row), unread = job->tokens() - read, most = most_of_part();
  if (prefixes_.keeps()) return {job, prefixes_.next_stop(read, job->tokens()) - read};
  return {job, unread < most + prefixes_.least() ? unread : most};
}

int64_t Engine::most_of_part() const {
  return prefixes_.keeps() ? PrefixCache::kTokens : options_.prompt_tokens;
}

// Prompts are read in the order in which they came.
std::vector<Engine::Part> Engine::next_parts() {
  std::vector<Part> parts;
  int64_t left = options_.prompts_tokens > 0 ? options_.prompts_tokens : std::numeric_limits<int64_t>::max();
  for (const JobPointer& job : reading_) {
    // One that has not begun looks into the prefix cache when its first part is read, and not before: what is
    // read until then may be a prefix of it.
    const int64_t unread = job->tokens() - (job->row >= 0 ? state_.tokens(job->row) : 0);
    if (!parts.empty() && std::min(unread, most_of_part() + prefixes_.least() - 1) > left) break;
    parts.push_back(begin_part(job));
    left -= parts.back().tokens;
  }
  return parts;
}

bool Engine::step() {
  resume();
  admit();
  std::vector<Part> parts = next_parts();
  if (parts.empty() && writing_.empty()) {
    if (options_.bytes > 0) state_.release_free_pages();
    return false;
  }
  make_room(parts);
  run_pass(parts);
  draw();
  return true;
}

void Engine::run_pass(const std::vector<Part>& parts) {
  std::vector<Continuation> next;
  for (const SequencePointer& sequence : writing_)
    next.push_back({sequence->row, {sequence->next}, sequence->job->request.adapter});
  const size_t writing = next.size();
  for (const Part& part : parts) {
    if (part.tokens == 0) continue;
    const auto begin = part.job->request.prompt.begin() + state_.tokens(part.job->row);
    next.push_back({part.job->row, {begin, begin + part.tokens}, part.job->request.adapter});
    counts_.read_tokens += part.tokens;
  }
  PassExperts experts;
  const bool tells =
      std::ranges::any_of(writing_, [](const auto& sequence) { return sequence->job->wants_experts(); }) ||
      std::ranges::any_of(parts, [](const Part& part) { return part.job->wants_experts(); });
  const Tensor logits = next.empty() ? Tensor() : logits_of_pass(next, tells ? &experts : nullptr);
  const auto experts_of = [&](const Job& job, int64_t row) {
    return job.wants_experts() ? experts.of(row) : std::vector<LayerExperts>();
  };
  for (size_t i = 0; i < writing; ++i) {
    const auto row = static_cast<int64_t>(i);
    writing_[i]->logits_v = logits[row];
    writing_[i]->experts = experts_of(*writing_[i]->job, row);
  }
  auto row = static_cast<int64_t>(writing);
  for (const Part& part : parts) {
    if (part.tokens == 0) {
      after_part(part, part.job->logits_v, {});
    } else {
      after_part(part, logits[row], experts_of(*part.job, row));
      ++row;
    }
  }
}

Tensor Engine::logits_of_pass(const std::vector<Continuation>& next, PassExperts* experts) {
  ++counts_.passes;
  if (options_.pass) return on_host(options_.pass(next, state_));
  return on_host(advance(decoder_, next, state_, records_routes_ ? &recorder_ : nullptr, experts));
}

void Engine::after_part(const Part& part, const Tensor& logits_v, const std::vector<LayerExperts>& experts) {
  Job& job = *part.job;
  const std::span<const int64_t> prompt = job.request.prompt;
  const int64_t read = state_.tokens(job.row);
  if (prefixes_.keeps() && part.tokens > 0) {
    if (read % PrefixCache::kTokens == 0 || read < job.tokens())
      prefixes_.keep(prompt.first(static_cast<size_t>(read)), job.row, job.request.adapter);
    if (options_.keeps_prompts && read == job.tokens())
      prefixes_.keep_prompt(prompt, job.row, logits_v, job.request.adapter);
  }
  if (read == job.tokens()) begin_writing(part.job, logits_v, experts);
}

void Engine::begin_writing(const JobPointer& job, const Tensor& logits_v,
                           const std::vector<LayerExperts>& experts) {
  for (int64_t i = 0; i < job->count(); ++i) {
    auto sequence = std::make_shared<Sequence>(job, i);
    sequence->row = job->row;
    if (i > 0) {
      sequence->row = fork_row(job->row);
      if (records_routes_) recorder_.fork(job->row, sequence->row);
    }
    sequence->logits_v = logits_v;
    sequence->experts = experts;
    sequence->generation.prefill_tokens = job->tokens();
    sequence->generation.continued_tokens = job->continued;
    writing_.push_back(sequence);
  }
  job->row = -1;
  std::erase(reading_, job);
}

void Engine::draw_one(Sequence& sequence) const {
  const GenerateSettings& settings = sequence.job->request.settings;
  const auto drawn = std::ssize(sequence.generation.ids);
  const int64_t vocabulary = sequence.logits_v.numel();
  const auto drawable =
      static_cast<size_t>(settings.vocabulary > 0 ? std::min(settings.vocabulary, vocabulary) : vocabulary);
  const bool changes = settings.grammar != nullptr || sequence.history.changes(settings, drawn);
  const auto all_of = [&]<class Logit>(Logit) {
    return std::span<const Logit>(sequence.logits_v.const_data_ptr<Logit>(), static_cast<size_t>(vocabulary));
  };
  const auto changed_row = [&]<class Logit>(std::vector<Logit>& own) -> std::span<const Logit> {
    const std::span<const Logit> row = all_of(Logit{}).first(drawable);
    if (!changes) return row;
    own.assign(row.begin(), row.end());
    sequence.history.change(std::span<Logit>(own), settings, drawn);
    if (settings.grammar)
      settings.grammar->restrict_to(sequence.form, settings.stop_ids, std::span<Logit>(own));
    return own;
  };
  const auto measure = [&]<class Logit>(std::span<const Logit> row) {
    if (!settings.wants_log_probabilities()) return;
    if (settings.of_whole_distribution) row = all_of(Logit{});
    sequence.log_probability = log_probability(row, sequence.drawn, settings.temperature);
    if (settings.top_log_probabilities > 0)
      sequence.top = likeliest_tokens(row, settings.top_log_probabilities, settings.temperature);
  };
  const SamplerSettings sampler = settings.sampler(static_cast<uint64_t>(sequence.index));
  thread_local std::vector<float> narrow;
  if (sequence.logits_v.scalar_type() == at::kFloat) {
    const std::span<const float> row = changed_row(narrow);
    sequence.drawn = next_token(row, sampler, static_cast<uint64_t>(drawn));
    return measure(row);
  }
  std::vector<double> wide;
  const std::span<const double> row = changed_row(wide);
  narrow.assign(row.begin(), row.end());
  sequence.drawn = next_token(narrow, sampler, static_cast<uint64_t>(drawn));
  measure(row);
}

// Draws a token of each that has logits, and ends those that are at their end.
void Engine::draw() {
  parallel_for(0, std::ssize(writing_), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Sequence& sequence = *writing_[static_cast<size_t>(i)];
      try {
        draw_one(sequence);
      } catch (...) {
        sequence.generation.error = std::current_exception();
      }
    }
  });
  std::vector<SequencePointer> going_on;
  for (const SequencePointer& sequence : writing_) {
    sequence->logits_v = Tensor();
    const std::optional<Finish> finish = taken(*sequence);
    if (finish) {
      end(*sequence, *finish);
    } else {
      going_on.push_back(sequence);
    }
  }
  writing_ = std::move(going_on);
}

// An error of one sequence's grammar ends that sequence alone.
std::optional<Finish> Engine::taken(Sequence& sequence) {
  if (!sequence.job->request.settings.grammar) return take(sequence);
  try {
    return take(sequence);
  } catch (const Error&) {
    sequence.generation.error = std::current_exception();
    return Finish::kError;
  }
}

// Why the sequence ends with the token that was drawn, if it does.
std::optional<Finish> Engine::take(Sequence& sequence) {
  Generation& generation = sequence.generation;
  if (generation.error) return Finish::kError;
  const Request& request = sequence.job->request;
  const GenerateSettings& settings = request.settings;
  const int64_t id = sequence.drawn;
  ++counts_.drawn_tokens;
  if (std::ranges::find(settings.stop_ids, id) != settings.stop_ids.end()) {
    generation.stop_id = id;
    return Finish::kStop;
  }
  generation.ids.push_back(id);
  if (settings.log_probabilities) generation.log_probabilities.push_back(sequence.log_probability);
  if (settings.top_log_probabilities > 0) generation.top.push_back(sequence.top);
  sequence.history.add(id);
  sequence.next = id;
  sequence.sure = sequence.log_probability > std::log(settings.loop_probability) ? sequence.sure + 1 : 0;
  if (request.on_token &&
      !request.on_token({sequence.index, id, sequence.log_probability, sequence.top, sequence.experts}))
    return Finish::kStop;
  if (settings.grammar) {
    sequence.form = settings.grammar->after(sequence.form, id);
    if (settings.grammar->must_end(sequence.form)) return Finish::kStop;
  }
  if (std::ssize(generation.ids) == settings.tokens) return Finish::kTokens;
  if (settings.loop_tokens > 0 && sequence.sure >= settings.loop_tokens) return Finish::kLoop;
  if (state_.tokens(sequence.row) >= limit_of_tokens()) return Finish::kPositions;
  return std::nullopt;
}

// The sequence leaves, and what it held is free before the caller hears of it.
void Engine::end(Sequence& sequence, Finish finish) {
  if (sequence.row >= 0) {
    if (records_routes_) sequence.generation.routed = recorder_.take(sequence.row);
    drop_row(sequence.row);
  }
  sequence.parked.reset();
  sequence.generation.finish = finish;
  if (sequence.job->request.on_end)
    sequence.job->request.on_end(sequence.index, std::move(sequence.generation));
}

// A request of which no sequence has begun.
void Engine::end_job(Job& job, Finish finish, const std::exception_ptr& error) {
  drop_prompt(job);
  for (int64_t i = 0; i < job.count() && job.request.on_end; ++i) {
    Generation generation;
    generation.finish = finish;
    generation.prefill_tokens = job.tokens();
    generation.error = error;
    job.request.on_end(i, std::move(generation));
  }
}

void Engine::cancel_if(const std::function<bool(const Job&)>& which, Finish finish,
                       const std::exception_ptr& error) {
  for (auto* const queue : {&waiting_, &reading_}) {
    std::vector<JobPointer> ended;
    std::ranges::copy_if(*queue, std::back_inserter(ended),
                         [&](const JobPointer& job) { return which(*job); });
    std::erase_if(*queue, [&](const JobPointer& job) { return which(*job); });
    for (const JobPointer& job : ended) end_job(*job, finish, error);
  }
  std::vector<SequencePointer> ended;
  const auto leaves = [&](const SequencePointer& sequence) {
    if (!which(*sequence->job)) return false;
    ended.push_back(sequence);
    return true;
  };
  std::erase_if(writing_, leaves);
  std::erase_if(parked_, leaves);
  for (const SequencePointer& sequence : ended) {
    sequence->generation.error = error;
    end(*sequence, finish);
  }
}

void Engine::cancel(int64_t number) {
  cancel_if([&](const Job& job) { return job.number == number; }, Finish::kCancelled, nullptr);
}

void Engine::cancel_all(const std::exception_ptr& error) {
  cancel_if([](const Job&) { return true; }, error ? Finish::kError : Finish::kCancelled, error);
}

Engine::Counts Engine::counts() const {
  Counts counts = counts_;
  counts.waiting = std::ssize(waiting_);
  counts.reading = std::ssize(reading_);
  counts.writing = std::ssize(writing_);
  counts.parked = std::ssize(parked_);
  counts.page_bytes = state_.page_bytes_in_use();
  counts.state_bytes = (options_.sequences + prefixes_.most()) * state_.row_bytes();
  return counts;
}

}  // namespace longhaul::generate
