// DecoderAnswers: the answers of a decoder. Only the requested positions go through the head, a few at a
// time, so the logits of a whole passage never exist at once. Short passages share a pass of the model. A
// passage that is longer than a pass is read in pieces, each of which continues from the state after the
// previous one, so that only this state grows with the length of the passage. No gradients. Not thread-safe
// for one decoder.
#pragma once

#include <algorithm>

#include "evaluate/answers.h"
#include "model/decoder.h"

namespace longhaul::evaluate {

class DecoderAnswers final : public Answers {
 public:
  struct Options {
    int64_t tokens_per_pass = 4096;
    // only ids below this are predicted or drawn; 0: all of the model's rows
    int64_t vocabulary = 0;
    std::vector<int64_t> never = {};  // ids that are never drawn, because they stand for nothing
  };
  DecoderAnswers(model::Decoder& decoder, Options options)
      : decoder_(decoder), options_(std::move(options)) {}  // the decoder must outlive it

  // A passage that is longer than the model's learned positions is a kUsage error; an id outside its
  // vocabulary kData.
  std::vector<std::vector<Judged>> judge(std::span<const Passage> passages) override;
  std::vector<int64_t> complete(std::span<const int64_t> prompt, int64_t tokens,
                                std::span<const int64_t> stops) override;

 private:
  void require_fits(std::span<const int64_t> ids, int64_t more) const;
  std::vector<std::vector<Judged>> judge_together(std::span<const Passage> passages);
  std::vector<Judged> judge_in_pieces(const Passage& passage);
  std::vector<Judged> judge_rows(const Tensor& hidden_td, std::span<const Target> targets, int64_t first);

  model::Decoder& decoder_;
  Options options_;
};

// The number of rows of logits that may exist at once: 64 MiB of them in fp32.
inline int64_t logit_rows_at_once(int64_t vocabulary) {
  return std::max<int64_t>(1, (int64_t{16} << 20) / vocabulary);
}

// The result for each of the rows of logits [rows, vocabulary] (fp32 or fp64), in fp64.
std::vector<Judged> judge_logits(const Tensor& logits, std::span<const Target> targets, int64_t predictable);

}  // namespace longhaul::evaluate
