// Engine: generates the texts of many requests at once with one decoder (docs/design/decoding.md). Requests
// enter and leave between any two passes: each pass reads one token of every sequence that is being written,
// and parts of prompts beside them. A sequence has the same tokens and log probabilities, bit for bit,
// whatever is beside it, whether its prompt was found in the prefix cache, and whether it was preempted (bf16
// and fp32 on a CPU).
//
//   Engine engine(decoder, {.sequences = 16, .bytes = 2 << 30, .prefix_bytes = 512 << 20});
//   engine.submit({.prompt = ids, .settings = {.tokens = 50}, .on_token = …, .on_end = …});
//   while (engine.step()) {}
//
// Memory: with `bytes`, states of all sequences are allocated when the engine is made, and pages of keys and
// values are taken only while they fit. A prompt begins when its pages fit. Where a pass needs more, kept
// prefixes are dropped first; then the youngest request gives way: a prompt that is half read goes back into
// the queue, and a sequence that is being written is parked: its state is copied to a file without a name,
// and read back when there is room. The oldest request always goes on, so all end.
//
// Not thread-safe: submit, cancel and step are called by one thread, and not from within on_token and on_end.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/prefix_cache.h"
#include "generate/route_recorder.h"
#include "generate/settings.h"
#include "generate/token_experts.h"
#include "generate/token_history.h"
#include "kernels/saved/file_offload.h"
#include "model/decoder.h"

namespace longhaul::generate {

// kUsage: the prompt is empty, or longer than the model's learned positions. `where`: its name in the error.
void require_readable(const std::vector<int64_t>& prompt, const recipe::ModelConfig& config,
                      const std::string& where);

// The next tokens to read for one sequence of a decoder state.
struct Continuation {
  int64_t row = 0;
  std::vector<int64_t> ids;  // at least one
  int64_t adapter = 0;       // of the decoder's served ones (model/served_adapters.h); 0: none
};
// One pass: the decoder's logits for the token after each of these, [continuations, vocabulary]; advances
// the state. `recorder`, if any, records the routes, and `experts` those of each continuation's last token.
Tensor advance(model::Decoder& decoder, std::span<const Continuation> continuations,
               model::DecoderState& state, RouteRecorder* recorder = nullptr, PassExperts* experts = nullptr);

// A token that was drawn and belongs to the text.
struct Drawn {
  int64_t sequence = 0;  // of the request, from 0
  int64_t id = 0;
  double log_probability = 0;                  // if requested
  std::span<const TokenProbability> top = {};  // likewise
  std::span<const LayerExperts> experts = {};  // of the token before it, likewise
};

struct Request {
  std::vector<int64_t> prompt;
  GenerateSettings settings;
  int64_t adapter = 0;  // as Continuation has it
  // false: the text of this sequence ends here (Finish::kStop).
  std::function<bool(const Drawn&)> on_token = {};
  // Called once for each sequence.
  std::function<void(int64_t sequence, Generation)> on_end = {};
  std::string where = "the prompt";  // its name in errors
};

// A row of the state that begins empty, or as a copy of another, or ends.
struct RowChange {
  enum class Kind : uint8_t { kAdd, kFork, kDrop } kind = Kind::kAdd;
  int64_t row = 0;  // the copied one of kFork; -1 of kAdd
};

struct EngineOptions {
  int64_t sequences = 0;         // at most this many at once; 0: any number
  int64_t prompt_tokens = 4096;  // of one prompt in a pass, at most
  int64_t prompts_tokens = 0;    // of all prompts in a pass together, about; 0: any number
  // of states and pages, kept prefixes included; 0: no limit. Needs `sequences`
  int64_t bytes = 0;
  int64_t prefix_bytes = 0;       // of them for prefixes of prompts; 0: none are kept
  bool keeps_prompts = false;     // also keeps whole prompts with their logits
  bool int8_keys_values = false;  // DecoderState::keep_keys_values_in_int8
  // What reads the tokens of a pass instead of advance(), where several ranks have the decoder together
  // (rank_pass.h). Their engines get the same requests in the same order, and decide alike: `bytes` and
  // `prefix_bytes`, which are counted for each rank by itself, must be 0. Empty: this process alone.
  std::function<Tensor(std::span<const Continuation>, model::DecoderState&)> pass{};
  // Told of every change in their order, between passes, so that others can follow this engine with states of
  // their own (rank_followers.h). Without kept prefixes and parked sequences.
  std::function<void(const RowChange&)> row_changed{};
  int64_t tokens_of_text = 0;  // of prompt and text together, at most; 0: any number
  // where parked sequences lie; empty: the system's folder for temporary files
  std::filesystem::path folder{};
};

class Engine {
 public:
  Engine(model::Decoder& decoder, const EngineOptions& options);
  ~Engine();

  // → its number. kUsage and kData for a request that can never run; nothing was changed then.
  int64_t submit(Request request);
  // Ends what has not ended of a request, with Finish::kCancelled; its pages and states are free at once.
  void cancel(int64_t number);
  void cancel_all(const std::exception_ptr& error = nullptr);  // with an error: Finish::kError
  // One pass. false: there was nothing to do.
  bool step();

  struct Counts {
    int64_t waiting = 0, reading = 0, writing = 0, parked = 0;  // requests, prompts, sequences, sequences
    int64_t passes = 0, read_tokens = 0, drawn_tokens = 0, parkings = 0;
    int64_t page_bytes = 0, state_bytes = 0;  // in use; allocated for sequences
  };
  Counts counts() const;
  const PrefixCache& prefixes() const { return prefixes_; }
  const model::DecoderState& state() const { return state_; }
  // of prompt and text together that a request may have: memory's and positions'
  int64_t limit_of_tokens() const;

 private:
  struct Job;
  struct Sequence;
  struct Part;
  using JobPointer = std::shared_ptr<Job>;
  using SequencePointer = std::shared_ptr<Sequence>;

  int64_t add_row();
  int64_t fork_row(int64_t row);
  void drop_row(int64_t row);
  int64_t page_bytes_of(int64_t tokens) const;
  int64_t page_limit() const;  // of pages, in bytes
  int64_t promised_bytes() const;
  bool fits(int64_t page_bytes);
  void resume();
  void admit();
  std::vector<Part> next_parts();
  int64_t most_of_part() const;
  Part begin_part(const JobPointer& job);
  void make_room(std::vector<Part>& parts);
  bool give_way(std::vector<Part>& parts);
  void drop_prompt(Job& job);
  void park(Sequence& sequence);
  void run_pass(const std::vector<Part>& parts);
  Tensor logits_of_pass(const std::vector<Continuation>& next, PassExperts* experts);
  void after_part(const Part& part, const Tensor& logits_v, const std::vector<LayerExperts>& experts);
  void begin_writing(const JobPointer& job, const Tensor& logits_v, const std::vector<LayerExperts>& experts);
  void draw();
  void draw_one(Sequence& sequence) const;
  std::optional<Finish> taken(Sequence& sequence);
  std::optional<Finish> take(Sequence& sequence);
  void end(Sequence& sequence, Finish finish);
  void end_job(Job& job, Finish finish, const std::exception_ptr& error);
  void cancel_if(const std::function<bool(const Job&)>& which, Finish finish,
                 const std::exception_ptr& error);

  model::Decoder& decoder_;
  EngineOptions options_;
  model::DecoderState state_;
  PrefixCache prefixes_;
  RouteRecorder recorder_;
  std::unique_ptr<kernels::FileOffload> parking_;
  std::deque<JobPointer> waiting_, reading_;
  std::vector<SequencePointer> writing_;
  std::deque<SequencePointer> parked_;
  bool records_routes_ = false;  // of all requests that have not ended
  Counts counts_;
  int64_t last_number_ = 0;
};

}  // namespace longhaul::generate
