#include "data/corpus/corpus_texts.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#include "base/threads/worker.h"

namespace longhaul::data {
namespace {

constexpr size_t kLongBytes = 4 << 20;
constexpr size_t kWaitingBytes = 16 << 20;

struct Abandoned {};  // thrown through the reader when nobody wants more

}  // namespace

struct CorpusTexts::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> waiting;
  size_t waiting_bytes = 0;
  bool ended = false, abandoned = false;
  std::exception_ptr problem;
  Worker worker{"corpus-texts"};  // last: ends before the other members are destroyed

  void put(std::string text) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return abandoned || waiting_bytes < kWaitingBytes; });
    if (abandoned) throw Abandoned{};
    waiting_bytes += text.size();
    waiting.push_back(std::move(text));
    changed.notify_all();
  }

  void produce(const Corpus& corpus, Split split) {
    std::exception_ptr found;
    try {
      std::string document;
      for_each_text(
          corpus, split,
          [&](std::string_view chunk) {
            document += chunk;
            if (document.size() < kLongBytes) return;
            const size_t newline = document.rfind('\n');
            const size_t cut = newline == std::string::npos ? document.size() : newline + 1;
            std::string rest = document.substr(cut);
            document.resize(cut);
            put(std::move(document));
            document = std::move(rest);
          },
          [&] {
            if (!document.empty()) put(std::move(document));
            document.clear();
          });
    } catch (const Abandoned&) {
    } catch (...) {
      found = std::current_exception();
    }
    std::lock_guard lock(mutex);
    problem = found;
    ended = true;
    changed.notify_all();
  }
};

CorpusTexts::CorpusTexts(const Corpus& corpus, Split split) : state_(std::make_unique<State>()) {
  state_->worker.post([state = state_.get(), &corpus, split] { state->produce(corpus, split); });
}

CorpusTexts::~CorpusTexts() {
  std::lock_guard lock(state_->mutex);
  state_->abandoned = true;
  state_->changed.notify_all();
}

bool CorpusTexts::next(std::string& text) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->ended || !state_->waiting.empty(); });
  if (state_->waiting.empty()) {
    if (state_->problem) std::rethrow_exception(state_->problem);
    return false;
  }
  text = std::move(state_->waiting.front());
  state_->waiting.pop_front();
  state_->waiting_bytes -= text.size();
  state_->changed.notify_all();
  return true;
}

}  // namespace longhaul::data
