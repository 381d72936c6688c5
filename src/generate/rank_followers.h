// RankFollowers: lets one engine write with a model that several ranks have together (rank_pass.h), where
// only the first of them hears of requests: a server's. The ranks are threads of one process. The first one's
// engine tells the others each pass before it begins, and what became of the state's rows since the last one;
// they do the same with their own shares of the state, and draw nothing.
//
//   RankFollowers followers(ranks - 1);                        // one object, known to all threads
//   first rank:  Engine engine(decoder, followers.lead(pass));  … followers.end();
//   rank r > 0:  followers.follow(r - 1, decoder, pass);       // returns after end()
//
// Every pass is a collective call of all ranks. Where one of them fails the communicator is aborted
// (comm/threads/run_ranks.h), so the first rank's next pass fails too; end() must then be called by whoever
// leads. Thread-safe between the ranks' threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "generate/engine.h"
#include "generate/rank_pass.h"

namespace longhaul::generate {

class RankFollowers {
 public:
  explicit RankFollowers(int64_t count) : waiting_(static_cast<size_t>(count)) {}

  // `options` for the first rank's engine, with pass and row_changed; this object and the pass must outlive
  // the engine. options.bytes and prefix_bytes are 0.
  EngineOptions lead(const RankPass& pass, EngineOptions options);
  void follow(int64_t follower, const model::Decoder& decoder, const RankPass& pass, bool int8_keys_values);
  void end();  // nothing more comes; any thread, also twice

 private:
  struct Told {
    std::vector<RowChange> changes;
    std::vector<Continuation> continuations;
  };
  std::shared_ptr<const Told> next(int64_t follower);  // null: nothing more comes
  void tell(std::span<const Continuation> continuations);

  std::vector<RowChange> changes_;  // since the last pass; of the first rank's thread
  std::mutex mutex_;                // protects the rest
  std::condition_variable has_news_;
  std::vector<std::deque<std::shared_ptr<const Told>>> waiting_;  // by follower
  bool ended_ = false;
};

// So many tokens may a text of one rank have, if `texts` of them share so many bytes on it, the rest of a
// page included; at most `most`. 0: there is no room for any.
int64_t tokens_that_fit(const model::DecoderState& state, int64_t texts, int64_t bytes, int64_t most);

}  // namespace longhaul::generate
