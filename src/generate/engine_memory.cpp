// The memory of an Engine: which requests begin, and who gives way where pages are short.
#include <algorithm>

#include "base/error.h"
#include "base/progress.h"
#include "generate/engine.h"
#include "generate/engine_parts.h"
#include "recipe/mixers.h"

namespace longhaul::generate {

int64_t Engine::add_row() {
  if (options_.row_changed) options_.row_changed({RowChange::Kind::kAdd, -1});
  return state_.add();
}

int64_t Engine::fork_row(int64_t row) {
  if (options_.row_changed) options_.row_changed({RowChange::Kind::kFork, row});
  return state_.fork(row);
}

void Engine::drop_row(int64_t row) {
  if (options_.row_changed) options_.row_changed({RowChange::Kind::kDrop, row});
  state_.drop(row);
}

int64_t Engine::page_bytes_of(int64_t tokens) const {
  return (tokens + PrefixCache::kTokens - 1) / PrefixCache::kTokens * state_.page_bytes();
}

int64_t Engine::page_limit() const {
  return options_.bytes - (options_.sequences + prefixes_.most()) * state_.row_bytes();
}

int64_t Engine::limit_of_tokens() const {
  const int64_t page = state_.page_bytes();
  int64_t positions = recipe::sequence_limit(decoder_.config()).tokens;
  if (options_.tokens_of_text > 0) positions = std::min(positions, options_.tokens_of_text);
  if (options_.bytes == 0 || page == 0) return positions;
  // a page for the copy of a shared one
  return std::min(positions, (page_limit() / page - 1) * PrefixCache::kTokens);
}

// Bytes of pages that prompts which have begun, or are about to, will still take.
int64_t Engine::promised_bytes() const {
  int64_t sum = 0;
  for (const JobPointer& job : reading_) {
    // A page that is begun counts as none: its other users keep it, and the prompt gets a copy.
    const int64_t read = job->row >= 0 ? state_.tokens(job->row) / PrefixCache::kTokens : 0;
    sum += page_bytes_of(job->tokens()) + (job->count() - read) * state_.page_bytes();
  }
  return sum;
}

// Whether so many bytes of pages are free; kept prefixes are dropped for them.
bool Engine::fits(int64_t page_bytes) {
  if (options_.bytes == 0) return true;
  while (state_.page_bytes_in_use() + promised_bytes() + page_bytes > page_limit()) {
    if (!prefixes_.drop_least_used()) return false;
  }
  return true;
}

void Engine::resume() {
  while (!parked_.empty()) {
    const SequencePointer sequence = parked_.front();
    const bool idle = writing_.empty() && reading_.empty();
    // Everybody who writes may need a page next, and so does the one that comes back.
    const int64_t pages = std::ssize(writing_) + 1;
    if (!fits(page_bytes_of(sequence->parked->tokens) + pages * state_.page_bytes()) && !idle) return;
    sequence->row = state_.restore(sequence->parked->get());
    sequence->parked.reset();
    parked_.pop_front();
    writing_.push_back(sequence);
  }
}

void Engine::admit() {
  int64_t active = std::ssize(writing_);
  for (const JobPointer& job : reading_) active += job->count();
  while (!waiting_.empty() && parked_.empty()) {
    const JobPointer job = waiting_.front();
    if (options_.sequences > 0 && active + job->count() > options_.sequences) return;
    if (!fits(page_bytes_of(job->tokens()) + job->count() * state_.page_bytes()) && active > 0) return;
    waiting_.pop_front();
    reading_.push_back(job);
    active += job->count();
  }
}

void Engine::drop_prompt(Job& job) {
  if (job.row >= 0) {
    if (records_routes_ && state_.tokens(job.row) > 0) recorder_.take(job.row);
    drop_row(job.row);
  }
  job.row = -1;
  job.logits_v = Tensor();
}

void Engine::make_room(std::vector<Part>& parts) {
  if (options_.bytes == 0) return;
  const auto wanted = [&] {
    int64_t sum = 0;
    for (const SequencePointer& sequence : writing_) sum += state_.page_bytes_to_append(sequence->row, 1);
    for (const Part& part : parts) sum += state_.page_bytes_to_append(part.job->row, part.tokens);
    return sum;
  };
  while (state_.page_bytes_in_use() + wanted() > page_limit()) {
    if (prefixes_.drop_least_used() || give_way(parts)) continue;
    LONGHAUL_ASSERT(false, "the oldest request takes more than {}", bytes_text(page_limit()));
  }
  if (state_.bytes() + wanted() > options_.bytes) state_.release_free_pages();
}

// The youngest request loses its pages. false: there is only one.
bool Engine::give_way(std::vector<Part>& parts) {
  const auto younger = [](const SequencePointer& a, const SequencePointer& b) {
    return std::pair(a->job->number, a->index) < std::pair(b->job->number, b->index);
  };
  const auto last = std::ranges::max_element(writing_, younger);
  const auto begun = std::ranges::find_if(reading_.rbegin(), reading_.rend(),
                                          [](const JobPointer& job) { return job->row >= 0; });
  const bool reads = begun != reading_.rend();
  if (std::ssize(writing_) +
          std::ranges::count_if(reading_, [](const JobPointer& job) { return job->row >= 0; }) <
      2)
    return false;
  if (reads && (last == writing_.end() || (*begun)->number > (*last)->job->number)) {
    const JobPointer job = *begun;
    drop_prompt(*job);
    std::erase_if(parts, [&](const Part& part) { return part.job == job; });
    // With those after it, which have not begun.
    while (reading_.back() != job) {
      waiting_.push_front(reading_.back());
      reading_.pop_back();
    }
    reading_.pop_back();
    waiting_.push_front(job);
    return true;
  }
  const SequencePointer sequence = *last;
  park(*sequence);
  writing_.erase(last);
  parked_.push_front(sequence);  // those that were parked before are younger
  return true;
}

void Engine::park(Sequence& sequence) {
  if (parking_ == nullptr) {
    const auto folder = options_.folder.empty() ? std::filesystem::temp_directory_path() : options_.folder;
    parking_ = std::make_unique<kernels::FileOffload>(folder, 0, std::vector<Tensor>());
  }
  sequence.parked.emplace(state_.save(sequence.row), *parking_);
  state_.drop(sequence.row);
  sequence.row = -1;
  ++counts_.parkings;
}

}  // namespace longhaul::generate
