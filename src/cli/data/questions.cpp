// `longhaul data questions KIND --out FILE`: questions about long texts with their answers, as JSON Lines to
// train on.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "data/tokenizer/commands.h"
#include "evaluate/questions.h"

namespace longhaul::cli {
namespace {

struct QuestionArguments {
  std::string kind, out, tokenizer = "bytes", haystack;
  int64_t count = 1000, tokens = 512;
  uint64_t seed = 1;
};

std::vector<std::string> question_kinds() {
  std::vector<std::string> kinds = evaluate::needle_kinds();
  for (const std::string& kind : evaluate::ruler_kinds()) {
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

ExitCode run_questions(const QuestionArguments& arguments) {
  const data::Tokenizer tokenizer = data::open_tokenizer(arguments.tokenizer);
  const std::vector<std::string> haystack = arguments.haystack.empty()
                                                ? std::vector<std::string>()
                                                : evaluate::sentences_of(read_text(arguments.haystack));
  std::string lines;
  Progress progress("questions", arguments.count);
  for (int64_t i = 0; i < arguments.count; ++i) {
    const evaluate::Question question = evaluate::make_question({.kind = arguments.kind,
                                                                 .tokens = arguments.tokens,
                                                                 .seed = arguments.seed,
                                                                 .index = i,
                                                                 .haystack = haystack},
                                                                tokenizer);
    lines +=
        nlohmann::json{{"text", fmt::format("{} {}.\n", question.prompt, evaluate::listed(question.answers))}}
            .dump() +
        "\n";
    progress.advance(1);
  }
  write_text_atomically(path_of_text(arguments.out), lines);
  print(fmt::format("{} of the kind {} in {}\n", counted(arguments.count, "question"), arguments.kind,
                    arguments.out));
  return ExitCode::kDone;
}

}  // namespace

void add_data_questions(Command& group) {
  auto arguments = std::make_shared<QuestionArguments>();
  Command questions = group.add(
      "questions", "questions about long texts with their answers, as JSON Lines to train on",
      {{"a thousand needles in texts of 512 bytes", "data questions single --out needles.jsonl"},
       {"of another length, in tokens of a run's tokenizer",
        "data questions keys --tokens 1024 --tokenizer runs/first-run/tokenizer.json --out keys.jsonl"},
       {"conversations; `evaluate --task needle --kind rounds` asks others (seed 0)",
        "data questions rounds --count 5000 --seed 7 --out rounds.jsonl"}});
  questions.option("KIND", arguments->kind, "what is asked (docs/guides/evaluate.md)")
      .required()
      .one_of(question_kinds());
  questions.option("--out", arguments->out, "JSON Lines file to write").required();
  questions.option("--count", arguments->count, "questions").at_least(1).at_most(10000000).default_shown();
  questions.option("--tokens", arguments->tokens, "most that a question has, without its answer")
      .at_least(1)
      .default_shown();
  questions.option("--tokenizer", arguments->tokenizer, "tokenizer.json, or bytes").default_shown();
  questions.option("--haystack", arguments->haystack,
                   "a text to hide needles in (default: five sentences, again and again)");
  questions.option("--seed", arguments->seed, "of the questions; evaluate asks those of seed 0")
      .default_shown();
  questions.on_run([arguments] { return run_questions(*arguments); });
}

}  // namespace longhaul::cli
