// Measures a server (serve/server.h) over HTTP on this machine, with a preset that has random weights: many
// clients at once beside one, the second turn of a long chat beside its first, how fast a text is written
// after a short prompt and after a long one, and what is left behind many requests. Ways that are compared
// take turns.
#pragma once

#include <cstdint>
#include <string>

#include "bench/benchmark.h"
#include "tensor/device.h"

namespace longhaul::bench {

struct ServeRequest {
  std::string preset = "first-run";
  // Clients at once; bytes of each prompt, which differ; new tokens of each text; texts that one client asks
  // for.
  int64_t clients = 16, prompt = 256, tokens = 32, alone = 2;
  std::string dtype = "bf16";
  int64_t runs = 3;                   // timed runs of each way, after one that is not timed
  int64_t memory = int64_t{1} << 30;  // bytes for states, keys and values; a quarter for kept prefixes
  uint64_t seed = 0;
  at::Device device = at::kCPU;
};

// Two passes, "together" and "one_client"; figures: tokens_per_second_together, tokens_per_second_one_client
// (of the median runs), ratio, first_token_ms (a prompt and one token, one client), cached_first_token_ms
// (the same prompt again). The check: each text is the same both ways.
Result bench_serve(const ServeRequest& request);

// A chat whose first turn has so many tokens: passes "first_turn" and "second_turn", to the first token; the
// second turn's prompt is the first one's, an answer of `tokens`, and 64 letters more. Figures:
// first_turn_ms, second_turn_ms (medians), second_of_first. The check: the second turn's token is the same
// when it is asked for again, from the cache as a whole.
Result bench_serve_turns(const ServeRequest& request, int64_t turn_tokens);

// One client's text after 1,024 tokens and after `context`: passes "short" and "long", of `tokens` new tokens
// without the reading of the prompt, which is in the cache. Figures: tokens_per_second_short,
// tokens_per_second_long, long_of_short. The check: each prompt's text is the same every time.
Result bench_serve_contexts(const ServeRequest& request, int64_t context);

// So many requests by `clients`: plain ones, streamed ones, such whose text is held to a schema, such with
// log probabilities, such that are refused, and such whose client leaves. Figures: resident_bytes_20_percent
// and resident_bytes (of the process, clients included, when a fifth was answered and at the end),
// growth_percent, answered_N by status, left, unexpected (answers that should have had another status),
// waiting, reading, writing, parked, page_bytes, prefix_bytes at the end, and lost_sequences: rows of the
// state that are neither ended nor kept as prefixes. The check: nothing unexpected, nothing that goes on and
// nothing lost.
Result bench_serve_soak(const ServeRequest& request, int64_t requests);

}  // namespace longhaul::bench
