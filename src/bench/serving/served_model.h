// A server on this machine with a preset that has random weights (serve/server.h), and who asks it, for the
// benchmarks of serving. Texts are bytes, a token each.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/net/http.h"
#include "bench/serving/serve.h"
#include "serve/server.h"

namespace longhaul::bench {

// Runs `ask` on a thread of its own beside a server that has this one and its compute threads, then ends the
// server. → its engine's sequences that were neither ended nor kept as prefixes: 0 where nothing is lost.
int64_t with_server(const ServeRequest& request, const std::function<void(const serve::Server&)>& ask);

HttpAddress completions_of(const serve::Server& server);
// The answer to a request for a text. Error 69 unless its status is 200.
std::string text_for(const HttpAddress& completions, const nlohmann::json& body);
// So many letters; those of another number are others.
std::string random_letters(const ServeRequest& request, int64_t number, int64_t letters);

Timing timing_of_runs(const std::vector<double>& milliseconds);

}  // namespace longhaul::bench
