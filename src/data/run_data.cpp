#include "data/run_data.h"

#include <algorithm>
#include <iterator>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/folders.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/progress.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "data/corpus/corpus_texts.h"
#include "data/corpus/token_files.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokens/cache.h"
#include "data/tokens/prepare.h"
#include "data/tokens/prepare_tokens.h"

namespace longhaul::data {
namespace fs = std::filesystem;

namespace {

// The files that are not text are named: of a folder of them nothing is left.
[[noreturn]] void refuse_to_train_on_nothing(const recipe::DataOptions& options, const Corpus& corpus) {
  int64_t not_text = 0;
  std::string first;
  for (size_t s = 0; s < corpus.sources().size(); ++s) {
    const std::vector<LeftOutFile>& files = corpus.survey().not_text(s);
    if (not_text == 0 && !files.empty())
      first = fmt::format("{} ({})", files.front().name, files.front().reason);
    not_text += static_cast<int64_t>(files.size());
  }
  throw Error({.code = ExitCode::kData,
               .what = "the corpus leaves nothing to train a tokenizer on",
               .expected = "at least one document that is not empty and not held out",
               .found = not_text > 0 ? fmt::format("{} not text, {} first", counted(not_text, "file"), first)
                                     : "none",
               .where = fmt::format("{}", fmt::join(options.source, ", ")),
               .hint = not_text > 0 ? "data.keep_binary=true reads them all the same"
                                    : "set data.source to more text, or lower data.held_out_percent"});
}

Tokenizer trained_tokenizer(const recipe::DataOptions& options, const Corpus& corpus, const fs::path& cache) {
  std::string keys;
  for (size_t s = 0; s < corpus.sources().size(); ++s) keys += corpus.key(s) + " ";
  const std::string key =
      sha256_hex(fmt::format("longhaul byte-level bpe 1 {} {}", options.vocabulary, keys));
  const fs::path path = cache / fmt::format("tokenizer-{}.json", key.substr(0, 16));
  if (fs::exists(path)) {
    log_info("reusing the tokenizer trained on this text: {}", path.string());
    mark_used(path);
    return Tokenizer::load(path);
  }
  make_folders(cache);
  const Stopwatch watch;
  CorpusTexts texts(corpus, Split::kTrain);
  Progress progress("training the tokenizer", 0, Progress::Unit::kBytes);
  int64_t bytes = 0;
  const Tokenizer tokenizer = train_bpe(
      [&](std::string& text) {
        if (!texts.next(text)) return false;
        bytes += static_cast<int64_t>(text.size());
        progress.advance(static_cast<int64_t>(text.size()));
        return true;
      },
      {.vocabulary = options.vocabulary});
  if (bytes == 0) refuse_to_train_on_nothing(options, corpus);
  tokenizer.save(path);
  return_free_memory();  // counting words took much memory, and the next stage takes as much again
  log_info("trained a tokenizer of {} entries on {} in {}: {}", count_text(tokenizer.tokens()),
           bytes_text(bytes), duration_text(watch.seconds()), path.string());
  return tokenizer;
}

// The text sources of [data], without token files.
recipe::DataOptions texts_of(const recipe::DataOptions& options) {
  recipe::DataOptions texts = options;
  texts.held_out_percent = options.percent_held_out();
  for (auto* names : {&texts.source, &texts.validation})
    std::erase_if(*names, [](const std::string& name) { return names_token_files(path_of_text(name)); });
  return texts;
}

void refuse_to_train_on_tokens(const recipe::DataOptions& options) {
  for (const auto* names : {&options.source, &options.validation}) {
    for (const std::string& name : *names) {
      if (!names_token_files(path_of_text(name))) continue;
      throw Error({.code = ExitCode::kUsage,
                   .what = "no tokenizer can be trained on tokens",
                   .expected = "the tokenizer.json that the token files were made with",
                   .found = "data.tokenizer = train, and token files",
                   .where = name,
                   .hint = "data.tokenizer=/path/of/tokenizer.json"});
    }
  }
}

std::vector<const TokenDataset*> those_with_documents(const std::vector<PreparedSource>& sources,
                                                      TokenDataset PreparedSource::*side) {
  std::vector<const TokenDataset*> result;
  for (const PreparedSource& source : sources) {
    if ((source.*side).documents() > 0) result.push_back(&(source.*side));
  }
  return result;
}

}  // namespace

std::vector<const TokenDataset*> RunData::train() const {
  return those_with_documents(sources, &PreparedSource::train);
}
std::vector<const TokenDataset*> RunData::held_out() const {
  return those_with_documents(sources, &PreparedSource::held_out);
}

static Tokenizer tokenizer_without_roles(const recipe::DataOptions& options, const Corpus& corpus,
                                         const fs::path& cache) {
  if (options.tokenizer == "train") refuse_to_train_on_tokens(options);
  if (options.tokenizer == "train") return trained_tokenizer(options, corpus, cache);
  if (options.tokenizer == "bytes") return Tokenizer::bytes();
  Tokenizer tokenizer = Tokenizer::load(path_of_text(options.tokenizer));
  if (!tokenizer.not_applied().empty())
    log_info("{} asks for {}, which is not applied: length is the trainer's business", options.tokenizer,
             fmt::join(tokenizer.not_applied(), " and "));
  return tokenizer;
}

Tokenizer open_tokenizer(const recipe::DataOptions& options, const Corpus& corpus, const fs::path& cache) {
  return tokenizer_without_roles(options, corpus, cache).with({options.end_of_document, options.stop_tokens});
}

fs::path cache_folder(const recipe::DataOptions& options) {
  return options.cache.empty() ? user_cache_folder() : path_of_text(options.cache);
}

RunData open_run_data(const recipe::DataOptions& options, const fs::path& libtorch_folder,
                      const fs::path& cache) {
  const recipe::DataOptions texts = texts_of(options);
  Corpus corpus;
  if (!texts.source.empty() || !texts.validation.empty())
    corpus = Corpus::open(corpus_options(texts, libtorch_folder));
  Tokenizer tokenizer = open_tokenizer(options, corpus, cache);
  std::vector<PreparedSource> of_texts = prepare_all(corpus, encoder_of(tokenizer), cache);
  auto text = of_texts.begin(), text_of_validation = text + static_cast<int64_t>(texts.source.size());
  // First the data that is never trained on, so that token files can be compared with it.
  std::vector<PreparedSource> validation, sources;
  for (const std::string& name : options.validation) {
    const fs::path path = path_of_text(name);
    const bool tokens = names_token_files(path);
    if (tokens && !texts.source.empty())
      log_warning(
          "data.validation: {} are tokens, and what data.source has as text is not compared with them", name);
    validation.push_back(tokens ? prepare_tokens({path, 100}, tokenizer, cache)
                                : std::move(*text_of_validation++));
  }
  for (const std::string& name : options.source) {
    const fs::path path = path_of_text(name);
    const TokenSource tokens{path, options.percent_held_out(),
                             those_with_documents(validation, &PreparedSource::held_out)};
    sources.push_back(names_token_files(path) ? prepare_tokens(tokens, tokenizer, cache)
                                              : std::move(*text++));
  }
  std::ranges::move(validation, std::back_inserter(sources));
  return {std::move(corpus), std::move(tokenizer), std::move(sources)};
}

LoaderOptions loader_options(const recipe::DataOptions& options, int64_t sequence) {
  LoaderOptions result;
  result.sequence = sequence;
  result.seed = static_cast<uint64_t>(options.seed);
  result.weights = options.weights;
  // A sample has the shares of the moment at which it begins.
  for (const recipe::DataMixPoint& point : options.mix)
    result.mix.push_back({(point.at_tokens + sequence - 1) / sequence, point.weights});
  result.document_boundaries = options.document_boundaries;
  result.prefetch = options.prefetch;
  return result;
}

}  // namespace longhaul::data
