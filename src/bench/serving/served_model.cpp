#include "bench/serving/served_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "base/statistics.h"
#include "base/threads/worker.h"
#include "recipe/load.h"

namespace longhaul::bench {
namespace {

serve::LoadedModel random_model(const ServeRequest& request, const recipe::ModelConfig& config) {
  serve::LoadedModel loaded;
  loaded.model.decoder = std::make_unique<model::Decoder>(config, Precision::named(request.dtype),
                                                          request.device, model::Use::kInference);
  loaded.model.decoder->parameters().initialise(request.seed);
  loaded.engine = std::make_unique<generate::Engine>(
      *loaded.model.decoder, generate::EngineOptions{.sequences = request.clients,
                                                     .prompts_tokens = 512,
                                                     .bytes = request.memory,
                                                     .prefix_bytes = request.memory / 4,
                                                     .keeps_prompts = true});
  const data::Tokenizer tokenizer = data::Tokenizer::bytes();
  loaded.text = std::make_shared<serve::ModelText>(
      serve::ModelText{.tokenizer = tokenizer,
                       .chat = {},
                       .grammars = std::make_shared<grammar::GrammarCache>(tokenizer),
                       .limit_of_tokens = loaded.engine->limit_of_tokens(),
                       .step = 0,
                       .fingerprint = "bench"});
  return loaded;
}

}  // namespace

int64_t with_server(const ServeRequest& request, const std::function<void(const serve::Server&)>& ask) {
  const recipe::ModelConfig config =
      recipe::load_defaults({"model.preset=" + request.preset, "train.dtype=" + request.dtype}).recipe.model;
  const generate::Engine* engine = nullptr;
  serve::Server server({.http = {.longest_body = 4 << 20}}, {{request.preset, request.preset}},
                       [&](const serve::ModelShelf::Entry&) {
                         serve::LoadedModel loaded = random_model(request, config);
                         engine = loaded.engine.get();
                         return loaded;
                       });
  Worker asking("bench clients");
  asking.post([&] {
    const auto stop = [&](void*) { server.stop(); };
    const std::unique_ptr<void, decltype(stop)> at_the_end(&server, stop);
    ask(server);
  });
  server.run();
  asking.wait();
  return engine->state().sequences() - engine->prefixes().kept();
}

HttpAddress completions_of(const serve::Server& server) {
  HttpAddress address = http_address(server.url());
  address.path = "/v1/completions";
  return address;
}

std::string text_for(const HttpAddress& completions, const nlohmann::json& body) {
  const HttpAnswer answer = http_post(completions, body.dump(), "application/json", 3600);
  if (answer.status == 200) return nlohmann::json::parse(answer.body)["choices"][0]["text"];
  throw Error({.code = ExitCode::kCommunication,
               .what = "the server refused a request",
               .expected = "status 200",
               .found = answer.body});
}

std::string random_letters(const ServeRequest& request, int64_t number, int64_t letters) {
  const RandomStream random(request.seed, "bench/serve/prompt");
  std::string text(static_cast<size_t>(letters), ' ');
  const auto place = static_cast<uint64_t>(number) * text.size();
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + random.below(place + i, 26));
  return text;
}

Timing timing_of_runs(const std::vector<double>& milliseconds) {
  return {median(milliseconds), *std::ranges::min_element(milliseconds),
          *std::ranges::max_element(milliseconds), std::ssize(milliseconds)};
}

}  // namespace longhaul::bench
