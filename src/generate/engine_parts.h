// What an Engine keeps of a request and of its sequences, what it refuses, and what a pass reads. Used inside
// of this folder alone.
#pragma once

#include "generate/engine.h"
#include "kernels/saved/saved_tensors.h"
#include "layout/sequence.h"

namespace longhaul::generate {

// A request whose sequences have not begun: it waits, or its prompt is being read.
struct Engine::Job {
  int64_t number = 0;
  Request request;
  int64_t row = -1;       // of the state, while its prompt is being read
  int64_t continued = 0;  // tokens that the prefix cache had
  Tensor logits_v;        // after the prompt, where the prefix cache had all of it
  int64_t tokens() const { return std::ssize(request.prompt); }
  int64_t count() const { return request.settings.count; }
  bool wants_experts() const { return request.settings.experts; }
};

// A sequence of the state whose tensors lie in a file.
class ParkedSequence {
 public:
  ParkedSequence(const model::DecoderState::Saved& saved, kernels::SavedTensors& file);
  model::DecoderState::Saved get() const;
  int64_t tokens = 0;

 private:
  model::DecoderState::Saved shape_;  // without its tensors
  std::vector<kernels::SavedTensor> tensors_;
};

struct Engine::Sequence {
  Sequence(JobPointer its_job, int64_t its_index)
      : job(std::move(its_job)), index(its_index), history(job->request.prompt, job->request.settings) {}
  JobPointer job;
  int64_t index;  // of the request's
  TokenHistory history;
  int64_t row = -1;   // of the state
  int64_t next = -1;  // the token to read next
  Generation generation{};
  Tensor logits_v{};  // on the host, from a pass until the next token is drawn
  // Of the token that was drawn last.
  int64_t drawn = -1;
  double log_probability = 0;
  std::vector<TokenProbability> top{};
  std::vector<LayerExperts> experts{};  // of the token that was read last, if requested
  grammar::State form = 0;              // of the settings' grammar, after the text so far
  int64_t sure = 0;                     // tokens in a row that were more probable than loop_probability
  std::optional<ParkedSequence> parked{};
};

struct Engine::Part {
  JobPointer job;
  int64_t tokens = 0;  // 0: the prefix cache had the whole prompt
};

// The tokens of a pass side by side.
struct PassInput {
  PassInput(std::span<const Continuation> continuations, model::DecoderState& state);
  std::vector<int64_t> ids, last;  // last: the place of each continuation's last token
  layout::SequenceLayout layout;
  model::DecoderRows rows;
};

// kData: an id of prompt or settings that the model has no row for.
void require_ids(const Request& request, int64_t vocabulary);
// kUsage: the experts of a model are wanted that has none, or that several ranks have together.
void require_experts(const Request& request, const recipe::ModelConfig& config, bool on_ranks);
// kUsage: more sequences or more tokens than there will ever be room for.
void require_possible(const Request& request, int64_t sequences, int64_t tokens);

}  // namespace longhaul::generate
